"""Columns of text in blocks: the bits of a table in memory, from files and from Dask, and nothing of rare texts."""

import pickle

import numpy as np
import pytest

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, SimpleImputer
from tightdp.train import DPIS, DPPCA, DPSGD, Blocks, FileBlocks, LogisticRegression, NoisyGD, Ridge

arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
csv, feather = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.feather")

N = 2000
TARGET = {"epsilon": 4.0, "delta": 1e-6, "random_state": 0}
CANARY = "Clinic of Jane Doe"
LAST = LogisticRegression(NoisyGD(steps=3), classes=["no", "yes"])


@pytest.fixture(scope="module")
def people():
    """Ages of which some are missing, clinics of which one is a person's own, and codes that are text."""
    g = np.random.default_rng(0)
    age = g.integers(18, 90, N).astype(float)
    clinic = g.choice(["north", " south", "étoile"], N).astype(object)
    code = g.choice(["01", "1", "?"], N).astype(object)
    label = np.where(age + 20 * (clinic == "north") > 60, "yes", "no")
    age[::10], clinic[7], clinic[8], code[9] = np.nan, CANARY, None, None
    return {"age": age, "clinic": clinic, "home": g.integers(0, 2, N) > 0, "code": code}, label


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    at, (table, label) = tmp_path_factory.mktemp("text"), people
    ages = arrow.array(table["age"], from_pandas=True)
    columns = {**table, "age": ages, "clinic": arrow.array(table["clinic"]).dictionary_encode(), "y": label}
    made = arrow.table(columns)
    parquet.write_table(made, at / "t.parquet", row_group_size=700)
    feather.write_feather(made, at / "t.arrow")
    plain = made.set_column(1, "clinic", arrow.array(table["clinic"], arrow.large_string()))
    parquet.write_table(plain, at / "plain.parquet")
    csv.write_csv(plain, at / "t.csv")
    return at


def pipeline(clinics=None, last=LAST):
    ages = Chain([("fill", SimpleImputer()), ("scale", MinMaxScaler())])
    declared = None if clinics is None else [clinics]
    columns = ColumnTransformer([
        ("a", ages, ["age"]),
        ("c", OneHotEncoder(categories=declared), ["clinic"]),
        ("k", OneHotEncoder(), ["code"]),
        ("h", "passthrough", ["home"]),
    ])  # fmt: skip
    return PrivatePipeline([("c", columns), ("m", last)], **TARGET)


@pytest.mark.parametrize(
    ("clinics", "algorithm"), [(None, NoisyGD(steps=3)), (["north", "south", "nowhere"], DPSGD(epochs=1))]
)
def test_files_give_the_bits_of_a_table_in_memory(people, folder, clinics, algorithm, monkeypatch):
    monkeypatch.setattr("tightdp.records.sources.files.CSV_BYTES", 4096)
    made = lambda: pipeline(clinics, LogisticRegression(algorithm, classes=["no", "yes"]))  # noqa: E731
    expected = made().fit(*people)
    for name, copy in (("t.parquet", True), ("plain.parquet", False), ("t.arrow", True), ("t.csv", True)):
        texts = ["clinic", "code"] if name == "t.csv" else []
        found = made().fit(FileBlocks(folder / name, "y", rows=300, copy=copy, texts=texts))
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.charged_ == expected.charged_ and found.history_ == expected.history_
        assert found.statement_.to_dict() == expected.statement_.to_dict()
        assert CANARY.encode() not in pickle.dumps(found)
    few = {name: values[1:9] for name, values in people[0].items()}
    assert (found.predict(few) == expected.predict(few)).all()
    assert clinics is not None or "categories of column 0, by noisy counts: north, south, étoile" in str(
        found.statement_
    )


def test_transformers_alone(people, folder):
    (table, _), blocks = people, FileBlocks(folder / "t.parquet", "y", ["clinic", "code"], rows=300)
    rows = np.column_stack([table["clinic"], table["code"]])
    for made in (OneHotEncoder(**TARGET), ColumnTransformer([("c", OneHotEncoder(), [1, 0])], **TARGET)):
        expected = made.fit_transform(rows)
        features = np.concatenate([x for x, _ in made.fit(blocks).transform(blocks)])
        np.testing.assert_array_equal(features, expected)


