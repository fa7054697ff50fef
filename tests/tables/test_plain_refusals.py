"""A refusal of a file says in plain words what is wrong: no message of Python's own reaches the reader."""

import json
import os
import random
import re

import numpy as np
import pytest
from edits import list_edits, list_texts
from people import write_people

import tightdp as dp
from tightdp import verify
from tightdp.cli import main
from tightdp.records.schema import Schema
from tightdp.train import LogisticRegression

PYTHON_WORDS = re.compile(
    r"out of range$|list ind|'\w+' object|object (is not|has no|of type|does not|cannot|can't)|unhashable|unpack"
    r"|subscript|not iterable|invalid literal|could not convert|cannot convert|recursion|has no (len|attribute)|<class"
    r"|<built-in|unexpected keyword|missing \d|positional|not supported between|Expecting|Unterminated|Extra data"
    r"|math (range|domain)|large to convert|Exceeds the limit|codec|NoneType|bad operand|expected str|Errno|truth value"
    r"|malformed|Traceback"
)
GIVEN = dp.PrivacyLoss.from_pmf([-0.5, 0.5], [0.25, 0.75])
RUNS = (
    dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100
    + dp.Group(dp.Laplace(2.0) * 2 + dp.PureDP(0.1), 2)
    + dp.MixtureOfGaussians(2.0, (0.0, 1.0), (0.5, 0.5)),
    dp.RandomAllocation(dp.Gaussian(1.0), 4, 1) + dp.TreeAggregation(2.0, 8) + GIVEN + dp.RandomizedResponse(0.5, 3),
)
SCHEMA = {"tightdp_schema": 1, "label": "ill", "classes": ["no", "yes"], "columns": {"age": {"bounds": [0, 120]}}}
EDITS = 80
"""Edits of each file that are tried."""


def make_certificate(run):
    return json.loads(dp.Certificate(run, "add_or_remove", None, 1e-5, 0.0, 1.0).to_json())


def make_statement():
    x, y = np.random.default_rng().random((60, 2)), np.arange(60) % 2
    made = LogisticRegression(epsilon=1.0, delta=1e-5, bounds=(0, 1), random_state=0).fit(x, y)
    return json.loads(made.statement_.to_json())


def make_account():
    account = dp.Accountant()
    account.compose(dp.Gaussian(2.0), 3)
    account.compose(GIVEN)
    return json.loads(account.to_json())


READERS = {
    "certificate": (lambda: make_certificate(RUNS[0]), dp.Certificate.from_json),
    "another certificate": (lambda: make_certificate(RUNS[1]), dp.Certificate.from_json),
    "checker": (lambda: make_certificate(RUNS[0]), verify.read_certificate),
    "another checker": (lambda: make_certificate(RUNS[1]), verify.read_certificate),
    "statement": (make_statement, dp.Statement.from_json),
    "account": (make_account, dp.Accountant.from_json),
}


def find_refusal(call, given):
    """Returns the message of the ValueError that the call raises, or "". Any other error is the caller's."""
    try:
        call(given)
    except ValueError as error:
        assert str(error)
        return str(error)
    return ""


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_in_plain_words(name):
    make, read = READERS[name]
    plain = make()
    texts = [json.dumps(edit.plain) for edit in random.sample(list(list_edits(plain)), EDITS)]
    texts += [text.decode("latin-1") for text, _ in list_texts(plain)]
    found = {text: find_refusal(read, text) for text in texts}
    assert len([said for said in found.values() if said]) > EDITS / 2
    assert not [(said, text[:2000]) for text, said in found.items() if PYTHON_WORDS.search(said)]


def test_a_checker_that_gives_up_says_so_in_plain_words():
    plain = json.loads((dp.PureDP(0.1) * 2 + dp.Gaussian(4.0)).certificate(delta=1e-5).to_json())
    for edit in random.sample(list(list_edits(plain)), EDITS):
        words = verify.verify_certificate(json.dumps(edit.plain), nearby=False, points=2**8)[1]
        assert not PYTHON_WORDS.search(words), words
    for noise in (5e-324, 1e-300, 1e300):
        huge = {**plain, "composition": [[{"type": "Gaussian", "noise_multiplier": noise}, 2**53]]}
        assert not PYTHON_WORDS.search(verify.explain(json.dumps(huge)))


