"""Pipelines: one account for all steps, fixed before the first release."""

import copy
import pickle
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer, Normalizer
from sklearn.preprocessing import StandardScaler as Public
from sklearn.utils.estimator_checks import check_estimator

import tightdp as dp
from tightdp.estimators.shared.sklearn_interface import copy_unfitted_estimator
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, SimpleImputer, StandardScaler
from tightdp.train import (
    DPPCA,
    DPSGD,
    AdaCliP,
    LogisticRegression,
    NoisyGD,
    ObjectivePerturbation,
    Ridge,
    SGDRegressor,
)

LOUD = NoisyGD(noise_multiplier=1e-3, steps=60, learning_rate=2.0, max_norm=5.0, momentum=0.9)


@pytest.fixture
def table(people):
    texts = np.where(people[:, 0] > 50, "old", "young").astype(object)
    texts[7] = "Clinic of Jane Doe"
    return {"age": people[:, 0], "income": people[:, 1], "text": texts}, np.where(people[:, 0] > 50, "yes", "no")


def mixed():
    incomes = Chain([("fill", SimpleImputer()), ("scale", MinMaxScaler())])
    return ColumnTransformer(
        [("n", incomes, ["income"]), ("s", MinMaxScaler(), ["age"]), ("t", OneHotEncoder(), ["text"])]
    )


def mixed_numbers():
    return ColumnTransformer([("n", Chain([("fill", SimpleImputer()), ("scale", MinMaxScaler())]), [0, 1])])


@pytest.mark.slow
def test_scikit_learn_accepts_it():
    steps = [("s", MinMaxScaler(noise_multiplier=1e-3, delta=1e-6)), ("m", LogisticRegression(LOUD, delta=1e-5))]
    failing = {
        "check_estimators_nan_inf": "a refusal would reveal that a record with NaN is there",
        "check_dataframe_column_names_consistency": "columns are taken by their names, in any order",
    }
    check_estimator(PrivatePipeline(steps, delta=1e-5), expected_failed_checks=failing, on_skip=None)


@pytest.mark.parametrize(
    "last",
    [
        LogisticRegression(),
        LogisticRegression(public_size=5000),
        LogisticRegression(DPSGD(batch_size=500, epochs=2), public_size=5000),
        LogisticRegression(AdaCliP(batch_size=500, epochs=2)),
        LogisticRegression(ObjectivePerturbation(), regularization=0.01, public_size=5000),
    ],
)
def test_all_of_it_meets_one_budget(table, last):
    X, y = table
    model = PrivatePipeline([("c", mixed()), ("m", last)], 1.0, 1e-6, random_state=0)
    charge = model.charge_for(3)
    model.fit(X, y)
    assert model.charged_ == charge and model.privacy_ == charge.epsilon(1e-6)
    assert 0.98 < model.privacy_.upper <= 1
    assert model.score(X, y) > 0.8
    spent = sum((step.charged_ for _, step in model.steps_), dp.Composition())
    assert 0.95 < spent.epsilon(1e-6).upper <= model.privacy_.upper * (1 + 1e-12)
    assert dp.Composition((m, 1) for m in model.history_).epsilon(1e-6).upper <= model.privacy_.upper * (1 + 1e-12)
    assert "Jane" not in model.statement_.to_json()
    assert model.statement_.to_dict()["public"]["m: labels"] == "those that occur: no, yes"


def test_each_step_may_have_its_own_budget(people):
    parts = MinMaxScaler(epsilon=0.5, delta=1e-6), DPPCA(1, delta=1e-6, noise_multiplier=9.0)
    last = Ridge(epsilon=1.0, delta=1e-6, target_bounds=(0, 100))
    model = PrivatePipeline([("s", parts[0]), ("p", parts[1]), ("m", last)], delta=3e-6, random_state=1)
    model.fit(people, people[:, 0])
    spent = sum((step.charged_ for _, step in model.steps_), dp.Composition())
    assert model.privacy_.upper == pytest.approx(spent.epsilon(3e-6).upper, rel=1e-6)
    assert model.privacy_.upper >= spent.epsilon(3e-6).upper
    assert model.predict(people[1:9]).shape == (8,) and model.statement_.seeded


