"""Discrete Gaussian noise on vectors, one epoch of a tree, banded matrices, and the bits of zCDP."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import tightdp as dp
from tightdp.accounting.engines.renyi import zcdp


def pair(sigma, shifts):
    """Losses and P-masses of integers Z_i + v_i against Z_i, by enumeration."""
    n = np.arange(-40, 41)
    losses, masses = np.zeros(1), np.ones(1)
    for shift in shifts:
        p = np.exp(-0.5 * ((n - shift) / sigma) ** 2)
        y = (n - shift / 2) * shift / sigma**2
        losses = np.add.outer(losses, y).ravel()
        masses = np.multiply.outer(masses, p / np.exp(-0.5 * (n / sigma) ** 2).sum()).ravel()
        keep = masses > 1e-14
        losses, masses = losses[keep], masses[keep]
    return losses, masses


@pytest.mark.parametrize("sigma", [1.3, 4.2])
@pytest.mark.parametrize(("sensitivity", "dimensions"), [(1.5, 2), (2.0, 3), (math.sqrt(5), 2)])
@pytest.mark.parametrize("steps", [1, 2])
def test_every_vector_is_within_the_bounds(sigma, sensitivity, dimensions, steps):
    run = dp.DiscreteGaussianVector(sigma, sensitivity, dimensions) * steps
    reach = math.floor(sensitivity)
    vectors = itertools.product(range(reach + 1), repeat=dimensions)
    vectors = {tuple(sorted(v)) for v in vectors if 0 < sum(x * x for x in v) <= sensitivity**2 * (1 + 1e-12)}
    for eps in (0.1, 1.0, 2.5):
        best = 0.0
        for v in vectors:
            if math.comb(steps * sum(x > 0 for x in v) + 3, 3) > 40:
                continue
            losses, masses = pair(sigma, [x for x in v if x] * steps)
            best = max(best, float(np.sum(masses * np.maximum(-np.expm1(eps - losses), 0.0))))
        found = run.delta(eps)
        assert found.lower <= found.upper and best <= found.upper * (1 + 1e-9) + 1e-12
        axis = pair(sigma, [reach] * steps)
        attained = float(np.sum(axis[1] * np.maximum(-np.expm1(eps - axis[0]), 0.0)))
        assert found.lower >= attained * (1 - 1e-6) - 1e-10


def test_two_dimensions_of_a_short_vector_and_one_dimension_are_the_plain_mechanism():
    plain, one = dp.DiscreteGaussian(2.0, 3), dp.DiscreteGaussianVector(2.0, 3.7, 1)
    assert one._to_composition() == plain._to_composition()


@pytest.mark.parametrize("sigma", [5.0, 60.0, 3e5])
@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
def test_many_steps_cost_little_more_than_a_gaussian(sigma, relation):
    """2 pi^2 tau^2 = 55.3 + ln(2d); a Gaussian of variance sigma^2 - tau^2."""
    d, steps = 1000, 200
    tau = (55.3 + math.log(2 * d)) / (2 * math.pi**2)
    found = (dp.DiscreteGaussianVector(sigma, 2.0, d) * steps).epsilon(1e-6, neighbors=relation)
    gaussian = (dp.Gaussian(sigma / 2) * steps).epsilon(1e-6, neighbors=relation)
    wider = (dp.Gaussian(math.sqrt(sigma**2 - tau) / 2) * steps).epsilon(1e-6, neighbors=relation)
    zcdp = (dp.ZCDP(2.0 / sigma**2) * steps).epsilon(1e-6, neighbors=relation)
    assert found.upper == pytest.approx(min(wider.upper, zcdp.upper), rel=1e-6)
    assert found.lower <= found.upper and found.upper >= gaussian.lower
    assert found.lower == pytest.approx(gaussian.lower, rel=0.05) or sigma == 3e5


def test_sampled_vectors():
    """The pair of one coordinate is a member; a Gaussian nearly dominates."""
    for relation, slack in (("add", 0.02), ("remove", 0.02), ("add_or_remove", 0.02), ("replace", None)):
        found = (dp.PoissonSampled(dp.DiscreteGaussianVector(20.0, 2.0, 5), 0.1) * 30).epsilon(1e-6, neighbors=relation)
        one = (dp.PoissonSampled(dp.DiscreteGaussian(20.0, 2), 0.1) * 30).epsilon(1e-6, neighbors=relation)
        assert found.lower <= one.upper and one.lower <= found.upper
        if slack:
            assert found.upper <= one.upper * (1 + slack)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 1000])
def test_a_tree_holds_a_step_in_this_many_nodes(steps):
    """Count the dyadic intervals that end by the last step."""
    nodes = [
        sum(j * 2**i < t <= (j + 1) * 2**i for i in range(11) for j in range(steps // 2**i))
        for t in (1, *range(1, steps + 1, max(1, steps // 50)))
    ]
    tree = dp.TreeAggregation(2.5, steps, own_steps=True)
    assert tree._to_composition() == dp.Gaussian(2.5) * max(nodes)
    for relation, norm in (("add", 1), ("remove", 1), ("replace", 2)):
        mu = norm * math.sqrt(max(nodes)) / 2.5
        assert tree.epsilon(1e-5, neighbors=relation).upper == pytest.approx(dp.Gaussian(1 / mu).epsilon(1e-5).upper)


def test_a_tree_is_charged_as_its_gaussians():
    for relation in ("add_or_remove", "replace", "replace_special"):
        tree = dp.PrivacyFilter(1.0, 1e-6, neighbors=relation).cost(dp.TreeAggregation(50.0, 100, own_steps=True))
        one = dp.PrivacyFilter(1.0, 1e-6, neighbors=relation).cost(dp.Gaussian(50.0))
        assert tree == pytest.approx(7 * one) and tree >= 7 * one * (1 - 1e-15)


def test_a_banded_matrix_is_as_many_samples_as_a_group_has_steps():
    sampled = dp.PoissonSampled(dp.Gaussian(0.9), 0.2)
    for bands, steps, count in ((1, 7, 7), (3, 7, 3), (7, 7, 1), (9, 7, 1)):
        found = dp.banded_factorization(0.9, bands=bands, steps=steps, sampling_probability=0.2)
        assert isinstance(found, dp.Composition) and found == sampled * count


@pytest.mark.parametrize(("rho", "xi"), [(0.5, 0.0), (0.1, 0.0), (1e-3, 0.0), (0.1, 0.4), (20.0, 1.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-40])
def test_the_bit_that_bounds_a_class_from_below_is_a_member(rho, xi, delta):
    """Its Renyi divergences, both ways, at many orders and in many digits."""
    lower, upper = (end(dp.ZCDP(rho, xi).epsilon(delta)) for end in (lambda b: b.lower, lambda b: b.upper))
    assert upper * (1 - 2e-3) <= lower <= upper or delta == 1e-2
    c = np.exp(np.linspace(math.log(1e-6), math.log(1e12), 600))
    best = c[np.argmin(xi + (c + 1) * rho + (c * np.log(c) - (1 + c) * np.log1p(c) - math.log(delta)) / c)]
    r, log_s = zcdp._find_best_zcdp_member(
        rho, xi, lambda r, s: np.log(np.maximum(r - delta, 1e-320)) - s, math.log(delta * (1 + best))
    )
    with mp.workdps(60):
        r, s = mp.mpf(r), mp.exp(mp.mpf(log_s))
        for order in (1 + mp.mpf(2) ** k for k in np.linspace(-12, 14, 120)):
            for a, b in ((r, s), (s, r)):
                d = mp.log(a**order * b ** (1 - order) + (1 - a) ** order * (1 - b) ** (1 - order)) / (order - 1)
                assert d <= xi + rho * order, (order, a, b)


def test_zcdp_without_rho_is_pure():
    assert dp.ZCDP(0.0, 0.7)._to_composition() == dp.PureDP(0.7)._to_composition()
    both = (dp.ZCDP(0.02, 0.3) * 4 + dp.Laplace(2.0)).epsilon(1e-6)
    member = (dp.Gaussian(5.0) * 4 + dp.PureDP(0.3) * 4 + dp.Laplace(2.0)).epsilon(1e-6)
    assert both.lower == pytest.approx(member.lower, rel=1e-9) and both.upper > member.upper


def test_two_steps_between_data_sets_bound_replacement():
    """D_a(P || Q) <= 2a/(2a-1) D_{2a-1} + D_{2a}; Gaussians meet 4 rho with equality."""
    rho = 0.05
    found = dp.ZCDP(rho).epsilon(1e-6, neighbors="replace")
    assert found.upper == pytest.approx(dp.ZCDP(4 * rho).epsilon(1e-6).upper)
    assert found.lower == pytest.approx(dp.Gaussian((8 * rho) ** -0.5).epsilon(1e-6).lower)
    shifted = dp.ZCDP(rho, 0.2).epsilon(1e-6, neighbors="replace")
    assert found.upper + 0.4 <= shifted.upper <= found.upper + 0.6
