"""All answers about one run are of one curve: none contradicts another one, and none knows much less
(docs/theory/conversions.md section 16)."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp
from tightdp.accounting.pairs.inclusion_probability import inclusion_probability
from tightdp.accounting.pairs.known_curve import KnownCurve

RARE = 1e-4
RUNS = [
    dp.PoissonSampled(dp.DiscreteGaussian(1.0), RARE),
    dp.PoissonSampled(dp.DiscreteGaussian(0.152, 8), 7e-9) * 2,
    dp.PoissonSampled(dp.Laplace(0.005), 1e-8) * 2,
    dp.PoissonSampled(dp.Gaussian(0.5), 1e-3) * 20,
    dp.TruncatedPoissonSampled(dp.Gaussian(0.3), 0.01, 3, 100) * 2,
    dp.PoissonSampled(dp.BoundedRange(2.0), 0.01) * 10,
    dp.PureDP(0.3) * 7,
    dp.Laplace(2.0) * 3 + dp.Gaussian(4.0),
    dp.ZCDP(0.02) * 5,
    dp.RepeatAndSelect(dp.Laplace(1.0), 3.0),
    dp.PoissonSampled(dp.Laplace(0.5), 0.01).group(2),
]
RELATIONS = ["add", "remove", "add_or_remove", "replace"]
MUCH = 1.05
"""Answers that are sharp are within less; those that are wide are cut until they are within this of what is asked."""


def delta_of(atoms: list[tuple[float, float]], epsilon: float) -> float:
    return math.fsum(p * -math.expm1(epsilon - y) for y, p in atoms if y > epsilon)


atoms = st.lists(st.tuples(st.floats(-3.0, 6.0), st.floats(0.01, 1.0)), min_size=1, max_size=5)


@given(atoms, st.lists(st.floats(-4.0, 8.0), min_size=1, max_size=6), st.floats(-4.0, 8.0), st.floats(1e-9, 0.9))
def test_what_follows_from_points_of_a_curve_holds_for_the_curve(
    masses: list[tuple[float, float]], known_at: list[float], epsilon: float, delta: float
) -> None:
    """Of losses y with P-masses p whose Q-masses add up to at most 1: the rest of Q's mass is where P has none."""
    total = math.fsum(p for _, p in masses) * max(1.0, math.exp(max(-y for y, _ in masses)))
    law = [(y, p / total) for y, p in masses]
    law.append((60.0, max(0.0, 1 - math.fsum(p for _, p in law))))
    known = KnownCurve()
    for at in known_at:
        truth = delta_of(law, at)
        known.add(at, truth * (1 - 1e-9), min(truth * (1 + 1e-9), 1.0))
    lower, upper = known.delta(epsilon)
    assert lower * (1 - 1e-9) - 1e-15 <= delta_of(law, epsilon) <= upper * (1 + 1e-9)  # which adds up numbers near 1
    lower, upper = known.epsilon(delta)
    assert delta_of(law, upper + 1e-9) <= delta * (1 + 1e-9)
    assert lower == 0 or delta_of(law, lower - 1e-9) >= delta * (1 - 1e-9)


def test_a_chord_and_its_continuations() -> None:
    known = KnownCurve()
    known.add(0.0, 0.5, 0.5)
    known.add(math.log(2), 0.1, 0.1)
    assert known.delta(math.log(1.5))[1] == pytest.approx(0.3)
    assert known.delta(math.log(1.25))[0] == pytest.approx(0.375)  # from (0, 1): no chord of the right is steeper
    assert known.epsilon(0.3)[1] == pytest.approx(math.log(1.5))
    assert known.delta(math.log(2.25)) == pytest.approx((0.0, 0.1))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(RUNS),
    st.sampled_from(RELATIONS),
    st.lists(st.floats(-2.0, 2.5).map(lambda x: 10**x if x > -2 else 0.0), min_size=2, max_size=3),
    st.lists(st.floats(-30.0, -1.0).map(lambda x: 10**x), min_size=1, max_size=2),
)
def test_no_answer_knows_much_less_than_others_do(run, relation, epsilons, deltas):
    answers = [("delta", at, run.delta(at, neighbors=relation)) for at in epsilons]
    answers += [("epsilon", at, run.epsilon(at, neighbors=relation)) for at in deltas]
    for i, (question, at, found) in enumerate(answers):
        known = KnownCurve()
        for other, there, answer in answers[:i] + answers[i + 1 :]:
            (known.add if other == "delta" else known.add_inverse_to_known_curve)(there, answer.lower, answer.upper)
        lower, upper = getattr(known, question)(at)
        assert found.lower <= upper and lower <= found.upper
        assert found.upper <= MUCH * upper + 1e-300 and lower <= MUCH * found.lower + 1e-300


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1, 1.0, 5.0, 100.0])
@pytest.mark.parametrize(("run", "steps", "q"), [(RUNS[0], 1, RARE), (RUNS[1], 2, 7e-9), (RUNS[2], 2, 1e-8)])
def test_no_delta_exceeds_the_chance_that_the_record_is_looked_at(run, steps, q, epsilon):
    chance = 1 - (1 - Fraction(q)) ** steps
    for relation in ("add", "remove"):
        assert Fraction(run.delta(epsilon, neighbors=relation).upper) <= chance * (1 + Fraction(1, 10**12))


