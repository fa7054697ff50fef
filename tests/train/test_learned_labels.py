"""Labels that are learned: one budget with the run, nothing of rare ones, and records with these contribute nothing."""

import pickle

import numpy as np
import pytest

import tightdp as dp
from tightdp.estimators.shared.labels import (
    compute_label_charge,
    count_records_of_estimator_labels,
    select_classifier_labels,
)
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    AdaCliP,
    ArrayBlocks,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
)

CANARY = "Clinic of Jane Doe"
TARGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
STEP = NoisyGD(steps=3)


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    y = np.where(x[:, 0] > 0.2, "yes", "no").astype(object)
    y[[7, 500]] = CANARY, ""
    return x, y.astype(str)


@pytest.mark.parametrize(
    "made",
    [
        LogisticRegression(classes="learn"),
        LogisticRegression(classes="learn", public_size=3000),
        LinearSVC(DPSGD(epochs=1), classes="learn"),
        MLPClassifier(DPSGD(epochs=1), classes="learn", hidden_layer_sizes=(4,)),
        pytest.param(LogisticRegression(DPAGD(selections=3), classes="learn"), marks=pytest.mark.slow),
        LogisticRegression(AdaCliP(epochs=1), classes="learn"),
        LogisticRegression(DPIS(epochs=1), classes="learn"),
        LogisticRegression(ObjectivePerturbation(), regularization=0.1, classes="learn"),
        LogisticRegression(OutputPerturbation(), regularization=0.1, classes="learn", public_size=3000),
    ],
)
def test_every_algorithm_learns_within_one_budget(table, made):
    made.set_params(**TARGET, class_weight={"no": 1.0, "maybe": 2.0} if isinstance(made, LinearSVC) else None)
    charge = made.charge_for(2)
    made.fit(*table)
    assert made.classes_.tolist() == ["no", "yes"] and made.classes_.dtype == "<U3"
    assert made.charged_ == charge and made.privacy_ == charge.epsilon(1e-6) and 0.98 < made.privacy_.upper <= 1
    spent = dp.Composition((m, 1) for m in made.history_)
    assert spent.epsilon(1e-6).upper <= made.privacy_.upper * (1 + 1e-9)
    said = made.statement_.to_dict()
    assert "labels" not in said["public"] and not said["taken"]
    assert said["released"][0] == "labels, by noisy counts: no, yes; records with any other label contribute nothing"
    assert CANARY.encode() not in pickle.dumps(made) + said["subject"].encode()


def test_records_of_other_labels_add_nothing_but_themselves(table):
    """The same model as where they have no finite feature."""
    x, y = table
    others = (y == CANARY) | (y == "")
    learned = LogisticRegression(STEP, **TARGET, classes="learn", public_size=3000)
    plan = learned._plan_labels(2)
    learned.fit(x, y)
    missing = np.where(others[:, None], np.nan, x)
    settings = {"epsilon": plan.epsilon, "delta": plan.delta, "random_state": 0, "public_size": 3000}
    declared = LogisticRegression(STEP, **settings, classes=["no", "yes"]).fit(missing, np.where(others, "no", y))
    np.testing.assert_array_equal(learned._w, declared._w)
    assert plan.charge == compute_label_charge(plan.spent) + plan.rest.charge() == learned.charged_


@pytest.mark.parametrize("weights", [None, {"yes": 3.0}])
def test_blocks_give_the_bits_of_an_array(table, weights):
    x, y = table
    made = lambda: LogisticRegression(STEP, **TARGET, classes="learn", class_weight=weights)  # noqa: E731
    expected = made().fit(x, y)
    for rows in (100, 999, 3000):
        found = made().fit(ArrayBlocks(x, y, rows=rows))
        np.testing.assert_array_equal(found._w, expected._w)
        assert found.charged_ == expected.charged_ and found.classes_.tolist() == expected.classes_.tolist()


def test_labels_are_numbers_too(table):
    x, _ = table
    y = np.where(x[:, 0] > 0, 3, -1)
    y[5] = 61739
    for kind in (int, np.float32, np.int32):
        made = LogisticRegression(STEP, **TARGET, classes="learn").fit(x, y.astype(kind))
        assert made.classes_.tolist() == [-1, 3] and made.classes_.dtype == np.dtype(kind)
        assert b"61739" not in pickle.dumps(made)
    assert LogisticRegression(STEP, **TARGET, classes="learn").fit(x, y > 0).classes_.tolist() == [False, True]


def test_runs_that_go_on_keep_the_labels(table, tmp_path):
    x, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-5, dataset="test", failure=5e-6)
    clf = LogisticRegression(STEP, epsilon=1.0, delta=1e-6, classes="learn", ledger=ledger)
    clf.partial_fit(x, y)
    first = clf.charged_
    rest = LogisticRegression(STEP, epsilon=1.0, delta=1e-6, classes=["no", "yes"]).charge_for(2)
    assert ledger.account.composition == first and ledger.history[0].note == "LogisticRegression.partial_fit"
    clf.partial_fit(x, np.where(x[:, 1] > 0, "maybe", y))  # which are no labels of the first call
    assert clf.classes_.tolist() == ["no", "yes"] and clf.charged_ == first + rest
    assert len(ledger.history) == 2 and clf.privacy_.upper > 1
    assert clf.statement_.released[0].startswith("labels, by noisy counts")
    by_call = LogisticRegression(STEP, **TARGET).partial_fit(x, y, classes="learn")
    assert by_call.classes_.tolist() == ["no", "yes"] and by_call.charged_ == by_call.set_params(
        classes="learn"
    ).charge_for(2)


