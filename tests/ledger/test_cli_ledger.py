"""tightdp ledger, and what `tightdp train` does with one."""

import json

import pytest

import tightdp as dp
from tightdp.cli import main


@pytest.fixture
def path(tmp_path, capsys):
    path = str(tmp_path / "people.ledger")
    assert main(["ledger", "create", path, "--dataset", "people", "--epsilon", "1", "--delta", "1e-6"]) == 0
    assert "(1, 1e-06)-differentially private in all, neighbors add_or_remove" in capsys.readouterr().out
    return path


def test_create_spend_show_report(path, capsys):
    assert main(["ledger", "spend", path, "--composition", "Laplace(20.0) * 2", "--note", "two\nsums"]) == 0
    assert main(["ledger", "spend", path, "--noise-multiplier", "2", "--sampling-probability", "1/100"]) == 0
    capsys.readouterr()
    assert main(["ledger", "show", path, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["entries"] == 2 and shown["spent"] == dp.Ledger(path).spent > 0 and "history" not in shown
    assert main(["ledger", "report", path, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["history"]
    assert first["releases"] == "Laplace(noise_multiplier=20.0) * 2" and first["note"] == "two\nsums"
    assert second["releases"].startswith("PoissonSampled(") and second["note"] == ""
    assert main(["ledger", "report", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "people" and "in 2 entries" in lines[2] and lines[3].endswith("* 2  two sums")


def test_a_refused_spend_has_an_exit_code_of_its_own(path, capsys):
    assert main(["ledger", "spend", path, "--noise-multiplier", "1"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("tightdp: refused: Gaussian(noise_multiplier=1.0) * 1 would exceed")
    assert len(err.splitlines()) == 1 and dp.Ledger(path).history == ()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["show", "nowhere.ledger"], "there is no such file"),
        (["create", "new.ledger", "--dataset", " ", "--epsilon", "1", "--delta", "1e-6"], "dataset must say"),
        (["create", "new.ledger", "--dataset", "x", "--epsilon", "-1", "--delta", "1e-6"], "epsilon must be"),
        (["spend", "nowhere.ledger", "--noise-multiplier", "0"], "there is no such file"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, line, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", *arguments]) == 2
    err = capsys.readouterr().err
    assert line in err and len(err.splitlines()) == 1 and not list(tmp_path.iterdir())


def test_training_spends_from_it(path, tmp_path, capsys):
    table = tmp_path / "people.csv"
    table.write_text("x,y\n" + "".join(f"{k / 100},{'ab'[k > 50]}\n" for k in range(100)))
    train = ["train", str(table), "--label", "y", "--classes", "a,b", "--delta", "1e-7", "--ledger", path]
    assert main([*train, "--epsilon", "0.5"]) == 0
    (entry,) = dp.Ledger(path).history
    assert entry.note == "LogisticRegression.fit"
    (tmp_path / "people.model.json").unlink()
    capsys.readouterr()
    assert main([*train, "--epsilon", "2"]) == 3
    assert "would exceed the budget of 'people'" in capsys.readouterr().err
    assert len(dp.Ledger(path).history) == 1 and not (tmp_path / "people.model.json").exists()
