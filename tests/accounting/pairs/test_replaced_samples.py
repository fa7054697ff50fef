"""Replacing a record in a Poisson sample with integer or Laplace noise, against all contributions of the record."""

import itertools
import math

import numpy as np
import pytest

import tightdp as dp

AT = (-0.5, 0.0, 0.05, 0.4, 1.0, 2.0)


def noise(mechanism, reach=400):
    """Probabilities on the integers from -reach to reach."""
    n = np.arange(-reach, reach + 1.0)
    if isinstance(mechanism, dp.DiscreteGaussian):
        f = np.exp(-0.5 * (n / mechanism.sigma) ** 2)
    else:
        f = np.exp(-np.abs(n) / mechanism.scale)
    return f / f.sum()


def mixed(mechanism, q, contribution):
    f = noise(mechanism)
    return (1 - q) * f + q * np.roll(f, contribution)


def hockey_stick(p, q, at):
    return float(np.maximum(p - math.exp(at) * q, 0.0).sum())


MECHANISMS = [
    dp.DiscreteGaussian(1.3, 3),
    dp.DiscreteGaussian(0.4, 2),
    dp.DiscreteGaussian(6.0, 4),
    dp.DiscreteLaplace(2.0, 3),
    dp.DiscreteLaplace(0.5, 1),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("q", [1e-3, *(pytest.param(q, marks=pytest.mark.slow) for q in (0.3, 0.9))])
def test_no_two_contributions_differ_more_than_opposite_ones(mechanism, q):
    run = dp.PoissonSampled(mechanism, q)
    moves = range(-mechanism.sensitivity, mechanism.sensitivity + 1)
    for at in AT:
        bound = run.delta(at, neighbors="replace")
        found = {
            (g, h): hockey_stick(mixed(mechanism, q, g), mixed(mechanism, q, h), at)
            for g, h in itertools.product(moves, repeat=2)
        }
        exact = found[mechanism.sensitivity, -mechanism.sensitivity]
        assert max(found.values()) <= exact * (1 + 1e-12) + 1e-15
        assert bound.lower <= exact * (1 + 1e-12) and exact * (1 - 1e-12) - 1e-15 <= bound.upper
        assert bound.upper - bound.lower <= 1e-3 * exact + 1e-14


@pytest.mark.parametrize("mechanism", [dp.DiscreteGaussian(1.3, 3), dp.DiscreteLaplace(2.0, 3)], ids=repr)
def test_two_steps(mechanism):
    q = 0.2
    p, other = (
        mixed(mechanism, q, mechanism.sensitivity)[300:-300],
        mixed(mechanism, q, -mechanism.sensitivity)[300:-300],
    )
    run = dp.PoissonSampled(mechanism, q) * 2
    for at in AT:
        exact = hockey_stick(np.multiply.outer(p, p), np.multiply.outer(other, other), at)
        bound = run.delta(at, neighbors="replace")
        assert bound.lower <= exact + 1e-13 and exact - 1e-13 <= bound.upper
        assert bound.upper - bound.lower <= 1e-5 * exact + 1e-12


@pytest.mark.parametrize("scale", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("q", [0.01, 0.5])
def test_laplace_noise_attains_opposite_contributions(scale, q):
    """Between -1 and 1 the two densities are integrated in fine cells, beyond in closed form."""
    z = np.linspace(-1.0, 1.0, 400_001)[:-1] + 0.5 / 200_000
    f = {g: np.exp(-np.abs(z - g) / scale) / (2 * scale) / 200_000 for g in (-1, 0, 1)}
    near, far = 0.5 * math.exp(-1 / scale), 0.5 * math.exp(-2 / scale)
    p, other = (
        np.concatenate(
            ((1 - q) * f[0] + q * f[g], [(1 - q) * near + q * (0.5 if g == end else far) for end in (1, -1)])
        )
        for g in (1, -1)
    )
    for at in (0.0, 0.3, 1.0):
        exact = hockey_stick(p, other, at)
        bound = dp.PoissonSampled(dp.Laplace(scale), q).delta(at, neighbors="replace")
        assert exact * (1 - 1e-3) - 1e-12 <= bound.lower <= exact * (1 + 1e-9) + 1e-15 and exact <= bound.upper + 1e-12


@pytest.mark.parametrize(
    "mechanism",
    [
        dp.DiscreteGaussian(1e-9, 5), dp.DiscreteGaussian(1e-120, 1), dp.DiscreteGaussian(0.1, 10**6),
        dp.DiscreteGaussian(1e6, 3), dp.DiscreteLaplace(1e-3, 10**5), dp.DiscreteLaplace(1e-150, 2), dp.Laplace(1e-6),
        dp.Laplace(1e9),
    ],
    ids=repr,
)  # fmt: skip
def test_extreme_noise_has_ordered_ends(mechanism):
    run = dp.PoissonSampled(mechanism, 1e-3) * 3
    for bound in (run.epsilon(1e-6, neighbors="replace"), run.delta(1.0, neighbors="replace")):
        assert 0 <= bound.lower <= bound.upper
    assert run.delta(1.0, neighbors="replace").upper <= 3e-3 * (1 + 1e-6)
