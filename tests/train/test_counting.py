"""The number of records as a release: what it costs, and that nothing else reads it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tightdp as dp
from tightdp import audit
from tightdp.algorithms.building_blocks.algorithm import check_algorithm_release_count
from tightdp.algorithms.record_count import FREED, SHARE, _divide_algorithm_target, check_algorithm_for_record_counts
from tightdp.models.linear import Logistic
from tightdp.models.model_records import Records
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    SGD,
    AdaCliP,
    AlgorithmPlan,
    FixedPlan,
    LinearModel,
    LogisticRegression,
    NoisyGD,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Query,
    Target,
    fit,
)

ALGORITHMS = {
    "NoisyGD": NoisyGD(),
    "NoisyGD, own noise": NoisyGD(steps=5, noise_multiplier=4.0),
    "DPSGD": DPSGD(epochs=0.2),
    "DPSGD, own noise": DPSGD(epochs=0.2, noise_multiplier=2.0, center=0.1),
    "DPSGD, batch": DPSGD(5.0, 1.0),
    "AdaCliP": AdaCliP(epochs=0.2),
    "AdaCliP, one step": AdaCliP(epochs=0.02),
    "AdaCliP, batch": AdaCliP(5.0, 1.0),
    "DPAGD": DPAGD(selections=4),
    "DPAGD, batch": DPAGD(selections=4, batch_size=10.0),
    "DPIS": DPIS(epochs=1),
    "DPIS, released norms": DPIS(5.0, 2, norm_share=None, norm_noise=5.0),
    "DPIS, adaptive": DPIS(5.0, 2, adapt=1.0, norm_noise=30.0),
    "OutputPerturbation": OutputPerturbation(),
    "ObjectivePerturbation": ObjectivePerturbation(),
}
FEATURES = 30


def rows(n):
    """Records of two kinds, and behind the first 40 nothing but zeros."""
    X = np.zeros((n, FEATURES))
    X[:20, 0], X[20:40, 1] = 1, 1
    return X, (np.arange(n) < 20).astype(np.intp)


def run(name, n, seed=0, **more):
    algorithm = ALGORITHMS[name]
    own = getattr(algorithm, "noise_multiplier", None) is not None
    model = LinearModel(FEATURES, Logistic(), intercept=False)
    target = {"delta": 1e-5} if own else {"epsilon": 2.0, "delta": 1e-5}
    return fit(model, *rows(n), algorithm, regularization=0.1, random_state=seed, **target, **more)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_count_is_charged_and_the_target_met(name):
    found = run(name, 60)
    assert isinstance(found.history[0], dp.Gaussian) and dict(found.charged.parts)
    assert found.privacy == found.charged.epsilon(1e-5)
    if "own" not in name:
        assert 1.999 < found.privacy.upper <= 2.0
    assert abs(found.size - 60) < 6 * found.history[0].noise_multiplier


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_but_the_count_reads_the_number_of_records(name, monkeypatch):
    """With the same released count, a record of zeros more changes no bit of the model."""

    sixty = Query((1,), 1.0, 1.0, 1.0, lambda source: np.array([60]))
    monkeypatch.setattr(Oracle, "record_count_query", lambda self: sixty)
    one, other = run(name, 60), run(name, 61)
    assert one.size == other.size and one.charged == other.charged and one.history == other.history
    # From AdaCliP's second step on, a row of zeros is off the centre and pulls, by no more than any record may.
    if not isinstance(ALGORITHMS[name], AdaCliP) or name == "AdaCliP, one step":
        np.testing.assert_array_equal(one.parameters, other.parameters)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if getattr(ALGORITHMS[name], "cost_is_public", False)])
def test_a_public_cost_is_the_same_for_every_number_of_records(name):
    algorithm, model = ALGORITHMS[name], LinearModel(FEATURES, Logistic(), intercept=False)
    target = Target(None if getattr(algorithm, "noise_multiplier", None) else 2.0, 1e-5)
    seen = []
    for n in (1, 3, 7, 60, 10**3, 10**6, 10**9 + 7):
        parts = algorithm.plan(Public(n, FEATURES, 0.1, model), target).budget.charge().parts
        gaussians = math.fsum(k / m.noise_multiplier**2 for m, k in parts if isinstance(m, dp.Gaussian))
        seen.append((gaussians, {m: k for m, k in parts if not isinstance(m, dp.Gaussian)}))
    assert all(others == seen[0][1] for _, others in seen)
    assert all(total == pytest.approx(seen[0][0], rel=1e-8) for total, _ in seen)


def test_the_account_by_hand():
    found = run("NoisyGD", 60)
    whole = dp.calibrate(dp.Gaussian, epsilon=2.0, delta=1e-5)
    count = found.history[0].noise_multiplier
    assert count == pytest.approx(whole / math.sqrt(SHARE * (1 - FREED)), rel=1e-6)
    total = math.fsum(1 / m.noise_multiplier**2 for m in found.history)
    assert total == pytest.approx(whole**-2, rel=2e-5) and total <= whole**-2
    plain = run("DPSGD, batch", 60)
    assert plain.charged == plain.history[0] + dp.ApproximateDP(0.98 * 2.0, 0.98 * 1e-5)


class Deceiver:
    """Claims a public cost and lowers its noise where there are few records."""

    cost_is_public = True

    def plan(self, public, target):
        noise = 2.0 if public.records > 1000 else 1.0
        query_noise = dp.Gaussian(noise)
        return AlgorithmPlan(
            FixedPlan(query_noise),
            lambda oracle, gate, w: gate.release_gaussian(oracle.record_count_query(), noise).value,
        )


def test_a_plan_is_held_to_the_cost_it_claims():
    X, y = rows(60)
    model = LinearModel(FEATURES, Logistic(), intercept=False)
    with pytest.raises(dp.BudgetExceeded):
        fit(model, X, y, Deceiver(), delta=1e-5, random_state=0)


class Wasteful:
    """Plans for more than it was given."""

    def plan(self, public, target):
        noise = dp.calibrate(dp.Gaussian, epsilon=2 * target.epsilon, delta=target.delta)
        return AlgorithmPlan(FixedPlan(dp.Gaussian(noise)), lambda oracle, gate, w: w)


def test_a_plan_beyond_its_target_is_refused():
    X, y = rows(60)
    with pytest.raises(ValueError, match="within its target"):
        fit(LinearModel(FEATURES, Logistic(), intercept=False), X, y, Wasteful(), epsilon=1.0, delta=1e-5)


def test_a_cost_that_depends_on_the_number_needs_a_public_one():
    X, y = rows(60)
    with pytest.raises(ValueError, match="public_size must be given"):
        LogisticRegression(DPSGD(5.0, 1.0, noise_multiplier=2.0), delta=1e-5).fit(X, y)


class Zeros:
    """Records of zeros: the minimum is 0 and the released vector is noise alone, whose scale follows the number of
    records that the run goes by."""

    def __init__(self, algorithm, public):
        self.algorithm, self.public, self.seed = algorithm, public, 0

    def __call__(self, inside):
        n = 20 + inside
        self.seed += 1
        size = 5000
        epsilon = None if getattr(self.algorithm, "noise_multiplier", None) else 1.0
        settings = {"epsilon": epsilon, "delta": 1e-2, "regularization": 1.0, "random_state": self.seed}
        model = LinearModel(size, Logistic(), intercept=False)
        X, y = np.zeros((n, size)), np.zeros(n, np.intp)
        found = fit(model, X, y, self.algorithm, public_size=n if self.public else None, **settings)
        self.charged = found.charged
        return -float(np.linalg.norm(found.parameters))


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    [
        OutputPerturbation(),
        NoisyGD(steps=2, average=0.0, learning_rate=1.0, momentum=0.0),
    ],
)
@pytest.mark.parametrize("leaks", [False, True])
def test_an_observer_learns_no_more_of_the_number_than_is_charged(algorithm, leaks):
    """20 records of zeros against 21. The control declares the true number public: its noise gives it away."""
    evidence = audit.paired(*audit.run_pairs(Zeros(algorithm, leaks), 250), confidence=1 - 1e-6)
    claim = dp.Gaussian(float(dp.calibrate(dp.Gaussian, epsilon=1.0, delta=1e-2)))
    assert evidence.excludes(claim) == leaks


@pytest.mark.slow
@pytest.mark.parametrize("leaks", [False, True])
def test_an_observer_learns_no_more_from_steps_whose_scale_follows_from_releases(leaks):
    """As above. From the second step on, records of zeros are off AdaCliP's centre, and the record more pulls too."""
    steps = AdaCliP(epochs=0.1, noise_multiplier=2.0, optimizer=SGD(0.5), average=0.0)
    run = Zeros(steps, leaks)
    evidence = audit.paired(*audit.run_pairs(run, 250), confidence=1 - 1e-6)
    assert sum(k for m, k in run.charged.parts if isinstance(m, dp.PoissonSampled)) == 5
    assert evidence.excludes(run.charged) == leaks


