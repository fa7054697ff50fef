"""The Gaussian curve in closed form: certified, narrow, and consistent with itself over the whole range."""

import math

import mpmath as mp
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference.normal import gaussian_delta

from tightdp import _core

many = settings(max_examples=200, deadline=None)
DIGITS = 120  # delta(eps) cancels up to 1e-36 of its terms in the reference

scales = st.one_of(st.floats(-9, 9), st.floats(-2, 2)).map(lambda p: min(max(10.0**p, 1e-9), 1e9))
deviations = st.one_of(st.floats(-10, 37), st.floats(-1, 1))
deltas = st.one_of(
    st.floats(-300, -0.01).map(lambda p: 10.0**p),
    st.floats(1e-3, 0.999),
    st.floats(-15, -1).map(lambda p: 1 - 10.0**p),
)


@many
@given(scales, deviations)
def test_delta_is_inside_and_narrow(mu, deviation):
    eps = mu * (deviation + mu / 2)
    with mp.workdps(DIGITS):
        exact = gaussian_delta(mu, eps)
        low, high = _core.gaussian_delta(mu, eps)
        assert low <= exact <= high
        assert high - low <= 3e-14 * min(high, 1) + 1e-322


@many
@given(scales, st.floats(-300, 3))
def test_delta_at_negative_epsilon(mu, exponent):
    eps = -(10.0**exponent)
    with mp.workdps(400):
        low, high = _core.gaussian_delta(mu, eps)
        assert low <= gaussian_delta(mu, eps) <= high
        assert high - low <= 3e-14 * high


@many
@given(scales, deltas)
def test_epsilon_is_inside_and_narrow(mu, delta):
    low, high = _core.gaussian_epsilon(mu, delta)
    assert 0 <= low <= high < math.inf
    with mp.workdps(DIGITS):
        assert gaussian_delta(mu, high) <= delta
        assert low == 0 or gaussian_delta(mu, low) >= delta
    if delta <= 0.4:  # d eps = d delta / |delta'|, and delta / |delta'| is of the order of mu at most
        assert high - low <= 1e-12 * high + 1e-13 * mu


@settings(max_examples=100, deadline=None)
@given(scales, st.floats(0, 500))
def test_reversal(mu, eps):
    """The pair is its own reversal: delta(eps) = 1 - e^eps + e^eps delta(-eps)."""
    forward, back = _core.gaussian_delta(mu, eps), _core.gaussian_delta(mu, -eps)
    with mp.workdps(400):
        one, e = mp.mpf(1), mp.exp(mp.mpf(eps))
        assert max(forward[0], one - e + e * back[0]) <= min(forward[1], one - e + e * back[1])


@settings(max_examples=100, deadline=None)
@given(scales, deltas)
def test_more_noise_never_costs_more(mu, delta):
    assume(mu > 2e-9)
    assert _core.gaussian_epsilon(mu / 2, delta)[0] <= _core.gaussian_epsilon(mu, delta)[1]


def test_far_away():
    assert _core.gaussian_delta(1e-9, 1e308) == (0, pytest.approx(0, abs=1e-322))
    low, high = _core.gaussian_delta(1e9, 0)
    assert low == pytest.approx(1, abs=1e-15) and high == 1
    assert _core.gaussian_epsilon(1e-9, 0.5) == (0, 0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: _core.gaussian_delta(1e-10, 1), "mu"),
        (lambda: _core.gaussian_delta(math.nan, 1), "mu"),
        (lambda: _core.gaussian_delta(1, math.inf), "eps"),
        (lambda: _core.gaussian_delta(1, math.nan), "eps"),
        (lambda: _core.gaussian_epsilon(1, 0), "delta"),
        (lambda: _core.gaussian_epsilon(1, 1), "delta"),
        (lambda: _core.gaussian_epsilon(1e10, 0.5), "mu"),
    ],
)
def test_out_of_range(call, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        call()
