"""tightdp train: a CSV in, a model and its statement out, and one clear line for bad input."""

from __future__ import annotations

import csv
import io
import json
from unittest.mock import ANY

import numpy as np
import pytest

from tightdp.cli import main
from tightdp.cli.progress import ProgressBar
from tightdp.estimators.catalog import ALGORITHMS
from tightdp.records.column_encodings import encode_record_columns
from tightdp.records.schema import Schema, plan_record_schema_columns
from tightdp.records.sources.rows import Rows

BOUNDS = ["--label", "income", "--delta", "1e-6", "--bounds", "age=18:90,hours=0:80"]
COMMON = [*BOUNDS, "--classes", "low,high", "--categories", "sex=f,m"]


@pytest.fixture
def table(tmp_path):
    g = np.random.default_rng(0)
    file = tmp_path / "people.csv"
    with file.open("w", newline="") as out:
        write = csv.writer(out)
        write.writerow(["age", "sex", "hours", "income"])
        for _ in range(2000):
            age, sex, hours = int(g.integers(18, 90)), g.choice(["m", "f"]), int(g.integers(0, 80))
            write.writerow([age, sex, hours, "high" if age / 40 + hours / 40 + (sex == "m") > 2.8 else "low"])
    return file


def test_model_and_statement(table, capsys):
    out = table.with_name("model.json")
    code = main(["train", str(table), *COMMON, "--epsilon", "2", "--out", str(out), "--test", str(table), "--json"])
    report = json.loads(capsys.readouterr().out)
    model = json.loads(out.read_text())
    assert code == 0
    assert report["statement"]["epsilon_lower"] <= report["statement"]["epsilon"] <= 2
    assert report["test_accuracy_not_private"] > 0.8
    assert model["features"] == ["age", "sex=f", "sex=m", "hours"] and model["classes"] == ["high", "low"]
    assert {"statement": model["statement"], "model_file": str(out), "test_accuracy_not_private": ANY} == report
    rows = Rows.read(table)
    bounds, categories = {"age": (18, 90), "hours": (0, 80)}, {"sex": ("f", "m")}
    declared = Schema("income", ("high", "low"), bounds, categories, frozenset(), {})
    X = encode_record_columns(rows, plan_record_schema_columns(rows, declared, categories), allow_missing=False)
    predicted = np.where(X @ np.array(model["coef"][0]) + model["intercept"][0] > 0, "low", "high")
    assert np.mean(predicted == rows.get_source_column("income")) == pytest.approx(
        report["test_accuracy_not_private"], abs=1e-6
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_trains(table, algorithm, capsys):
    options = ["--algorithm", algorithm, "--epsilon", "1", "--seed", "1", "--regularization", "0.01"]
    assert main(["train", str(table), *COMMON, *options]) == 0
    text = capsys.readouterr().out
    assert "differentially private, add or remove one record" in text
    assert "Do not release this model" in text


def test_own_noise_and_settings(table, capsys):
    options = ["--algorithm", "dp-sgd", "--set", "noise_multiplier=2", "--set", "epochs=1", "--set", "batch_size=200"]
    options += ["--public-size", "2000"]
    assert main(["train", str(table), *COMMON, *options, "--json"]) == 0
    charged = json.loads(capsys.readouterr().out)["statement"]["charged"]
    assert charged == "PoissonSampled(mechanism=Gaussian(noise_multiplier=2.0), sampling_probability=0.1) * 10"


def test_progress_goes_to_standard_error(table, capsys):
    assert (
        main(["train", str(table), *COMMON, "--epsilon", "1", "--progress", "--set", "steps=20", "--set", "center=0"])
        == 0
    )
    seen = capsys.readouterr()
    assert "21/21 releases" in seen.err and "releases" not in seen.out


def test_progress_without_a_total():
    stream = io.StringIO()
    progress = ProgressBar(True, stream)
    progress(3, None)
    progress.close()
    assert "3 releases" in stream.getvalue()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--label", "wage"], "no column 'wage'; there are age, sex, hours, income"),
        (["--categories", "job=a,b"], "no column 'job'"),
        (["--categorical", "job"], "--categorical job: its categories must be declared, --categories job=VALUE"),
        (["--public-values", "--categorical", "job"], "no column 'job'"),
        (["--categories", "sex=f"], "--categories sex=f: must be COLUMN=VALUE,VALUE,..., once a column"),
        (["--categories", "=f"], "--categories =f: must be COLUMN=VALUE"),
        (["--categories", "age=1,1"], "--categories age=1,1: must be one or more different values"),
        (["--categories", "hours="], "--categories hours=: must be one or more different values"),
        (["--classes", ",".join(map(str, range(1001)))], "must be at most 1,000 values, got 1,001"),
        (["--classes", "low,low"], "--classes low,low: must be one or more different values"),
        (["--bounds", "age=90:18"], "--bounds age=90:18: must be COLUMN=LOW:HIGH"),
        (["--bounds", "age=18"], "--bounds age=18: must be COLUMN=LOW:HIGH"),
        (["--epsilon", "-1"], "epsilon must be"),
        (["--delta", "1"], "delta must be"),
        (["--set", "depth=3"], "--set depth=3: noisy-gd has the settings"),
        (["--set", "steps=0"], "steps must be"),
        (["--algorithm", "dp-sgd", "--set", "optimizer=adam"], "optimizer must be"),
        (["--classes", "high"], "at least two classes"),
        (["--categories", "income=low,high"], "'income' is the label"),
        (["--categories", "age=1,2"], "'age' is both categorical and bounded"),
        (["--test", "nowhere.csv"], "nowhere.csv"),
        (["--out", "/nonexistent/model.json"], "--out /nonexistent/model.json: there is no folder"),
        (["--out", "/"], "--out /: must be a file, and this is a folder"),
    ],
)
def test_bad_options_give_one_line_and_exit_code_2(table, options, line, capsys):
    arguments = ["train", str(table), *COMMON, "--epsilon", "1", *options]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert line in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "the file is empty"),
        ("age,sex,hours,income\n", "no records below the header"),
        ("age,age,hours,income\n1,1,1,a\n", "columns named twice: age"),
        ("age,sex,hours,income\n20,m,1\n", "line 2: 3 cells where the header has 4"),
        ("age,sex,hours,income\n20,m,1,a\n?,m,2,b\n", "record 2 has no age"),
        ("age,sex,hours,income\n20,m,1,a\n21,f,x,b\n", "record 2, column hours: not a number (text columns are"),
        ("age,sex,hours,income\n20,m,1," + "a" * 200_000 + "\n", "bad.csv, line 2: field larger than field limit"),
        ("age,sex,hours,income\n20,m,1,\u00e9\n".encode("latin-1"), "bad.csv: must be a text file in UTF-8"),
    ],
)
def test_bad_files_give_one_line_and_exit_code_2(tmp_path, text, line, capsys):
    file = tmp_path / "bad.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    assert main(["train", str(file), *COMMON, "--epsilon", "1"]) == 2
    err = capsys.readouterr().err
    assert line in err and len(err.splitlines()) == 1