@pytest.mark.parametrize("entry", ["type", "noise_multiplier", "sampling_probability"])
@pytest.mark.parametrize("value", [None, [], {}, "x", True, -1, 10**350])
def test_the_checker_names_the_entry_and_what_is_accepted(entry, value):
    plain = make_certificate(dp.PoissonSampled(dp.Gaussian(1.0), 0.5) * 3)
    sample = plain["composition"][0][0]
    (sample if entry == "sampling_probability" else sample["mechanism"])[entry] = value
    words = verify.explain(json.dumps(plain))
    if entry == "type":
        assert "must be an object with the entry" in words or "the table has no mechanism" in words
    else:
        assert re.search(f"{entry} of (Gaussian|PoissonSampled) must be a finite number in \\(0, ", words), words


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a table, a schema, a model and a ledger."""
    folder = tmp_path_factory.mktemp("files")
    write_people(folder, 200)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    dp.Ledger.create(folder / "l", epsilon=2.0, delta=1e-4, dataset="people")
    train = ["train", str(folder / "people.csv"), "--schema", str(folder / "schema.json")]
    assert main([*train, "--epsilon", "1", "--delta", "1e-5", "--out", str(folder / "m.json")]) == 0
    return folder


def list_damaged_copies(whole):
    """Returns copies of a file that are cut, or have other bytes, or are something else."""
    other = [b"", b"\0" * 50, b"\xff\xfe" * 30, b"{" * 20_000, b"[1,2]", b"hello", b"9" * 5000, b"<!DOCTYPE html>"]
    changed = []
    for _ in range(20):
        copy, place = bytearray(whole), random.randrange(len(whole))
        copy[place : place + 3] = random.randbytes(3)
        changed.append(bytes(copy))
    return [*other, whole[: len(whole) // 2], whole[:100], *changed]


@pytest.mark.parametrize("kind", ["schema.json", "m.json", "l", "m.safetensors"])
def test_a_command_refuses_a_damaged_file_in_plain_words(files, tmp_path, kind, capsys):
    whole = (files / ("m.json" if kind == "m.safetensors" else kind)).read_bytes()
    bad, model, data = tmp_path / kind, str(files / "m.json"), str(files / "people.csv")
    commands = {
        "schema.json": [["train", data, "--schema", str(bad), "--epsilon", "1", "--delta", "1e-5", "--dry-run"]],
        "m.json": [["verify", str(bad)], ["statement", str(bad)], ["verify", model, "--model", str(bad)]],
        "l": [["ledger", "show", str(bad)]],
        "m.safetensors": [["verify", model, "--model", str(bad)]],
    }[kind]
    for content in list_damaged_copies(whole):
        bad.write_bytes(content)
        for command in commands:
            code, said = main(command), capsys.readouterr()
            assert code == 0 or not PYTHON_WORDS.search(said.err), (said.err, content[:200])
    bad.unlink()
    for command in commands:
        assert main(command) == 2
        said = capsys.readouterr().err
        assert str(bad) in said and not PYTHON_WORDS.search(said), said


def test_a_schema_is_refused_in_plain_words(tmp_path):
    file = tmp_path / "schema.json"
    for edit in list_edits(SCHEMA):
        file.write_text(json.dumps(edit.plain))
        assert not PYTHON_WORDS.search(find_refusal(Schema.read, file))


@pytest.mark.skipif(os.name != "posix", reason="needs names of files in bytes")
def test_the_checker_by_itself_refuses_files_in_plain_words(tmp_path, monkeypatch, capsys):
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"\xff\xfe")
    for path, words in ((bad, "must be text in UTF-8"), (tmp_path / "none", "No such file"), (tmp_path, "directory")):
        monkeypatch.setattr("sys.argv", ["verify.py", str(path)])
        assert verify.main() == 2
        assert words in capsys.readouterr().err