def test_a_trade_off_curve_is_within_the_advantage_of_guessing():
    alphas = [0.1, 0.2, 0.5]
    found = RUNS[1].tradeoff(alphas, neighbors="remove")
    assert all(lower >= 1 - alpha - 1.5e-8 for lower, alpha in zip(found.lower, alphas, strict=True))


def test_the_chance_of_being_looked_at():
    inner, least = dp.Laplace(1.0), 1e-3
    assert inclusion_probability(((inner, 3),)) == 1.0
    assert inclusion_probability(((dp.FixedSizeSampled(inner, 3, 3000), 1),)) == pytest.approx(least)
    assert inclusion_probability(((dp.TruncatedPoissonSampled(inner, least, 2, 50), 2),)) == pytest.approx(
        2 * least, rel=1e-3
    )
    assert inclusion_probability(((dp.MixtureOfGaussians(1.0, (0.0, 1.0), (1 - least, least)), 1),)) == pytest.approx(
        least
    )
    assert inclusion_probability(((dp.SampledWithReplacement(dp.Gaussian(1.0), 1, 1000), 1),)) == pytest.approx(least)
    assert inclusion_probability(((dp.RepeatAndSelect(dp.PoissonSampled(inner, least), 2.0), 1),)) == pytest.approx(
        2 * least
    )
    assert inclusion_probability(((dp.PoissonSampled(inner, least), 1), (inner, 1))) == 1.0


POSITIVE = [
    dp.Gaussian(1.0),
    dp.DiscreteGaussian(1.0),
    dp.ZCDP(0.1),
    dp.PoissonSampled(dp.Gaussian(1.0), 0.01),
    dp.PoissonSampled(dp.DiscreteGaussian(1.0), 0.01),
    dp.TruncatedPoissonSampled(dp.DiscreteGaussian(1.0), 0.01, 2, 50),
    dp.DiscreteGaussianVector(1.0, 1.0, 3),
    dp.MixtureOfGaussians(1.0, (1.0, 2.0), (0.5, 0.5)),
    dp.RandomAllocation(dp.Gaussian(1.0), 5),
    dp.RepeatAndSelect(dp.Gaussian(1.0), 2.0),
    dp.Gaussian(1.0).group(3),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mechanism", POSITIVE, ids=repr)
def test_no_upper_end_is_zero_unless_the_truth_is(mechanism, count):
    """Losses without an end: however large epsilon is, some outputs exceed it."""
    run = mechanism * count
    assert run.delta(400.0).upper > 0
    assert run.delta(1e6).upper > 0
    assert run.profile([400.0, 1e6]).upper.min() > 0
    assert run.bayes_risk([5e-324, 1e-320]).upper.min() > 0


@pytest.mark.parametrize(
    ("run", "largest"),
    [
        (dp.PureDP(1.0) * 2, 2.0),
        (dp.Laplace(2.0), 0.5),
        (dp.DiscreteLaplace(1.0, 2) * 2, 4.0),
        (dp.BoundedRange(1.0), 1.0),
    ],
    ids=repr,
)
def test_an_upper_end_is_zero_from_the_largest_loss_on(run, largest):
    assert run.delta(largest * (1 + 1e-12)).upper == 0.0
    assert run.delta(largest - 1e-9).upper > 0