def test_declared_steps_leave_the_whole_budget_to_the_last(people):
    y = people[:, 0] > 50
    one = PrivatePipeline([("s", MinMaxScaler(bounds=(0, 100))), ("m", LogisticRegression())], 1.0, 1e-6)
    alone = LogisticRegression(epsilon=1.0, delta=1e-6)
    whole = one.charge_for(2).epsilon(1e-6)
    assert whole.upper <= 1 and whole.upper == pytest.approx(alone.charge_for(2).epsilon(1e-6).upper, rel=2e-4)
    assert one.fit(people[:, :1], y).score(people[:, :1], y) > 0.9


def test_the_last_charge_does_not_depend_on_how_many_features_there_are():
    """Nor does what is claimed, though steps and step lengths do."""
    sized, numbers = {"public_size": 10_000}, {"target_bounds": (0, 1)}
    for last in (LogisticRegression(), LogisticRegression(**sized), Ridge(**numbers), SGDRegressor(**numbers)):
        model = PrivatePipeline([("s", MinMaxScaler()), ("m", last)], 1.0, 1e-6)
        bounds = [model.charge_for(d).epsilon(1e-6).upper for d in (1, 30, 2000)]
        assert max(bounds) <= 1 and min(bounds) > 1 - 2e-4


class Wide(MinMaxScaler):
    """Features by the thousand."""

    def _transform_values(self, values):
        return np.tile(super()._transform_values(values), 50)


class Greedy(NoisyGD):
    """Charges by the number of features."""

    def plan(self, public, target):
        return super().plan(public, target._replace(epsilon=target.epsilon * (1 + public.size / 1e4)))


def test_a_charge_that_releases_would_raise_is_refused(people):
    y, settings = people[:, 0] > 50, {"random_state": 0, "epsilon": 1.0, "delta": 1e-6}
    wide, greedy = ("s", Wide()), ("m", LogisticRegression(Greedy(), public_size=5000))
    assert PrivatePipeline([wide, ("m", LogisticRegression(public_size=5000))], **settings).fit(people, y)
    assert PrivatePipeline([("s", MinMaxScaler()), greedy], **settings).fit(people, y)
    with pytest.raises(ValueError, match="cost that is known in advance"):
        PrivatePipeline([wide, greedy], **settings).fit(people, y)


def test_a_ledger_pays_for_all_of_it_at_once(tmp_path, table):
    X, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1.2, delta=1e-5, dataset="test", failure=5e-6)
    model = PrivatePipeline([("c", mixed()), ("m", LogisticRegression())], 1.0, 1e-6, ledger=ledger).fit(X, y)
    assert ledger.account.composition == model.charged_ and len(ledger.history) == 1
    with pytest.raises(dp.BudgetExceeded):
        clone(model).fit(X, y)


def test_fitted_steps_are_trained_no_further(tmp_path, people):
    y = people[:, 0] > 50
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=8.0, delta=1e-5, dataset="test", failure=5e-6)
    steps = [("c", mixed_numbers()), ("p", DPPCA(1))]
    for last in (LogisticRegression(warm_start=True), Ridge(target_bounds=(0, 1))):
        model = PrivatePipeline([*steps, ("m", last)], 1.0, 1e-6, ledger=ledger).fit(people, y.astype(int))
        before, paid = model.predict(people), len(ledger.history)
        chain = model.steps_[0][1].transformers_[0][1]
        for owner, part in (
            *(("PrivatePipeline", step) for _, step in model.steps_),
            ("ColumnTransformer", chain),
            ("Chain", chain.transformers_[1][1]),
        ):
            for each in (part, copy.copy(part), pickle.loads(pickle.dumps(part))):
                with pytest.raises(RuntimeError, match=f"this {type(part).__name__} is part of a fitted {owner}"):
                    each.fit(people, y)
        assert (model.predict(people) == before).all() and len(ledger.history) == paid
        assert model.fit(people, y.astype(int)).privacy_.upper <= 1  # the pipeline itself is fitted again, and pays
        assert len(ledger.history) == paid + 1
    own = clone(steps[1][1]).set_params(epsilon=1.0, delta=1e-6)
    assert own.fit(people).fit(people).privacy_.upper <= 1