def test_a_search_reads_them(people, folder):
    columns = ColumnTransformer([("a", MinMaxScaler(bounds=(18, 90)), ["age"]), ("c", OneHotEncoder(), ["clinic"])])
    steps = PrivatePipeline([("c", columns), ("m", LAST)])
    made = lambda: PrivateSearchCV(steps, {"share": [0.1, 0.3]}, **TARGET, mean=2.0)  # noqa: E731
    expected, found = made().fit(*people), made().fit(FileBlocks(folder / "t.parquet", "y"))
    assert found.best_params_ == expected.best_params_ and found.best_score_ == expected.best_score_
    np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)
    assert CANARY.encode() not in pickle.dumps(found)


def test_data_frames_of_dask(people):
    dd, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    table, label = people
    frame = pandas.DataFrame({**table, "y": label})
    expected = pipeline().fit(table, label)
    for kind in (object, "string", "category"):
        frame["clinic"] = frame["clinic"].astype(kind)
        found = pipeline().fit(dd.from_pandas(frame, npartitions=3), "y")
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.charged_ == expected.charged_


def test_a_transformer_alone_decodes_numbers_once(folder, monkeypatch):
    seen, decoded = [], FileBlocks.__iter__
    monkeypatch.setattr(FileBlocks, "__iter__", lambda self: seen.append(0) or decoded(self))
    MinMaxScaler(**TARGET).fit(FileBlocks(folder / "t.parquet", "y", ["age", "home"]))
    OneHotEncoder(**TARGET).fit(FileBlocks(folder / "t.parquet", "y", ["clinic"]))
    assert len(seen) == 1 + 2


def test_what_was_made_of_text_is_copied_and_the_files_are_decoded_for_what_is_learned(folder, monkeypatch):
    seen, decoded = [], FileBlocks.__iter__
    monkeypatch.setattr(FileBlocks, "__iter__", lambda self: seen.append(0) or decoded(self))
    last = LogisticRegression(NoisyGD(steps=20, center=0), classes=["no", "yes"], public_size=N)
    texts = ColumnTransformer([("c", OneHotEncoder(), ["clinic"]), ("k", OneHotEncoder(), ["code"])])
    for copy, passes in ((True, 1), (False, 20)):
        seen.clear()
        model = PrivatePipeline([("t", texts), ("m", last)], **TARGET)
        model.fit(FileBlocks(folder / "t.parquet", "y", copy=copy))
        assert len(seen) == 1 + 2 + passes  # lengths and labels, the categories of each, and the features


class Own(Blocks):
    """Blocks of the caller's own."""

    width, dtype, columns, texts = 2, object, ("a", "t"), {1: "t"}

    def __init__(self, a, t, y):
        self.given = np.column_stack([np.asarray(a, object), np.asarray(t, object)]), np.asarray(y)

    def __iter__(self):
        x, y = self.given
        yield x[:5], y[:5]
        yield x[5:], y[5:]


def test_blocks_of_your_own_may_hold_text(people):
    table, label = people
    a, t = np.nan_to_num(table["age"]), table["clinic"]
    columns = ColumnTransformer([("a", MinMaxScaler(bounds=(0, 90)), ["a"]), ("t", OneHotEncoder(), ["t"])])
    made = lambda: PrivatePipeline([("c", columns), ("m", LAST)], **TARGET)  # noqa: E731
    expected = made().fit({"a": a, "t": t}, label)
    np.testing.assert_array_equal(made().fit(Own(a, t, label)).coef_, expected.coef_)
    with pytest.raises(ValueError, match="X must be a 2-D array of numbers") as error:
        made().fit(Own(np.where(a == 30, CANARY, a.astype(object)), t, label))
    assert CANARY not in str(error.value)


