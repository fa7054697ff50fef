"""Files of columns in blocks, and as tables of the command line: the bits of an array, and what is refused."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from tightdp.train import DPSGD, FileBlocks, LogisticRegression, NoisyGD, Ridge, SGDRegressor

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")

N = 600
TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3, "bounds": (-3, 3)}
COLUMNS = ["b", "a", "count"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table in each format; whole numbers turn into others only after the first lines."""
    g, at = np.random.default_rng(0), tmp_path_factory.mktemp("files")
    X = np.column_stack([g.normal(size=(N, 2)), np.where(np.arange(N) < 500, g.integers(0, 3, N), g.normal(size=N))])
    y = np.where(X[:, 0] > 0, "yes", "no")
    missing = X.copy()
    missing[11, 1] = np.nan
    named = dict(zip(COLUMNS, missing.T, strict=True))
    table = arrow.table({**named, "y": y, "name": ["CANARY"] * N})
    table = table.set_column(1, "a", arrow.array(named["a"], from_pandas=True))
    parquet.write_table(table, at / "t.parquet", row_group_size=170)
    (at / "parts").mkdir()
    parquet.write_table(table.slice(0, 250), at / "parts" / "1.parquet")
    parquet.write_table(table.slice(250), at / "parts" / "2.parquet")
    feather.write_feather(table, at / "t.arrow")
    csv.write_csv(table, at / "t.csv")
    text = (at / "t.csv").read_text()
    (at / "zip.csv.gz").write_bytes(gzip.compress(text.encode()))
    (at / "semicolon.csv").write_text(text.replace(",", ";").replace("yes", "é"), encoding="latin-1")
    return at, missing, y


@pytest.mark.parametrize("algorithm", [NoisyGD(steps=3), DPSGD(epochs=1)])
def test_files_give_the_bits_of_an_array(folder, algorithm, monkeypatch):
    at, X, y = folder
    monkeypatch.setattr("tightdp.records.sources.files.CSV_BYTES", 4096)
    expected = LogisticRegression(algorithm, **TARGET).fit(X, y)
    for blocks in (
        FileBlocks(at / "t.parquet", "y", COLUMNS),
        FileBlocks(at / "t.parquet", "y", COLUMNS, rows=50),
        FileBlocks(at / "parts", "y", COLUMNS),
        FileBlocks([at / "parts" / "1.parquet", str(at / "parts" / "2.parquet")], "y", COLUMNS),
        FileBlocks(at / "t.arrow", "y", COLUMNS, rows=99),
        FileBlocks(at / "t.csv", "y", COLUMNS),
        FileBlocks(at / "zip.csv.gz", "y", COLUMNS),
    ):
        found = LogisticRegression(algorithm, **TARGET, classes=["yes", "no"]).fit(blocks)
        np.testing.assert_array_equal(found._w, expected._w)
    other = FileBlocks(at / "semicolon.csv", "y", COLUMNS, delimiter=";", encoding="latin-1")
    assert LogisticRegression(algorithm, **TARGET).fit(other).classes_.tolist() == ["no", "é"]


def test_types_of_columns(tmp_path):
    small = {"a": np.ones(4, np.float32), "b": np.array([True, False, True, False]), "y": [0, 1, 0, 1]}
    parquet.write_table(arrow.table(small), tmp_path / "small.parquet")
    blocks = FileBlocks(tmp_path / "small.parquet", "y")
    assert blocks.dtype == np.float32 and blocks.columns == ("a", "b")
    ((features, targets),) = blocks
    assert features.tolist() == [[1, 1], [1, 0], [1, 1], [1, 0]] and targets.tolist() == [0, 1, 0, 1]
    parquet.write_table(arrow.table(small | {"a": [2**53 - 1] * 4}), tmp_path / "ints.parquet")
    ((features, _),) = FileBlocks(tmp_path / "ints.parquet", "y")
    assert features.dtype == np.float64 and features[0, 0] == 2**53 - 1
    coded = arrow.array(["u", "v", "u", "v"]).dictionary_encode()
    parquet.write_table(arrow.table(small | {"y": coded}), tmp_path / "coded.parquet")
    ((_, targets),) = FileBlocks(tmp_path / "coded.parquet", "y")
    assert targets.tolist() == ["u", "v", "u", "v"]