@pytest.mark.parametrize("bad", ["y", "labels", "length", "text", "setting"])
def test_a_fit_that_fails_has_released_and_spent_nothing(tmp_path, table, bad, monkeypatch):
    """Whatever is wrong with the last step, or with its targets, is found before the first release."""
    X, y = table
    asked = []
    monkeypatch.setattr("tightdp.release_gate.gate.Gate._spend_at_gate", lambda *given: asked.append(given))
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1.2, delta=1e-5, dataset="test", failure=5e-6)
    last = LogisticRegression(NoisyGD(noise_multiplier=1.0) if bad == "setting" else None, classes=["no", "yes"])
    targets = {"y": None, "labels": np.append(y[1:], "Jane"), "length": y[1:]}.get(bad, y)
    if bad == "text":
        X = {**X, "age": X["text"]}
    with pytest.raises((ValueError, TypeError)) as error:
        PrivatePipeline([("c", mixed()), ("m", last)], 1.0, 1e-6, ledger=ledger).fit(X, targets)
    assert not asked and "Jane" not in str(error.value)
    assert not ledger.history


def test_steps_that_learn_nothing_are_named_as_outside(people):
    steps = [("f", SimpleImputer(strategy="constant")), ("n", Normalizer()), ("p", "passthrough")]
    model = PrivatePipeline([*steps, ("m", LogisticRegression())], 1.0, 1e-6, random_state=0)
    model.fit(people, people[:, 0] > 50)
    assert "'n' was taken to treat each record by itself" in " ".join(model.statement_.outside)
    assert model.predict_proba(people[:3]).shape == (3, 2) and model.classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("error", "message", "steps", "settings"),
    [
        (TypeError, "'s' learns from records outside the account", [("s", Public())], {}),
        (TypeError, "steps must be a list", ["s"], {}),
        (ValueError, "different names", [("m", MinMaxScaler())], {}),
        (ValueError, "different names", [("a__b", MinMaxScaler())], {}),
        (ValueError, "epsilon of step 's' must be None", [("s", MinMaxScaler(epsilon=1.0))], {}),
        (ValueError, "noise_multiplier of step 's'", [("s", MinMaxScaler(noise_multiplier=1.0))], {}),
        (ValueError, "ledger of step 's'", [("s", MinMaxScaler(ledger="l"))], {"epsilon": None}),
        (ValueError, "random_state of step 's'", [("s", MinMaxScaler(random_state=0))], {}),
        (ValueError, "random_state of step 'm'", [], {"epsilon": None, "last": {"random_state": 0}}),
        (ValueError, "random_state of 't' must be None", [("c", Chain([("t", MinMaxScaler(random_state=0))]))], {}),
        (ValueError, "delta must leave a part", [("s", MinMaxScaler())], {"delta": 0.999}),
        (ValueError, "share must be", [("s", MinMaxScaler())], {"share": 1.0}),
        (ValueError, "epsilon must be", [("s", MinMaxScaler())], {"epsilon": 0.0}),
        (ValueError, "delta must be given", [("s", MinMaxScaler())], {"delta": None}),
        (TypeError, "random_state must be", [("s", MinMaxScaler())], {"random_state": "x"}),
    ],
)
def test_bad_settings_are_refused_by_name(people, error, message, steps, settings):
    last = ("m", LogisticRegression(**settings.pop("last", {})))
    model = PrivatePipeline([*(steps or [("p", "passthrough")]), last], **{"epsilon": 1.0, "delta": 1e-6, **settings})
    with pytest.raises(error, match=message):
        model.fit(people, people[:, 0] > 50)


def test_the_last_step_is_a_private_estimator(people):
    with pytest.raises(TypeError, match="steps must end with"):
        PrivatePipeline([("s", MinMaxScaler()), ("t", StandardScaler())], 1.0, 1e-6).fit(people, people[:, 0])


