"""The vector functions against 40-digit values: the error analyses assume 4 units of 2^-53."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

ASSUMED = 4.0
"""kMathUlp of cpp/src/simd/math.hpp."""

FUNCTIONS = {
    # name: (exact, size that the error is relative to, range)
    "exp": (mp.exp, None, (-707.0, 709.0)),
    "expm1": (mp.expm1, None, (-707.0, 709.0)),
    "log": (mp.log, None, (1e-300, 1e300)),
    "log1p": (mp.log1p, None, (-1 + 2**-50, 1e300)),
    "cos_minus_1": (lambda x: mp.cos(x) - 1, lambda x: min(1, abs(mp.expj(x) - 1)), (-1e5, 1e5)),
    "sin": (mp.sin, lambda x: min(1, abs(mp.expj(x) - 1)), (-1e5, 1e5)),
}


def worst_error(name, xs):
    exact, size, _ = FUNCTIONS[name]
    padded = np.concatenate([xs, np.full(-len(xs) % 8, xs[0])])
    got = getattr(_testing.simd_math, name)(padded)[: len(xs)]
    worst = 0.0
    with mp.workdps(40):
        for x, y in zip(xs, got, strict=True):
            truth = exact(mp.mpf(float(x)))
            scale = size(mp.mpf(float(x))) if size else abs(truth)
            error = abs(mp.mpf(float(y)) - truth)
            worst = max(worst, float(error / scale) * 2**53 if scale else float(error > 0) * 1e9)
    return worst


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_over_the_range(name):
    low, high = FUNCTIONS[name][2]
    rng = np.random.default_rng(7)
    spread = rng.uniform(low, high, 500) if low > -1e6 and high < 1e6 else np.exp(rng.uniform(-690, 690, 500))
    tiny = rng.choice([-1.0, 1.0], 500) * np.exp(rng.uniform(-45, 0, 500))
    near_one = 1 + 0.3 * tiny
    xs = np.concatenate([spread, near_one] if name == "log" else [spread, tiny])
    xs = xs[(xs > low) & (xs < high)]
    assert worst_error(name, xs) < ASSUMED


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_counterexample(name, data):
    low, high = FUNCTIONS[name][2]
    x = data.draw(st.floats(low, high, allow_subnormal=False))
    assert worst_error(name, np.array([x])) < ASSUMED


@pytest.mark.parametrize("name", ["exp", "expm1"])
def test_an_exponential_of_no_number_is_no_number(name):
    """A mass that could not be computed may not vanish from a sum."""
    assert np.isnan(getattr(_testing.simd_math, name)(np.full(8, np.nan))).all()


def test_exp_far_out_is_monotone_and_finite():
    y = _testing.simd_math.exp(np.array([-1e308, -800.0, -708.0, 0.0, 700.0, 709.0, 800.0, 1e308]))
    assert y[0] == 0.0
    assert np.all(np.diff(y) >= 0)
    assert np.isfinite(y).all()
