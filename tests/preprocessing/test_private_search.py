"""The private search: what it charges, what it releases, and the number of its runs."""

import copy
import pickle
from typing import ClassVar

import numpy as np
import pytest
from mpmath import mp
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import tightdp as dp
from tightdp.model_selection import (
    PrivateSearchCV,
    build_model_selection_query,
    compute_fewest_search_records,
    draw_another_model_selection_run,
    find_covering_search_run,
)
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import ColumnTransformer, MinMaxScaler, OneHotEncoder
from tightdp.release_gate.selection import SelectionCoins
from tightdp.train import DPSGD, ArrayBlocks, LogisticRegression, NoisyGD

GRID = {"fit_intercept": [True, False]}


@pytest.fixture
def records():
    x = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    return x, np.where(x[:, 0] > 0.4, "yes", "no")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X has features beyond 10")  # of scikit-learn's own tables
def test_scikit_learn_accepts_it():
    model, failing = LogisticRegression(NoisyGD(steps=60, max_norm=5.0)), {"check_estimators_nan_inf": "it would tell"}
    search = PrivateSearchCV(model, {"fit_intercept": [True]}, 1e5, 1e-5, mean=1.0, holdout=0.002)
    check_estimator(search, expected_failed_checks=failing, on_skip=None)


def test_it_meets_its_budget_and_finds_the_better_setting(records):
    search = PrivateSearchCV(LogisticRegression(), GRID, 2.0, 1e-6, mean=4.0, random_state=1)
    charge = search.charge_for(2)
    search.fit(*records)
    assert search.charged_ == charge and search.history_ == tuple(m for m, _ in charge.parts)
    assert 1.99 < search.privacy_.upper <= 2 and search.privacy_ == charge.epsilon(1e-6)
    assert search.best_params_ == {"fit_intercept": True} and search.score(*records) > 0.9
    assert 0.8 < search.best_score_ <= 1 and search.classes_.tolist() == ["no", "yes"]
    assert search.predict_proba(records[0][:3]).shape == (3, 2) and search.n_features_in_ == 2
    made = search.statement_
    assert made.seeded and made.taken == ("labels",) and made.charged == charge
    assert "n_trials" not in " ".join(vars(search))


def test_each_run_is_within_what_is_repeated(records, monkeypatch):
    charges = []
    monkeypatch.setattr(
        "tightdp.model_selection.check_search_charge_covered", lambda charge, cover: charges.append(charge)
    )
    numbers = {"mean": np.float32(3), "random_state": np.int64(2**62)}
    search = PrivateSearchCV(LogisticRegression(public_size=3000), GRID, 1.0, 1e-6, **numbers).fit(*records)
    ((repeated, times),) = search.charged_.parts
    assert times == 1 and repeated.mean == 3.0 and repeated.shape == 1.0
    for charge in charges:
        inside = charge.epsilon(1e-9).upper
        assert inside <= dp.Composition(repeated.parts).epsilon(1e-9).upper <= inside * (1 + 1e-6)
    assert search.best_estimator_.public_size_ == 2400


def test_covers_are_above_each_charge_and_the_score():
    same = [dp.Gaussian(10.0) * 4 + dp.PureDP(0.1), dp.Gaussian(6.0) + dp.PureDP(0.1)]
    others = [dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 10, dp.Gaussian(9.0) * 1]
    for charges in (same, others):
        target = max(charge.epsilon(1e-6).upper for charge in charges)
        score, cover = find_covering_search_run(charges, target, 1e-6)
        for epsilon in np.linspace(0, target, 5):
            for charge in [*charges, dp.Gaussian(score)]:
                assert charge.delta(epsilon).lower <= cover.delta(epsilon).upper * (1 + 1e-9)


def test_settings_of_other_charges_are_known_by_their_guarantee(records):
    grid = {"algorithm": [NoisyGD(), DPSGD(batch_size=300, epochs=2)]}
    search = PrivateSearchCV(LogisticRegression(public_size=3000), grid, 2.0, 1e-6, mean=2.0, random_state=1)
    search.fit(*records)
    ((repeated, _),) = search.charged_.parts
    assert isinstance(repeated.mechanism, dp.ApproximateDP) and 1.9 < search.privacy_.upper <= 2


@pytest.mark.parametrize("mean", [1.0, 1.5, 4.0])
def test_the_number_of_runs_is_geometric(mean):
    coins, draws = SelectionCoins(dp.Philox(5)), 20_000
    runs = np.array(
        [1 + sum(1 for _ in iter(lambda: draw_another_model_selection_run(mean, coins), False)) for _ in range(draws)]
    )
    seen = np.bincount(runs, minlength=9)[1:9] / draws
    wanted = (1 / mean) * (1 - 1 / mean) ** np.arange(8)
    assert (np.abs(seen - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / draws)).all()