def test_copies_share_no_part_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    model = PrivatePipeline([("c", mixed()), ("m", LogisticRegression(classes=["a", "b"]))], 1.0, 1e-6)
    copy_unfitted_estimator(model).set_params(c__n__scale__quantiles=(0.1, 0.9), m__regularization=0.5)
    assert model.get_params()["c__n__scale__quantiles"] == (0.01, 0.99) and model.steps[1][1].regularization == 0


def test_parameters_are_nested():
    model = PrivatePipeline([("s", MinMaxScaler()), ("m", LogisticRegression(NoisyGD()))], 1.0, 1e-6)
    model.set_params(s__quantiles=(0.1, 0.9), m__regularization=0.5, epsilon=2.0)
    assert model.get_params()["s__quantiles"] == (0.1, 0.9) and model.get_params()["m"].regularization == 0.5
    model.set_params(s="passthrough")
    assert model.steps[0] == ("s", "passthrough")
    with pytest.raises(ValueError, match="'x' is not a parameter"):
        model.set_params(x__a=1)


def test_predictions_take_columns_by_name(table):
    X, y = table
    model = PrivatePipeline([("c", mixed()), ("m", LogisticRegression())], 5.0, 1e-6, random_state=0).fit(X, y)
    others = {"text": X["text"], "id": np.arange(len(y)), "income": X["income"], "age": X["age"]}
    np.testing.assert_array_equal(model.predict_proba(others), model.predict_proba(X))
    assert model.score(others, y) == model.score(X, y)
    with pytest.raises(ValueError, match=r"X must have the columns of fit: it lacks age$"):
        model.predict({name: column for name, column in others.items() if name != "age"})
    with pytest.raises(ValueError, match="expecting 3 features"):  # an array has no names
        model.predict(np.zeros((2, 4)))


def test_data_frames_are_taken_by_name(people):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.nan_to_num(people), columns=["age", "income"])
    steps = [("s", MinMaxScaler()), ("m", LogisticRegression())]
    model = PrivatePipeline(steps, 5.0, 1e-6, random_state=0).fit(frame, people[:, 0] > 50)
    moved = frame.assign(id=1.0)[["income", "id", "age"]]
    np.testing.assert_array_equal(model.decision_function(moved), model.decision_function(frame))
    with pytest.raises(ValueError, match="stand more than once: income"):
        model.predict(frame[["income", "income", "age"]])


@pytest.mark.parametrize(
    ("step", "width"),
    [(DPPCA(1), 1), (MinMaxScaler(domain=(0, 1)), 3), (MinMaxScaler(), 3)],
    ids=["pca", "fixed", "learned"],
)
def test_bounds_for_another_number_of_features_are_refused_before_the_charge(step, width, tmp_path):
    """``charge_for`` took them, and ``fit`` refused them after the ledger had paid."""
    ledger = dp.Ledger.create(tmp_path / "a.ledger", epsilon=20.0, delta=1e-2, dataset="a")
    x, y = np.linspace(0, 1, 240).reshape(80, 3), np.linspace(0, 1, 80)
    for d in (width, width + 1):
        last = Ridge(bounds=(np.zeros(d), np.ones(d)), target_bounds=(0, 1))
        model = PrivatePipeline([("s", step), ("m", last)], epsilon=2.0, delta=1e-5, ledger=ledger)
        if d == width:
            assert model.charge_for(3)
            continue
        for ask in (lambda model=model: model.charge_for(3), lambda model=model: model.fit(x, y)):
            with pytest.raises(ValueError, match="bounds must be"):
                ask()
    assert not ledger.history


