"""Runs of up to 2^53 steps (docs/theory/grid.md section 5.7), against closed forms and an integral in many digits."""

import math

import pytest
from effort import bounded

import tightdp as dp

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp


@pytest.mark.parametrize("count", [10**12, pytest.param(10**15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mu", [0.1, 30.0])
def test_gaussians(count, mu):
    """The grid engine against the closed form, whose mu^2 adds."""
    run = dp.Gaussian(math.sqrt(count) / mu) * count
    for delta in (1e-12, 1e-5, 0.1):
        exact = run.epsilon(delta, engine="closed_form")
        found = run.epsilon(delta, engine="grid")
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.width <= 3e-5 * exact.upper + 1e-9
    for epsilon in (0.0, mu * mu / 2, mu * mu / 2 + 3 * mu, -1.0):
        exact = run.delta(epsilon, engine="closed_form")
        found = run.delta(epsilon, engine="grid")
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.width <= 1e-3 * exact.upper + 1e-9


@pytest.mark.parametrize(
    "count", [*(pytest.param(count, marks=pytest.mark.slow) for count in (2**21, 51_152_598)), 10**12]
)
@pytest.mark.parametrize(
    "noise_multiplier",
    [0.0023323271818666822, 0.1, *(pytest.param(noise, marks=pytest.mark.slow) for noise in (1e-3, 0.01, 0.02, 0.03))],
)
def test_steps_that_reveal_almost_all(noise_multiplier, count):
    """At losses that nearly all of Q has, P's mass is no double."""
    run = dp.Gaussian(noise_multiplier) * count
    deviation = math.sqrt(count) / noise_multiplier
    for delta in (1e-300, 1e-12, 0.1):
        exact = run.epsilon(delta, engine="closed_form")
        found = run.epsilon(delta, engine="grid")
        assert found.lower <= exact.upper and exact.lower <= found.upper
        if deviation <= 1e8 and delta > 1e-300:  # else the tilted law is not normal enough, or has too few digits
            assert found.upper <= (1 + 1e-5) * exact.upper
        for epsilon in (exact.lower, exact.upper + deviation):
            exact_delta = run.delta(epsilon, engine="closed_form")
            found_delta = run.delta(epsilon, engine="grid")
            assert found_delta.lower <= exact_delta.upper and exact_delta.lower <= found_delta.upper


@pytest.mark.parametrize("count", [10**7, 10**9])
@pytest.mark.parametrize("place", [0.3, 3.0])
def test_randomised_response(count, place):
    """Two losses, against the exact binomial sum."""
    run = dp.PureDP(place / math.sqrt(count)) * count
    for delta in (1e-9, 1e-3):
        exact = run.epsilon(delta, engine="closed_form")
        found = run.epsilon(delta, engine="grid")
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.width <= 1e-4 * exact.upper


def by_contour(scale, q, count, epsilons):
    """delta of a record removed from Poisson samples with Laplace noise, by the integral over a line: to many digits
    where the run is long, so that the tilted law is nearly normal."""
    mu, q = 1 / mp.mpf(scale), mp.mpf(q)
    nodes = [-mu, 0, mu]

    def log_moment(z):
        def grown(y):  # W^{1+z} - 1 - (1+z) (W - 1): E_Q[W] = 1
            w = mp.log1p(q * mp.expm1(y))
            return mp.expm1((1 + z) * w) - (1 + z) * mp.expm1(w)

        inside = mp.quad(lambda y: mp.exp(-(y + mu) / 2) / 4 * grown(y), nodes)
        return count * mp.log1p(inside + grown(mu) * mp.exp(-mu) / 2 + grown(-mu) / 2)

    deviation = mp.sqrt(log_moment(mp.mpf(1)))  # K(c) is about c (c+1)/2 variances
    c = 5 / deviation

    h = 1 / (3 * deviation)  # the trapezoidal rule: aliases are e^{-2 pi c / h}, and those of a normal law
    z = [mp.mpc(c, k * h) for k in range(33)]
    ordinates = [mp.exp(log_moment(one)) / (one * (one + 1)) for one in z]
    ordinates[0] /= 2
    return [
        h / mp.pi * mp.fsum(mp.re(y * mp.exp(-one * e)) for y, one in zip(ordinates, z, strict=True)) for e in epsilons
    ]


@pytest.mark.parametrize(("scale", "q", "count"), [(1e6, 0.03, 10**15), (2e3, 0.5, 10**8)])
def test_sampled_laplace_noise(scale, q, count):
    run = dp.PoissonSampled(dp.Laplace(scale), q) * count
    bound = bounded(lambda: run.epsilon(1e-6, neighbors="remove"))
    assert bound.width <= 1e-3 * bound.upper
    assert bound.upper <= run.epsilon(1e-6, neighbors="remove", engine="renyi").upper
    with mpmath.workdps(20):
        least, most = by_contour(scale, q, count, [mp.mpf(bound.upper), mp.mpf(bound.lower)])
        assert least <= mp.mpf(1e-6) <= most
        assert most <= least * (1 + mp.mpf(1e-3))


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.Laplace(1.0),
        dp.PoissonSampled(dp.Laplace(1.0), 1e-3),
        dp.PoissonSampled(dp.PureDP(1.0), 1e-9),
        pytest.param(dp.BoundedRange(1e-8), marks=pytest.mark.slow),
        pytest.param(dp.PoissonSampled(dp.DiscreteGaussian(100.0), 1e-6), marks=pytest.mark.slow),
        dp.PoissonSampled(dp.Gaussian(1.0), 1e-8),
        pytest.param(dp.MixtureOfGaussians(1e7, (0.0, 1.0, 3.0), (0.5, 0.3, 0.2)), marks=pytest.mark.slow),
        dp.ApproximateDP(1e-8, 1e-18),
        pytest.param(dp.TruncatedPoissonSampled(dp.Gaussian(100.0), 1e-6, 30, 10**6), marks=pytest.mark.slow),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_no_mechanism_has_an_absurd_bound(mechanism):
    """Above neither the sum of the largest losses nor what moments say, and both ends at once."""
    run = mechanism * 10**15
    bound = run.epsilon(1e-2)
    assert 0 <= bound.lower <= bound.upper < math.inf
    assert bound.upper <= run.epsilon(1e-2, engine="renyi").upper * (1 + 1e-6)
    at = run.delta(bound.upper)
    assert at.lower <= 1e-2
