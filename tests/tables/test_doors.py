"""What is wrong with a table, or with what is declared of it, is said before anything is spent."""

import csv
import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tightdp as dp
from tightdp._support.file_lock import LOCKS_FOLDERS, FileLock
from tightdp.cli import build_command_parser, main
from tightdp.cli.command_files import reserve_command_output
from tightdp.records.column_encodings import NumberColumn
from tightdp.records.sources import rows
from tightdp.records.sources.rows import Rows
from tightdp.records.text import find_repeated_column_names
from tightdp.statement.column_words import state_fact_of_column_bounds, state_fact_of_labels
from tightdp.tables.model_file import TableModel

ASKED = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "people.csv"
    lines = [f"{20 + k % 60},{'fm'[k % 2]},{'yes' if k % 60 > 30 else 'no'}" for k in range(300)]
    file.write_text("\n".join(["age,sex,ill", *lines]) + "\n")
    return file


@pytest.fixture
def ledger(tmp_path):
    return dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5, dataset="people", failure=1e-6)


def train(data, ledger, *options):
    return main(["train", str(data), "--label", "ill", *ASKED, "--ledger", str(data.with_name("l")), *options])


GOOD = ["--bounds", "age=18:90", "--categories", "sex=f,m", "--classes", "no,yes"]


@pytest.mark.parametrize(
    ("options", "column"),
    [
        (["--classes", "No,Yes"], "'ill'"),
        (["--categories", "sex=F,M"], "'sex'"),
        (["--categories", "sex=F,M", "--learn-bounds", "age"], "'sex'"),
        (["--classes", "No,Yes", "--learn-bounds", "age"], "'ill'"),
    ],
)
def test_declared_values_that_no_record_has_stop_a_run_before_it_spends(data, ledger, options, column, capsys):
    given = GOOD[2:] if "--learn-bounds" in options else GOOD
    plain = {given[i]: given[i + 1] for i in range(0, len(given), 2)}
    plain |= {options[i]: options[i + 1] for i in range(0, len(options), 2)}
    assert train(data, ledger, *[part for pair in plain.items() for part in pair]) == 2
    err = capsys.readouterr().err
    assert f"no record has a value of {column} that is declared" in err and "nothing was spent" in err
    assert ledger.spent == 0 and not data.with_suffix(".model.json").exists()


def test_a_label_without_records_is_noted_and_trains(data, ledger, capsys):
    """Whether one record has a label must not decide whether there is a model."""
    assert train(data, ledger, *GOOD[:4], "--classes", "no,yes,unknown") == 0
    assert "not to be published: no record has the label 'unknown'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--public-size", "0"], "public_size must be"),
        (["--public-size", "-5", "--algorithm", "dp-sgd"], "public_size must be"),
        (["--regularization", "nan"], "regularization must be"),
        (["--out", "no such folder/m.json"], "--out no such folder/m.json: there is no folder"),
        (["--bounds", "age=18:91"], "--bounds age=18:91: must be COLUMN=LOW:HIGH with LOW < HIGH, both finite, once"),
    ],
)
@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_bad_settings_are_named_in_a_dry_run_too(data, ledger, options, line, dry, capsys):
    assert train(data, ledger, *GOOD, *options, *dry) == 2
    assert line in capsys.readouterr().err and ledger.spent == 0


def test_bounds_of_something_else_are_noted(data, ledger, capsys):
    assert train(data, ledger, *GOOD[2:], "--bounds", "age=0:1") == 0
    assert "not to be published: 300 of 300 records are beyond the bounds of 'age'" in capsys.readouterr().err


def test_a_test_that_nothing_can_pass_spends_nothing(data, ledger, capsys):
    assert train(data, ledger, *GOOD) == 0
    spent = ledger.spent
    data.write_text(data.read_text().replace("yes", "Yes").replace("no", "No"))
    model = str(data.with_suffix(".model.json"))
    assert main(["test", model, str(data), *ASKED, "--ledger", str(data.with_name("l"))]) == 2
    assert "no record has one of the model's labels" in capsys.readouterr().err and ledger.spent == spent