@pytest.mark.parametrize(
    "first", [MinMaxScaler(), SimpleImputer(), OneHotEncoder(categories=[["0"], ["0"]]), mixed_numbers()]
)
@pytest.mark.parametrize(
    "later",
    [
        MinMaxScaler(bounds=([0] * 4, [1] * 4)),
        SimpleImputer(strategy="constant", fill_value=[0] * 4),
        OneHotEncoder(categories=[["a"]] * 4),
        Chain([("a", StandardScaler()), ("b", MinMaxScaler(bounds=([0] * 4, [1] * 4)))]),
        ColumnTransformer([("c", MinMaxScaler(), [3])]),
    ],
)
def test_a_later_step_for_another_number_of_columns_is_refused_before_the_charge(first, later, tmp_path):
    """The declared list of a later step was read when the ledger had paid for the earlier ones."""
    ledger = dp.Ledger.create(tmp_path / "a.ledger", epsilon=20.0, delta=1e-2, dataset="a")
    x, y = np.zeros((80, 2)), np.linspace(0, 1, 80)
    model = PrivatePipeline([("s", first), ("t", later), ("m", Ridge(bounds=(0, 1), target_bounds=(0, 1)))])
    settings = {"epsilon": 2.0, "delta": 1e-5, "ledger": ledger}
    model.set_params(**settings)
    chain = Chain([("s", first), ("paid", StandardScaler()), ("t", later)], **settings)
    for ask in (lambda: model.charge_for(2), lambda: model.fit(x, y), lambda: chain.fit(x)):
        with pytest.raises(ValueError, match="must be"):
            ask()
    assert not ledger.history


@pytest.mark.parametrize(
    ("step", "width"),
    [
        (Normalizer(norm="l7"), 3),
        (Normalizer(), 2),
        (FunctionTransformer(lambda z: z[:, :2]), 3),
        (FunctionTransformer(lambda z: 1 / 0), 3),
        (FunctionTransformer(lambda z: z[0]), 3),
        (FunctionTransformer(lambda z: z[:, :0]), 3),
        (FunctionTransformer(scipy.sparse.csr_array), 3),
        (FunctionTransformer(lambda z: 1j * z), 3),
        (FunctionTransformer(lambda z: z.astype(str)), 3),
        (FunctionTransformer(lambda z: np.ma.masked_less(z, 0)), 3),
        (FunctionTransformer(lambda z: z.astype("datetime64[s]")), 3),
    ],
)
def test_a_step_of_scikit_learn_that_cannot_work_is_refused_before_the_charge(step, width, tmp_path):
    """It raised its error when the ledger had paid."""
    ledger = dp.Ledger.create(tmp_path / "a.ledger", epsilon=20.0, delta=1e-2, dataset="a")
    last = Ridge(bounds=(np.zeros(width), np.ones(width)), target_bounds=(0, 1))
    steps = [("s", MinMaxScaler()), ("n", step), ("m", last)]
    model = PrivatePipeline(steps, epsilon=2.0, delta=1e-5, ledger=ledger)
    for ask in (lambda: model.charge_for(3), lambda: model.fit(np.ones((80, 3)), np.linspace(0, 1, 80))):
        with pytest.raises(ValueError, match="must"):
            ask()
    assert not ledger.history


def test_steps_of_scikit_learn_that_work_on_made_up_rows_are_taken(people):
    steps = [
        ("s", MinMaxScaler()),
        ("f", FunctionTransformer(np.log1p)),
        ("m", LogisticRegression(bounds=([0] * 2, [1] * 2))),
    ]
    assert PrivatePipeline(steps, 5.0, 1e-6).charge_for(2)
    with pytest.raises(ValueError, match="bounds must be"):
        PrivatePipeline(steps, 5.0, 1e-6).charge_for(3)
    named = [("f", FunctionTransformer(lambda table: table["age"])), ("s", MinMaxScaler()), ("m", LogisticRegression())]
    assert PrivatePipeline(named, 5.0, 1e-6).charge_for(2)  # a first step may be made for named columns
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.nan_to_num(people), columns=["age", "income"])
    framed = Normalizer().set_output(transform="pandas")
    for before in ([], [("m", MinMaxScaler())]):
        chosen = FunctionTransformer(lambda table: table.iloc[:, :1])
        steps = [*before, ("n", framed), ("f", chosen), ("s", MinMaxScaler()), ("l", LogisticRegression())]
        made = PrivatePipeline(steps, 5.0, 1e-6, random_state=0).fit(frame, people[:, 0] > 50)
        assert made.predict(frame).shape == (len(frame),)
