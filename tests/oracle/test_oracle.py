"""Every answer against enumerated truth. The fixed cases are the same in every run; hunts draw others.

Needlessly wide answers fail for fixed cases alone: a new draw would fail for widths that were there before.
"""

import inspect

import numpy as np
import pytest

import tightdp as dp
from tightdp.options import NEIGHBORS

from . import cases, fixed, hunt
from .check import Case, Refused, alarms, disagreements, overspent, useless
from .mechanisms import EPSILONS
from .noise import Continuous, laws
from .pairs import Pair
from .samplers import truncated
from .widths import too_wide

HUNT = 8
"""Cases of each kind that a hunt's turn draws."""


def sound(case, curves=False, epsilons=EPSILONS):
    try:
        found = list(alarms(case, curves, epsilons=epsilons))
    except Refused:
        return False
    assert not found, "\n".join(found)
    return True


@pytest.mark.parametrize("case", fixed.CASES, ids=lambda case: str(case)[:120])
def test_no_neighbours_are_above_an_upper_end(case):
    compared = sound(case, epsilons=np.array([-0.7, 0.0, 1.0, 3.0]))
    assert compared != any(refused(part, case.relation) for part, _ in case.parts)
    assert not compared or case.truth.enumerated


def refused(mechanism, relation):
    """Whether the documentation says that there is no answer, from the mechanism's own words."""
    match mechanism:
        case dp.PrivacyLoss():
            return mechanism.relation == ("replace" if relation != "replace" else "add_or_remove")
        case dp.PoissonSampled(dp.PrivacyLoss()):
            return relation == "replace" or mechanism.mechanism.relation == "replace"
        case dp.TreeAggregation():
            return relation == "add_or_remove" and not mechanism.own_steps
        case dp.RandomAllocation(_, steps, selected) if selected == steps:
            return False  # every step sees every record: a composition of the steps
    return (type(mechanism), relation) in fixed.REFUSED


@pytest.mark.parametrize("case", fixed.COMBINED, ids=lambda case: str(case)[:120])
def test_parts_that_are_right_are_right_together(case):
    sound(case, epsilons=np.array([0.0, 1.0]))


@pytest.mark.parametrize(("case", "epsilons"), fixed.WIDE, ids=lambda x: str(x)[:60])
def test_no_answer_is_wider_than_another_shows(case, epsilons):
    assert not list(useless(case, epsilons))


CURVES = [
    Case(dp.PoissonSampled(dp.Gaussian(0.8), 0.3) * 3, "add_or_remove"),
    Case(dp.PoissonSampled(dp.Gaussian(0.8), 0.3) * 3, "replace"),
    Case(dp.RandomizedResponse(0.4, 3) * 2, "replace"),
    Case(fixed.EITHER, "replace"),
    Case(fixed.EVEN, "replace"),
    Case(dp.ApproximateDP(1.0, 0.02), "replace"),
]


@pytest.mark.parametrize("case", CURVES, ids=lambda case: str(case)[:120])
def test_every_curve_is_that_of_the_same_laws(case):
    sound(case, curves=True)
    assert not list(useless(case))
    assert not disagreements(case)
    assert not overspent(case, 3.0, 0.05)


SCALED = [
    (lambda s: dp.PoissonSampled(dp.Gaussian(s), 0.3) * 2, "replace"),
    (lambda s: dp.PoissonSampled(dp.Laplace(s), 0.3), "add_or_remove"),
    (lambda s: dp.RandomAllocation(dp.Gaussian(s), 2), "add_or_remove"),
]


@pytest.mark.parametrize(("scaled", "relation"), SCALED)
def test_calibrated_noise_meets_its_target(scaled, relation):
    found = dp.calibrate(scaled, epsilon=1.0, delta=0.01, neighbors=relation)
    assert Case(scaled(float(found)), relation).truth.least_delta(np.ones(1))[0] <= 0.01


@pytest.mark.parametrize("case", CURVES, ids=lambda case: str(case)[:120])
def test_an_accountant_answers_as_the_run(case):
    account = dp.Accountant()
    for mechanism, count in case.parts:
        account.compose(mechanism, count)
    assert account.delta(1.0, neighbors=case.relation) == case.run.delta(1.0, neighbors=case.relation)
    assert case.truth.least_delta(np.ones(1))[0] <= account.delta(1.0, neighbors=case.relation).upper * (1 + 1e-9)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * (case in fixed.SLOW)) for case in fixed.CASES],
    ids=lambda case: str(case)[:120],
)
def test_no_answer_is_much_wider_than_the_page_states(case):
    names = set(cases.kinds(case.parts))
    if not any(refused(part, case.relation) for part, _ in case.parts):
        assert not list(too_wide(case, names.pop() if len(names) == 1 else ""))


@pytest.mark.parametrize("relation", ["add", "remove"])
def test_fixed_bins_are_the_same_in_every_epoch(relation):
    """Two rounds of two epochs, all four outputs as they are written down: a record is in one bin of both epochs."""
    run = dp.RandomAllocation.fixed_bins(dp.Gaussian(1.2), 2, 2)
    here = {(1.0, 1.0, 0.0, 0.0): 0.5, (0.0, 0.0, 1.0, 1.0): 0.5}
    order = {(0.0,) * 4: 1.0}
    p, q = (here, order) if relation == "remove" else (order, here)
    below = laws(Continuous("normal", 1.2), p, q, EPSILONS)[0]
    assert (below.least(EPSILONS) <= run.profile(EPSILONS, neighbors=relation).upper * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "RepeatAndSelect")) for name in cases.constructors()],
)
def test_what_is_drawn_is_compared(name):
    """Some cases of every public constructor, of which most are neither refused nor without data sets."""
    report = cases.Report()
    for number in range(20):
        case = cases.draw(np.random.default_rng([number, 1]), name, alone=True)
        try:
            found = list(alarms(case, curves=False, patience=1e7, epsilons=EPSILONS[1:5:3]))
        except Refused:
            report.add(case, refused=True)
            continue
        report.add(case)
        assert not found, "\n".join(found)
        if report.cases["compared"] == 2:
            return
    raise AssertionError(f"too few were compared:\n{report}")