def test_a_model_is_replaced_by_force_alone(data, ledger, capsys):
    assert train(data, ledger, *GOOD) == 0
    spent, model = ledger.spent, data.with_suffix(".model.json").read_bytes()
    assert train(data, ledger, *GOOD) == 2
    assert "people.model.json: exists already, and a model cost budget" in capsys.readouterr().err
    assert ledger.spent == spent and data.with_suffix(".model.json").read_bytes() == model
    assert train(data, ledger, *GOOD, "--epsilon", ".1", "--force") == 0
    assert ledger.spent > spent and data.with_suffix(".model.json").read_bytes() != model


@pytest.mark.skipif(os.name != "posix", reason="needs devices that are files")
@pytest.mark.parametrize("place", ["/dev/full", "/dev/null", "/proc/model"])
def test_a_place_that_takes_no_file_is_refused_before_anything_is_spent(data, ledger, place, capsys):
    assert train(data, ledger, *GOOD, "--out", place, "--force") == 2
    assert f"--out {place}: " in capsys.readouterr().err and ledger.spent == 0


def test_a_model_that_cannot_be_written_is_printed(data, ledger, monkeypatch, capsys):
    def full(model, path):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(TableModel, "save", full)
        assert train(data, ledger, *GOOD) == 2
    printed = capsys.readouterr()
    assert "is on standard output: keep it" in printed.err and ledger.spent > 0
    assert TableModel.from_dict(json.loads(printed.out)).label == "ill"
    assert sorted(path.name for path in data.parent.iterdir()) == ["l", "people.csv"]


def read(file):
    return TableModel.from_dict(json.loads(file.read_text()))


def test_a_model_of_another_run_is_not_replaced(data, ledger, monkeypatch, capsys):
    """It was written after this run had begun."""
    out, save = data.with_suffix(".model.json"), TableModel.save

    def late(model, path):
        save(model, path)
        out.write_bytes(path.read_bytes() + b" ")

    monkeypatch.setattr(TableModel, "save", late)
    assert train(data, ledger, *GOOD) == 2
    kept = Path(capsys.readouterr().err.split("is in ")[1].strip())
    assert out.read_bytes() == kept.read_bytes() + b" " and read(kept).label == "ill"
    assert train(data, ledger, *GOOD, "--epsilon", ".1", "--force") == 0
    assert read(out).label == "ill"


@pytest.mark.parametrize("name", ["l", "notes.txt", "page.html"])
@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_force_replaces_models_alone(data, ledger, name, dry, capsys):
    place, spent = data.with_name(name), ledger.spent
    if name != "l":
        place.write_text("<!DOCTYPE html> of somebody else")
    before = place.read_bytes()
    assert train(data, ledger, *GOOD, "--out", str(place), "--force", *dry) == 2
    found = "is a ledger" if name == "l" else "exists already, and is no model of this command"
    assert f"--out {place}: {found}" in capsys.readouterr().err
    assert place.read_bytes() == before and ledger.spent == spent


WRITERS = {
    "train": lambda model, data: [str(data), "--label", "ill", *ASKED, *GOOD],
    "schema": lambda model, data: [str(data), "--label", "ill"],
    "predict": lambda model, data: [str(model), str(data)],
    "statement": lambda model, data: [str(model)],
    "sweep": lambda model, data: ["--noise-multiplier", "1", "--delta", "1e-5"],
    "plot": lambda model, data: ["--noise-multiplier", "1", "--points", "3"],
}
"""The arguments of each command with an output file, besides that file."""


def list_options():
    """The options of each command."""
    (commands,) = (each for each in build_command_parser(None, every=True)._actions if isinstance(each.choices, dict))
    return {name: set(parser._option_string_actions) for name, parser in commands.choices.items()}


