"""Steps, pipelines and searches over blocks: the bits of an array, and what is refused before anything is paid."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, SimpleImputer, StandardScaler
from tightdp.records.views import MappedBlocks, RandomRecordSubset, SelectedRows
from tightdp.train import (
    DPIS,
    DPPCA,
    DPSGD,
    ArrayBlocks,
    Blocks,
    DaskBlocks,
    FileBlocks,
    LogisticRegression,
    NoisyGD,
    Ridge,
    SGDRegressor,
)

N = 4000
TARGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
FAST = LogisticRegression(NoisyGD(steps=3), classes=["no", "yes"])
NAMES = ["age", "income", "code"]


@pytest.fixture(scope="module")
def table():
    """Ages, incomes of which some are missing, and codes of which one is one record's own."""
    g = np.random.default_rng(0)
    X = np.column_stack([g.integers(18, 90, N), g.lognormal(10, 1, N), g.integers(0, 4, N)]).astype(float)
    X[::10, 1], X[7, 2] = np.nan, 61739.0
    return X, np.where(X[:, 0] > 50, "yes", "no")


class Pieces(Blocks):
    """Blocks that are only read in order; one is empty."""

    def __init__(self, X, y):
        self.width, self._parts = X.shape[1], [(X[a:b], y[a:b]) for a, b in ((0, 1), (1, 1), (1, 1500), (1500, N))]

    def __iter__(self):
        yield from self._parts


def columns(by):
    incomes = Chain([("fill", SimpleImputer()), ("scale", StandardScaler())])
    return ColumnTransformer([("s", MinMaxScaler(), [by[0]]), ("n", incomes, [by[1]]), ("t", OneHotEncoder(), [by[2]])])


def same(found, expected):
    assert found.charged_ == expected.charged_ and found.history_ == expected.history_
    np.testing.assert_array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize("made", [MinMaxScaler(), StandardScaler(), SimpleImputer(), OneHotEncoder()])
def test_transformers_learn_the_same(table, made, tmp_path):
    X, y = table
    np.save(tmp_path / "x.npy", X)
    expected = made.set_params(**TARGET).fit_transform(X)
    for blocks in (ArrayBlocks(X, y, rows=999), Pieces(X, y)):
        found = made.fit(blocks)
        np.testing.assert_array_equal(found.transform(X), expected)
        out = found.transform(blocks)
        assert isinstance(out, MappedBlocks) and out.width == expected.shape[1]
        np.testing.assert_array_equal(np.concatenate([x for x, _ in out]), expected)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(made.fit(mapped).transform(mapped), expected)


@pytest.mark.parametrize(
    "last",
    [
        FAST,
        LogisticRegression(DPSGD(batch_size=400, epochs=1), public_size=N),
        LogisticRegression(NoisyGD(steps=3), classes="learn"),
    ],
)
def test_a_pipeline_has_the_bits_of_an_array(table, last):
    X, y = table

    def made():
        return PrivatePipeline([("c", columns(range(3))), ("p", "passthrough"), ("m", last)], **TARGET)

    expected = made().fit(X, y)
    for blocks in (ArrayBlocks(X, y, rows=999), Pieces(X, y)):
        found = made().fit(blocks)
        same(found, expected)
        np.testing.assert_array_equal(found.predict(X[X[:, 1] > 0]), expected.predict(X[X[:, 1] > 0]))
        assert found.statement_.to_dict() == expected.statement_.to_dict() and "61739" not in str(found.statement_)
        assert not any(value in pickle.dumps(found) for value in (b"61739", np.float64(61739).tobytes()))


@pytest.mark.parametrize("last", [Ridge(target_bounds=(0, 90)), SGDRegressor(NoisyGD(steps=2), target_bounds=(0, 90))])
def test_regressors_and_components_are_last_and_between(table, last):
    X = table[0]
    made = lambda: PrivatePipeline([("s", MinMaxScaler()), ("p", DPPCA(2)), ("m", last)], **TARGET)  # noqa: E731
    expected = made().fit(X, X[:, 0])
    for blocks in (ArrayBlocks(X, X[:, 0], rows=999), Pieces(X, X[:, 0])):
        same(made().fit(blocks), expected)


def test_memory_maps_and_sparse_matrices(table, tmp_path):
    X, y = np.nan_to_num(table[0]).astype(np.float32), table[1]
    np.save(tmp_path / "x.npy", X)
    for steps in ([("c", columns(range(3)))], [("s", MinMaxScaler())]):
        expected = PrivatePipeline([*steps, ("m", FAST)], **TARGET).fit(X, y)
        for given in (np.load(tmp_path / "x.npy", mmap_mode="r"), sparse.csr_array(X)):
            found = PrivatePipeline([*steps, ("m", FAST)], **TARGET).fit(given, y)
            same(found, expected)
            assert (found.predict_proba(given) == expected.predict_proba(X)).all()
            assert found.score(given, y) == expected.score(X, y)


