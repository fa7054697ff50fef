"""Exact noise: draw for draw that of plain integer arithmetic, distributed as stated, and telling nothing else."""

import math
from fractions import Fraction

import numpy as np
import pytest
from reference import discrete as reference
from scipy import stats

import tightdp as dp
from tightdp import _core

CHANCE = 1e-9
SIGMAS = [Fraction(1, 1000), 0.5, 1, 1.1, Fraction(7, 3), 5, 2**20, 2**20 + 0.1, 2.0**39]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_discrete_gaussian_draw_for_draw(sigma):
    expected = reference.draws(
        lambda w: reference.discrete_gaussian(Fraction(sigma), w), 400, _core.philox_stream(3, 0)
    )
    np.testing.assert_array_equal(dp.discrete_gaussian(sigma, 400, rng=dp.Philox(3)), expected)


@pytest.mark.parametrize("scale", [Fraction(1, 1000), 0.3, 1, Fraction(7, 2), 2**30, 1e10 + 0.25])
def test_discrete_laplace_draw_for_draw(scale):
    t, s = Fraction(scale).as_integer_ratio()
    expected = reference.draws(lambda w: reference.discrete_laplace(t, s, w), 400, _core.philox_stream(3, 0))
    np.testing.assert_array_equal(dp.discrete_laplace(scale, 400, rng=dp.Philox(3)), expected)


def assert_pmf(draws, pmf):
    """Pearson's test of the integers against pmf(n), rare ones pooled."""
    edge = 1
    while 2 * sum(pmf(n) for n in range(edge + 1, edge + 200)) * len(draws) > 20:
        edge += 1
    middle = np.arange(-edge, edge + 1)
    p = np.array([pmf(int(n)) for n in middle])
    observed = [(draws == n).sum() for n in middle] + [(np.abs(draws) > edge).sum()]
    expected = np.append(p, max(0.0, 1 - p.sum())) * len(draws)
    keep = expected > 5
    observed, expected = np.array(observed)[keep], expected[keep]
    if len(expected) == 1:
        assert observed[0] == len(draws)
        return
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > CHANCE


N = 200_000


@pytest.mark.parametrize("sigma", [0.01, 0.5, 1, 1.1, Fraction(7, 3), 5])
def test_discrete_gaussian_distribution(sigma):
    s = float(sigma)
    total = sum(math.exp(-n * n / (2 * s * s)) for n in range(-100, 101))
    assert_pmf(dp.discrete_gaussian(sigma, N), lambda n: math.exp(-n * n / (2 * s * s)) / total)


@pytest.mark.parametrize("scale", [0.01, 0.5, 2, Fraction(7, 2)])
def test_discrete_laplace_distribution(scale):
    q = math.exp(-1 / float(scale))
    assert_pmf(dp.discrete_laplace(scale, N), lambda n: (1 - q) / (1 + q) * q ** abs(n))


@pytest.mark.parametrize("sigma", [0.01, 0.5, 1.5, 3])
def test_rounded_gaussian_distribution(sigma):
    pmf = lambda n: stats.norm.cdf((n + 0.5) / sigma) - stats.norm.cdf((n - 0.5) / sigma)  # noqa: E731
    assert_pmf(dp.rounded_gaussian(sigma, N), pmf)


@pytest.mark.parametrize("draw", [dp.discrete_gaussian, dp.rounded_gaussian])
@pytest.mark.parametrize("sigma", [2**20, 1e6 + 0.1])
def test_fine_noise_is_normal_to_the_eye(draw, sigma):
    z = draw(sigma, N) / float(sigma)
    assert stats.kstest(z, stats.norm.cdf).pvalue > CHANCE
    assert stats.chisquare(np.bincount(draw(sigma, N) % 16, minlength=16)).pvalue > CHANCE


def test_the_number_of_threads_changes_nothing():
    before = _core.max_threads()
    results = []
    for count in (1, 3):
        _core.set_max_threads(count)
        draws = [f(5, 3000, rng=dp.Philox(1)) for f in (dp.discrete_gaussian, dp.discrete_laplace, dp.rounded_gaussian)]
        results.append(np.concatenate(draws))
    _core.set_max_threads(before)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("noise", ["gaussian", "discrete_gaussian"])