@pytest.mark.parametrize("kind", ["a model", "a ledger", "beside a ledger", "a link", "a link to none", "no folder"])
def test_every_command_with_an_output_file_refuses_the_same_places(data, ledger, kind, capsys):
    """With and without --force; but a model may replace a model."""
    pytest.importorskip("matplotlib")
    assert train(data, ledger, *GOOD) == 0
    assert {name for name, options in list_options().items() if "--out" in options} == WRITERS.keys()
    model, out, content = data.with_suffix(".model.json"), data.with_name("out.png"), None
    if kind in ("a model", "a ledger"):
        content = (model if kind == "a model" else data.with_name("l")).read_bytes()
        out.write_bytes(content)
    elif kind == "beside a ledger":
        out.with_name("m-wal.png").write_bytes(data.with_name("l").read_bytes())
        out = out.with_name("m-wal.png-journal")
    elif kind == "a link":
        content = b"\x89PNG"
        out.symlink_to(data.with_name("another.png"))
        out.write_bytes(content)
    elif kind == "a link to none":
        out.symlink_to(data.with_name("nowhere"))
    else:
        out = data.with_name("no") / "out.png"
    before = sorted(data.parent.iterdir())
    for command, options in list_options().items():
        if command not in WRITERS or (command == "plot" and kind == "beside a ledger"):  # has no suffix of an image
            continue
        for force in ([], ["--force"])[: 1 + ("--force" in options)]:
            if (command, kind, force) == ("train", "a model", ["--force"]):
                continue
            assert main([command, *WRITERS[command](model, data), *force, "--out", str(out)]) == 2, command
            assert f"tightdp: error: --out {out}: " in capsys.readouterr().err
            assert sorted(data.parent.iterdir()) == before and (content is None or out.read_bytes() == content)


def test_a_figure_replaces_no_model_and_no_ledger(data, ledger, capsys):
    """The order of a model's entries does not matter."""
    pytest.importorskip("matplotlib")
    assert train(data, ledger, *GOOD) == 0
    plain = json.loads(data.with_suffix(".model.json").read_text())
    models = [json.dumps(plain), json.dumps(dict(reversed(list(plain.items()))), indent=1)]
    for content in (*(text.encode() for text in models), data.with_name("l").read_bytes()):
        figure = data.with_name("f.png")
        figure.write_bytes(content)
        assert main(["plot", "--noise-multiplier", "1", "--points", "3", "--out", str(figure)]) == 2
        assert "which holds what budget was spent on" in capsys.readouterr().err and figure.read_bytes() == content


@pytest.mark.parametrize(
    "suffix", ["png", "svg", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("pdf", "eps", "jpg", "tif"))]
)
def test_a_figure_replaces_figures_alone(tmp_path, capsys, suffix):
    pytest.importorskip("matplotlib")
    figure = tmp_path / f"f.{suffix}"
    arguments = ["plot", "--noise-multiplier", "1", "--points", "3", "--out", str(figure)]
    assert main(arguments) == main(arguments) == 0
    figure.write_text("age,income\n31,2000\n")
    assert main(arguments) == 2 and "exists already, and is no figure of this command" in capsys.readouterr().err
    assert figure.read_text() == "age,income\n31,2000\n"


