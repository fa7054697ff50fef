"""Sources whose records change between passes: an error that names them, before anything is released of the others."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, SimpleImputer, StandardScaler
from tightdp.records.blocks import CHANGED
from tightdp.release_gate.gate import Gate
from tightdp.train import (
    DPAGD,
    DPPCA,
    DPSGD,
    AdaCliP,
    ArrayBlocks,
    Blocks,
    DaskBlocks,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    Ridge,
    SGDRegressor,
)

N = 400
TARGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
FEW = NoisyGD(steps=2)
FULL = LogisticRegression(FEW)
ENDS = [0, 100, 250, N]


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    X = g.uniform(size=(N, 3))
    return X, np.where(X[:, 0] > 0.4, "yes", "no")


class Changing(Blocks):
    """From pass ``since`` on it yields what ``change`` makes of the blocks."""

    width = 3

    def __init__(self, X, y, since, change):
        self._parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ENDS)]
        self.since, self.change, self.passes = since, change, 0

    def __iter__(self):
        self.passes += 1
        yield from self._parts if self.passes < self.since else self.change(list(self._parts))


LENGTHS = {
    "a record less": lambda parts: [parts[0], (parts[1][0][1:], parts[1][1][1:]), parts[2]],
    "a record more": lambda parts: [parts[0], tuple(np.concatenate([each, each[:1]]) for each in parts[1]), parts[2]],
    "a block less": lambda parts: parts[:2],
    "no block": lambda parts: [],
    "a block more": lambda parts: [*parts, parts[0]],
    "other blocks of as many": lambda parts: [parts[1], parts[0], parts[2]],
}
MIXED = ColumnTransformer(
    [("a", MinMaxScaler(), [0]), ("b", Chain([("i", SimpleImputer()), ("s", StandardScaler())]), [1, 2])]
)
STEPS = [("s", MinMaxScaler()), ("m", FULL)]
MADE = {
    "NoisyGD": FULL,
    "DPSGD": LogisticRegression(DPSGD(epochs=1)),
    "DPAGD": LinearSVC(DPAGD(selections=2)),
    "AdaCliP": LogisticRegression(AdaCliP(epochs=1)),
    "a network": MLPClassifier(DPSGD(epochs=1), hidden_layer_sizes=(2,)),
    "learned labels": LogisticRegression(FEW, classes="learn"),
    "MinMaxScaler": MinMaxScaler(),
    "OneHotEncoder": OneHotEncoder(),
    "columns": MIXED,
    "DPPCA": DPPCA(1),
    "Ridge": Ridge(target_bounds=(0, 1)),
    "SGDRegressor": SGDRegressor(FEW, target_bounds=(0, 1)),
    "a pipeline": PrivatePipeline(STEPS),
    "a search": PrivateSearchCV(FULL, {"regularization": [0.0]}, mean=1.0),
    "a search of pipelines": PrivateSearchCV(PrivatePipeline(STEPS), {"share": [0.1]}, mean=1.0),
}


@pytest.fixture
def released(monkeypatch):
    """The pass that each release was made of."""
    found, keep = [], Gate._finish_gate_release

    def spied(self, *given):
        found.append(spied.of.passes)
        return keep(self, *given)

    monkeypatch.setattr(Gate, "_finish_gate_release", spied)
    return lambda blocks: setattr(spied, "of", blocks) or found


@pytest.mark.parametrize("made", [pytest.param(name, marks=[pytest.mark.slow] * (name == "DPAGD")) for name in MADE])
@pytest.mark.parametrize("change", LENGTHS)
def test_other_lengths_are_refused_before_a_release(table, made, change, released):
    X, y = table
    if made in ("Ridge", "SGDRegressor"):
        y = X[:, 1]
    model = clone(MADE[made]).set_params(**TARGET)
    blocks = Changing(X, y, 2, LENGTHS[change])
    found = released(blocks)
    with pytest.raises(RuntimeError, match=f"^{CHANGED}"):
        model.fit(blocks)
    assert blocks.passes == 2 and set(found) <= {1}  # the number of records, and labels, which the first pass counts
    assert not hasattr(model, "charged_")


@pytest.mark.parametrize("since", [3, 5, 9])
def test_it_is_found_in_any_pass(table, since):
    search = PrivateSearchCV(LogisticRegression(NoisyGD(steps=9)), {"regularization": [0.0]}, mean=4.0)
    for made in (LogisticRegression(NoisyGD(steps=9)), PrivatePipeline(STEPS), search):
        blocks = Changing(*table, since, LENGTHS["a record less"])
        with pytest.raises(RuntimeError, match=f"^{CHANGED}"):
            clone(made).set_params(**TARGET).fit(blocks)
        assert blocks.passes == since


def other_label(label):
    return lambda parts: [(parts[0][0], np.append(parts[0][1][1:], label)), *parts[1:]]


def all_labels(label):
    return lambda parts: [(x, np.full(len(y), label, y.dtype if y.dtype == object else None)) for x, y in parts]


@pytest.mark.parametrize("classes", [None, ["no", "yes"], ["a", "no", "yes", "zzz"]])
@pytest.mark.parametrize("label", ["", "maybe", "zzzz", "yes!", 3, None])
def test_labels_of_later_passes_are_those_of_the_first(table, classes, label, released):
    last = LogisticRegression(FEW, classes=classes)
    y = table[1] if isinstance(label, str) else table[1].astype(object)
    blocks = Changing(table[0], y, 2, other_label(label))
    found = released(blocks)
    with pytest.raises(RuntimeError, match=f"^{CHANGED}: y holds a label that it did not hold at first") as error:
        clone(last).set_params(**TARGET).fit(blocks)
    assert found == [1] and "maybe" not in str(error.value)
    piped = PrivatePipeline([("s", MinMaxScaler(bounds=(0, 1))), ("m", last)])
    for given in (piped, PrivateSearchCV(piped, {"share": [0.1]}, mean=1.0)):
        with pytest.raises((RuntimeError, ValueError), match=f"^{CHANGED}|y must hold"):
            clone(given).set_params(**TARGET).fit(Changing(table[0], y, 2, all_labels(label)))


def test_labels_of_gathered_batches_are_those_of_the_first_pass(table):
    with pytest.raises(RuntimeError, match=f"^{CHANGED}: y holds a label that it did not hold at first"):
        LogisticRegression(DPSGD(epochs=1), **TARGET).fit(Changing(*table, 2, all_labels("maybe")))


def test_a_label_that_was_not_learned_contributes_nothing_in_any_pass(table):
    X = np.tile(table[0], (8, 1))
    y = np.where(X[:, 0] > 0.4, "yes", "no")
    made = LogisticRegression(FEW, classes="learn", **TARGET, public_size=len(X))
    blocks = Changing(X, y, 2, other_label("maybe"))
    blocks._parts = [(X[:700], y[:700]), (X[700:], y[700:])]
    gone = X.copy()
    gone[699] = np.nan
    late, others = made.fit(blocks)._w, np.concatenate([y[1:700], ["no"], y[700:]])
    np.testing.assert_array_equal(late, made.fit(gone, others)._w)


def test_targets_of_later_passes_are_numbers(table):
    X, y = table[0], table[0][:, 1]
    worse = np.append(y[1:100].astype(object), "CANARY")
    for made in (Ridge(target_bounds=(0, 1)), SGDRegressor(FEW, target_bounds=(0, 1))):
        blocks = Changing(X, y, 2, lambda parts: [(parts[0][0], worse), *parts[1:]])
        with pytest.raises(RuntimeError, match=f"^{CHANGED}: y holds something that is no number") as error:
            made.set_params(**TARGET).fit(blocks)
        assert "CANARY" not in str(error.value) and error.value.__suppress_context__ | (error.value.__context__ is None)


@pytest.mark.parametrize("algorithm", [NoisyGD(steps=2, center=0), DPSGD(batch_size=200, epochs=1)])
def test_collections_of_dask(table, algorithm):
    pytest.importorskip("dask")
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    kept = {"records": N}

    def rows(array):
        return array[: kept["records"]]

    X, y = (da.from_delayed(dask.delayed(rows)(each), (np.nan, *each.shape[1:]), each.dtype) for each in table)

    def lose(done, total):
        kept["records"] = N - 1

    made = LogisticRegression(algorithm, **TARGET, classes=["no", "yes"], public_size=N, callback=lose)
    with dask.config.set(scheduler="synchronous"), pytest.raises(RuntimeError, match=f"^{CHANGED}"):
        made.fit(DaskBlocks(X, y))


def test_a_pass_is_made_once_for_all_who_need_what_it_finds(table):
    """One pass finds the lengths and the labels, for every step and every run."""
    unchanged = Changing(*table, 10**9, None)
    last = LogisticRegression(NoisyGD(steps=2, center=0), public_size=N)
    PrivatePipeline([("c", MIXED), ("m", last)], **TARGET).fit(unchanged)
    scaled, filled = 12, 12 + 12 + 1
    assert unchanged.passes == 1 + scaled + filled + 2
    unchanged.passes = 0
    clone(MIXED).set_params(**TARGET).fit(unchanged)
    assert unchanged.passes == 1 + scaled + filled
    unchanged.passes = 0
    PrivateSearchCV(last, {"regularization": [0.0]}, **TARGET, mean=1.0).fit(unchanged)
    assert unchanged.passes == 1 + (1 + 2) + 1  # the labels of those that are trained on, and the score


def test_what_can_be_read_without_a_pass_needs_none(table):
    made = LogisticRegression(DPSGD(epochs=2), **TARGET)
    at_once = made.fit(*table)._w
    for blocks in (ArrayBlocks(*table, rows=77), Changing(*table, 10**9, None)):
        np.testing.assert_array_equal(made.fit(blocks)._w, at_once)