def test_numbers_beyond_the_default_bounds_are_refused(table, capsys):
    arguments = ["train", str(table), "--label", "income", "--epsilon", "1", "--delta", "1e-6"]
    assert main([*arguments, "--classes", "low,high", "--categories", "sex=f,m"]) == 2
    assert "'age' goes beyond [0, 1] and has no bounds" in capsys.readouterr().err


def test_records_with_missing_numbers_contribute_nothing(table, capsys):
    options = [*COMMON, "--epsilon", "1", "--seed", "1", "--public-size", "2000", "--json", "--force"]
    models = []
    for spoil in (False, True):
        if spoil:
            table.write_text(table.read_text() + "NA,m,3,high\n")
            options = [*options, "--allow-missing"]
        assert main(["train", str(table), *options, "--out", str(table.with_name("m.json"))]) == 0
        models.append(json.loads(table.with_name("m.json").read_text())["coef"])
    np.testing.assert_allclose(models[0], models[1], rtol=1e-9)
    capsys.readouterr()


@pytest.mark.parametrize("way", ["itself", "symlink", "hard link", "test file"])
def test_the_model_does_not_replace_the_data(table, way, capsys):
    out, more = table.with_name("out.csv"), []
    if way == "symlink":
        out.symlink_to(table)
    elif way == "hard link":
        out.hardlink_to(table)
    elif way == "test file":
        out.write_bytes(table.read_bytes())
        more = ["--test", str(out)]
    else:
        out = table.parent / ".." / table.parent.name / table.name
    before = out.read_bytes()
    assert main(["train", str(table), *COMMON, "--epsilon", "1", "--out", str(out), *more]) == 2
    reason = "this is a link" if way == "symlink" else "must not be a file that the command reads"
    assert reason in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize("missing", [[], ["--allow-missing"]])
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1_0", "not a number"),
        ("inf", "finite number"),
        ("-Infinity", "finite number"),
        ("1e999", "finite number"),
    ],
)
def test_a_cell_must_be_a_finite_number(tmp_path, cell, message, missing, capsys):
    file = tmp_path / "cells.csv"
    file.write_text(f"x,y\n0.5,a\n{cell},b\n")
    options = ["--label", "y", "--classes", "a,b", "--delta", "1e-5", "--epsilon", "1", "--bounds", "x=0:20"]
    assert main(["train", str(file), *options, *missing]) == 2
    assert f"record 2, column x: {message}" in capsys.readouterr().err.replace("must be a ", "")