def test_columns_whose_values_all_differ_are_no_features(tmp_path, capsys):
    g = np.random.default_rng()
    lines = ["patient_id,card,age,weight,y"]
    cards = ["?" if k == 3 else f"C{k}" for k in range(60)]
    lines += [f"{7 * k},{cards[k]},{30 + k % 40},{g.normal(70, 9)!r},{'ab'[k % 2]}" for k in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    for more in ([], ["--learn"]):
        out = tmp_path / f"s{len(more)}.json"
        assert main(["schema", str(tmp_path / "t.csv"), "--label", "y", "--out", str(out), *more]) == 0
        draft = json.loads(out.read_text())
        said = "Dropped as identifiers, since their values all differ: patient_id, card."
        assert said in draft["draft"] and said in capsys.readouterr().err
        assert draft["columns"]["patient_id"] == draft["columns"]["card"] == {"drop": True}
        assert "bounds" in draft["columns"]["age"] and "bounds" in draft["columns"]["weight"]


def test_of_few_records_all_ages_may_differ(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("age,y\n" + "".join(f"{20 + k},{'ab'[k % 2]}\n" for k in range(19)))
    assert main(["schema", str(tmp_path / "t.csv"), "--label", "y"]) == 0
    draft = json.loads((tmp_path / "t.schema.json").read_text())
    assert draft["columns"] == {"age": {"bounds": [20, 38]}}
    assert "identifiers" not in draft["draft"] + capsys.readouterr().err


@pytest.mark.parametrize("twice", [False, True])
def test_names_of_columns_are_checked_in_linear_time(tmp_path, twice):
    """40,000 names were compared with each other for half a minute."""
    names = [f"c{k}" for k in range(40_000)] + ["c0"] * twice
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    if twice:
        with pytest.raises(ValueError, match=r"columns named twice: c0$"):
            Rows.read(tmp_path / "wide.csv")
    else:
        assert len(Rows.read(tmp_path / "wide.csv").columns) == 40_000
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str(self) == str(other)

    assert find_repeated_column_names([Name(name) for name in names]) == ["c0"] * twice
    assert compared <= len(names)


def test_an_error_lists_some_names(tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{k}" for k in range(5000)) + "\n" + ",".join(["1"] * 5000) + "\n")
    with pytest.raises(ValueError, match=r"no column 'x'; there are c0, c1, .*, and 4,950 more") as seen:
        Rows.read(tmp_path / "wide.csv").get_source_column("x")
    assert len(str(seen.value)) < 1000


class _Endless(io.RawIOBase):
    """A file of one line that does not end."""

    read_so_far = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.read_so_far += len(buffer)
        assert self.read_so_far < 2**27, "the line is read whole"
        buffer[:] = b"7" * len(buffer)
        return len(buffer)


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    endless = _Endless()
    endless.seek = lambda *_: 0
    monkeypatch.setattr("tightdp.records.sources.rows.open_regular_file", lambda file: endless)
    with pytest.raises(ValueError, match=r"line 1 has more than 16,777,216 characters"):
        Rows.read(tmp_path / "long.csv")


def test_the_longest_line_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "LONGEST", 9)
    (tmp_path / "t.csv").write_text("abc,def\n123,4567")
    assert Rows.read(tmp_path / "t.csv").columns == {"abc": ["123"], "def": ["4567"]}
    (tmp_path / "t.csv").write_text("abc,def\n123,4567\n1234,4567\n")
    with pytest.raises(ValueError, match=r"t\.csv: line 3 has more than 9 characters"):
        Rows.read(tmp_path / "t.csv")


def test_predictions_are_no_formulas(tmp_path, capsys):
    run = dp.Gaussian(5.0) * 1
    link = '=HYPERLINK("http://example.org")'
    facts = state_fact_of_labels(("-1", link)), state_fact_of_column_bounds("x", 0.0, 1.0)
    public = {fact.name: fact.declared_text for fact in facts}
    statement = dp.Statement("a model", run.epsilon(1e-6), 1e-6, run, public=public)
    weights = np.array([[2.0]]), np.array([-1.0])
    dp.TableModel("logistic", "@sum", ("-1", link), (NumberColumn("x", 0.0, 1.0),), *weights, statement).save(
        tmp_path / "m.json"
    )
    (tmp_path / "new.csv").write_text("x\n0\n1\n")
    arguments = ["predict", str(tmp_path / "m.json"), str(tmp_path / "new.csv")]
    assert main(arguments) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["'@sum"], ["-1"], ["'" + link]]
    assert main([*arguments, "--raw"]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["@sum"], ["-1"], [link]]


def spent(ledger):
    return len(dp.Ledger(ledger).history)


@pytest.mark.skipif(sys.platform == "win32", reason="has no /dev/full, and no way to close a stream in a shell")
@pytest.mark.parametrize(
    ("command", "options"), [pytest.param("frequent", "--column owner", marks=pytest.mark.slow), ("test", "")]
)
def test_a_release_that_cannot_be_printed_is_not_lost(tmp_path, command, options):
    """A closed output is refused before the charge; what cannot be written goes to where errors are."""
    (tmp_path / "a.csv").write_text(
        "age,owner\n" + "".join(f"{i % 50 + 20},{'yes' if i % 3 else 'no'}\n" for i in range(200))
    )
    ledger = tmp_path / "a.ledger"
    dp.Ledger.create(ledger, epsilon=9.0, delta=1e-4, dataset="a", failure=1e-5)
    tightdp = f"{sys.executable} -m tightdp.cli"

    def run(line):
        return subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)

    model = ""
    if command == "test":
        model = "m.json "
        declared = ["--label", "owner", "--bounds", "age=20:70", "--classes", "no,yes"]
        asked = ["--epsilon", "1", "--delta", "1e-5", "--out", str(tmp_path / "m.json")]
        assert main(["train", str(tmp_path / "a.csv"), *declared, *asked]) == 0
    asked = f"{tightdp} {command} {model}a.csv {options} --epsilon 1 --delta 1e-6 --ledger a.ledger"
    closed = run(f"{asked} >&-")
    assert closed.returncode == 2 and "Nothing was spent" in closed.stderr and spent(ledger) == 0
    full = run(f"{asked} > /dev/full")
    assert full.returncode == 2 and "the release is above" in full.stderr and spent(ledger) == 1
    assert "(1, 1e-6)-differentially private" in full.stderr
    piped = run(f"({asked}; echo $? > code) | true")
    assert "differentially private" in piped.stderr or spent(ledger) == 2
    assert run(asked).returncode == 0


