"""Records in blocks: the same bits as from memory, whatever the blocks are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tightdp as dp
from tightdp.records import stream
from tightdp.records.stream import draw_rows_of_record_stream
from tightdp.train import (
    DPAGD,
    DPIS,
    DPPCA,
    DPSGD,
    AdaCliP,
    ArrayBlocks,
    Blocks,
    CallableModel,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Ridge,
    fit,
)

N = 900
TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    X = g.normal(size=(N, 4))
    y = (X[:, 0] + g.normal(size=N) > 0).astype(int)
    X[7, 2] = np.nan
    return X, y


class Pieces(Blocks):
    """Blocks that are only read in order; it counts the passes."""

    def __init__(self, X, y, ends):
        self.width, self.passes, self._parts = (
            X.shape[1],
            0,
            list(zip(np.split(X, ends), np.split(y, ends), strict=True)),
        )

    def __iter__(self):
        self.passes += 1
        yield from self._parts


ALGORITHMS = {
    "NoisyGD": (LogisticRegression, NoisyGD(steps=4), {}),
    "NoisyGD, hinge": (LinearSVC, NoisyGD(steps=4), {"bounds": (-1, 2)}),
    "DPSGD": (LogisticRegression, DPSGD(epochs=2, center=0.1), {}),
    "DPSGD, public": (LogisticRegression, DPSGD(batch_size=60, epochs=3), {"public_size": N}),
    "DPAGD": (LogisticRegression, DPAGD(selections=3), {}),
    "DPAGD, batches": (LogisticRegression, DPAGD(selections=3, batch_size=90), {"public_size": N}),
    "AdaCliP": (LogisticRegression, AdaCliP(epochs=2), {}),
    "a network": (MLPClassifier, DPSGD(epochs=1), {"hidden_layer_sizes": (5,)}),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_blocks_give_the_bits_of_an_array(table, name):
    kind, algorithm, settings = ALGORITHMS[name]
    made = lambda: kind(algorithm, **TARGET, **settings)  # noqa: E731
    expected = made().fit(*table)
    for blocks in (
        ArrayBlocks(*table, rows=N),
        ArrayBlocks(*table, rows=113),
        Pieces(*table, [1, 1, 1, 500]),
        Pieces(*table, range(0, N, 50)),
    ):
        found = made().fit(blocks)
        np.testing.assert_array_equal(found._w, expected._w)
        assert found.charged_ == expected.charged_ and found.history_ == expected.history_


def test_regression_and_components_have_the_bits_of_an_array(table):
    X, y = table
    expected = Ridge(target_bounds=(0, 1), **TARGET).fit(X, y)
    axes = DPPCA(2, **TARGET).fit(X)
    for blocks in (ArrayBlocks(X, y, rows=37), Pieces(X, y, [5, 600])):
        assert (Ridge(target_bounds=(0, 1), **TARGET).fit(blocks).coef_ == expected.coef_).all()
        assert (DPPCA(2, **TARGET).fit(blocks).components_ == axes.components_).all()


def test_regression_and_components_of_sparse_matrices(table):
    X, y = np.nan_to_num(table[0]), table[1]
    ridge, axes = Ridge(target_bounds=(0, 1), **TARGET), DPPCA(2, **TARGET)
    dense = ridge.fit(X, y).predict(X), axes.fit(X).transform(X)
    rare = sparse.csr_array(X)
    assert (ridge.fit(rare, y).predict(rare) == dense[0]).all() and (axes.fit(rare).transform(rare) == dense[1]).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_memory_maps_and_sparse_matrices_are_read_in_blocks(table, tmp_path, dtype, monkeypatch):
    X, y = np.nan_to_num(table[0]).astype(dtype), table[1]
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr("tightdp.records.blocks.BYTES", 1000)
    seen = []
    passed = Blocks.map_each_block
    monkeypatch.setattr(Blocks, "map_each_block", lambda self, *f: seen.append(len(list(self))) or passed(self, *f))
    for algorithm in (NoisyGD(steps=3), DPSGD(epochs=1)):
        expected = LogisticRegression(algorithm, **TARGET).fit(X, y)
        assert not seen
        for given in (mapped, sparse.csr_array(X), sparse.coo_matrix(X)):
            found = LogisticRegression(algorithm, **TARGET).fit(given, y)
            assert (found.coef_ == expected.coef_).all() and min(seen) == -(-N // (1000 // (4 * X.itemsize)))
            assert (found.predict_proba(given) == expected.predict_proba(X)).all()
        seen.clear()


def test_models_of_your_own_take_blocks(table):
    X, y = np.nan_to_num(table[0]), table[1].astype(float)
    model = CallableModel(
        4, lambda w, X, y: np.array([(x @ w - t) * x for x, t in zip(X, y, strict=True)]).reshape(-1, 4)
    )
    settings = {"epsilon": 1.0, "delta": 1e-5, "public_size": N, "random_state": 0}
    expected = fit(model, X, y, NoisyGD(steps=2), **settings).parameters
    found = fit(model, ArrayBlocks(X, y, rows=100), None, NoisyGD(steps=2), **settings).parameters
    assert (found == expected).all()


def test_coins_are_those_of_a_record_whatever_is_drawn_at_once(monkeypatch):
    expected = np.flatnonzero(dp.Philox(5).bernoulli(0.3, 1000))
    for many in (1, 7, 1000, 2**20):
        monkeypatch.setattr(stream, "COINS", many)
        np.testing.assert_array_equal(draw_rows_of_record_stream(dp.Philox(5).stream(), 0.3, 1000), expected)


@pytest.mark.parametrize(("ahead", "passes"), [(2**28, 2), (1, 101)])
def test_a_pass_serves_the_batches_of_an_epoch_where_they_fit(table, monkeypatch, ahead, passes):
    """One pass that checks the blocks, and one for each epoch or each step."""
    monkeypatch.setattr(stream, "AHEAD", ahead)
    blocks = Pieces(*table, [300])
    LogisticRegression(DPSGD(batch_size=9, epochs=1), **TARGET, public_size=N).fit(blocks)
    assert blocks.passes == passes


def test_full_batches_take_a_pass_a_step_and_selections_another(table):
    blocks = Pieces(*table, [300])
    LogisticRegression(NoisyGD(steps=7, center=0), **TARGET, public_size=N).fit(blocks)
    assert blocks.passes == 1 + 7
    blocks = Pieces(*table, [300])
    found = LogisticRegression(DPAGD(selections=5, center=0), **TARGET, public_size=N).fit(blocks)
    assert blocks.passes == 1 + len(found.history_)


@pytest.mark.parametrize("algorithm", [DPIS(), OutputPerturbation(), ObjectivePerturbation()])
def test_algorithms_that_need_all_records_are_refused_before_a_release(table, algorithm, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "budget", epsilon=5.0, delta=1e-4, dataset="x")
    clf = LogisticRegression(algorithm, **TARGET, regularization=0.1, ledger=ledger, public_size=N)
    with pytest.raises(
        ValueError, match=rf"algorithm must be .* {type(algorithm).__name__} needs all records in memory"
    ):
        clf.fit(ArrayBlocks(*table))
    assert ledger.spent == 0
    with pytest.raises(TypeError, match="Sparse data"):
        clf.fit(sparse.csr_array(np.nan_to_num(table[0])), table[1])


def shrinking(X, y):
    """Blocks that lose a record after the first pass."""

    class Changing(Blocks):
        width, passes = 4, 0

        def __iter__(self):
            Changing.passes += 1
            n = len(y) - (Changing.passes > 1)
            yield X[:n], y[:n]

    return Changing()


def test_bad_blocks_are_refused_by_name(table):
    X, y = table
    clf = LogisticRegression(**TARGET)
    for blocks, message in [
        (Pieces(X[:0], y[:0], []), "X must hold at least one record"),
        (Pieces(X, np.zeros(N), [3]), "at least two classes, got one class only"),
        (Pieces(X, np.linspace(0, 1, N), [3]), "y must hold labels"),
        (Pieces(X, np.where(y == 1, "CANARY", None), [3]), "y must hold labels of one type"),
        (Pieces(X[None], y[None], []), "X must be blocks of shape"),
        (type("Ints", (Pieces,), {"dtype": int})(X, y, []), "dtype must be float32 or float64"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message) as error:
            clf.fit(blocks)
        assert "CANARY" not in str(error.value)
    short = Pieces(X, y, [])
    short._parts = [(X, y), (X[:5], y[:4])]
    with pytest.raises(ValueError, match="y must have one target for each record"):
        clf.fit(short)
    narrow = Pieces(X, y, [])
    narrow._parts = [(X, y), (X[:5, :2], y[:5])]
    with pytest.raises(ValueError, match=r"blocks of shape \(records, 4\), got one of shape \(5, 2\)"):
        clf.fit(narrow)
    with pytest.raises(ValueError, match="y must be left out where X is Blocks"):
        clf.fit(ArrayBlocks(X, y), y)
    with pytest.raises(ValueError, match="one target for each record"):
        ArrayBlocks(X, y[:-1])
    with pytest.raises(ValueError, match="rows must be"):
        ArrayBlocks(X, y, rows=0)
    with pytest.raises(ValueError, match="no label but those declared"):
        LogisticRegression(**TARGET, classes=[0, 2]).fit(ArrayBlocks(X, y))
    with pytest.raises(RuntimeError, match=r"X must have the same records .* at each pass"):
        clf.fit(shrinking(X, y))


def test_a_record_moves_a_streamed_release_as_one_in_memory(table):
    """With next to no noise, the difference of two fits with and without a record is that of arrays."""
    X, y = np.nan_to_num(table[0]), table[1]
    loud = NoisyGD(noise_multiplier=1e-6, steps=1, learning_rate=1.0, momentum=0.0, center=0)
    made = lambda: LogisticRegression(loud, delta=1e-5, public_size=N, random_state=0)  # noqa: E731
    less = made().fit(Pieces(X[:-1], y[:-1], [400]))._w - made().fit(Pieces(X, y, [77]))._w
    assert 0 < np.linalg.norm(less) <= (1 + 1e-4) / N  # one record's clipped gradient over N
