"""Bounds of a class hold the supremum over its members, found by linear programmes (replace.md section 1,
conversions.md section 7)."""

import math

import numpy as np
import pytest
from reference import members

import tightdp as dp

CLOSE = 4e-7
"""Of an end from the supremum: an end that is off by one part in a million on the wrong side, or the right, fails."""
EPSILONS = [-0.7, 0.0, 0.3, 0.9, 1.7]
EXACT = [
    (dp.PureDP(1.0), members.pure(1.0)),
    (dp.PureDP(0.2), members.pure(0.2)),
    (dp.ApproximateDP(1.0, 0.02), members.approximate(1.0, 0.02)),
    (dp.ApproximateDP(1.0, 0.15), members.approximate(1.0, 0.15)),
    (dp.ApproximateDP(0.5, 0.3), members.approximate(0.5, 0.3)),  # delta (2 + E) > 1
    (dp.ApproximateDP(0.5, 0.7), members.approximate(0.5, 0.7)),
    (dp.ApproximateDP(0.0, 0.1), members.approximate(0.0, 0.1)),
    (dp.ApproximateDP(0.0, 0.6), members.approximate(0.0, 0.6)),
]
SAMPLES = [1.0, 0.3, 0.9]


def is_it(found, supremum):
    assert found.lower <= supremum * (1 + 1e-9) + 1e-11 and supremum * (1 - 1e-9) - 1e-11 <= found.upper
    assert found.upper <= supremum * (1 + CLOSE) + 1e-11 and supremum * (1 - CLOSE) - 1e-11 <= found.lower


def holds(found, supremum):
    assert found.lower <= supremum * (1 + 1e-9) + 1e-11 and supremum * (1 - 1e-9) - 1e-11 <= found.upper


def sampled(mechanism, q):
    return mechanism if q == 1 else dp.PoissonSampled(mechanism, q)


@pytest.mark.parametrize(("mechanism", "kind"), EXACT, ids=lambda x: repr(x)[:40])
@pytest.mark.parametrize("q", SAMPLES)
@pytest.mark.parametrize("direction", ["add", "remove", "replace"])
def test_pure_and_approximate_classes(mechanism, kind, q, direction):
    for eps in EPSILONS:
        x = math.exp(eps)
        supremum = members.replaced(kind, x, q) if direction == "replace" else members.pair(kind, x, direction, q)
        is_it(sampled(mechanism, q).delta(eps, neighbors=direction), supremum)


@pytest.mark.parametrize(("mechanism", "kind"), [EXACT[0], *EXACT[2:6]], ids=lambda x: repr(x)[:40])
def test_samples_of_fixed_size(mechanism, kind):
    for eps in (0.0, 0.1, 0.4):
        found = dp.FixedSizeSampled(mechanism, 30, 100).delta(eps, neighbors="replace", width=1e-9)
        is_it(found, members.replaced(kind, math.exp(eps), 0.3, fixed=True))


@pytest.mark.parametrize(("mechanism", "kind"), [EXACT[0], EXACT[2], EXACT[4]], ids=lambda x: repr(x)[:40])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_an_allocation_to_two_steps(mechanism, kind, direction):
    for eps in (0.0, 0.2, 0.45):
        found = dp.RandomAllocation(mechanism, 2).delta(eps, neighbors=direction)
        supremum = members.allocated(kind, math.exp(eps), direction)
        holds(found, supremum)
        assert found.upper <= supremum * (1 + 1e-4) and supremum * (1 - 1e-4) <= found.lower


def shifts(eta, *more):
    return np.unique([*np.linspace(0.0, eta, 17), *(t for t in more if 0 <= t <= eta)])


