"""Nested parameters, runs that continue one another, and regression by gradients."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

import tightdp as dp
from tightdp.estimators.shared.continued_account import combine_estimator_fit_charges
from tightdp.train import (
    DPAGD,
    DPSGD,
    AdaCliP,
    Adam,
    ArrayBlocks,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    OutputPerturbation,
    SGDRegressor,
)

TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
LOUD = NoisyGD(noise_multiplier=1e-8, steps=1, max_norm=50.0, center=0, learning_rate=0.5)
"""Next to no noise and no clipping: sums over records, to nine digits."""


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(1)
    y = g.integers(0, 2, 900)
    return g.normal(size=(900, 3)) + y[:, None], y


def test_nested_parameters_reach_an_algorithm_and_its_optimizer():
    clf = LogisticRegression(DPSGD(optimizer=Adam()), **TARGET)
    params = clf.get_params()
    assert params["algorithm__max_norm"] == 1.0 and params["algorithm__optimizer__beta1"] == 0.9
    assert not any("__" in name for name in clf.get_params(deep=False))
    old = clf.algorithm
    clf.set_params(algorithm__max_norm=2, algorithm__optimizer__learning_rate=0.5, epsilon=3.0)
    assert clf.algorithm == DPSGD(max_norm=2.0, optimizer=Adam(0.5)) and clf.epsilon == 3.0
    assert old == DPSGD(optimizer=Adam())  # algorithms are values
    assert clone(clf).get_params() == clf.get_params()
    assert clf.set_params(algorithm=NoisyGD(), algorithm__steps=7).algorithm == NoisyGD(steps=7)
    assert LogisticRegression(**TARGET).set_params(algorithm__steps=9).algorithm == NoisyGD(steps=9)
    assert MLPClassifier(**TARGET).set_params(algorithm__epochs=3).algorithm == DPSGD(epochs=3)
    for grid in ParameterGrid({"algorithm__max_norm": [0.5, 1.0], "regularization": [0.0, 0.1]}):
        assert clone(clf).set_params(**grid).algorithm.max_norm == grid["algorithm__max_norm"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("algorithm__foo", "algorithm has no setting 'foo': DPSGD has batch_size"),
        ("algorithm__optimizer__foo", "algorithm__optimizer has no setting 'foo': Adam has learning_rate"),
        ("epsilon__x", "epsilon must have settings of its own"),
        ("foo__x", "'foo' is not a parameter"),
        ("algorithm__max_norm", "max_norm must be"),
    ],
)
def test_bad_nested_parameters_are_refused_and_nothing_is_set(name, message):
    clf = LogisticRegression(DPSGD(optimizer=Adam()), **TARGET)
    with pytest.raises(ValueError, match=message):
        clf.set_params(epsilon=7.0, **{name: -1})
    assert clf.epsilon == 1.0 and clf.algorithm == DPSGD(optimizer=Adam())


def test_runs_on_the_same_records_add_up_and_on_disjoint_ones_do_not(table):
    X, y = table
    clf = LogisticRegression(NoisyGD(steps=4), **TARGET)
    clf.partial_fit(X[:300], y[:300], classes=[0, 1])
    once, one = clf.charged_, clf.privacy_
    clf.partial_fit(X[300:600], y[300:600], disjoint=True)
    assert clf.charged_ == once and clf.privacy_ == one and len(clf.history_) == 2 * 6
    clf.partial_fit(X[600:], y[600:])
    assert clf.charged_ == once * 2 and clf.privacy_ == (once * 2).epsilon(1e-5)
    public = clf.statement_.to_dict()["public"]
    assert public["runs"].startswith("3, ") and "1 on records that no earlier one has seen" in public["runs"]
    assert clf.fit(X, y).charged_ == once and "runs" not in clf.statement_.to_dict()["public"]


def test_the_statement_tells_what_every_run_released_and_assumed(table, tmp_path):
    X, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="clinics")
    clf = LogisticRegression(NoisyGD(steps=2), **TARGET, bounds=(-9, 9), ledger=ledger).partial_fit(X, y)
    first = clf.statement_
    clf.set_params(random_state=None, ledger=None, public_size=900, algorithm=NoisyGD(steps=5)).partial_fit(X, y)
    last = clf.statement_
    assert last.released == first.released and last.seeded and last.ledger == first.ledger
    assert last.public["number of records"] == "private, and a noisy count was released; given: 900"
    assert last.public["bounds of the features"] == first.public["bounds of the features"]
    assert "steps=2" in last.subject and "steps=5" in last.subject and last.taken == ("labels",)
    assert last.charged == clf.charged_ and last.public["runs"].startswith("2, ")
    clf.partial_fit(X, y)
    assert clf.statement_.subject == last.subject
    clf.set_params(public_size=None).partial_fit(X, y)
    assert set(last.released) < set(clf.statement_.released)  # another noisy number of records
    assert "runs" not in clf.fit(X, y).statement_.public and not clf.statement_.seeded


@pytest.mark.parametrize("bounds", [(-9, 10), None, ([-9.0, -9.0, -8.0], 9)])
def test_other_bounds_are_refused_where_a_run_goes_on(table, bounds):
    X, y = table
    for given, settings in ((LogisticRegression, {}), (SGDRegressor, {"target_bounds": (0, 1)})):
        clf = given(NoisyGD(steps=2), **TARGET, bounds=([-9, -9, -9], 9), **settings).partial_fit(X, y)
        clf.set_params(bounds=(-9.0, 9.0)).partial_fit(X, y)  # the same ones
        charged = clf.charged_
        for more in ((X, y), (ArrayBlocks(X, y),)):
            with pytest.raises(ValueError, match=r"^bounds must be those of the last fit"):
                clf.set_params(bounds=bounds).partial_fit(*more)
        assert clf.charged_ == charged and (clf.bounds_[0] == -9).all()
    with pytest.raises(ValueError, match=r"^target_bounds must be those of the last fit"):
        clf.set_params(bounds=(-9, 9), target_bounds=(0, 2)).partial_fit(X, y)


@pytest.mark.parametrize(
    ("first", "then"),
    [([0, 1], "learn"), ("learn", [0, 1]), ("learn", None), ([0, 1], None), ([0, 1], [0, 1, 2]), ([0, 1], ["0", "1"])],
)
def test_other_classes_are_refused_where_a_run_goes_on(table, first, then, tmp_path):
    X, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-4, dataset="test", failure=5e-5)
    clf = LogisticRegression(NoisyGD(steps=2), **TARGET, classes=first, warm_start=True, ledger=ledger).fit(X, y)
    clf.fit(X, y)
    paid = len(ledger.history)
    for given in ((X, y), (ArrayBlocks(X, y),)):
        with pytest.raises(ValueError, match=r"^classes must be those of the last fit where a run goes on"):
            clf.set_params(classes=then).fit(*given)
    assert len(ledger.history) == paid == 2
    clf.set_params(classes=first[::-1] if isinstance(first, list) else first).fit(X, y)


def test_classes_of_a_call_stay_where_later_calls_name_none(table):
    X, y = table
    clf = LogisticRegression(NoisyGD(steps=2), **TARGET).partial_fit(X, y, classes=[0, 1, 2])
    assert clf.partial_fit(X, y).partial_fit(X, y, classes=[2, 1, 0]).classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^classes must be those of the last fit"):
        clf.partial_fit(X, y, classes="learn")


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (LogisticRegression(), "fit_intercept", False),
        (LinearSVC(huber=0.1), "huber", 0.5),
        (MLPClassifier(hidden_layer_sizes=[3]), "hidden_layer_sizes", (4,)),
        (MLPClassifier(hidden_layer_sizes=(3, 2)), "hidden_layer_sizes", (3,)),
        (MLPClassifier(hidden_layer_sizes=(3,)), "activation", "tanh"),
        (SGDRegressor(target_bounds=(0, 1)), "fit_intercept", False),
    ],
)
def test_another_model_is_refused_where_a_run_goes_on(table, made, name, value):
    clf = clone(made).set_params(algorithm=DPSGD(epochs=1), **TARGET).partial_fit(*table)
    charged, old = clf.charged_, getattr(clf, name)
    with pytest.raises(ValueError, match=f"^{name} must be that of the last fit where a run goes on"):
        clf.set_params(**{name: value}).partial_fit(*table)
    assert clf.charged_ == charged
    clf.set_params(**{name: old}).partial_fit(*table)
    assert clf.set_params(**{name: value}).fit(*table).charged_ == charged


def test_different_charges_of_disjoint_runs_are_covered_by_what_holds_both():
    a, b = dp.Gaussian(2.0) * 3 + dp.Gaussian(5.0), dp.Gaussian(2.0) + dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 9
    both = combine_estimator_fit_charges(a, b)
    assert (
        both
        == combine_estimator_fit_charges(b, a)
        == dp.Gaussian(2.0) * 3 + dp.Gaussian(5.0) + dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 9
    )
    assert combine_estimator_fit_charges(a, a) == a
    for epsilon in (0.1, 1.0, 3.0):
        assert both.delta(epsilon).upper >= max(a.delta(epsilon).upper, b.delta(epsilon).upper)


@pytest.mark.parametrize("center", [0.0, 0.05])
def test_a_warm_start_goes_on_from_the_last_parameters(table, center):
    """Two runs of one step each, without noise, are one of two steps without momentum."""
    X, y = table
    step = {"noise_multiplier": 1e-5, "learning_rate": 0.5, "momentum": 0.0, "center": center, "average": 0.0}
    settings = {"delta": 1e-5, "public_size": 900, "random_state": 0}
    clf = LogisticRegression(NoisyGD(steps=1, **step), **settings, warm_start=True).fit(X, y)
    once = clf.charged_
    clf.fit(X, y)
    two = LogisticRegression(NoisyGD(steps=2, **step), **settings).fit(X, y)
    np.testing.assert_allclose(clf._w, two._w, atol=1e-5)
    assert clf.charged_ == once * 2


def test_another_form_of_data_is_refused_where_a_run_goes_on(table):
    X, y = table
    clf = LogisticRegression(**TARGET).fit(X, y)
    charged = clf.charged_
    for X_, y_ in ((X[:, :2], y), (X, y + 1)):
        with pytest.raises(ValueError, match=r"X has 2 features|no label but those declared"):
            clf.partial_fit(X_, y_)
    with pytest.raises(ValueError, match="X has 2 features"):
        clf.partial_fit(ArrayBlocks(X[:, :2], y))
    assert clf.charged_ == charged


def test_a_ledger_is_charged_for_every_run(table, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "budget", epsilon=5.0, delta=1e-4, dataset="x")
    clf = LogisticRegression(**TARGET, ledger=ledger)
    clf.partial_fit(*table)
    spent = ledger.spent
    clf.partial_fit(*table, disjoint=True)
    assert ledger.spent > spent > 0


@pytest.mark.parametrize(
    "algorithm",
    [NoisyGD(), DPAGD(selections=20), *(pytest.param(one, marks=pytest.mark.slow) for one in (DPSGD(), AdaCliP()))],
)
def test_regression_by_gradients(algorithm):
    g = np.random.default_rng(0)
    X = g.uniform(0, 10, size=(20_000, 2))
    y = 3 * X[:, 0] - X[:, 1] + 5 + g.normal(size=len(X))
    settings = {**TARGET, "bounds": (0, 10), "target_bounds": (-10, 40)}
    model = SGDRegressor(algorithm, **settings).fit(X, y)
    assert model.score(X, y) > 0.85 and model.privacy_.upper <= 1
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_, rtol=1e-9)
    assert (SGDRegressor(algorithm, **settings).fit(ArrayBlocks(X, y, rows=7000))._w == model._w).all()
    assert model.charge_for(2) == model.charged_
    assert "bounds of the target" in model.statement_.to_dict()["public"]


def test_one_step_of_regression_is_least_squares(table):
    X, y = table
    loud = NoisyGD(noise_multiplier=1e-7, steps=1, learning_rate=1.0, momentum=0.0, center=0, max_norm=1e3)
    model = SGDRegressor(loud, delta=1e-5, public_size=900, random_state=0, target_bounds=(-1, 1)).fit(X, y)
    expected = (y[:, None] * np.column_stack([X, np.ones(900)])).mean(axis=0)
    np.testing.assert_allclose(model._w, expected, atol=1e-6)


def test_bad_regression_is_refused_by_name(table):
    X, y = table
    for settings, message in [
        ({}, "target_bounds must be given"),
        ({"target_bounds": (1, 1)}, "target_bounds must be finite and low < high"),
        (
            {"target_bounds": (0, 1), "algorithm": OutputPerturbation(), "regularization": 0.1},
            "algorithm needs a linear model with a smooth loss of bounded slope",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            SGDRegressor(**TARGET | {"public_size": 900} | settings).fit(X, y)
    with pytest.raises(ValueError, match="y must"):
        SGDRegressor(**TARGET, target_bounds=(0, 1)).fit(X, np.full(900, "text"))
