"""What `tightdp train` writes for everybody to read names nothing that was not declared."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.records.column_encodings import CategoryColumn

CANARY = "Clinic of Jane Doe"
COMMON = ["--label", "income", "--delta", "1e-6", "--epsilon", "1", "--seed", "1", "--set", "steps=5"]
DECLARED = [*COMMON, "--classes", "low,high", "--categories", "clinic=north,south"]


@pytest.fixture
def write(tmp_path):
    """A table of numbers, clinics and labels, with the rows given on top."""

    def write(*rows, header=("age", "clinic", "income"), n=300):
        g = np.random.default_rng(0)
        file = tmp_path / "people.csv"
        with file.open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow(header)
            table.writerows(rows)
            for _ in range(n):
                age = g.random()
                table.writerow([age, g.choice(["north", "south"]), "high" if age > 0.5 else "low"])
        return file

    return write


def train(file, *options):
    return main(["train", str(file), *options])


def written(file):
    return "".join(path.read_text() for path in file.parent.iterdir() if path != file)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "dp-agd"])
def test_what_was_not_declared_stands_in_no_file(write, algorithm, capsys):
    options = [option for option in DECLARED if option not in ("--set", "steps=5")]
    file = write([0.5, CANARY, "high"], [0.5, "north", CANARY], [0.5, CANARY, CANARY], [0.5, "", ""])
    assert train(file, *options, "--algorithm", algorithm, "--json") == 0
    seen = capsys.readouterr()
    assert CANARY not in written(file) + seen.out + seen.err
    model = json.loads(file.with_suffix(".model.json").read_text())
    assert model["classes"] == ["high", "low"] and model["features"] == ["age", "clinic=north", "clinic=south"]
    assert "3 of 304 records have no declared value of 'income', and contribute nothing" in seen.err
    assert "3 of 304 records have no declared value of 'clinic', and have a row of zeros there" in seen.err


def test_undeclared_labels_contribute_nothing_and_undeclared_categories_are_zeros(write, capsys):
    def model(*rows, n=300):
        file = write(*rows, n=n)
        assert train(file, *DECLARED, "--public-size", "300", "--force") == 0
        return json.loads(file.with_suffix(".model.json").read_text())

    plain = model()
    with_label = model([0.5, "north", CANARY])
    assert with_label == plain  # coefficients included: the noise is seeded
    assert model([0.5, CANARY, "high"]) == model([0.5, "", "high"]) != plain
    rows = CategoryColumn("clinic", ("north", "south")).encode_record_values([CANARY, "south", ""])
    assert rows.tolist() == [[0, 0], [0, 1], [0, 0]]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "--classes must be given"),
        (["--classes", "low,high", "--categorical", "clinic"], "--categorical clinic: its categories must be declared"),
        (["--categories", "clinic=north,south"], "--classes must be given"),
    ],
)
def test_what_occurs_is_refused_unless_it_is_said_to_be_public(write, options, line, capsys):
    """Before the file is read: it need not even exist."""
    file = write([0.5, CANARY, "high"])
    for at in (file, file.with_name("nowhere.csv")):
        assert train(at, *COMMON, *options) == 2
        err = capsys.readouterr().err
        assert line in err and "--public-values" in err and CANARY not in err and len(err.splitlines()) == 1
    assert list(file.parent.iterdir()) == [file]


def test_public_values_lists_what_occurs_and_says_so(write, capsys):
    file = write([0.5, CANARY, "high"], [0.5, "", ""])
    assert train(file, *COMMON, "--public-values", "--categorical", "clinic") == 0
    model = json.loads(file.with_suffix(".model.json").read_text())
    assert model["features"] == ["age", f"clinic={CANARY}", "clinic=north", "clinic=south"]
    assert model["classes"] == ["high", "low"]
    stated, printed = model["statement"], capsys.readouterr().out
    assert stated["public"]["labels"] == "those that occur: high, low"
    assert stated["public"]["categories of clinic"] == f"those that occur: {CANARY}, north, south"
    assert stated["taken"] == ["labels", "categories of clinic"]
    assert "Warning: What was taken to be public was read off the data: categories of clinic." in printed


def test_the_model_file_says_what_was_printed(write, capsys):
    file = write()
    assert train(file, *DECLARED, "--test", str(file)) == 0
    printed = capsys.readouterr().out.splitlines()
    stated = dp.load(file.with_suffix(".model.json")).statement
    lines = str(stated).splitlines()
    assert printed[: len(lines)] == lines
    assert [line.split(":")[0] for line in printed[len(lines) :]] == [
        "Accuracy on the test file (not private)",
        "Model",
    ]
    assert stated.public == {
        "number of records": "private, and a noisy count was released",
        "labels": "declared: high, low",
        "columns": "their names",
        "bounds of age": "declared: 0 to 1",
        "categories of clinic": "declared: north, south",
    }
    assert stated.taken == () and "Do not release this model" in stated.warnings[0]
    (accuracy,) = re.findall(r"Accuracy[^:]*: *([0-9.]+)", "\n".join(printed))
    assert f'"{accuracy}"' not in file.with_suffix(".model.json").read_text() and "test file" not in str(stated)


@pytest.mark.parametrize(("column", "option"), [("income", "--classes VALUE"), ("clinic", "--categories clinic=VALUE")])
def test_more_values_than_a_thousand_are_refused_at_once(write, column, option, capsys):
    at = ("age", "clinic", "income").index(column)
    rows = [[0.5, "north", "high"] for _ in range(1001)]
    for k, row in enumerate(rows):
        row[at] = f"{CANARY} {k}"
    file = write(*rows)
    assert train(file, *COMMON, "--public-values", "--categorical", "clinic") == 2
    err = capsys.readouterr().err
    assert f"column {column!r} has 1,003 different values, and at most 1,000" in err and option in err
    assert CANARY not in err and len(err.splitlines()) == 1
    assert list(file.parent.iterdir()) == [file]


def test_a_thousand_values_are_not_too_many(write, capsys):
    file = write(*([0.5, f"clinic {k}", "high"] for k in range(998)))
    assert train(file, *COMMON, "--public-values", "--categorical", "clinic") == 0
    assert len(json.loads(file.with_suffix(".model.json").read_text())["features"]) == 1001
    capsys.readouterr()


def test_declared_values_may_hold_commas_and_equals_signs(write, capsys):
    file = write([0.5, "a=b, c", "high"])
    assert train(file, *COMMON, "--classes", "low, high", "--categories", 'clinic=north,"a=b, c"') == 0
    model = json.loads(file.with_suffix(".model.json").read_text())
    assert model["features"] == ["age", "clinic=north", "clinic=a=b, c"]
    capsys.readouterr()


@pytest.mark.parametrize("option", ["clinic=north,clinic=south", "clinic=north,age=0", "clinic=age=0,north"])
def test_a_second_column_in_one_list_is_refused_as_a_category(option, write, capsys):
    file = write([0.5, "north", "high"])
    assert train(file, *COMMON, "--classes", "low,high", "--categories", option) == 2
    err = capsys.readouterr().err
    value = next(value for value in option.removeprefix("clinic=").split(",") if "=" in value)
    assert (
        f"--categories clinic: {value!r} would be a category of 'clinic', and not of " in err
        and len(err.splitlines()) == 1
    )
    assert not file.with_suffix(".model.json").exists()


def test_a_schema_may_declare_a_category_that_reads_like_a_column(write, capsys):
    file = write([0.5, "age=0", "high"])
    columns = {"age": {"bounds": [0, 1]}, "clinic": {"categories": ["age=0"]}}
    schema = {"tightdp_schema": 1, "label": "income", "classes": ["low", "high"], "columns": columns}
    path = file.with_name("s.json")
    path.write_text(json.dumps(schema))
    assert train(file, "--schema", str(path), *COMMON[2:]) == 0
    assert json.loads(file.with_suffix(".model.json").read_text())["features"] == ["age", "clinic=age=0"]
    capsys.readouterr()


@pytest.mark.parametrize("row", [[CANARY, "north", "high"], [f"1e{CANARY}", CANARY, CANARY], [0.5, CANARY]])
def test_errors_do_not_quote_what_a_cell_holds(write, row, capsys):
    file = write([0.5, "north", "high"], row)
    assert train(file, *DECLARED) == 2
    err = capsys.readouterr().err
    assert CANARY not in err and ("record 2, column age" in err or "line 3" in err)
    assert list(file.parent.iterdir()) == [file]


def test_one_public_label_is_no_choice(write, capsys):
    file = write([0.5, "north", CANARY], n=0)
    assert train(file, *COMMON, "--public-values", "--categorical", "clinic") == 2
    err = capsys.readouterr().err
    assert "column 'income' has one label only" in err and CANARY not in err


@pytest.mark.parametrize("label", [False, True])
def test_a_column_in_which_nothing_occurs_is_refused(write, label, capsys):
    """A model with no category of a column could not be read again."""
    file = write(*([0.1 * k, "", "" if label else "low" if k % 2 else "high"] for k in range(9)), n=0)
    assert train(file, *COMMON, "--public-values", "--categorical", "clinic") == 2
    column, option = ("income", "--classes") if label else ("clinic", "--categories clinic=")
    err = capsys.readouterr().err
    assert f"column {column!r} has no value: declare some, {option}" in err and list(file.parent.iterdir()) == [file]
