"""A fit sets everything or nothing: what fails, or what a budget does not cover, leaves an estimator as it was.
And what is set afterwards changes no prediction."""

import pickle

import numpy as np
import pytest

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.train import (
    DPPCA,
    ArrayBlocks,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    Ridge,
    SGDRegressor,
)

G = np.random.default_rng(0)
X, OTHER = G.random((300, 3)), G.random((200, 2))
LABELS, OTHERS = np.where(X[:, 0] > 0.5, "yes", "no"), np.where(OTHER[:, 0] > 0.5, "Jane Doe", "zz")
PRICE = {"epsilon": 1.0, "delta": 1e-6}
MODELS = {
    "LogisticRegression": lambda: LogisticRegression(**PRICE),
    "LinearSVC": lambda: LinearSVC(**PRICE),
    "MLPClassifier": lambda: MLPClassifier(NoisyGD(steps=2), **PRICE),
    "SGDRegressor": lambda: SGDRegressor(**PRICE, target_bounds=(0, 1)),
    "Ridge": lambda: Ridge(**PRICE, target_bounds=(0, 1)),
    "DPPCA": lambda: DPPCA(1, **PRICE),
    "MinMaxScaler": lambda: MinMaxScaler(**PRICE),
    "PrivatePipeline": lambda: PrivatePipeline([("scale", MinMaxScaler()), ("model", LogisticRegression())], **PRICE),
    "PrivateSearchCV": lambda: PrivateSearchCV(LogisticRegression(), {"regularization": [0.0]}, **PRICE, mean=1),
}


@pytest.fixture
def ledger(tmp_path):
    """It covers one fit."""
    return dp.Ledger.create(tmp_path / "test.ledger", epsilon=1.2, delta=1.1e-6, dataset="test")


def targets(kind, numbers, labels):
    return numbers[:, 0] if kind in ("SGDRegressor", "Ridge") else labels


@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_that_the_ledger_does_not_cover(kind, ledger):
    model = MODELS[kind]().set_params(ledger=ledger)
    model.fit(X, targets(kind, X, LABELS))
    before = {name: pickle.dumps(value) for name, value in vars(model).items() if name != "ledger"}
    with pytest.raises(dp.BudgetExceeded):
        model.fit(OTHER, targets(kind, OTHER, OTHERS))
    assert {name: pickle.dumps(value) for name, value in vars(model).items() if name != "ledger"} == before
    fresh = MODELS[kind]().set_params(ledger=ledger)
    settings = set(vars(fresh))
    with pytest.raises(dp.BudgetExceeded):
        fresh.fit(OTHER, targets(kind, OTHER, OTHERS))
    assert set(vars(fresh)) == settings


@pytest.mark.parametrize("kind", ["LogisticRegression", "MLPClassifier", "SGDRegressor"])
def test_blocks_and_runs_that_go_on(kind, ledger):
    model = MODELS[kind]().set_params(ledger=ledger)
    with pytest.raises(ValueError, match=r"^y must"):
        model.fit(X, targets(kind, X, LABELS)[1:])
    assert not hasattr(model, "n_features_in_") and not hasattr(model, "classes_")
    model.partial_fit(X, targets(kind, X, LABELS))
    before = {name: pickle.dumps(value) for name, value in vars(model).items() if name != "ledger"}
    for go in (
        lambda: model.partial_fit(X, targets(kind, X, LABELS)),
        lambda: model.fit(ArrayBlocks(OTHER, targets(kind, OTHER, OTHERS))),
        lambda: model.set_params(warm_start=True).fit(X, targets(kind, X, LABELS)),
    ):
        with pytest.raises(dp.BudgetExceeded):
            go()
        model.set_params(warm_start=False)
        assert {name: pickle.dumps(value) for name, value in vars(model).items() if name != "ledger"} == before


def test_a_callback_that_stops_a_run_leaves_the_last_one_and_settings_stay_as_it_set_them():
    model = LogisticRegression(**PRICE, public_size=300).fit(X, LABELS)
    parameters = model.coef_

    def stop(done, total):
        model.set_params(fit_intercept=False)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=stop).fit(OTHER, OTHERS)
    np.testing.assert_array_equal(model.coef_, parameters)
    assert model.classes_.tolist() == ["no", "yes"] and model.n_features_in_ == 3 and not model.fit_intercept
    model.set_params(callback=lambda done, total: model.set_params(regularization=0.5)).fit(OTHER, OTHERS)
    assert model.regularization == 0.5 and model.n_features_in_ == 2


@pytest.mark.parametrize(
    "data", [lambda y: (X, y), lambda y: (X.astype(np.float32), y), lambda y: (ArrayBlocks(X, y),)]
)
@pytest.mark.parametrize("bounds", [(0, 1), ([0, 0, -1], 1), None])
@pytest.mark.parametrize("kind", ["LogisticRegression", "LinearSVC", "MLPClassifier", "SGDRegressor", "Ridge"])
def test_predictions_are_of_the_bounds_of_the_fit(kind, bounds, data):
    model = MODELS[kind]().set_params(bounds=bounds, random_state=0).fit(*data(targets(kind, X, LABELS)))
    scores = model.predict if kind in ("SGDRegressor", "Ridge") else model.decision_function
    before, line = scores(X), getattr(model, "coef_", None)
    model.set_params(bounds=(0, 100))
    if kind in ("SGDRegressor", "Ridge"):
        model.set_params(target_bounds=(0, 1000))
    np.testing.assert_array_equal(scores(X), before)
    np.testing.assert_array_equal(getattr(model, "coef_", None), line)


def test_bounds_that_the_caller_writes_over_are_those_of_the_fit_as_well():
    low, high = np.zeros(3), np.ones(3)
    model = LogisticRegression(**PRICE, bounds=(low, high)).fit(X, LABELS)
    before = model.decision_function(X)
    high[:] = 100
    np.testing.assert_array_equal(model.decision_function(X), before)
    np.testing.assert_array_equal(model.bounds_, [np.zeros(3), np.ones(3)])
    assert LogisticRegression(**PRICE).fit(X, LABELS).bounds_ is None
    fitted = SGDRegressor(**PRICE, target_bounds=(0, 1)).fit(X, X[:, 0])
    assert fitted.target_bounds_ == (0.0, 1.0) and fitted.bounds_ is None