@pytest.mark.parametrize("broken", ['30,"yes', '"30,yes', '30,"yes""'])
def test_a_record_that_takes_in_others_is_refused(tmp_path, broken):
    """A quote that is not closed would take in all records behind it, up to the next quote or the end."""
    lines = ["age,owner", *(f"{i % 50 + 20},{'yes' if i % 3 else 'no'}" for i in range(200))]
    for later in ([], ['40,"no']):
        path = tmp_path / "a.csv"
        path.write_text("\n".join([*lines[:50], broken, *lines[50:], *later, *lines[1:3]]))
        with pytest.raises(ValueError, match=r"line 51: a cell goes on over the end of the line"):
            Rows.read(path)
    path.write_text("\n".join([*lines, '30,"yes"', "", '"30",no', '30,"yes']))
    assert len(Rows.read(path)) == 203


def test_a_name_cannot_command_the_terminal(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('"a\033[31mge",owner\n7,yes\n3,no\n')
    asked = ["train", str(tmp_path / "a.csv"), "--label", "owner", "--classes", "no,yes", *ASKED]
    assert main([*asked, "--out", str(tmp_path / "m.json")]) == 2
    said = capsys.readouterr().err
    assert "\\x1b[31mge" in said and said.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "declared",
    [GOOD, [*GOOD[2:], "--learn-bounds", "age"], [*GOOD, "--public-size", "300"]],
)
def test_a_dry_run_says_what_is_then_charged(data, ledger, declared, capsys):
    before = set(data.parent.iterdir())
    assert train(data, ledger, *declared, "--dry-run", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert ledger.spent == 0 and set(data.parent.iterdir()) == before
    assert train(data, ledger, *declared) == 0
    statement = dp.load(data.with_suffix(".model.json")).statement
    assert said["charged"] == repr(statement.charged) and said["epsilon"] == statement.privacy.upper
    assert (said["spent"], said["spent_after"]) == (0, ledger.spent)
    capsys.readouterr()
    assert train(data, ledger, *declared, "--dry-run") == 2  # the model is there already, and stays
    assert train(data, ledger, *declared, "--dry-run", "--force") == 0
    assert f"{statement.charged!r}" in (printed := capsys.readouterr().out) and "Nothing was spent" in printed


@pytest.mark.parametrize("declared", [GOOD, [*GOOD[2:], "--learn-bounds", "age"], [*GOOD, "--public-size", "300"]])
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--algorithm", "objective-perturbation"], "regularization must be > 0"),
        (["--algorithm", "objective-perturbation", "--model", "svm", "--regularization", "1"], "needs a linear model"),
        (["--seed", str(2**64)], "random_state must be"),
    ],
)
def test_a_dry_run_refuses_the_settings_that_the_run_refuses(data, ledger, declared, options, line, capsys):
    for more in (["--dry-run"], []):
        assert train(data, ledger, *declared, *options, *more) == 2
        assert line in capsys.readouterr().err and ledger.spent == 0


