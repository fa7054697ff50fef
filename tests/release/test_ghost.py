"""Ghost clipping against per-example gradients that are formed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import clipping as reference

import tightdp as dp


def formed(a, b, bias):
    """Per-example gradients (batch, (inputs [+ 1]) * outputs)."""
    if a.ndim == 2:
        a, b = a[:, None], b[:, None]
    if bias:
        a = np.concatenate([a, np.ones((*a.shape[:2], 1), a.dtype)], axis=2)
    return np.einsum("kti,kto->kio", a.astype(float), b.astype(float)).reshape(len(a), -1)


def assert_matches(a, b, max_norm, bias, weights):
    total, norms = dp.ghost_clipped_sum(a, b, max_norm, weights=weights, bias=bias)
    flat = np.concatenate([total[0].reshape(-1), total[1]]) if bias else total.reshape(-1)
    expected, exact_norms, magnitude = reference.clipped_sum(formed(a, b, bias), max_norm, weights)
    eps = float(np.finfo(np.result_type(a, np.float32)).eps)
    np.testing.assert_allclose(norms, exact_norms, rtol=1e-10)
    assert (norms >= exact_norms * (1 - 1e-15)).all()
    positions = a.shape[1] if a.ndim == 3 else 1
    rounding = (len(a) * positions + 16) * eps + (norms / exact_norms - 1).max()  # norms are rounded up
    assert (np.abs(flat - expected) <= rounding * (magnitude + max_norm)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(50, 7, 3), (20, 30, 4, 5), (20, 3, 40, 50), (1, 1, 1)])
def test_matches_gradients_that_are_formed(shape, bias, dtype):
    rng = np.random.default_rng(0)
    batch, *positions, inputs, outputs = shape
    a = rng.standard_normal((batch, *positions, inputs)).astype(dtype)
    b = rng.standard_normal((batch, *positions, outputs)).astype(dtype)
    assert_matches(a, b, 2.0, bias, None)
    assert_matches(a, b, 0.1, bias, rng.uniform(0, 2, batch))


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6), st.floats(0.01, 10))
def test_one_example_contributes_at_most_the_bound(positions, inputs, outputs, seed, max_norm):
    rng = np.random.default_rng(seed)
    scale = np.exp(8 * rng.standard_normal((2, 1, positions, 1)))
    a = (scale[0] * rng.standard_normal((1, positions, inputs))).astype(np.float64)
    b = (scale[1] * rng.standard_normal((1, positions, outputs))).astype(np.float64)
    total, _ = dp.ghost_clipped_sum(a, b, max_norm, bias=True)
    norm = np.sqrt((total[0] ** 2).sum() + (total[1] ** 2).sum())
    assert norm <= max_norm * (1 + 1e-12)


def test_cancelling_positions_do_not_hide_a_norm():
    a = np.array([[[1e8], [1e8 + 1.0]]])
    b = np.array([[[1.0], [-1.0]]])
    norms = dp.ghost_norms(a, b)
    assert 1.0 <= norms[0] < 10.0


def test_several_layers_share_a_norm():
    rng = np.random.default_rng(1)
    layers = [(rng.standard_normal((12, n)), rng.standard_normal((12, m))) for n, m in ((5, 4), (6, 3))]
    norms = np.sqrt(sum(dp.ghost_norms(a, b) ** 2 for a, b in layers))
    sums = [dp.ghost_clipped_sum(a, b, 1.0, norms=norms)[0].reshape(-1) for a, b in layers]
    g = np.concatenate([formed(a, b, False) for a, b in layers], axis=1)
    np.testing.assert_allclose(np.concatenate(sums), reference.clipped_sum(g, 1.0)[0], atol=1e-12)


def test_examples_that_are_not_finite_add_nothing():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((6, 4)), rng.standard_normal((6, 3))
    expected = dp.ghost_clipped_sum(np.delete(a, [1, 2], 0), np.delete(b, [1, 2], 0), 1.0)[0]
    a[1, 0], b[2, 1] = np.nan, np.inf
    total, norms = dp.ghost_clipped_sum(a, b, 1.0)
    np.testing.assert_allclose(total, expected, atol=1e-15)
    assert np.isinf(norms[[1, 2]]).all()
    huge, norms = dp.ghost_clipped_sum(np.full((1, 2), 1e300), np.full((1, 2), 1e300), 1.0)
    assert (huge == 0).all() and norms[0] == np.inf


def brain_floats():
    return pytest.importorskip("torch").ones(2, 3).bfloat16()


@pytest.mark.parametrize("shape", [(0, 3), (0, 5, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_an_empty_batch_adds_nothing(shape, bias):
    total, norms = dp.ghost_clipped_sum(np.ones(shape), np.ones((*shape[:-1], 2)), 1.0, bias=bias)
    parts = total if bias else (total,)
    assert norms.shape == (0,) and [p.shape for p in parts] == [(3, 2), (2,)][: len(parts)]
    assert not any(p.any() for p in parts)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3)), np.ones((3, 3)), 1.0), ValueError, "signals"),
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3)), np.ones((2, 1, 3)), 1.0), ValueError, "signals"),
        (lambda: dp.ghost_clipped_sum(np.ones(2), np.ones(2), 1.0), ValueError, "activations"),
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3), int), np.ones((2, 3)), 1.0), TypeError, "activations"),
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3)), np.ones((2, 3)), 0.0), ValueError, "max_norm"),
        (lambda: dp.ghost_norms(brain_floats(), np.ones((2, 3))), TypeError, "activations"),
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3)), np.ones((2, 3)), 1.0, norms=[1.0]), ValueError, "norms"),
        (lambda: dp.ghost_clipped_sum(np.ones((2, 3)), np.ones((2, 3)), 1.0, weights=[1, -1]), ValueError, "weights"),
    ],
)
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()


def exact_square(total):
    return sum(Fraction(float(x)) ** 2 for part in total for x in np.asarray(part).reshape(-1))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("positions", [(), (3,)])
@pytest.mark.parametrize(
    ("dtype", "activation", "signal", "bound"),
    [
        (np.float64, 1e-170, 1e170, 0.1),  # the square of one vanishes, the gradient does not
        (np.float64, 1e170, 1e-170, 0.1),
        (np.float64, 1e-165, 1e150, 1e-20),
        (np.float64, 2.0**-1074, 2.0**1023, 1e-60),
        (np.float64, 1e150, 1e150, 1e-100),  # the quotient bound / norm vanishes
        (np.float64, 1e120, 1e104, 1e-100),
        (np.float32, 2.0**127, 2.0**-149, 1.5 * 2.0**-22),  # the weighted signal is subnormal, the activation huge
        (np.float32, 1e38, 1e38, 1e-25),
        (np.float32, 1e-38, 1e-38, 1.0),
    ],
)
def test_extreme_sizes_stay_within_the_bound(dtype, activation, signal, bound, positions, bias):
    a = np.full((1, *positions, 3), activation, dtype)
    b = np.full((1, *positions, 2), signal, dtype)
    total, norms = dp.ghost_clipped_sum(a, b, bound, bias=bias)
    gradient = math.prod(positions) * Fraction(float(b.flat[0]))
    square = 2 * gradient**2 * (3 * Fraction(float(a.flat[0])) ** 2 + bias)
    clipped = exact_square(total if bias else (total,))
    assert clipped <= Fraction(bound) ** 2
    if math.isinf(norms[0]) or bound / norms[0] < 2.0**-1022:
        assert clipped == 0
    else:
        assert Fraction(float(norms[0])) ** 2 * (1 + Fraction(1, 10**9)) >= square
        if square > Fraction(10) ** -60:  # below, float32 has no such numbers
            assert clipped >= min(square, Fraction(bound) ** 2) * Fraction(99, 100)


@settings(max_examples=200)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-300, 300), st.booleans(), st.integers(0, 999))
def test_no_size_exceeds_the_bound(ea, eb, ec, bias, seed):
    rng = np.random.default_rng(seed)
    a = np.ldexp(rng.standard_normal((1, 3)), ea)
    b = np.ldexp(rng.standard_normal((1, 2)), eb)
    bound = math.ldexp(1.0, ec)
    weight = math.ldexp(1.0, int(rng.integers(-200, 20)))
    total, _ = dp.ghost_clipped_sum(a, b, bound, bias=bias, weights=[weight])
    assert exact_square(total if bias else (total,)) <= Fraction(bound * weight) ** 2
    with np.errstate(over="ignore"):
        a, b = a.astype(np.float32), b.astype(np.float32)
    if 1e-25 <= bound <= 1e25 and np.isfinite(a).all() and np.isfinite(b).all():
        total, _ = dp.ghost_clipped_sum(a, b, bound, bias=bias, weights=[min(weight, 1.0)])
        assert exact_square(total if bias else (total,)) <= Fraction(bound * min(weight, 1.0)) ** 2