def test_a_pipeline_and_a_search_count_them_in(table):
    x, y = table
    last = LogisticRegression(STEP, classes="learn")
    model = PrivatePipeline([("s", MinMaxScaler(bounds=(-1, 1))), ("m", last)], **TARGET)
    charge = model.charge_for(2)
    model.fit(x, y)
    assert model.charged_ == charge and 0.99 < model.privacy_.upper <= 1 and model.classes_.tolist() == ["no", "yes"]
    assert "m: labels, by noisy counts: no, yes; records with" in " ".join(model.statement_.released)
    search = PrivateSearchCV(model.set_params(epsilon=None, delta=None, random_state=None), {"share": [0.1]}, 3.0, 1e-6)
    search.set_params(mean=2.0, random_state=1).fit(x, y)
    assert 2.9 < search.privacy_.upper <= 3 and search.classes_.tolist() == ["no", "yes"]
    for made in (model, search):
        assert CANARY.encode() not in pickle.dumps(made) and not made.statement_.taken


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epsilon": None, "algorithm": NoisyGD(noise_multiplier=1.0)}, ValueError, "epsilon must be given where lab"),
        ({"delta": None}, ValueError, "delta must be given"),
        ({"regularization": -1.0}, ValueError, "regularization must be"),
        ({"algorithm": NoisyGD}, TypeError, "algorithm must be an algorithm with its settings"),
        ({"callback": 3}, TypeError, "callback must be a function"),
        ({"random_state": "x"}, TypeError, "random_state must be"),
        ({"class_weight": "balanced"}, ValueError, "class_weight must be a dict"),
        ({"class_weight": {"no": -1.0}}, ValueError, "class_weight must be"),
        ({"delta": 1e-300}, ValueError, "delta must be larger"),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_released(table, tmp_path, monkeypatch, settings, error, message):
    asked = []
    monkeypatch.setattr("tightdp.release_gate.gate.Gate._spend_at_gate", lambda *given: asked.append(given))
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-5, dataset="test", failure=5e-6)
    with pytest.raises(error, match=message) as raised:
        LogisticRegression(**{**TARGET, "classes": "learn", "ledger": ledger, **settings}).fit(*table)
    assert not asked and not ledger.history and CANARY not in str(raised.value)


def test_a_label_for_every_record_is_no_warning_and_no_measurement(table, recwarn):
    """As where an identifier was named as the label: nothing of it is released."""
    x, y = table
    names = np.array([f"person {k}" for k in range(len(y))])
    last = LogisticRegression(STEP, classes="learn", class_weight={"nobody": 2.0})
    for made in (last.set_params(**TARGET), PrivatePipeline([("p", "passthrough"), ("m", last)], **TARGET)):
        if made is not last:
            last.set_params(epsilon=None, delta=None, random_state=None)
        with pytest.raises(ValueError, match="0 of them reached the threshold") as error:
            made.fit(x, names)
        assert "person" not in str(error.value)
    assert not list(recwarn)


def test_too_few_frequent_labels_are_paid_for_and_an_error(table, tmp_path):
    x, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-5, dataset="test", failure=5e-6)
    clf = LogisticRegression(STEP, epsilon=1.0, delta=1e-6, classes="learn", ledger=ledger)
    with pytest.raises(ValueError, match="classes must be declared where labels have few records: 0 of them") as error:
        clf.fit(x[:20], y[:20])
    assert CANARY not in str(error.value) and len(ledger.history) == 1 and not hasattr(clf, "classes_")
    with pytest.raises(dp.BudgetExceeded):
        clf.fit(x, y)


def test_counts_and_choices_are_plain():
    assert count_records_of_estimator_labels(np.array([2.0, 2.0, 3.0, 1.5])) == {"2": 2, "3": 1, "1.5": 1}
    assert count_records_of_estimator_labels(np.array(["", "?", "a", "a"])) == {"a": 2}
    assert select_classifier_labels(("1", "10"), np.array([0, 1, 10])).tolist() == [1, 10]


@pytest.mark.parametrize("rare", ["CANARY", "true", "01", "3.5"])
def test_a_rare_label_does_not_change_what_the_others_are(tmp_path, rare):
    """A list, and a CSV file, would have another type with it. Objects are texts, whatever else is among them."""
    pytest.importorskip("pyarrow")
    n, settings = 2000, {"epsilon": 1.0, "delta": 1e-6, "bounds": (0, 1), "random_state": 0, "public_size": 2000}
    x, labels = np.random.default_rng(0).uniform(size=(n, 1)), [0, 1] * (n // 2)
    found = []
    for one in (0, rare):
        labels[5] = one
        y = np.array(labels, dtype=object)
        found.append(LogisticRegression(NoisyGD(steps=2), classes="learn", **settings).fit(x, y).classes_.tolist())
        with pytest.raises(TypeError, match="y must be an array or a column where labels are learned, got list"):
            LogisticRegression(NoisyGD(steps=2), classes="learn", **settings).fit(x, labels)
        (tmp_path / "t.csv").write_text(
            "a,y\n" + "".join(f"{v[0]},{label}\n" for v, label in zip(x, labels, strict=True))
        )
        blocks = pytest.importorskip("tightdp.train").FileBlocks(tmp_path / "t.csv", "y")
        with pytest.raises(ValueError, match="classes must be declared for CSV files in blocks"):
            LogisticRegression(NoisyGD(steps=2), classes="learn", **settings).fit(blocks)
    assert found == [["0", "1"]] * 2