def test_a_dry_run_that_the_ledger_does_not_cover_is_told(data, ledger, capsys):
    asked = ["--epsilon", "9", "--dry-run"]
    assert train(data, ledger, *GOOD, *asked) == 3
    assert "0.0% spent, which does not cover this run" in capsys.readouterr().out
    assert train(data, ledger, *GOOD, *asked, "--json") == 3
    assert json.loads(capsys.readouterr().out)["spent_after"] is None and ledger.spent == 0
    assert train(data, ledger, *GOOD[2:], "--bounds", "age=90:18", "--dry-run") == 2


@pytest.mark.parametrize(
    "algorithm",
    [
        ["noisy-gd", "--set", "steps=100000000000"],
        ["dp-sgd", "--set", "epochs=1e11"],
        ["dp-agd", "--set", "selections=100000000000"],
        ["adaclip", "--set", "epochs=1e11"],
    ],
)
@pytest.mark.parametrize("public", [[], ["--public-size", "300"]])
def test_a_run_that_would_not_end_is_refused_before_it_spends(data, ledger, algorithm, public, capsys):
    assert train(data, ledger, *GOOD, "--algorithm", *algorithm, *public) == 2
    err = capsys.readouterr().err
    assert ledger.spent == 0 and (
        "algorithm must plan at most 10,000,000 releases, and its settings make" in err
        or "must be an integer in [1, 10000000]" in err
    )


def test_a_new_ledger_on_the_command_line_pays_for_what_is_learned(data, capsys):
    path = str(data.with_name("l"))
    assert main(["ledger", "create", path, "--dataset", "people", "--epsilon", "2", "--delta", "1e-5"]) == 0
    learned = ["--learn-classes", "--learn-categories", "sex", "--learn-bounds", "age"]
    assert train(data, None, *learned, "--dry-run") == 0
    asked = ["--column", "sex", "--epsilon", ".2", "--delta", "1e-7", "--ledger", path]
    assert main(["frequent", str(data), *asked]) == 0
    strict = str(data.with_name("strict"))
    made = ["ledger", "create", strict, "--dataset", "people", "--epsilon", "2", "--delta", "1e-5", "--failure", "0"]
    assert main(made) == 0
    assert main(["frequent", str(data), *asked[:-1], strict]) == 3
    capsys.readouterr()