class Memory(LogisticRegression):
    """Remembers which records it saw."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(X[:, 0].copy())
        return super().fit(X, y)

    def predict(self, X):
        self.seen.append(X[:, 0].copy())
        return np.array(["no"] * len(X))


def test_no_record_is_trained_on_and_scored_on(records):
    Memory.seen.clear()
    PrivateSearchCV(Memory(NoisyGD(steps=2)), GRID, 1.0, 1e-6, holdout=0.3, mean=5.0).fit(*records)
    trained, scored = Memory.seen[::2], Memory.seen[1::2]
    for part, other in zip(trained, scored, strict=True):
        assert not np.isin(part, other).any() and len(part) + len(other) == 3000
        assert 0.25 < len(other) / 3000 < 0.35
        np.testing.assert_array_equal(part, trained[0])


def test_an_interrupted_search_keeps_nothing(records, monkeypatch):
    """The best of the runs so far is not what was charged."""
    runs = iter([None, KeyboardInterrupt])

    def interrupted(model, X, y):
        if next(runs):
            raise KeyboardInterrupt
        return build_model_selection_query(model, X, y)

    monkeypatch.setattr("tightdp.model_selection.build_model_selection_query", interrupted)
    monkeypatch.setattr("tightdp.model_selection.draw_another_model_selection_run", lambda mean, coins: True)
    search = PrivateSearchCV(LogisticRegression(NoisyGD(steps=2)), GRID, 1.0, 1e-6)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*records)
    assert not hasattr(search, "best_estimator_") and not hasattr(search, "best_params_")


def test_a_record_without_a_finite_feature_counts_as_wrong(records):
    X, y = records
    X = np.vstack([X, np.full((3000, 2), np.nan)])
    search = PrivateSearchCV(LogisticRegression(), GRID, 2.0, 1e-6, mean=3.0, random_state=0).fit(X, np.append(y, y))
    assert 0.3 < search.best_score_ < 0.6


@pytest.mark.slow
def test_pipelines_and_their_settings(records, tmp_path):
    X, y = records
    table = {"a": X[:, 0] * 1000, "b": X[:, 1], "t": np.where(X[:, 1] > 0, "up", "down")}
    columns = ColumnTransformer([("n", MinMaxScaler(), ["a", "b"]), ("t", OneHotEncoder(), ["t"])])
    model = PrivatePipeline([("c", columns), ("m", LogisticRegression(classes=["no", "yes"]))])
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=8.0, delta=1e-5, dataset="test", failure=5e-6)
    grid = [{"c__n__quantiles": [(0.01, 0.99), (0.1, 0.9)]}, {"share": [0.2]}]
    search = PrivateSearchCV(model, grid, 3.0, 1e-6, mean=2.0, random_state=3, ledger=ledger).fit(table, y)
    assert 2.9 < search.privacy_.upper <= 3 and search.score(table, y) > 0.8
    assert len(ledger.history) == 1 and ledger.account.composition.epsilon(1e-6).upper >= search.privacy_.upper
    assert search.statement_.public["m: labels"] == "declared: no, yes" and not search.statement_.taken
    with pytest.raises(dp.BudgetExceeded):
        clone(search).fit(table, y)


def test_the_model_that_it_returns_tells_the_charge_of_the_search_and_is_trained_no_further(records, tmp_path):
    X, y = records
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=8.0, delta=1e-5, dataset="test", failure=5e-6)
    model = LogisticRegression(warm_start=True)
    columns = ColumnTransformer([("n", MinMaxScaler(), [0, 1])])
    for given in (model, PrivatePipeline([("c", columns), ("m", model)])):
        search = PrivateSearchCV(given, {}, 2.0, 1e-6, mean=2.0, random_state=0, ledger=ledger).fit(X, y)
        best, paid = search.best_estimator_, len(ledger.history)
        parts = [best] if given is model else [best, *(step for _, step in best.steps_)]
        if given is not model:
            parts.append(best.steps_[0][1].transformers_[0][1])
        for part in [*parts, *map(copy.deepcopy, parts), *pickle.loads(pickle.dumps(parts))]:
            assert part.charged_ == search.charged_ and part.history_ == search.history_
            assert part.privacy_ == search.privacy_ and part.statement_ == search.statement_
            assert part.statement_.subject.startswith("PrivateSearchCV")
            with pytest.raises(RuntimeError, match="part of a fitted PrivateSearchCV"):
                part.fit(X, y)
        with pytest.raises(RuntimeError, match="part of a fitted PrivateSearchCV"):
            parts[min(len(parts) - 1, 2)].partial_fit(X, y)
        assert len(ledger.history) == paid
        again = clone(best).fit(X, y)
        assert again.privacy_.upper <= 2 and again.delta == 1e-6 and again.charged_ != search.charged_


@pytest.mark.parametrize(
    ("error", "message", "settings"),
    [
        (ValueError, "epsilon must be given", {"epsilon": None}),
        (ValueError, "delta must be given", {"delta": None}),
        (ValueError, "mean must be", {"mean": 0.5}),
        (ValueError, "holdout must be", {"holdout": 1.0}),
        (TypeError, "param_grid must map", {"param_grid": 3}),
        (ValueError, "'regularization' to a list", {"param_grid": {"regularization": []}}),
        (ValueError, "'regularization' to a list", {"param_grid": {"regularization": "ab"}}),
        (ValueError, "must not hold epsilon", {"param_grid": {"epsilon": [1.0]}}),
        (ValueError, "at most 10,000", {"param_grid": {"regularization": [0.0] * 10_001}}),
        (ValueError, "delta of the estimator must be None", {"estimator": LogisticRegression(delta=1e-6)}),
        (ValueError, "random_state of the estimator", {"estimator": LogisticRegression(random_state=0)}),
        (TypeError, "estimator must be a private classifier", {"estimator": MinMaxScaler()}),
        (ValueError, "y must have one label", {"y": ["no"]}),
        (ValueError, "y must be given", {"y": None}),
    ],
)
def test_bad_settings_are_refused_by_name(records, error, message, settings):
    X, y = records
    y = settings.pop("y", y)
    given = {"estimator": LogisticRegression(), "param_grid": GRID, "epsilon": 1.0, "delta": 1e-6, **settings}
    with pytest.raises(error, match=message):
        PrivateSearchCV(given.pop("estimator"), given.pop("param_grid"), **given).fit(X, y)


@pytest.mark.parametrize("holdout", [0.2, 1e-3, 0.9, 1 - 2.0**-50, 2.0**-53, 5e-324])
@pytest.mark.parametrize("delta", [1e-6, 0.5, 1e-300])
def test_the_fewest_records_of_a_search_are_never_all_held_out(holdout, delta):
    least = compute_fewest_search_records(holdout, delta)
    with mp.workdps(40):
        assert least * mp.log(holdout) <= mp.log(delta) - 53 * mp.log(2) < (least * (1 - 1e-8) - 2) * mp.log(holdout)


def test_few_records_are_refused_before_a_charge(records, tmp_path, monkeypatch):
    X, y = records
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5, dataset="test", failure=5e-6)
    search = PrivateSearchCV(LogisticRegression(NoisyGD(steps=2)), GRID, 1.0, 1e-6, ledger=ledger, mean=1.0)
    for given in ((X[:32], y[:32]), (ArrayBlocks(X[:32], y[:32], rows=9),)):
        with pytest.raises(ValueError, match="holdout must leave records to train on: with fewer than 33 of them all"):
            search.fit(*given)
    with pytest.raises(ValueError, match="holdout must leave records to train on: with fewer than 5"):
        clone(search).set_params(holdout=1 - 2.0**-50).fit(X, y)
    assert not ledger.history
    clone(search).set_params(ledger=None).fit(X[:33], y[:33])
    monkeypatch.setattr(dp.SecureRandom, "bernoulli", lambda self, p, n: np.ones(n, bool))
    with pytest.raises(ValueError, match="holdout must leave records to train on: all were held out"):
        search.fit(X, y)
    assert len(ledger.history) == 1 and not hasattr(search, "best_estimator_")


LAST = LogisticRegression(NoisyGD(steps=2), classes=["no", "yes"])
WIDE = MinMaxScaler(bounds=([0, 0, 0], 1))


def piped(last, scaler=None):
    return PrivatePipeline([("p", "passthrough"), ("s", scaler or MinMaxScaler()), ("m", last)])


def fine(X, y):
    return X, y


def a_stray_label(X, y):
    return X, np.append(y[:-1], "JANE")


def one_label(X, y):
    return X, np.full(len(y), "no")


def a_text(X, y):
    X = X.astype(object)
    X[7, 1] = "JANE"
    return X, y


@pytest.mark.parametrize(
    ("estimator", "grid", "spoilt", "message"),
    [
        (LAST, {}, a_stray_label, "y must hold no label but those declared in classes"),
        (piped(LAST), {}, a_stray_label, "y must hold no label but those declared in classes"),
        (LogisticRegression(), {}, one_label, "y must have at least two classes"),
        (LAST, {"class_weight": [{"maybe": 1.0}]}, fine, "class_weight must name no label but the classes"),
        (piped(LAST), {"m__class_weight": ["balanced"]}, fine, "class_weight must be a dict"),
        (LogisticRegression(bounds=([0, 0, 0], 1)), {}, fine, r"bounds must be \(low, high\)"),
        (piped(LAST, WIDE), {}, fine, r"bounds must be \(low, high\)"),
        (LAST, {}, a_text, "X must be a 2-D array of numbers"),
        (piped(LAST), {}, a_text, "X must be a 2-D array of numbers"),
    ],
)
@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_no_run_would_take_is_refused_before_a_charge(
    records, tmp_path, estimator, grid, spoilt, message, in_blocks
):
    if in_blocks and spoilt is a_text:
        pytest.skip("blocks hold numbers")
    X, y = spoilt(*records)
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-5, dataset="test", failure=5e-6)
    made = [PrivateSearchCV(clone(estimator), grid, 2.0, 1e-6, mean=1.0, ledger=ledger)]
    if isinstance(estimator, PrivatePipeline) and not grid:
        made.append(clone(estimator).set_params(epsilon=2.0, delta=1e-6, ledger=ledger))
    for each in made:
        with pytest.raises(ValueError, match=message) as error:
            each.fit(*((ArrayBlocks(X, y),) if in_blocks else (X, y)))
        assert "JANE" not in str(error.value)
    assert not ledger.history
