"""Private accuracy and confusion matrices: laws, error bars that hold, and what is refused."""

import json
from functools import partial

import mpmath as mp
import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.metrics import _bound_noise_of_predictions, accuracy, confusion_matrix


def test_without_noise_to_speak_of_it_is_the_matrix():
    g = np.random.default_rng(0)
    true, predicted = (g.choice(["a", "b", "c"], 500) for _ in range(2))
    found = confusion_matrix(true, predicted, classes=["b", "a"], delta=1e-6, noise_multiplier=1e-3)
    wanted = [[np.sum((true == t) & (predicted == p)) for p in "ba"] for t in "ba"]
    np.testing.assert_array_equal(found.matrix, wanted)
    assert found.classes == ("b", "a") and found.half_width == 1
    one = accuracy(true, predicted, delta=1e-6, noise_multiplier=1e-3)
    assert one.value == pytest.approx(np.mean(true == predicted), abs=0)
    assert one.interval[0] <= one.value <= one.interval[1]
    assert one.population[0] < one.interval[0] and one.interval[1] < one.population[1]


@pytest.mark.parametrize("sigma", [0.1, 1.0, 33.3, 1e6])
@pytest.mark.parametrize("failing", [0.05, 1e-3, 1e-9])
def test_a_half_width_is_the_least_that_holds_or_one_more(sigma, failing):
    with mp.workdps(30):

        def beyond(t):
            """P(|floor(sigma Z + 1/2)| > t) for a whole t."""
            return mp.erfc((t + mp.mpf(1) / 2) / sigma / mp.sqrt(2)) / 2 * 2

        t = _bound_noise_of_predictions(sigma, failing)
        assert beyond(t) <= failing and (t <= 2 or beyond(t - 2) > failing)


def test_intervals_hold_as_often_as_they_say():
    """150 samples of 2,000 records with p = .8, at confidence .9: fewer than 27 of each kind of interval fail."""
    g, rng, misses = np.random.default_rng(1), dp.Philox(2), np.zeros(2)
    for _ in range(150):
        right = g.random(2000) < 0.8
        found = accuracy(np.ones(2000), right, delta=1e-6, noise_multiplier=30.0, confidence=0.9, rng=rng)
        misses += [not low <= p <= high for (low, high), p in
                   ((found.interval, right.mean()), (found.population, 0.8))]  # fmt: skip
    assert (misses < 27).all()


def test_targets_are_met_and_ledgers_charged_first(tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=0.6, delta=1e-6, dataset="test")
    found = accuracy([1, 0], [1, 1], epsilon=0.5, delta=1e-6, ledger=ledger)
    assert 0.49 < found.privacy.upper <= 0.5 and ledger.account.composition == found.charged
    assert found.statement.charged == found.charged and "held-out" in found.statement.subject
    with pytest.raises(dp.BudgetExceeded):
        confusion_matrix([1, 0], [1, 1], classes=[0, 1], epsilon=0.5, delta=1e-6, ledger=ledger)
    assert len(ledger.history) == 1


def test_few_and_no_records():
    for labels in ([], [1]):
        found = accuracy(labels, labels, epsilon=1.0, delta=1e-6, rng=dp.Philox(1))
        assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1
        assert 0 <= found.population[0] <= found.population[1] <= 1


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        (ValueError, "y_pred must have one", {"y_pred": [1]}),
        (ValueError, "y_true and y_pred must have shape", {"y_pred": [[1, 0]]}),
        (ValueError, "confidence must be", {"confidence": 1.0}),
        (ValueError, "epsilon must be given", {"epsilon": None}),
        (ValueError, "exclude each other", {"noise_multiplier": 1.0}),
        (ValueError, "delta must be", {"delta": 0.0}),
        (ValueError, "epsilon must be larger", {"epsilon": 1e-14, "delta": 1e-14}),
        (ValueError, "classes must be two or more", {"classes": [1, 1]}),
        (ValueError, "classes must be two or more", {"classes": "ab"}),
        (TypeError, "classes must be a sequence", {"classes": 3}),
    ],
)
def test_bad_arguments_are_refused_by_name(error, message, given):
    values = {"y_true": [1, 0], "y_pred": [1, 1], "classes": [0, 1], "epsilon": 1.0, "delta": 1e-6, **given}
    with pytest.raises(error, match=message):
        confusion_matrix(values.pop("y_true"), values.pop("y_pred"), **values)


class Unhappy:
    """A label that nothing can be compared with."""

    def __eq__(self, other):
        raise RuntimeError("CANARY")

    __hash__ = None


@pytest.mark.parametrize("where", ["y_true", "y_pred"])
@pytest.mark.parametrize("score", [accuracy, partial(confusion_matrix, classes=[0, 1])])
def test_labels_that_cannot_be_compared_are_refused_before_the_charge(tmp_path, score, where):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5, dataset="test")
    labels = {"y_true": [0, 1, 1], "y_pred": [0, 1, 0]}
    labels[where] = [0, Unhappy(), 1]
    with pytest.raises(TypeError, match="y_true and y_pred must hold labels that can be compared") as seen:
        score(**labels, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert ledger.spent == 0 and "CANARY" not in str(seen.value)


def test_on_the_command_line(tmp_path, capsys):
    """A model of one column that is right but for records of a missing number and of another label."""
    cells = (
        [(x, "yes" if x > 50 else "no") for x in range(0, 100, 5)] * 200 + [("", "yes")] * 400 + [(20, "Jane")] * 100
    )
    for name, some in (("train.csv", cells[:4000]), ("test.csv", cells)):
        (tmp_path / name).write_text("x,ill\n" + "".join(f"{x},{y}\n" for x, y in some))
    declared = ["--label", "ill", "--classes", "no,yes", "--bounds", "x=0:100", "--epsilon", "8", "--delta", "1e-6"]
    assert main(["train", str(tmp_path / "train.csv"), *declared]) == 0
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.4, delta=1e-5, dataset="test")
    asked = [
        "test",
        str(tmp_path / "train.model.json"),
        str(tmp_path / "test.csv"),
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
    ]
    capsys.readouterr()
    assert main([*asked, "--ledger", str(tmp_path / "l"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["interval"][0] <= said["accuracy"] <= said["interval"][1] and said["statement"]["epsilon"] <= 2
    assert abs(said["accuracy"] - 4000 / 4500) < 0.1 and len(ledger.history) == 1
    assert main([*asked, "--matrix"]) == 0
    printed = capsys.readouterr().out
    assert "true \\ predicted" in printed and "Jane" not in printed
    assert main([*asked, "--ledger", str(tmp_path / "l")]) == 3
    assert main([*asked, "--confidence", "2"]) == 2
    capsys.readouterr()
