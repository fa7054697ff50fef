"""Bounds fall with epsilon and with delta, up to the top of the support, where few losses are left."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp


def atoms_of(mechanism):
    """(loss, P-mass) under "remove"."""
    match mechanism:
        case dp.PureDP(e):
            e = mp.mpf(e)
            return [(e, 1 / (1 + mp.exp(-e))), (-e, mp.exp(-e) / (1 + mp.exp(-e)))]
        case dp.RandomizedResponse(p, buckets):
            low = mp.mpf(p) / buckets
            high = 1 - mp.mpf(p) + low
            return [(mp.log(high / low), high), (-mp.log(high / low), low), (mp.mpf(0), (buckets - 2) * low)]
        case dp.PoissonSampled(inner, q):
            q = mp.mpf(q)
            return [(mp.log(1 - q + q * mp.exp(y)), q * p + (1 - q) * p * mp.exp(-y)) for y, p in atoms_of(inner)]
    raise AssertionError(mechanism)


def top(run):
    return sum(count * max(y for y, _ in atoms_of(mechanism)) for mechanism, count in run.parts)


def truth(run, eps):
    """delta by enumeration of all outcomes."""
    losses = [(mp.mpf(0), mp.mpf(1))]
    for mechanism, count in run.parts:
        for _ in range(count):
            losses = [(a + b, p * q) for (a, p), (b, q) in itertools.product(losses, atoms_of(mechanism))]
    return mp.fsum(p * (1 - mp.exp(eps - y)) for y, p in losses if y > eps)


pure = st.builds(dp.PureDP, st.floats(0.01, 3.0))
response = st.builds(dp.RandomizedResponse, st.floats(0.1, 0.9), st.integers(2, 5))
few_atoms = st.one_of(pure, response, st.builds(dp.PoissonSampled, pure, st.floats(0.01, 0.9)))
runs = st.lists(st.tuples(few_atoms, st.integers(1, 2)), min_size=1, max_size=3).map(
    lambda pieces: sum((mechanism * count for mechanism, count in pieces), dp.Composition())
)
distances = st.floats(math.log(1e-9), math.log(0.3)).map(math.exp)


@settings(max_examples=30, deadline=None)
@given(runs, distances)
def test_the_top_of_the_support(run, distance):
    with mpmath.workdps(40):
        eps = float(top(run) - distance)
        exact = truth(run, mp.mpf(eps))
        found = run.delta(eps, neighbors="remove")
        assert found.lower <= exact <= found.upper
        # The place of the top is known within some roundings.
        assert found.width <= (2e-3 + 1e-13 / distance) * exact + mp.mpf(1e-300)


@settings(max_examples=25, deadline=None)
@given(runs, distances, st.floats(1.001, 100.0))
def test_deltas_fall_with_epsilon(run, distance, ratio):
    with mpmath.workdps(40):
        end = float(top(run))
    nearer, further = (run.delta(end - d, neighbors="remove") for d in (distance, ratio * distance))
    assert nearer.upper <= further.upper * (1 + 2e-3 + 1e-13 / distance)
    assert nearer.lower <= further.upper


@settings(max_examples=25, deadline=None)
@given(runs, st.floats(-30.0, -0.1), st.floats(0.01, 5.0))
def test_epsilons_fall_with_delta(run, log_delta, more):
    small, large = math.exp(log_delta - more), math.exp(log_delta)
    of_small, of_large = run.epsilon(small, neighbors="remove"), run.epsilon(large, neighbors="remove")
    assert of_large.lower <= of_small.upper
    assert of_large.upper <= of_small.upper + max(of_large.width, of_small.width) + 1e-12


def test_a_lattice_that_reached_down_to_the_other_atom():
    run = dp.PureDP(0.1) + dp.PureDP(0.2)
    with mpmath.workdps(40):
        for eps in (0.29999, 0.299997, 0.2999997, 0.29999999):
            exact, found = truth(run, mp.mpf(eps)), run.delta(eps)
            assert found.lower <= exact <= found.upper and found.width <= 1e-6 * exact
        run = dp.PoissonSampled(dp.PureDP(1), 0.1) * 3 + dp.PureDP(0.5)
        found = [run.delta(eps, neighbors="remove") for eps in (0.974719541, 0.975694261)]
        for eps, bound in zip((0.974719541, 0.975694261), found, strict=True):
            exact = truth(run, mp.mpf(eps))
            assert bound.lower <= exact <= bound.upper <= exact * (1 + mp.mpf(1e-6))
        assert found[1].upper < found[0].lower


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6, 1e-8])
def test_the_top_of_laws_with_densities(distance):
    """Two Laplace steps: both at their atoms, or one within the distance of it, of density 1/4 e^{(y - 1)/2}."""
    run = dp.Laplace(1.0) * 2
    found = run.delta(2.0 - distance, neighbors="remove")
    with mpmath.workdps(30):
        gap = 2 - mp.mpf(2.0 - distance)
        fall = 1 - mp.exp(-gap)
        one = mp.quad(lambda t: mp.exp(-t / 2) / 4 * (1 - mp.exp(t - gap)), [0, gap])
        least = fall / 4 + one
        assert found.lower <= least * (1 + gap) and least <= found.upper <= least * (1 + gap + 1e-5 + 1e-13 / gap)


@pytest.mark.parametrize(
    ("noise", "q", "steps", "log_delta"),
    [(0.17989466676048377, 2.6462295775939378e-08, 4705329, -42.5), (3.657150656516883, 1.3167e-07, 125, -116.0)],
)
def test_more_steps_lose_no_less_than_one(noise, q, steps, log_delta):
    step = dp.PoissonSampled(dp.Gaussian(noise), q)
    one, all_steps = (run.epsilon(10**log_delta, neighbors="remove") for run in (step * 1, step * steps))
    assert 0 < one.lower <= all_steps.lower
