"""Repeated runs and groups beside other mechanisms (docs/theory/derived.md section 3)."""

import math

import numpy as np
import pytest
from oracle.check import Case
from oracle.widths import too_wide

import tightdp as dp
from tightdp.accounting.pairs.hull import build_dominating_pair

RESPONSE = dp.RandomizedResponse(0.07011458683583001, 4)
GAUSSIAN = dp.Gaussian(2.9595299627131277)
TRUNCATED = dp.TruncatedPoissonSampled(dp.Gaussian(0.6), 0.5, 1, 3)
FAILING = dp.ApproximateDP(0.8, 0.02)
AT = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("relation", ["add", "remove", "add_or_remove"])
def test_a_group_beside_noise_has_a_finite_epsilon(relation):
    """Two records of randomised response have losses of twice the largest at most; Gaussian noise has no end."""
    case = Case(GAUSSIAN * 2 + RESPONSE, relation, 2)
    assert not list(too_wide(case, ""))
    largest = 2 * math.log1p(4 * (1 / RESPONSE.noise_parameter - 1))
    with_it = (GAUSSIAN.group(2) * 2 + dp.PureDP(largest * (1 + 1e-9))).epsilon(1e-3, neighbors=relation)
    assert case.asked.epsilon(1e-3, neighbors=relation).upper <= with_it.upper * (1 + 1e-6)


PARTS = [
    dp.Group(dp.Laplace(1.0) + dp.RandomizedResponse(0.4, 3), 2),
    dp.Group(FAILING, 2),
    dp.Group(TRUNCATED, 2),
    dp.RepeatAndSelect(dp.Gaussian(2.0), 5.0),
    dp.RepeatAndSelect(FAILING, 3.0, "poisson"),
    dp.RepeatAndSelect(dp.Group(FAILING, 2) + dp.Laplace(2.0), 3.0, 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("relation", ["remove", "replace_special"])
def test_beside_what_reveals_next_to_nothing_a_part_is_itself(part, relation):
    alone, beside = part._to_composition(), part + dp.PureDP(1e-9)
    one, other = (run.epsilon(0.05, neighbors=relation).upper for run in (alone, beside))
    assert other == pytest.approx(one, rel=3e-3, abs=1e-3)


DISCRETE = dp.PrivacyLoss.from_distributions([0.7, 0.2, 0.1, 0.0], [0.3, 0.35, 0.3, 0.05], relation="any")
SEVERAL = [
    dp.Group(DISCRETE, 2) * 2,
    dp.Group(dp.RandomizedResponse(0.4, 3), 2) * 2 + dp.Gaussian(2.0),
    dp.RepeatAndSelect(DISCRETE, 3.0) * 2,
    dp.RepeatAndSelect(dp.PureDP(0.7), 4.0, 0.0) + dp.Gaussian(1.0),
    dp.RepeatAndSelect(DISCRETE, 2.0, "poisson") + dp.Group(FAILING, 2),
    dp.Group(TRUNCATED, 2) + dp.Gaussian(1.5),
    dp.Group(dp.Group(DISCRETE, 2) + dp.Laplace(2.0), 2) + dp.Gaussian(1.5),
]


@pytest.mark.parametrize("run", SEVERAL, ids=str)
@pytest.mark.parametrize(
    "relation",
    ["remove", *(pytest.param(one, marks=pytest.mark.slow) for one in ("add", "replace", "replace_special"))],
)
def test_several_parts_are_above_all_enumerated_neighbours(run, relation):
    truth = Case(run, relation).truth
    upper = run.profile(AT, neighbors=relation).upper
    assert (truth.least_delta(AT) <= upper * (1 + 1e-9)).all()
    assert (upper[3:] < 1).all()


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(
    "mechanism", [dp.Laplace(0.7), dp.Gaussian(1.3), dp.PoissonSampled(dp.Laplace(0.5), 0.3)], ids=str
)
def test_the_pair_of_chords_touches_the_points_and_is_above_the_curve_between(mechanism, direction):
    other = {"add": "remove", "remove": "add"}[direction]
    nodes = np.linspace(-5.0, 5.0, 41)
    above = mechanism.profile(nodes, neighbors=direction).upper
    largest = 2.0 if mechanism == dp.PoissonSampled(dp.Laplace(0.5), 0.3) else 1 / 0.7 + 1e-12
    if isinstance(mechanism, dp.Gaussian):
        largest = math.inf
    loss = build_dominating_pair(zip(np.exp(nodes).tolist(), above.tolist(), strict=True), largest, direction)
    assert loss.delta(nodes[3], neighbors=direction).upper == pytest.approx(above[3], rel=1e-9)
    assert loss.profile(nodes, neighbors=direction).upper == pytest.approx(above, rel=1e-6, abs=1e-12)
    between = np.linspace(-5.5, 5.5, 67)
    for asked in (direction, other):
        truth = mechanism.profile(between, neighbors=asked).lower
        assert (loss.profile(between, neighbors=asked).upper >= truth * (1 - 1e-12)).all()


def test_zero_concentrated_noise_beside_a_group_is_finite():
    run = dp.ZCDP(0.1) + dp.Group(dp.RandomizedResponse(0.4, 3), 2)
    assert run.epsilon(1e-5).upper < math.inf


def test_a_group_beside_many_others_leaves_work_for_their_composition():
    """Curves of all parts are found within a share of the question's work."""
    parts = [dp.Group(dp.Laplace(1.0 + i / 10) + FAILING, 2) for i in range(8)]
    run = sum(parts[1:], parts[0] + dp.Gaussian(2.0))
    assert run.delta(30.0, neighbors="add").upper < 1