@pytest.mark.parametrize(
    ("algorithm", "more", "message"),
    [
        (AdaCliP(5.0, noise_multiplier=1.0), {}, "exclude each other"),
        (AdaCliP(5.0, optimizer=SGD(100.0)), {"regularization": 1.0}, "^optimizer must have a learning rate below"),
    ],
)
def test_settings_that_no_number_of_records_mends_are_refused_before_the_count(algorithm, more, message):
    released = []
    model = LinearModel(FEATURES, Logistic(), intercept=False)
    with pytest.raises(ValueError, match=message):
        fit(model, *rows(60), algorithm, epsilon=1.0, delta=1e-5, callback=lambda *now: released.append(now), **more)
    assert not released


class Choosy:
    """Has plans for some numbers of records alone."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def plan(self, public, target):
        if public.records not in self.numbers:
            raise ValueError(f"{public.records} records are not among {self.numbers}")
        noise = dp.calibrate(dp.Gaussian, epsilon=target.epsilon, delta=target.delta)
        return AlgorithmPlan(
            FixedPlan(dp.Gaussian(noise)),
            lambda oracle, gate, w: gate.release_gaussian(oracle.record_count_query(), noise).value,
        )


@pytest.mark.parametrize(("numbers", "charged"), [((10**6,), []), ((1,), []), ((1, 10**6), [1])])
def test_a_number_of_records_without_a_plan_asks_for_a_public_one(numbers, charged):
    """Before the count is charged, where it is one of those that are tried."""
    model, released = LinearModel(FEATURES, Logistic(), intercept=False), []
    more = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0, "callback": lambda done, total: released.append(done)}
    with pytest.raises(ValueError, match="records are not among"):
        fit(model, *rows(60), Choosy(*numbers), **more)
    assert released == charged


PLANNED_FOR_ANY_NUMBER = {
    "adaptive": DPIS(epochs=3, adapt=1.0),
    "released norms": DPIS(epochs=3, norm_share=None),
    "both": DPIS(40.0, 3, norm_share=None, adapt=1.0),
    "own noise of norms": DPIS(40.0, 2, norm_share=None, norm_noise=200.0),
    "tiny batch, released norms": DPIS(1e-3, 3, norm_share=None),
    "DPIS, tiny batch": DPIS(1e-3, 3),
    "DPSGD, tiny batch": DPSGD(1e-3, 3),
    "AdaCliP, tiny batch": AdaCliP(1e-3, 3),
}


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        pytest.param(name, e, marks=[pytest.mark.slow] * ("tiny" in name or name == "both" or e == 1.0))
        for name in PLANNED_FOR_ANY_NUMBER
        for e in ((1.0,) if "tiny" in name else (0.1, 1.0, 10.0))
    ],
)
def test_any_number_of_records_has_a_plan(name, epsilon):
    algorithm, facts = PLANNED_FOR_ANY_NUMBER[name], Public(0, FEATURES)
    model = LinearModel(FEATURES, Logistic(), intercept=False)
    nothing = Oracle(model, Records(np.zeros((0, FEATURES)), np.zeros(0)), facts)
    target = _divide_algorithm_target(algorithm, facts, Target(epsilon, 1e-5))[0].target
    check_algorithm_for_record_counts(algorithm, facts, target, nothing)
    for records in (10, 1000, 10**6):
        plan = algorithm.plan(Public(records, FEATURES), target)
        check_algorithm_release_count(plan)
        assert plan.budget.charge().epsilon(target.delta).upper <= target.epsilon


@pytest.mark.parametrize("epsilon", [0.1, 10.0])
@pytest.mark.parametrize("name", ["adaptive", "released norms", "both"])
@pytest.mark.parametrize("number", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_count_that_is_charged_is_followed_by_a_run(name, epsilon, number, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l", dataset="d", epsilon=2 * epsilon, delta=1e-4, failure=5e-5)
    clf = LogisticRegression(
        PLANNED_FOR_ANY_NUMBER[name], epsilon=epsilon, delta=1e-5, classes=[0, 1], ledger=ledger, random_state=0
    )
    assert np.isfinite(clf.fit(*rows(number)).coef_).all() and clf.privacy_.upper <= epsilon
