"""Samples of fixed size under "replace" (docs/theory/grid.md section 6.2): what the pair bounds, what attains it."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp
from tightdp.accounting.engines.grid import engine as grid
from tightdp.accounting.pairs.neighbors import translate_parts_to_replacement


def delta(run, at, width=1e-6):
    request = grid.DEFAULT.__class__(width=width)
    return grid.ENGINE.delta(translate_parts_to_replacement(run._to_composition().parts), "remove", at, request)


def hockey_stick(p, q, at):
    return math.fsum(max(x - math.exp(at) * y, 0.0) for x, y in zip(p, q, strict=True))


def mixture(tables, records, size):
    """Law of the output on a uniformly random subset of ``size`` of the records."""
    subsets = list(itertools.combinations(records, size))
    return sum(tables[tuple(sorted(s))] for s in subsets) / len(subsets)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 5), st.integers(1, 3), st.floats(0.1, 3.0))
def test_it_bounds_every_mechanism_of_its_class(seed, total, size, epsilon):
    """A table of output laws, one a batch, any two within epsilon of each other; data sets differ in one record."""
    size = min(size, total - 1)
    draw = np.random.default_rng(seed)
    kinds = range(total + 1)
    tables = {}
    for batch in itertools.combinations_with_replacement(kinds, size):
        law = np.exp(draw.choice([-1.0, 0.0, 1.0], size=4) * epsilon / 4)  # the norm varies as much again
        tables[batch] = law / law.sum()
    others = list(draw.integers(0, total - 1, size=total - 1))
    one, other = (mixture(tables, [*others, kind], size) for kind in (total - 1, total))
    run = dp.FixedSizeSampled(dp.BoundedRange(epsilon), size, total)  # "replace" doubles it: losses within epsilon
    for at in (-0.3, 0.0, 0.05, 0.2, 0.7):
        bound = delta(run, at).upper * (1 + 1e-12)
        assert hockey_stick(one, other, at) <= bound and hockey_stick(other, one, at) <= bound


@pytest.mark.parametrize("at", [0.6, *(pytest.param(at, marks=pytest.mark.slow) for at in (-0.5, -0.1, 0.0, 0.1, 1.4))])
def test_data_sets_that_attain_it_once(at):
    """All other records like one of the two: the output is a mixture of N(0, s^2) and N(2, s^2), by quadrature."""
    sigma, q = 1.1, mp.mpf(3) / 40
    with mp.workdps(30):
        x = mp.exp(at)

        def density(z, shift):
            return mp.npdf(z, shift, sigma)

        def integral(first, second):
            edges = [mp.mpf(-14) + mp.mpf(i) / 2 for i in range(61)]
            return mp.quad(lambda z: max(first(z) - x * second(z), 0), edges)

        def mixed(z):
            return (1 - q) * density(z, 0) + q * density(z, 2)

        def plain(z):
            return density(z, 0)

        truth = max(integral(mixed, plain), integral(plain, mixed))
        bound = delta(dp.FixedSizeSampled(dp.Gaussian(sigma), 3, 40), at)
        assert abs(bound.upper - truth) <= 1e-5 * truth + 1e-5 * abs(bound.upper - bound.lower) + 1e-6 * truth
        assert bound.lower <= truth * (1 + mp.mpf(10) ** -5)


@pytest.mark.parametrize("epsilon", [0.4, 1.7])
def test_twice_by_all_outcomes(epsilon):
    """Two steps of the dominating law, and of either pair that is attained, from their atoms."""
    inner, grown = dp.PureDP(epsilon), math.exp(epsilon)
    size, total = 2, 10
    q = size / total
    base = {2 * epsilon: grown, 0.0: 1 - 1 / grown, -2 * epsilon: 1 / grown}
    base = {y: p / (1 + grown) for y, p in base.items()}  # P; Q is the mirror image
    removed = {math.log1p(q * math.expm1(y)): p * (q + (1 - q) * math.exp(-y)) for y, p in base.items()}
    added = {-math.log1p(q * math.expm1(-y)): p for y, p in base.items()}
    # The dominating law: the right half of the first, mirrored, and the rest at 0.
    up, right = max(removed), removed[max(removed)]
    envelope = {up: right, -up: right * math.exp(-up), 0.0: 1 - right * (1 + math.exp(-up))}

    def curve(law, at):
        pairs = itertools.product(law.items(), repeat=2)
        return math.fsum(v * w * max(-math.expm1(at - x - y), 0.0) for (x, v), (y, w) in pairs)

    for at in (0.0, 0.03, 0.1, 0.25):
        found = delta(dp.FixedSizeSampled(inner, size, total) * 2, at, 1e-8)
        assert found.upper == pytest.approx(curve(envelope, at), rel=1e-6)
        attained = max(curve(removed, at), curve(added, at))
        assert found.lower == pytest.approx(attained, rel=1e-6)
        assert found.lower <= found.upper


@settings(max_examples=10, deadline=None)
@given(st.floats(0.5, 5.0), st.integers(1, 30), st.integers(1, 6))
def test_it_lies_between_the_sampled_pairs_and_the_mechanism(sigma, size, count):
    run = dp.FixedSizeSampled(dp.Gaussian(sigma), size, 40) * count
    bound = delta(run, 0.4, 1e-4)
    whole = (dp.Gaussian(sigma) * count).delta(0.4, neighbors="replace")
    assert 0 <= bound.lower <= bound.upper and bound.lower <= whole.upper
    sampled = (dp.PoissonSampled(dp.Gaussian(sigma / 2), size / 40) * count).delta(0.4)
    assert sampled.lower <= bound.upper * (1 + 1e-9)


def test_a_sample_of_all_is_the_mechanism():
    inner = dp.Laplace(2.0)
    assert dp.FixedSizeSampled(inner, 7, 7).delta(0.5, neighbors="replace") == inner.delta(0.5, neighbors="replace")