@pytest.mark.parametrize("eta", [0.4, 1.0])
@pytest.mark.parametrize("q", SAMPLES)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_bounded_range(eta, q, direction):
    """The worst losses are t and t - eta with t half way between eta and the threshold of the unsampled loss."""
    for eps in (-0.2, 0.0, 0.1, 0.3):
        unsampled = math.log(max(1 + math.expm1(eps if direction == "remove" else -eps) / q, 1e-9))
        top = (eta + unsampled) / 2
        kind = members.bounded_range(eta, shifts(eta, top))
        supremum = members.pair(kind, math.exp(eps), direction, q)
        is_it(sampled(dp.BoundedRange(eta), q).delta(eps, neighbors=direction), supremum)


@pytest.mark.parametrize("eta", [pytest.param(0.4, marks=pytest.mark.slow), 1.0])
def test_bounded_range_under_replace(eta):
    for eps in (0.0, 0.3, 0.7):
        # With both ratios of range eta about the middle one, theirs to each other has a range of 2 eta.
        top = (2 * eta + eps) / 2
        kind = members.bounded_range(eta, shifts(eta)[::4])
        wide = members.bounded_range(2 * eta, [top])
        found = dp.BoundedRange(eta).delta(eps, neighbors="replace")
        is_it(found, members.pair(wide, math.exp(eps), "remove"))
        assert members.replaced(kind, math.exp(eps)) <= found.upper * (1 + 1e-9)
        for q in (0.3, 0.8):
            poisson = dp.PoissonSampled(dp.BoundedRange(eta), q).delta(eps, neighbors="replace")
            holds(poisson, members.replaced(kind, math.exp(eps), q))
    fixed = dp.FixedSizeSampled(dp.BoundedRange(eta), 3, 10).delta(0.05, neighbors="replace")
    few = members.bounded_range(eta, shifts(eta)[::4])
    assert members.replaced(few, math.exp(0.05), 0.3, fixed=True) <= fixed.upper


@pytest.mark.parametrize("direction", [pytest.param("add", marks=pytest.mark.slow), "remove"])
def test_an_allocation_composes_the_members_of_bounded_range(direction):
    """The envelope, composed, is above all of them: the lower end has to be a member's."""
    kind = members.bounded_range(1.0, shifts(1.0, 0.261, 0.727, 0.45, 0.813))
    for eps in (0.0, 0.1, 0.3, 0.6):
        found = dp.RandomAllocation(dp.BoundedRange(1.0), 2).delta(eps, neighbors=direction)
        holds(found, members.allocated(kind, math.exp(eps), direction))
    found = dp.RandomAllocation(dp.BoundedRange(1.0), 2).delta(0.6, neighbors=direction)
    supremum = {"add": 0.017139, "remove": 0.008235}[direction]
    assert members.allocated(kind, math.exp(0.6), direction) == pytest.approx(supremum, abs=1e-6)
    assert 0.9 * supremum <= found.lower


VALUES = np.linspace(-2.0, 2.0, 81)


@pytest.mark.parametrize("q", [1.0, 0.3])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_concentrated_classes(q, direction):
    kind = members.concentrated(0.1, VALUES)
    for eps in (0.0, 0.5, 1.2):
        found = sampled(dp.ZCDP(0.1), q).delta(eps, neighbors=direction)
        gaussian = sampled(dp.Gaussian(0.2**-0.5), q).delta(eps, neighbors=direction)
        assert max(members.pair(kind, math.exp(eps), direction, q), gaussian.lower) <= found.upper * (1 + 1e-9)
        assert gaussian.lower * (1 - 1e-9) <= found.lower <= found.upper


def test_concentrated_classes_under_replace_and_allocated():
    kind = members.concentrated(0.1, VALUES[::5])
    for eps in (0.0, 0.5, 1.2):
        holds(dp.ZCDP(0.1).delta(eps, neighbors="replace"), members.replaced(kind, math.exp(eps)))
        for direction in ("add", "remove"):
            found = dp.RandomAllocation(dp.ZCDP(0.1), 2).delta(eps, neighbors=direction)
            holds(found, members.allocated(kind, math.exp(eps), direction))