def test_output_replaces_no_file_of_others(data, ledger, capsys):
    assert train(data, ledger, *GOOD) == 0
    model, text = str(data.with_suffix(".model.json")), data.read_text()
    new = data.with_name("new.csv")
    new.write_text(text)
    for command in (
        ["statement", model],
        ["predict", model, str(new)],
        ["sweep", "--noise-multiplier", "1", "--delta", "1e-5"],
    ):
        for words in (text, "<!DOCTYPE html><p>minutes of a meeting</p>", "ill,age\nno,30\n", ""):
            other = data.with_name("other")
            other.write_text(words)
            for force in ([], ["--force"]):  # which replaces files of the command's own kind alone
                assert main([*command, "--out", str(other), *force]) == 2
                assert f"--out {other}: exists already, and is no " in capsys.readouterr().err
                assert other.read_text() == words
        fresh = str(data.with_name("fresh"))
        assert main([*command, "--out", fresh]) == 0
        if command[0] != "statement":  # which replaces a page of the same model
            assert main([*command, "--out", fresh]) == 2
            assert f"--out {fresh}: exists already: name another file, or give --force" in capsys.readouterr().err
        assert main([*command, "--out", fresh, "--force"]) == 0
        Path(fresh).unlink()
    capsys.readouterr()


def test_a_page_replaces_a_page_of_the_same_model(data, ledger, capsys):
    assert train(data, ledger, *GOOD) == 0
    model, page = str(data.with_suffix(".model.json")), data.with_name("page.html")
    assert [main(["statement", model, "--out", str(page)]) for _ in range(2)] == [0, 0]
    another = str(data.with_name("another.json"))
    assert train(data, ledger, *GOOD, "--epsilon", ".1", "--out", another) == 0
    before = page.read_bytes()
    capsys.readouterr()
    assert main(["statement", another, "--out", str(page)]) == 2
    assert f"--out {page}: is the page of another model" in capsys.readouterr().err and page.read_bytes() == before
    assert main(["statement", another, "--out", str(page), "--force"]) == 0 and page.read_bytes() != before
    capsys.readouterr()


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("name", ["", "-"])
def test_an_output_is_a_file_with_a_name(data, command, name, monkeypatch, capsys):
    monkeypatch.chdir(data.parent)
    before = sorted(data.parent.iterdir())
    with pytest.raises(SystemExit, match="2"):
        main([command, *WRITERS[command](data, data), f"--out={name}"])
    assert f"argument --out: must be the path of a file, got {name!r}" in capsys.readouterr().err
    assert sorted(data.parent.iterdir()) == before


READERS = {
    "train": lambda model, data, pipe: [pipe, "--label", "ill", *ASKED, *GOOD],
    "train --test": lambda model, data, pipe: [data, "--label", "ill", *ASKED, *GOOD, "--test", pipe],
    "train --schema": lambda model, data, pipe: [data, *ASKED, "--schema", pipe],
    "train --ledger": lambda model, data, pipe: [data, "--label", "ill", *ASKED, *GOOD, "--ledger", pipe],
    "schema": lambda model, data, pipe: [pipe, "--label", "ill"],
    "predict": lambda model, data, pipe: [model, pipe],
    "predict ": lambda model, data, pipe: [pipe, data],
    "test": lambda model, data, pipe: [model, pipe, *ASKED],
    "test ": lambda model, data, pipe: [pipe, data, *ASKED],
    "frequent": lambda model, data, pipe: [pipe, "--column", "ill", *ASKED],
    "statement": lambda model, data, pipe: [pipe],
    "verify": lambda model, data, pipe: [pipe],
    "verify --model": lambda model, data, pipe: [model, "--model", pipe],
    "verify --ledger": lambda model, data, pipe: [model, "--ledger", pipe],
    "ledger show": lambda model, data, pipe: [pipe],
}
"""Arguments of each command that reads files, with a pipe in the place of one of them."""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_an_error_and_nothing_waits_for_it(data, ledger, reader, capsys):
    assert train(data, ledger, *GOOD) == 0
    model, pipe = data.with_suffix(".model.json"), data.with_name("pipe")
    os.mkfifo(pipe)
    capsys.readouterr()
    words = reader.split() if reader.startswith("ledger") else reader.split()[:1]
    out = ["--out", str(data.with_name("out"))] if words[0] in ("train", "schema") else []
    assert main([*words, *map(str, READERS[reader](model, data, pipe)), *out]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tightdp: error: {pipe}: must be a file, and this is a folder, a pipe or a device"), said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("command", WRITERS)
def test_no_command_writes_to_a_pipe_or_a_device(data, ledger, command, capsys):
    assert train(data, ledger, *GOOD) == 0
    pipe = data.with_name("pipe.png")
    os.mkfifo(pipe)
    for out in (pipe, Path("/dev/null")) if command != "plot" else (pipe,):
        capsys.readouterr()
        for force in ([], ["--force"])[: 1 + ("--force" in list_options()[command])]:
            assert main([command, *WRITERS[command](data.with_suffix(".model.json"), data), *force,
                         "--out", str(out)]) == 2  # fmt: skip
            assert f"--out {out}: must be a file, and this is" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "test", "frequent"])