def test_a_release_on_a_grid_of_ones_choice(noise):
    """Sums and noise come apart: a noise of nothing else, and sums that are those of clipped_sum."""
    g, grid = np.random.default_rng(0).standard_normal((60, 700)), dp.exact_grid(3.0)
    r = dp.exact_release(g, 3.0, 1.7, noise=noise, grid=grid, rng=dp.Philox(6))
    none = dp.exact_release(g[:0], 3.0, 1.7, noise=noise, grid=grid, rng=dp.Philox(6))
    assert r.sigma == none.sigma >= Fraction(1.7) * 3 / Fraction(grid)
    np.testing.assert_array_equal((r.value - none.value) / grid, dp.clipped_sum(g, 3.0, arithmetic="exact")[0])
    assert (none.value / grid).std() == pytest.approx(r.sigma, rel=0.2)
    if noise == "discrete_gaussian":
        np.testing.assert_array_equal(none.value / grid, dp.discrete_gaussian(r.sigma, 700, rng=dp.Philox(6)))
    coarse = dp.exact_release(g, 3.0, 1.7, noise=noise, grid=2.0**-5, rng=dp.Philox(6))
    assert coarse.grid == 2.0**-5 and (coarse.value % 2.0**-5 == 0).all() and (coarse.value % 2.0**-4 != 0).any()


def test_what_is_charged():
    g = np.ones((5, 3))
    assert dp.exact_release(g, 2.0, 0.8).mechanism == dp.Gaussian(0.8)
    rho = dp.exact_release(g, 2.0, 0.8, noise="discrete_gaussian").mechanism
    assert isinstance(rho, dp.ZCDP) and Fraction(rho.rho) >= 1 / (2 * Fraction(0.8) ** 2)
    assert rho.rho == pytest.approx(1 / (2 * 0.8**2), rel=1e-12)
    count = dp.exact_release(g[:, :1], 1.0, 4.0, noise="discrete_gaussian", grid=1.0)
    assert count.mechanism == dp.DiscreteGaussian(4.0, 1)
    lists = dp.exact_release([g, g[:, :2]], 2.0, 0.8)
    assert [v.shape for v in lists.value] == [(3,), (2,)]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dp.discrete_gaussian(0, 3), ValueError, "sigma"),
        (lambda: dp.discrete_gaussian(-1.0, 3), ValueError, "sigma"),
        (lambda: dp.discrete_gaussian(math.nan, 3), ValueError, "sigma"),
        (lambda: dp.discrete_gaussian(2.0**41, 3), ValueError, r"sigma.*\[2\^-10, 2\^40\]"),
        (lambda: dp.discrete_gaussian(Fraction(2**60, 2**60 + 1), 3), ValueError, "sigma"),
        (lambda: dp.discrete_laplace(1e-9, 3), ValueError, "scale"),
        (lambda: dp.discrete_gaussian(1, -3), ValueError, "size"),
        (lambda: dp.discrete_gaussian(1, 3, rng=4), TypeError, "rng"),
        (lambda: dp.rounded_gaussian(Fraction(1, 3), 3), ValueError, "sigma.*double"),
        (lambda: dp.rounded_gaussian(2**39 + 1, 3), ValueError, r"sigma.*\(0, 2\^39\]"),
        (lambda: dp.rounded_gaussian(0.0, 3), ValueError, "sigma"),
        (lambda: dp.rounded_gaussian(math.nan, 3), ValueError, "sigma"),
        (lambda: dp.rounded_gaussian([1.0, -1.0], 2), ValueError, "sigma"),
        (lambda: dp.rounded_gaussian([1.0, math.inf], 2), ValueError, "sigma"),
        (lambda: dp.rounded_gaussian([1.0, 2.0], 3), ValueError, r"sigma.*shape \(3,\)"),
        (lambda: dp.rounded_gaussian("1", 3), TypeError, "sigma"),
        (lambda: dp.exact_release(np.ones((2, 2)), 0.0, 1.0), ValueError, "max_norm"),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 0.0), ValueError, "noise_multiplier"),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1.0, grid=0.3), ValueError, "power of two"),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1.0, grid=2.0**20), ValueError, "grid"),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1.0, grid=2.0**-50), ValueError, "grid"),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1e300, grid=1.0), ValueError, "^grid"),
        (lambda: dp.exact_release(np.full((2, 2), 1e25), 1e25, 1e300), ValueError, "^noise_multiplier, times max_norm"),
        (
            lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1e-12),
            ValueError,
            "^noise_multiplier must be at least 1.17e-10",
        ),
        (lambda: dp.exact_release(np.ones((2, 2)), 1.0, 1.0, noise="laplace"), ValueError, "noise"),
        (lambda: dp.exact_release(np.ones(2), 1.0, 1.0), ValueError, "grads"),
    ],
)
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()