def test_bad_files_are_refused_by_name_and_not_quoted(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tightdp.records.sources.files.CSV_BYTES", 4096)
    at = folder[0]
    for given, message in [
        ({"label": "z"}, "label and columns must be among .*: z is not"),
        ({"columns": ["a", "z"]}, "label and columns must be among .*: z is not"),
        ({"columns": ["a", "a"]}, "columns must be one or more different names"),
        ({"columns": ["y"]}, "columns must be one or more different names"),
        ({"paths": []}, "paths must be a file"),
        ({"format": "sql"}, "format must be one of"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
        ({"encoding": "nonsense"}, "encoding must name an encoding"),
        ({"encoding": None}, "encoding must name an encoding"),
        ({"rows": 0}, "rows must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            FileBlocks(**{"paths": at / "t.parquet", "label": "y", "columns": COLUMNS, **given})
    with pytest.raises(FileNotFoundError):
        FileBlocks(tmp_path / "none.parquet", "y")
    (tmp_path / "late.csv").write_text("a,y\n" + "1,0\n" * 9 + "CANARY,1\n")
    with pytest.raises(ValueError, match="columns must hold numbers, and these do not: a"):
        FileBlocks(tmp_path / "late.csv", "y")
    with pytest.raises(ValueError, match="X must hold numbers, and these columns hold text: name") as error:
        LogisticRegression(**TARGET).fit(FileBlocks(at / "t.parquet", "y"))
    assert "CANARY" not in str(error.value)
    (tmp_path / "later.csv").write_text("a,y\n" + "1,0\n" * 4000 + "CANARY,1\n")
    with pytest.raises(ValueError, match="is no number") as error:
        LogisticRegression(**TARGET).fit(FileBlocks(tmp_path / "later.csv", "y"))
    assert "CANARY" not in str(error.value)
    parquet.write_table(arrow.table({"a": [1.0, 2.0], "y": ["u", None]}), tmp_path / "null.parquet")
    with pytest.raises(ValueError, match="y must have one target for each record: some are missing"):
        LogisticRegression(**TARGET).fit(FileBlocks(tmp_path / "null.parquet", "y"))


@pytest.mark.parametrize("records", [9, 4000])
@pytest.mark.parametrize("line", ["1,Row #7: CANARY", "1,2,3,CANARY", "1,CANARY,1"])
def test_a_record_that_cannot_be_read_is_named_by_file_and_row_and_not_quoted(tmp_path, monkeypatch, records, line):
    monkeypatch.setattr("tightdp.records.sources.files.CSV_BYTES", 4096)
    good = "1,2,0\n1,3,1\n"
    (tmp_path / "1.csv").write_text("a,b,y\n" + good)
    (tmp_path / "2.csv").write_text("a,b,y\n" + good * records + line + "\n" + good * 9)
    for paths in (tmp_path, [tmp_path / "1.csv", tmp_path / "2.csv"]):
        with pytest.raises(ValueError, match=rf"2\.csv cannot be read as csv.* in row {2 * records + 2:,},") as error:
            list(FileBlocks(paths, "y", ["a", "b"], format="csv"))
        assert "CANARY" not in str(error.value) and error.value.__suppress_context__
        assert type(error.value) is ValueError
    if line.count(",") != 2:  # otherwise b is a column of text, if the first lines have it
        (tmp_path / "1.csv").unlink()
        with pytest.raises(ValueError, match=rf"2\.csv .* in row {2 * records + 2:,},") as error:
            list(FileBlocks(tmp_path / "2.csv", "y"))
        assert "CANARY" not in str(error.value)


@pytest.mark.parametrize(
    ("records", "text", "encoding"),
    [
        (2, b"a,y\n%s1,CANARY\xe9\n", "utf-8"),
        (2, b"a,y\n%s1,CANARY\xe9\n", "ascii"),
        (2, b"a\xe9,y\n%s1,CANARY\n", "utf-8"),
        (2, b"a,y\n%s1,CANARY\n", "utf-16"),
        (9000, b"a,y\n%s1,CANARY\xe9\n", "ascii"),
    ],
)
def test_another_encoding_is_named_with_its_file_and_no_record(tmp_path, monkeypatch, records, text, encoding):
    monkeypatch.setattr("tightdp.records.sources.files.CSV_BYTES", 4096)
    (tmp_path / "t.csv").write_bytes(text % (b"1,no\n2,yes\n" * records))
    with pytest.raises(
        ValueError, match=rf"encoding must be that of the files: .*t\.csv is not text in {encoding}"
    ) as e:
        LogisticRegression(**TARGET, classes=["no", "yes"]).fit(FileBlocks(tmp_path / "t.csv", "y", encoding=encoding))
    assert type(e.value) is ValueError and "CANARY" not in str(e.value)
    assert e.value.__context__ is None or e.value.__suppress_context__


def test_a_file_that_is_given_twice_is_refused_by_name(folder, tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes((folder[0] / "t.parquet").read_bytes())
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"paths must be .* holds none"):
        FileBlocks(tmp_path / "other", "y", COLUMNS)
    for name, link in (("soft.parquet", "symlink_to"), ("hard.parquet", "hardlink_to")):
        getattr(tmp_path / "other" / name, link)(path)
    for paths in (
        [path, path],
        [path, tmp_path / "other" / ".." / "t.parquet"],
        [path, tmp_path / "other" / "soft.parquet"],
        [path, tmp_path / "other" / "hard.parquet"],
        tmp_path / "other",
    ):
        with pytest.raises(ValueError, match=r"paths must name each file once: .*\.parquet is the same file as .*"):
            FileBlocks(paths, "y", COLUMNS)
    copied = tmp_path / "copy.parquet"
    copied.write_bytes(path.read_bytes())
    assert sum(len(y) for _, y in FileBlocks([path, copied], "y", COLUMNS)) == 2 * N


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "tightdp.cli", *map(str, arguments)], capture_output=True, text=True)


def test_a_damaged_file_is_named(folder, tmp_path):
    """The footer is whole, and what it points to is not."""
    whole = (folder[0] / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[:4] + b"\x5a" * 4000 + whole[4004:])
    with pytest.raises(ValueError, match=r"paths must be files of one form: .*t\.parquet") as error:
        LogisticRegression(NoisyGD(steps=2), classes=["no", "yes"], **TARGET).fit(
            FileBlocks(tmp_path / "t.parquet", label="y", columns=COLUMNS)
        )
    assert "CANARY" not in str(error.value)


def test_the_command_line_reads_parquet_and_arrow(folder, tmp_path):
    at = folder[0]
    settings = "--label y --classes no,yes --bounds a=-3:3,b=-3:3,count=-3:3 --drop name --allow-missing --epsilon 1"
    models = []
    for file in ("t.csv", "t.parquet", "t.arrow"):
        out = tmp_path / f"{file}.json"
        done = run("train", at / file, *settings.split(), "--delta", "1e-5", "--seed", "1", "--out", out)
        assert done.returncode == 0, done.stderr
        models.append(json.loads(out.read_text()))
        assert models[-1]["statement"].pop("dataset") == file
        assert "CANARY" not in out.read_text()
    assert models[0] == models[1] == models[2]
    predicted = [run("predict", out, at / file, "--allow-missing").stdout for file in ("t.csv", "t.parquet")]
    assert predicted[0] == predicted[1] and predicted[0].count("\n") == N + 1
    (tmp_path / "cut.parquet").write_bytes((at / "t.parquet").read_bytes()[:500])
    done = run("train", tmp_path / "cut.parquet", "--label", "y", "--classes", "a,b", "--delta", "1e-5")
    assert done.returncode == 2 and "is damaged" in done.stderr and done.stderr.count("\n") == 1


def test_a_folder_of_csv_files_is_read_by_the_names_in_it(tmp_path):
    for k in range(2):
        (tmp_path / "trips" / f"year={k}").mkdir(parents=True)
        (tmp_path / "trips" / f"year={k}" / "part.csv").write_text(f"x,y\n{k},1\n{k + 2},0\n")
    (tmp_path / "trips" / "_SUCCESS").touch()
    rows = np.concatenate([features for features, _ in FileBlocks(tmp_path / "trips", label="y")])
    assert rows.tolist() == [[0], [2], [1], [3]]


def test_decimal_commas_and_further_marks_of_missing_numbers(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("x;y\n1,5;1\n-;0\n#N/A;0\n-999;1\n-2;1\n")
    blocks = FileBlocks(file, label="y", delimiter=";", decimal=",", missing=["-999"])
    (found,) = [features[:, 0] for features, _ in blocks]
    np.testing.assert_array_equal(found, [1.5, np.nan, np.nan, np.nan, -2])
    with pytest.raises(ValueError, match="decimal must be"):
        FileBlocks(file, label="y", decimal=";")
    with pytest.raises(TypeError, match="missing must be a list of texts"):
        FileBlocks(file, label="y", missing="-999")


@pytest.mark.parametrize("name", ["float.parquet", "integer.parquet", "t.csv"])
@pytest.mark.parametrize("kind", [Ridge, SGDRegressor])
def test_a_record_without_a_target_contributes_nothing_to_a_regression(tmp_path, name, kind):
    X = np.random.default_rng(0).uniform(size=(90, 2)).round(3)
    y = np.arange(90).tolist()

    def fit(features, targets):
        if name == "t.csv":
            cells = [f"{a},{b},{'' if t is None else t}" for (a, b), t in zip(features, targets, strict=True)]
            (tmp_path / name).write_text("\n".join(["a,b,y", *cells]).replace("nan", "") + "\n")
        else:
            values = arrow.array(targets, arrow.float64() if name == "float.parquet" else arrow.int64())
            table = arrow.table({"a": features[:, 0], "b": features[:, 1], "y": values})
            parquet.write_table(table, tmp_path / name, row_group_size=40)
        settings = {"epsilon": 1.0, "delta": 1e-6, "target_bounds": (0, 90), "random_state": 2}
        return kind(**settings).fit(FileBlocks(tmp_path / name, "y", rows=40)).coef_

    gone = X.copy()
    gone[7] = np.nan
    np.testing.assert_array_equal(fit(X, [*y[:7], None, *y[8:]]), fit(gone, y))
    with pytest.raises(ValueError, match="y must hold labels"):
        fit(X, [*y[:7], None, *y[8:]])
        LogisticRegression(**TARGET).fit(FileBlocks(tmp_path / name, "y"))