def test_every_argument_of_every_constructor_is_drawn(monkeypatch):
    """A new constructor, or a new argument with a default, needs a place in ``cases``."""
    used = {}

    def recorded(name, made):
        def call(*args, **options):
            bound = inspect.signature(made).bind(*args, **options)
            used.setdefault(name, set()).update(
                key for key, value in bound.arguments.items() if not _is_default(made, key, value)
            )
            return made(*args, **options)

        return call

    for name, made in cases.constructors().items():
        owner, _, method = name.rpartition(".")
        if method != name:
            monkeypatch.setattr(getattr(dp, owner), method, recorded(name, made))
        elif not isinstance(made, type):
            monkeypatch.setattr(dp, name, recorded(name, made))
    rng = np.random.default_rng(3)
    for name, made in cases.constructors().items():
        for _ in range(30):
            run = cases.draw(rng, name).run
            for part in (run,) if isinstance(run, dp.Mechanism) else (part for part, _ in run.parts):
                if type(part) is made:
                    values = part._list_parameters() if hasattr(part, "_list_parameters") else {}
                    values = {**values, "optimistic": getattr(part, "optimistic", None)}
                    used.setdefault(name, set()).update(k for k, v in values.items() if not _is_default(made, k, v))
    for name, made in cases.constructors().items():
        wanted = set(inspect.signature(made).parameters)
        assert used.get(name, set()) >= wanted, f"{name}: {wanted - used.get(name, set())} never drawn"


def _is_default(made, key, value):
    parameter = inspect.signature(made).parameters.get(key)
    return parameter is None or (parameter.default is not parameter.empty and value == parameter.default)


@pytest.mark.parametrize("relation", fixed.RELATIONS)
def test_a_banded_factorization_is_its_cyclic_samples(relation):
    """Two bands, three steps, C = 1: a record of the first group may be in the first and the third step."""
    run = dp.banded_factorization(0.8, bands=2, steps=3, sampling_probability=0.3)
    truth = Case(dp.PoissonSampled(dp.Gaussian(0.8), 0.3) * 2, relation).truth
    assert (truth.least_delta(EPSILONS) <= run.profile(EPSILONS, neighbors=relation).upper * (1 + 1e-9)).all()


def test_every_mechanism_is_compared_under_every_relation():
    """A new mechanism needs a place in ``fixed.RUNS``, and what it claims under each relation."""
    seen = {name: set() for name in fixed.RELATIONS}
    for run in fixed.RUNS:
        for relation in fixed.RELATIONS:
            seen[relation] |= {name.split(" of ")[0] for name in cases.kinds(Case(run, relation).parts)}
    for kind in cases.public():
        for relation in fixed.RELATIONS:
            assert kind.__name__ in seen[relation], f"{kind.__name__} has no oracle under {relation}"
    assert {*fixed.RELATIONS, "add", "remove"} == set(NEIGHBORS)
    assert {*cases.PLAIN, *cases.WHOLE, *cases.SAMPLED, dp.Group, dp.RepeatAndSelect} == set(cases.public())


def test_the_oracle_itself():
    """Closed forms: two laws that are known, and the coins of a truncated sample."""
    at = np.array([-1.0, 0.0, 0.5, 2.0])
    below, above = laws(Continuous("normal", 0.5), {(1.0,): 1}, {(0.0,): 1}, at)
    exact = dp.Gaussian(0.5).profile(at)
    assert (below.least(at) <= exact.upper).all() and (below.least(at) >= exact.lower * (1 - 1e-9)).all()
    assert above is not None and (above.most(at) >= exact.lower).all()
    assert sum(p for _, p in truncated(5, 0.3, 2)) == 1
    assert Pair(np.array([0.9, 0.1]), np.array([0.5, 0.5])).least(np.array([0.0]))[0] == pytest.approx(0.4)


def test_a_wide_answer_is_told_apart_from_a_wrong_one(monkeypatch):
    monkeypatch.setattr(hunt, "alarms", lambda case, **_: [f"{case} is wrong"])
    monkeypatch.setattr(hunt, "useless", lambda case: [f"{case} is wide"])
    monkeypatch.setattr(hunt, "too_wide", lambda case, name: [f"{name} is wide"])
    found = list(hunt.checks(Case(dp.Gaussian(1.0), "add"), np.random.default_rng(1)))
    words = [str(complaint).split()[0] for complaint in found]
    assert words == ["ALARM", "WIDE", "WIDE"] and [complaint.wide for complaint in found] == [False, True, True]


@pytest.mark.hunt
@pytest.mark.parametrize("name", [None, *cases.constructors()], ids=lambda name: name or "any")
def test_fresh_draws(name):
    """New cases in every run: a wrong end fails, and one that is needlessly wide is printed."""
    rng, report = np.random.default_rng(), cases.Report()
    while sum(report.cases.values()) < HUNT or report.cases["compared"] < HUNT // 2:
        assert sum(report.cases.values()) < 8 * HUNT, f"too few were compared:\n{report}"
        case = cases.draw(rng, name)
        found = []
        try:
            found = list(hunt.checks(case, rng))
            report.add(case)
        except Refused:
            report.add(case, refused=True)
        report.wide += [complaint.text for complaint in found if complaint.wide]
        wrong = [complaint.text for complaint in found if not complaint.wide]
        assert not wrong, "\n".join(wrong)
    print(report)