def test_columns_of_files_have_names(table, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = table
    named = dict(zip(NAMES, X.T, strict=True))
    parquet.write_table(arrow.table({**named, "y": y}), tmp_path / "t.parquet", row_group_size=1700)
    made = lambda: PrivatePipeline([("c", columns(NAMES)), ("m", FAST)], **TARGET)  # noqa: E731
    expected, found = made().fit(named, y), made().fit(FileBlocks(tmp_path / "t.parquet", "y", rows=600))
    same(found, expected)
    assert list(found.feature_names_in_) == NAMES
    few = {name: values[1:9] for name, values in named.items()}
    assert (found.predict(few) == expected.predict(few)).all()


@pytest.mark.parametrize("many", [1, 3])
def test_collections_of_dask(table, many):
    pytest.importorskip("dask")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    X, y = table
    steps = [("c", columns(range(3))), ("m", FAST)]
    expected = PrivatePipeline(steps, **TARGET).fit(X, y)
    X_, y_ = da.from_array(X, chunks=(N // many, 3)), da.from_array(y, chunks=N // many)
    same(PrivatePipeline(steps, **TARGET).fit(X_, y_), expected)
    frame = dd.from_pandas(pandas.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "y": y}), npartitions=many)
    same(PrivatePipeline([("c", columns(NAMES)), ("m", FAST)], **TARGET).fit(frame, "y"), expected)
    search = {"mean": 2.0, **TARGET}
    model = PrivatePipeline([("s", MinMaxScaler()), ("i", SimpleImputer(strategy="constant")), ("m", FAST)])
    held = PrivateSearchCV(model, {"share": [0.1, 0.2]}, **search)
    alone = held.fit(X, y).best_estimator_
    same(held.fit(DaskBlocks(X_, y_)).best_estimator_, alone)


@pytest.mark.slow
def test_a_search_holds_out_the_same_records(table):
    X, y = np.nan_to_num(table[0]), table[1]
    sampled = LogisticRegression(DPSGD(batch_size=400, epochs=1), public_size=N, bounds=(0, 100))
    steps = PrivatePipeline([("c", columns(range(3))), ("m", FAST)])
    for estimator, grid in ((sampled, {"regularization": [0.0, 0.1]}), (steps, {"share": [0.1, 0.2]})):
        made = lambda: PrivateSearchCV(estimator, grid, **TARGET, mean=3.0)  # noqa: B023, E731
        expected = made().fit(X, y)
        for given in ((ArrayBlocks(X, y, rows=999),), (Pieces(X, y),), (sparse.csr_array(X), y)):
            found = made().fit(*given)
            same(found.best_estimator_, expected.best_estimator_)
            assert found.best_score_ == expected.best_score_ and found.best_params_ == expected.best_params_
            assert found.charged_ == expected.charged_ and found.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("heads", [True, False])
def test_coins_are_those_of_the_record(table, heads):
    X, y = np.arange(3.0 * N).reshape(N, 3), table[1]
    lengths = np.array([1, 0, 1499, N - 1500])
    wanted = np.flatnonzero(dp.Philox(5).bernoulli(0.3, N) == heads)
    rows = RandomRecordSubset(dp.Philox(5).stream(), 0.3, lengths, heads)
    some = SelectedRows(Pieces(X, y), rows)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in some]), X[wanted])
    assert rows.counts.sum() == len(wanted)
    batches = [np.array([0, 5, len(wanted) - 1]), np.zeros(0, int), np.arange(1000)]
    for (x, labels), batch in zip(some.gather_batches(batches), batches, strict=True):
        np.testing.assert_array_equal(x, X[wanted[batch]])
        np.testing.assert_array_equal(labels, y[wanted[batch]])
    firsts = some.map_each_block(
        lambda x, y: x[:, 0].tolist(), [np.flatnonzero(np.arange(k) == 0) for k in rows.counts]
    )
    expected = [X[rows[i][:1] + start, 0].tolist() for i, start in enumerate([0, 1, 1, 1500])]
    assert list(firsts) == expected and X[wanted[0], 0] in (expected[0] or expected[2])


class Changing(Pieces):
    """Has another record from the third pass on."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        for x, y in self._parts:
            yield (x[1:], y[1:]) if self.passes > 2 else (x, y)


@pytest.mark.parametrize(
    ("given", "last", "error", "message"),
    [
        (ArrayBlocks, LogisticRegression(DPIS()), ValueError, "algorithm must be one that needs sums alone"),
        (lambda X, y: ArrayBlocks(X, np.append(y[1:], "Jane")), FAST, ValueError, "no label but those declared"),
        (lambda X, y: ArrayBlocks(X, np.full(N, "no")), LogisticRegression(), ValueError, "at least two classes"),
        (lambda X, y: ArrayBlocks(X, y), Ridge(target_bounds=(0, 1)), ValueError, "y must hold numbers"),
    ],
)
def test_what_is_wrong_is_found_before_it_is_paid_for(table, tmp_path, given, last, error, message):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="test", failure=5e-5)
    model = PrivatePipeline([("s", MinMaxScaler()), ("m", last)], **TARGET, ledger=ledger)
    with pytest.raises(error, match=message) as raised:
        model.fit(given(*table))
    assert not ledger.history and "Jane" not in str(raised.value)
    if not isinstance(last, Ridge) and "DPIS" in repr(last):
        with pytest.raises(error, match=message):
            PrivateSearchCV(last, {"regularization": [0.0]}, **TARGET, ledger=ledger).fit(given(*table))


def test_records_that_change_between_passes_end_a_fit(table):
    with pytest.raises(RuntimeError, match="X must have the same records in the same blocks at each pass"):
        PrivatePipeline([("s", MinMaxScaler()), ("m", FAST)], **TARGET).fit(Changing(*table))
    with pytest.raises(ValueError, match="y must be left out where X is Blocks"):
        PrivatePipeline([("s", MinMaxScaler()), ("m", FAST)], **TARGET).fit(Pieces(*table), table[1])
