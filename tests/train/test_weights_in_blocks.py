"""Weights of records in blocks: the bits of an array with weights, from every source, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.models.linear import LinearModel, Logistic
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.train import (
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
    fit,
)

N = 700
TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}
LARGEST = {"max_sample_weight": 2.5}
"""Below some of the weights, which count as it."""
STEPS = NoisyGD(steps=3)


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    X = g.normal(size=(N, 3))
    return X, np.where(X[:, 0] + g.normal(size=N) > 0, "yes", "no"), g.integers(0, 4, N).astype(float)


class Pieces(Blocks):
    """Blocks of triples, or of pairs."""

    def __init__(self, *parts, weighted=True):
        self.width, self.weighted = parts[0].shape[1], weighted
        self._parts = [[each[a:b] for each in parts] for a, b in ((0, 1), (1, 1), (1, 300), (300, N))]

    def __iter__(self):
        yield from self._parts


@pytest.mark.parametrize("algorithm", [STEPS, DPSGD(batch_size=60, epochs=2)])
@pytest.mark.parametrize("more", [{}, {"class_weight": {"yes": 3.0}}, {"classes": "learn"}])
def test_weights_have_the_bits_of_an_array(table, algorithm, more, tmp_path):
    X, y, w = table
    made = lambda: LogisticRegression(algorithm, **TARGET, **LARGEST, public_size=N, **more)  # noqa: E731
    expected, plain = made().fit(X, y, w), made().fit(X, y)
    assert (expected._w != plain._w).any()
    np.save(tmp_path / "x.npy", X)
    for given in (
        (np.load(tmp_path / "x.npy", mmap_mode="r"), y, w),
        (sparse.csr_array(X), y, w),
        (ArrayBlocks(X, y, rows=99), None, w),
        (ArrayBlocks(X, y, rows=99, sample_weight=w),),
        (Pieces(X, y, w),),
        (Pieces(X, y, weighted=False), None, w),
    ):
        found = made().fit(*given)
        np.testing.assert_array_equal(found._w, expected._w)
        assert found.statement_.to_dict() == expected.statement_.to_dict()
    assert (
        "weights of the records" in expected.statement_.public
        and "weights of the records" not in plain.statement_.public
    )


def test_columns_of_files_and_frames(table, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    csv = pytest.importorskip("pyarrow.csv")
    X, y, w = table
    expected = LogisticRegression(STEPS, **TARGET, **LARGEST).fit(X, y, w)._w
    named = arrow.table({"a": X[:, 0], "b": X[:, 1], "w": w.astype(int), "c": X[:, 2], "y": y})
    parquet.write_table(named, tmp_path / "t.parquet")
    csv.write_csv(named, tmp_path / "t.csv")
    for file in ("t.parquet", "t.csv"):
        blocks = FileBlocks(tmp_path / file, "y", weight="w", rows=200)
        assert blocks.columns == ("a", "b", "c")
        np.testing.assert_array_equal(LogisticRegression(STEPS, **TARGET, **LARGEST).fit(blocks)._w, expected)
    with pytest.raises(ValueError, match="columns must be one or more different names"):
        FileBlocks(tmp_path / "t.parquet", "y", ["a", "w"], weight="w")
    with pytest.raises(ValueError, match=r"weight and columns must be among .*: z is not"):
        FileBlocks(tmp_path / "t.parquet", "y", weight="z")
    with pytest.raises(ValueError, match="columns must hold numbers, and these do not: y"):
        FileBlocks(tmp_path / "t.parquet", "w", ["a"], weight="y")
    parquet.write_table(arrow.table({"a": [1.0, 2.0], "w": [1.0, None], "y": ["u", "v"]}), tmp_path / "null.parquet")
    with pytest.raises(ValueError, match="sample_weight must be finite numbers >= 0"):
        LogisticRegression(**TARGET, **LARGEST).fit(FileBlocks(tmp_path / "null.parquet", "y", weight="w"))


def test_collections_of_dask(table):
    pytest.importorskip("dask")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    X, y, w = table
    expected = LogisticRegression(STEPS, **TARGET, **LARGEST).fit(X, y, w)._w
    X_, y_, w_ = da.from_array(X, chunks=(300, 3)), da.from_array(y, chunks=100), da.from_array(w, chunks=N)
    frame = dd.from_pandas(pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": w, "c": X[:, 2], "y": y}), npartitions=2)
    for given in (
        (X_, y_, w_),
        (DaskBlocks(X_, y_, w_),),
        (frame, "y", "w"),
        (frame[["a", "b", "c", "w"]], frame["y"], "w"),
    ):
        np.testing.assert_array_equal(LogisticRegression(STEPS, **TARGET, **LARGEST).fit(*given)._w, expected)
    with pytest.raises(TypeError, match="sample_weight must be a collection of Dask"):
        LogisticRegression(STEPS, **TARGET, **LARGEST).fit(X_, y_, w)
    with pytest.raises(ValueError, match="sample_weight must be the name of a column of X"):
        DaskBlocks(frame, "y", "z")


def test_pipelines_searches_regressors_and_models_of_your_own(table):
    X, y, w = table
    target, blocks = X[:, 0], ArrayBlocks(X, y, rows=99, sample_weight=w)
    made = SGDRegressor(STEPS, **TARGET, **LARGEST, target_bounds=(-2, 2))
    by_array = made.fit(X, target, w)._w
    assert (made.fit(ArrayBlocks(X, target, rows=99, sample_weight=w))._w == by_array).all()
    model, settings = LinearModel(3, Logistic()), {**TARGET, **LARGEST, "public_size": N}
    expected = fit(model, X, (y == "yes").astype(int), STEPS, sample_weight=w, **settings).parameters
    labels = (y == "yes").astype(int)
    for given, weights in ((ArrayBlocks(X, labels, rows=99, sample_weight=w), None), (ArrayBlocks(X, labels), w)):
        found = fit(model, given, None, STEPS, sample_weight=weights, **settings).parameters
        assert (found == expected).all()
    steps = [("s", MinMaxScaler(bounds=(-3, 3))), ("m", LogisticRegression(STEPS, **LARGEST))]
    found = PrivatePipeline(steps, **TARGET).fit(blocks)
    assert (found.coef_ != PrivatePipeline(steps, **TARGET).fit(X, y).coef_).any()
    assert found.statement_.public["m: weights of the records"].startswith("each public")
    search = PrivateSearchCV(LogisticRegression(STEPS, **LARGEST), {"regularization": [0.0]}, **TARGET, mean=1.0).fit(
        blocks
    )
    assert search.privacy_.upper <= 1 and 0 <= search.best_score_ <= 1


@pytest.mark.parametrize(
    ("blocks", "weights", "message"),
    [
        (lambda X, y, w: ArrayBlocks(X, y), -np.ones(N), "sample_weight must be finite numbers >= 0"),
        (
            lambda X, y, w: ArrayBlocks(X, y),
            np.ones(N - 1),
            f"got {N - 1}, and there are more records",
        ),
        (lambda X, y, w: ArrayBlocks(X, y), np.ones(N + 1), f"got {N + 1}, and there are {N} records"),
        (lambda X, y, w: ArrayBlocks(X, y, sample_weight=w), np.ones(N), "sample_weight must be left out where blocks"),
        (lambda X, y, w: Pieces(X, y, np.where(w > 2, np.nan, w)), None, "sample_weight must be finite numbers >= 0"),
        (lambda X, y, w: Pieces(X, y, np.full(N, "CANARY")), None, "sample_weight must be numbers"),
        (lambda X, y, w: Pieces(X, y), None, "blocks of features, targets and weights where weighted = True, and only"),
        (lambda X, y, w: Pieces(X, y, w, weighted=False), None, "where weighted = True, and only there"),
    ],
)
def test_bad_weights_are_refused_by_name(table, blocks, weights, message):
    with pytest.raises(ValueError, match=message) as error:
        LogisticRegression(**TARGET, **LARGEST).fit(blocks(*table), sample_weight=weights)
    assert "CANARY" not in str(error.value)


@pytest.mark.parametrize("made", [LogisticRegression(STEPS), SGDRegressor(STEPS, target_bounds=(0, 1))])
def test_weights_that_are_all_zero_are_refused_before_a_charge(table, made, tmp_path):
    """Of an array, of blocks in any form, and where they lie in some blocks only."""
    X, y, w = table
    y = y if isinstance(made, LogisticRegression) else X[:, 0]
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"a": X[:, 0], "b": X[:, 1], "w": 0 * w, "y": y}), tmp_path / "t.parquet")
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="test")
    made.set_params(**TARGET, **LARGEST, ledger=ledger)
    for given in (
        (X, y, 0 * w),
        (ArrayBlocks(X, y), None, 0 * w),
        (Pieces(X, y, 0 * w),),
        (FileBlocks(tmp_path / "t.parquet", "y", weight="w"),),
    ):
        with pytest.raises(ValueError, match="sample_weight must be finite numbers >= 0, and not all zero"):
            made.fit(*given)
    assert not ledger.history
    late = np.where(np.arange(N) == N - 1, 1.0, 0.0)
    np.testing.assert_array_equal(made.fit(Pieces(X, y, late))._w, made.fit(X, y, late)._w)


@pytest.mark.parametrize(
    "weights",
    [
        *(np.full(N, each) for each in (1 + 0j, "1", b"1", np.datetime64("2020-01-01"), np.timedelta64(1, "s"))),
        *(np.full(N, each, object) for each in (1j, "1", b"1", None, 10**400)),
        *([["1"] * N, [[1, 2]] * N, "CANARY", {}]),
    ],
)
def test_weights_that_are_no_numbers_are_refused_by_name(table, weights):
    X = table[0]
    for fit_ in (
        LogisticRegression(**TARGET, **LARGEST).fit,
        SGDRegressor(**TARGET, **LARGEST, target_bounds=(0, 1)).fit,
    ):
        for given in ((X, X[:, 0] > 0), (ArrayBlocks(X, X[:, 0] > 0), None)):
            with pytest.raises(ValueError, match=r"^sample_weight must (be (finite )?numbers >= 0|have shape)"):
                fit_(*given, sample_weight=weights)


def test_estimators_without_weights_refuse_them(table):
    X, _, w = table
    blocks = ArrayBlocks(X, X[:, 0], sample_weight=w)
    with pytest.raises(ValueError, match="sample_weight must be left out with Ridge"):
        Ridge(**TARGET, target_bounds=(0, 1)).fit(blocks)
    with pytest.raises(ValueError, match="sample_weight must be left out with DPPCA"):
        DPPCA(1, **TARGET).fit(blocks)
