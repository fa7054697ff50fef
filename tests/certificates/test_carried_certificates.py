"""A statement that carries a certificate is verified only if the checker proves the certificate as it stands there."""

import json
import sys

import pytest

import tightdp as dp
from tightdp.cli import main

verify = pytest.importorskip("tightdp.verify", reason="python-flint is missing")

RUN = dp.Gaussian(3.0) * 4
STATED = dp.Statement("a mean", RUN.epsilon(1e-5), 1e-5, RUN, certified=True)


@pytest.fixture
def table(tmp_path):
    lines = [f"{age},{'yes' if age > 50 else 'no'}" for age in range(20, 80)] * 5
    (tmp_path / "people.csv").write_text("\n".join(["age,ill", *lines]) + "\n")
    return [str(tmp_path / "people.csv"), "--label", "ill", "--bounds", "age=18:90", "--classes", "no,yes",
            "--epsilon", "1", "--delta", "1e-5"]  # fmt: skip


def test_what_train_certifies_is_proved_wherever_the_statement_is(table, tmp_path, capsys):
    assert main(["train", *table, "--certify"]) == 0
    model = tmp_path / "people.model.json"
    statement = dp.load(model).statement
    assert verify.check(statement.certificate.to_json())
    assert statement.certificate.upper == statement.privacy.upper
    (tmp_path / "s.json").write_text(statement.to_json())
    assert main(["statement", str(model), "--out", str(tmp_path / "page.html")]) == 0
    assert "Certificate: in this statement" in capsys.readouterr().out
    for name, entry in {"people.model.json": "statement.certificate", "s.json": "certificate",
                        "page.html": "certificate"}.items():  # fmt: skip
        assert main(["verify", str(tmp_path / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert "proved by tightdp.verify" in found["recomputed"][entry]


def test_a_statement_without_a_certificate_says_so():
    plain = dp.Statement("a mean", RUN.epsilon(1e-5), 1e-5, RUN)
    assert plain.certificate is None and plain.to_dict()["certificate"] is None
    assert "Certificate" not in str(plain)
    assert dp.Statement.from_json(plain.to_json()) == plain
    assert dp.Statement.from_json(STATED.to_json()) == STATED


@pytest.mark.parametrize("change", [
    {"epsilon": [0.0, 9.0]}, {"delta": 1e-6}, {"neighbors": "remove"}, {"version": 2},
    {"composition": [[{"type": "Gaussian", "noise_multiplier": 3.0}, 5]]},
])  # fmt: skip
def test_a_certificate_of_something_else_is_refused(change):
    plain = STATED.to_dict()
    with pytest.raises(ValueError, match="certificate"):
        dp.Statement.from_dict({**plain, "certificate": {**plain["certificate"], **change}})


def test_a_certificate_that_is_not_proved_is_refused_by_the_command(tmp_path, capsys):
    """Both ends are raised by less than a millionth. A statement's tolerance forgives the lower one, no proof does."""
    low, high = STATED.privacy.lower, STATED.privacy.upper
    text = STATED.to_json()
    for end, raised in ((high, high * (1 + 9e-7)), (low, low * (1 + 5e-7))):
        text = text.replace(repr(end), repr(raised))
    dp.Statement.from_json(text)
    file = tmp_path / "s.json"
    file.write_text(text)
    assert main(["verify", str(file)]) == 2
    error = capsys.readouterr().err
    assert "certificate: lower end" in error and "not verified" in error


def test_a_run_that_the_checker_does_not_know_gets_no_certificate(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(verify, "PAIRS", {})
    assert main(["train", *table, "--certify"]) == 0
    assert "the statement has no certificate, because its bound was not proved" in capsys.readouterr().err
    assert dp.load(tmp_path / "people.model.json").statement.certificate is None


def test_without_the_checker_nothing_is_trained_and_a_statement_is_read(table, tmp_path, monkeypatch, capsys):
    file = tmp_path / "s.json"
    file.write_text(STATED.to_json())
    monkeypatch.delattr(dp, "verify", raising=False)
    monkeypatch.setitem(sys.modules, "tightdp.verify", None)
    monkeypatch.setitem(sys.modules, "flint", None)
    assert main(["train", *table, "--certify"]) == 2
    assert "needs python-flint" in capsys.readouterr().err
    assert not (tmp_path / "people.model.json").exists()
    assert main(["verify", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "needs python-flint" in found["no file can show"]["certificate"]


def test_a_certificate_that_would_be_too_long_is_refused_when_it_is_made():
    run = sum((dp.PoissonSampled(dp.Gaussian(9.0 + i / 1000), 1e-3) * i for i in range(1, 200)), dp.Gaussian(3.0) * 1)
    with pytest.raises(ValueError, match="at most 20,000 characters"):
        dp.Statement("a mean", run.epsilon(1e-5), 1e-5, run, certified=True)


def test_the_patience_of_the_command_reaches_the_checker(tmp_path, monkeypatch, capsys):
    certificate, statement = tmp_path / "c.json", tmp_path / "s.json"
    certificate.write_text(STATED.certificate.to_json())
    statement.write_text(STATED.to_json())
    monkeypatch.setattr(verify, "MOST_WORK", 1.0)
    for file in (certificate, statement):
        assert main(["verify", str(file)]) == 2
        output = capsys.readouterr()
        assert verify.TOO_MUCH in output.out + output.err
        assert main(["verify", str(file), "--patient"]) == 0
        assert "proved" in (text := capsys.readouterr().out) or "verified" in text