@pytest.mark.parametrize("row", ["x" * 140_000 + ",no", "31,no,more", "31", "abc,no", "inf,no"])
def test_an_error_of_a_record_names_file_and_line_and_charges_nothing(tmp_path, command, row, capsys):
    """A long cell had no line, and ``test`` called every file "table"."""
    good, bad, ledger = tmp_path / "good.csv", tmp_path / "bad.csv", tmp_path / "l"
    lines = ["age,ill", *(f"{20 + k % 50},{'yes' if k % 2 else 'no'}" for k in range(300))]
    good.write_text("\n".join(lines) + "\n")
    bad.write_text("\n".join([*lines[:200], row, *lines[200:]]) + "\n")
    made = dp.Ledger.create(ledger, epsilon=9.0, delta=1e-3, dataset="people", failure=1e-4)
    declared = ["--label", "ill", "--bounds", "age=18:90", "--classes", "no,yes", "--out", str(tmp_path / "m.json")]
    budget = ["--epsilon", "1", "--delta", "1e-5"]
    assert main(["train", str(good), *declared, *budget]) == 0
    capsys.readouterr()
    options = {
        "train": ["train", str(bad), *declared, "--force"],
        "test": ["test", str(tmp_path / "m.json"), str(bad)],
        "frequent": ["frequent", str(bad), "--column", "ill"],
    }[command]
    found = main([*options, *budget, "--ledger", str(ledger)])
    if command == "frequent" and row in ("abc,no", "inf,no"):  # the column of numbers is not read
        assert found == 0
        return
    assert found == 2 and not made.history
    error = capsys.readouterr().err
    assert re.search(r"bad\.csv(, line 201: |: record 200\b)", error) and len(error.splitlines()) == 1


@pytest.mark.skipif(not LOCKS_FOLDERS, reason="Windows has no such locks")
def test_empty_files_of_killed_runs_are_removed(tmp_path):
    """A run that goes on keeps its own, and one that holds something is a model that cost budget."""
    out = tmp_path / "m[1].json"
    left, model, other, link = (tmp_path / f".m[1].json.{k * 8}" for k in "0123")
    unlike = [tmp_path / name for name in (".m[1].json.4444444", ".m1.json.55555555", ".m[1].json.6666666g")]
    for path in (left, other, *unlike):
        path.touch()
    model.write_text("{}")
    link.symlink_to(unlike[0])
    lock = FileLock(other)
    with reserve_command_output(out) as place, reserve_command_output(out) as second:
        assert place.exists() and second.exists() and place != second
        assert not left.exists() and all(path.exists() for path in (model, other, link, *unlike))
    lock.release_lock()
    with reserve_command_output(out):
        assert not other.exists()
    assert set(tmp_path.iterdir()) == {model, link, *unlike}


def test_an_option_of_no_values_is_not_printed(tmp_path, capsys):
    rare = tmp_path / "rare.csv"
    rare.write_text("age,owner\n0.5,a\n0.1,b\n")
    assert main(["frequent", str(rare), "--column", "owner", "--epsilon", "1", "--delta", "1e-9"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("no value was frequent enough\n") and "--categories" not in printed
