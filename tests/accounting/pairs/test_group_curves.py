"""The answers about a group are one function: it falls, is convex in e^epsilon, and its inverse is what epsilon says
(docs/theory/derived.md section 2)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp

SAME = 1e-9
"""Relative: the sums of a thousand links round by less."""
TINY = 1e-300
RUNS = [
    dp.RandomizedResponse(0.15399584609414538, 3).group(2),
    dp.RandomizedResponse(0.4299525849852942, 3).group(4),
    dp.Group(dp.PoissonSampled(dp.ApproximateDP(0.47761954058289724, 0.004016080037440937), 0.3190820820537717), 3),
    dp.Group(dp.PoissonSampled(dp.Laplace(0.7), 0.2) * 3, 2),
    dp.Group(dp.PoissonSampled(dp.Gaussian(0.8), 0.05) * 20 + dp.Laplace(3.0), 3),
    dp.TruncatedPoissonSampled(dp.Gaussian(0.6), 0.3, 2, 6).group(3),
    dp.RepeatAndSelect(dp.ZCDP(2.0), 2.0, -0.5).group(3),
    dp.Group(dp.PureDP(0.3) * 7 + dp.DiscreteLaplace(2.0), 5),
    dp.Group(dp.PoissonSampled(dp.Laplace(0.5), 0.01), 2),
]
RELATIONS = ["add", "remove", "add_or_remove", "replace"]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(RUNS),
    st.sampled_from(RELATIONS),
    st.lists(st.floats(-3.0, 9.0), min_size=3, max_size=3),
    st.floats(-12.0, -0.05).map(lambda x: 10**x),
)
def test_the_answers_about_a_group_are_one_convex_function(run, relation, epsilons, delta):
    points = [(e, run.delta(e, neighbors=relation).upper) for e in sorted(epsilons)]
    inverse = run.epsilon(delta, neighbors=relation).upper
    if inverse < 50:
        points.append((inverse, run.delta(inverse, neighbors=relation).upper))
        assert points[-1][1] <= delta * (1 + SAME)
        assert inverse == 0 or run.delta(inverse * (1 - 1e-6) - 1e-7, neighbors=relation).upper > delta * (1 - SAME)
    points.sort()
    for (_, before), (_, after) in itertools.pairwise(points):
        assert after <= before * (1 + SAME)
    for (a, high), (b, between), (c, low) in zip(points[:-2], points[1:-1], points[2:], strict=True):
        share = math.expm1(b - a) / math.expm1(c - a) if c > a else 0.0
        assert between <= (high + share * (low - high)) * (1 + SAME) + TINY


SELECTIONS = [
    dp.RepeatAndSelect(dp.DiscreteLaplace(scale=2.9, sensitivity=3), mean=2.8, shape=0.0),
    dp.RepeatAndSelect(dp.BoundedRange(1.8), mean=3.9, shape=0.0),
    dp.RepeatAndSelect(dp.PoissonSampled(dp.Gaussian(1.0), 0.1) * 30, mean=10.0, shape=1.0),
    dp.RepeatAndSelect(dp.Gaussian(2.0), mean=5.0, shape="poisson"),
]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(SELECTIONS),
    st.sampled_from(["add", "remove", "add_or_remove"]),
    st.lists(st.floats(-3.0, 4.0), min_size=3, max_size=3),
)
def test_the_answers_about_a_selection_are_convex_where_they_are_wide(run, relation, epsilons):
    """Narrow ones, within 1e-3 of the truth, are left as they are."""
    a, b, c = sorted(epsilons)
    high, between, low = (run.delta(e, neighbors=relation).upper for e in (a, b, c))
    assert between <= high * 1.001 and low <= between * 1.001
    share = math.expm1(b - a) / math.expm1(c - a) if c > a else 0.0
    assert between <= (high + share * (low - high)) * 1.001 + TINY


def test_a_curve_with_kinks_has_them():
    """Two records of a randomised response: the truth of the class, by two lines at the loss and at its reverse."""
    loss = math.log1p(0.5 / (0.5 / 3))
    run = dp.RandomizedResponse(0.5, 3)
    chain = run.delta(-loss).upper  # of slope e^-loss, after one of slope e^loss and height 0
    assert run.group(2).delta(0.0).upper <= chain * (1 + SAME)


@pytest.mark.parametrize("relation", [*RELATIONS, "replace_special"])
@pytest.mark.parametrize(
    "run", [dp.PoissonSampled(dp.DiscreteGaussian(0.1), 0.4) * 2, dp.PoissonSampled(dp.Laplace(0.01), 1e-3)]
)
def test_a_group_of_which_none_is_drawn_is_not_seen(run, relation):
    q, count = (0.4, 2) if len(run._to_composition()) == 2 else (1e-3, 1)
    assert run.group(3).delta(0.0, neighbors=relation).upper <= (1 - (1 - q) ** (3 * count)) * (1 + 1e-9)


@pytest.mark.slow
def test_what_is_bounded_is_answered():
    bound = dp.RepeatAndSelect(dp.ZCDP(2.0), 2.0, -0.5).group(3).gdp(1e-4)
    assert bound.upper < 11