@pytest.mark.parametrize(
    "steps",
    [
        [("p", "passthrough"), ("m", LAST)],
        [("s", MinMaxScaler()), ("m", LAST)],
        [("s", SimpleImputer(strategy="constant")), ("m", LAST)],
        [("p", DPPCA(1)), ("m", LAST)],
        [("c", ColumnTransformer([("a", MinMaxScaler(), ["age"]), ("c", MinMaxScaler(), ["clinic"])])), ("m", LAST)],
        [("c", ColumnTransformer([("a", OneHotEncoder(), ["clinic"]), ("c", "passthrough", ["clinic"])])), ("m", LAST)],
        [("c", Chain([("i", SimpleImputer()), ("t", OneHotEncoder())])), ("m", LAST)],
    ],
)
def test_what_takes_numbers_refuses_text_before_anything_is_paid_for(folder, steps, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-4, dataset="test", failure=5e-5)
    blocks = FileBlocks(folder / "t.parquet", "y")
    model = PrivatePipeline(steps, **TARGET, ledger=ledger)
    search = PrivateSearchCV(PrivatePipeline(steps), {}, **TARGET, ledger=ledger)
    alone = LogisticRegression(**TARGET, ledger=ledger), Ridge(**TARGET, ledger=ledger), DPPCA(1, **TARGET)
    for made in (model, search, *alone, MinMaxScaler(**TARGET, ledger=ledger)):
        with pytest.raises(
            ValueError, match=r"X must hold numbers, and these columns hold text: clinic.* A OneHotEncoder"
        ):
            made.fit(blocks)
    assert not ledger.history
    with pytest.raises(ValueError, match="algorithm must be one that needs sums alone"):
        pipeline(last=LogisticRegression(DPIS(), classes=["no", "yes"])).fit(blocks)


@pytest.mark.parametrize("rare", ["A1", "3", "", "true"])
def test_one_record_does_not_change_how_the_others_of_a_csv_file_are_spelled(tmp_path, rare):
    """Of 01 and 02 alone Arrow would make the numbers 1 and 2."""
    cells = ["01", "02"] * 500
    cells[7] = rare
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells)))
    found = OneHotEncoder(**TARGET).fit(FileBlocks(tmp_path / "t.csv", "y", texts=["a"]))
    assert found.categories_ == [("01", "02")]
    if rare == "A1":
        with pytest.raises(ValueError, match=r"columns must hold numbers, .*: a; name .*, and in texts those"):
            FileBlocks(tmp_path / "t.csv", "y")


@pytest.mark.parametrize("label", ["a", "y"])
def test_text_that_is_none_is_refused_and_not_quoted(tmp_path, label):
    ends = arrow.array([0, 2, 4], arrow.int32()).buffers()[1]
    broken = arrow.Array.from_buffers(arrow.string(), 2, [None, ends, arrow.py_buffer(b"\xff\xfe" * 2)])
    parquet.write_table(arrow.table({"a": broken, "y": [0, 1]}), tmp_path / "t.parquet")
    model = PrivatePipeline([("t", OneHotEncoder()), ("m", LogisticRegression())], **TARGET)
    if label == "a":
        model = LogisticRegression(**TARGET)
    with pytest.raises(ValueError, match="columns must hold text in UTF-8, and a cell is none") as error:
        model.fit(FileBlocks(tmp_path / "t.parquet", label))
    assert type(error.value) is ValueError and error.value.__suppress_context__


def test_columns_of_one_name_are_said(tmp_path):
    (tmp_path / "t.csv").write_text("a,a,y\n1,2,0\n")
    with pytest.raises(ValueError, match=r"t\.csv cannot be read as csv .*, two of its columns have one name"):
        FileBlocks(tmp_path / "t.csv", "y")


def test_columns_that_hold_neither_are_named(tmp_path):
    times = arrow.array(np.array(["2020-01-01", "2021-01-01"], "M8[D]"))
    parquet.write_table(arrow.table({"when": times, "t": ["a", "b"], "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="columns must hold numbers, and these do not: when; name those to keep"):
        FileBlocks(tmp_path / "t.parquet", "y")
    for texts in ("t", ["z"], ["when"], ["y"]):
        with pytest.raises(ValueError, match="texts must be "):
            FileBlocks(tmp_path / "t.parquet", "y", texts=texts)
    assert FileBlocks(tmp_path / "t.parquet", "y", ["t"]).texts == {0: "t"}
