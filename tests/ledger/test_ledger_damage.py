"""Files that are no ledgers, are damaged or cannot be written: an error that says so, and nothing is spent."""

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from together import alone

import tightdp as dp
from tightdp.ledger.ledger_facts import LedgerBudget
from tightdp.ledger.run_progress import LedgerProgress
from tightdp.ledger.sqlite_database import SQLiteLedgerStore

G = dp.Gaussian(10.0)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "test.ledger"
    ledger = dp.Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="test")
    for k in range(8):
        ledger.spend(dp.Gaussian(40.0 + k), note=f"release {k}")
    ledger.record_progress("a run", None, LedgerProgress(3, "a turn"))
    return path


def change(path, *statements):
    """What somebody does to the file with a program of theirs."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def refused(path, message):
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(dp.LedgerError, match=message) as seen:
        dp.Ledger(path).spend(G)
    assert str(path) in str(seen.value) and len(str(seen.value).splitlines()) == 1
    assert before is None or path.read_bytes() == before


def test_what_is_no_ledger(tmp_path):
    refused(tmp_path / "nowhere", "there is no such file")
    refused(tmp_path, "must be a file, and this is a folder")
    (tmp_path / "text").write_text("age,income\n" * 1000)
    refused(tmp_path / "text", "is damaged, or is no ledger")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "holds no ledger")
    change(tmp_path / "other", "CREATE TABLE t (x)")
    refused(tmp_path / "other", "holds no ledger")
    with pytest.raises(dp.LedgerError, match="there is no folder"):
        dp.Ledger.create(tmp_path / "no" / "x", epsilon=1.0, delta=1e-6, dataset="test")
    with pytest.raises(dp.LedgerError, match="is damaged, or is no ledger"):
        dp.Ledger.create(tmp_path / "text", epsilon=1.0, delta=1e-6, dataset="test")
    assert (tmp_path / "text").read_text() == "age,income\n" * 1000


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_a_pipe_is_refused_before_it_is_opened(file, end):
    """SQLite would wait for the pipe's other end, and hold the lock of the folder."""
    path = Path(f"{file}{end}")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    refused(file, "must be a file, and this is a folder, a pipe or a device; nothing was spent")
    with pytest.raises(dp.LedgerError, match="must be a file"):
        dp.Ledger.create(file, epsilon=1.0, delta=1e-6, dataset="test")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (os.devnull, "must be a file"),
        ("x" * 5000, "cannot be opened: File name too long"),
        ("\ud800", "must be the path of a file"),
        (f"{os.devnull}/x", "cannot be opened: Not a directory|there is no folder"),
    ],
)
def test_paths_that_lead_to_no_file(where, message):
    for act in (dp.Ledger, lambda path: dp.Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="test")):
        with pytest.raises(dp.LedgerError, match=message) as seen:
            act(where)
        assert len(str(seen.value)) < 300


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("user_version", "not as they were made"),
        ("application_id", "not as they were made"),
        ("journal_mode", "journal"),
    ],
)
def test_a_database_that_was_set_otherwise(file, name, message):
    """A log of writes is flushed later than a commit, and a version or an application is that of another program."""
    ledger = dp.Ledger(file)
    change(file, f"PRAGMA {name} = {'WAL' if name == 'journal_mode' else 7}")
    refused(file, f"{message}.*nothing was spent")
    if name == "journal_mode":
        with pytest.raises(dp.LedgerError, match="must have a rollback journal"):
            ledger.spend(G)
        change(file, "PRAGMA journal_mode = DELETE")
    else:
        change(file, f"PRAGMA {name} = 0")
    assert len(ledger.history) == len(dp.Ledger(file).history) == 8


@pytest.mark.parametrize("table", ["spent", "progress"])
def test_a_trigger_that_drops_what_is_written(file, table):
    """With such a trigger, a charge returned and nothing was on the disk."""
    change(file, f"CREATE TRIGGER mine BEFORE INSERT ON tightdp_{table} BEGIN SELECT RAISE(IGNORE); END")
    refused(file, "not as they were made.*nothing was spent")
    change(file, "DROP TRIGGER mine")
    assert len(dp.Ledger(file).history) == 8


@pytest.mark.parametrize(
    "trigger",
    [
        "BEFORE INSERT ON {} BEGIN SELECT RAISE(IGNORE); END",
        "AFTER INSERT ON {} BEGIN DELETE FROM {} WHERE digest = new.digest; END",
    ],
)
def test_what_was_not_kept_is_not_acknowledged(file, trigger):
    """A trigger that was put in while a ledger was open dropped a charge, and ``spend`` returned."""
    ledger = dp.Ledger(file)
    change(file, "DROP TRIGGER tightdp_spent_delete", f"CREATE TRIGGER mine {trigger.format(*['tightdp_spent'] * 2)}")
    with pytest.raises(dp.LedgerError, match=r"did not keep what was written.*nothing was spent"):
        ledger.spend(G)


def test_a_file_of_another_version(file):
    change(file, "DROP TRIGGER tightdp_ledger_update", "UPDATE tightdp_ledger SET format = 1")
    refused(file, "is a ledger of format 1, and this version reads format 2")


def test_a_mechanism_of_another_version(file, monkeypatch):
    accountant = "tightdp.accounting.running_accounts.accountant"
    monkeypatch.setattr(f"{accountant}.to_mechanism_json", lambda mechanism: {"type": "Mist", "sigma": 1.0})
    monkeypatch.setattr(f"{accountant}.from_mechanism_json", lambda *given: dp.Gaussian(50.0))
    dp.Ledger(file).spend(dp.Gaussian(50.0))
    monkeypatch.undo()
    refused(file, "entry 9 cannot be read by this version of tightdp")


@pytest.mark.parametrize("statement", ["UPDATE {} SET digest = ''", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["tightdp_spent", "tightdp_ledger", "tightdp_progress"])
def test_the_database_itself_forbids_changes(file, statement, table):
    with pytest.raises(sqlite3.IntegrityError, match="a ledger is only added to"):
        change(file, statement.format(table))
    assert len(dp.Ledger(file).history) == 8


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tightdp_spent SET account = replace(account, '4', '9') WHERE number = 3",
        "UPDATE tightdp_spent SET note = 'another' WHERE number = 8",
        "UPDATE tightdp_spent SET time = '1999-01-01' WHERE number = 1",
        "DELETE FROM tightdp_spent WHERE number = 4",
        "DELETE FROM tightdp_spent WHERE number = 1",
        "UPDATE tightdp_ledger SET budget = replace(budget, '1.0', '9.0')",
        "INSERT INTO tightdp_spent VALUES (9, '', '', '', 'x')",
        "UPDATE tightdp_spent SET account = x'00ff' WHERE number = 2",
    ],
)
def test_changes_show(file, statement):
    change(
        file,
        *(f"DROP TRIGGER tightdp_{t}_{o}" for t in ("ledger", "spent", "progress") for o in ("update", "delete")),
        statement,
    )
    refused(file, "is damaged")


@pytest.mark.parametrize("see", [lambda ledger: ledger.spend(G), lambda ledger: ledger.history])
@pytest.mark.parametrize("undo", ["a backup is restored", "the last entry is deleted"])
def test_an_older_copy_is_noticed_by_whoever_has_seen_more(file, see, undo):
    """And by nobody else: docs/howto/ledger.md says so of copies and of deleted last entries."""
    ledger, backup = dp.Ledger(file), file.read_bytes()
    if undo == "a backup is restored":
        dp.Ledger(file).spend(dp.Gaussian(60.0))
        see(ledger)
        file.write_bytes(backup)
    else:
        see(ledger)
        last, (forbid,) = (
            len(dp.Ledger(file).history),
            [t for t in SQLiteLedgerStore.forbid_changes if "spent_delete" in t],
        )
        change(file, "DROP TRIGGER tightdp_spent_delete", f"DELETE FROM tightdp_spent WHERE number = {last}", forbid)
    left = file.read_bytes()
    with pytest.raises(dp.LedgerError, match="has lost entries"):
        ledger.spend(G)
    assert file.read_bytes() == left and dp.Ledger(file).spent > 0


def test_another_ledger_in_its_place_is_noticed(file):
    ledger = dp.Ledger(file)
    file.unlink()
    with pytest.raises(dp.LedgerError, match="there is no such file"):
        ledger.spend(G)
    dp.Ledger.create(file, epsilon=1.0, delta=1e-6, dataset="test")
    with pytest.raises(dp.LedgerError, match="is another ledger"):
        ledger.spend(G)
    assert dp.Ledger(file).history == ()


def test_two_names_of_one_file_are_refused(file, tmp_path):
    os.link(file, tmp_path / "other")
    refused(file, "must have no hard links")


@pytest.mark.parametrize("flips", [60, pytest.param(3000, marks=pytest.mark.hunt)])
def test_damaged_bytes_are_noticed_or_change_nothing(file, flips):
    """Every entry is there as it was, or an error says that the file is damaged."""
    whole, entries, draw = file.read_bytes(), dp.Ledger(file).history, random.Random(random.random())
    noticed = 0
    for _ in range(flips):
        at, to = draw.randrange(len(whole)), draw.randrange(256)
        damaged = bytearray(whole)
        damaged[at] = to
        for leftover in file.parent.iterdir():
            leftover.unlink()
        file.write_bytes(damaged)
        try:
            assert dp.Ledger(file).history == entries, (at, to)
        except dp.LedgerError:
            noticed += 1
    assert noticed > flips / 20


@pytest.mark.parametrize("text", [b"BEGIN SELECT", b"CREATE TABLE tightdp_spent", b"ledger_delete", b"INTEGER PRIMARY"])
@pytest.mark.parametrize("end", [b"\xff", b"x"])
def test_damage_in_what_the_tables_are(file, text, end):
    whole = file.read_bytes()
    file.write_bytes(whole.replace(text, text[:-1] + end))
    refused(file, "damaged|malformed|decode")


def test_cut_short(file):
    whole = file.read_bytes()
    for length in (1, 100, 4096, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        refused(file, "damaged|malformed|not a database|holds no ledger|disk I/O")


READ_ONLY = """
import os, pathlib, sqlite3, sys, tightdp as dp, tightdp.ledger.sqlite_database  # while they can be read
folder = pathlib.Path(sys.argv[1])
if os.getuid() == 0:  # whom permissions do not stop
    os.chown(folder, 65534, 65534)
    for path in folder.iterdir():
        os.chown(path, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
folder.chmod(0o555)
try:
    ledger = dp.Ledger(folder / "test.ledger")
    print(len(ledger.history))
    ledger.spend(dp.Gaussian(10.0))
except dp.LedgerError as error:
    print(error)
try:
    dp.Ledger.create(folder / "new.ledger", epsilon=1.0, delta=1e-6, dataset="test")
except dp.LedgerError as error:
    print(error)
folder.chmod(0o755)
print(len(ledger.history))
"""


def test_a_folder_that_cannot_be_written(file, tmp_path):
    folder = Path("/tmp") / f"tightdp-read-only-{os.getpid()}"  # below folders that everybody may enter
    folder.mkdir()
    try:
        shutil.copy(file, folder)
        first, spend, create, last = alone(READ_ONLY, folder).splitlines()
    finally:
        shutil.rmtree(folder)
    assert first == last == "8"
    assert "test.ledger: unable to open database file; nothing was spent" in spend or "readonly" in spend
    assert "new.ledger: unable to open database file" in create


def test_a_budget_that_is_nested_too_deeply():
    with pytest.raises(ValueError, match="nested too deeply"):
        LedgerBudget.from_json("[" * 100_000)


def test_a_lock_of_another_program_is_named(file, monkeypatch):
    """A program that does not take the folder's lock first, such as an SQLite shell."""
    monkeypatch.setattr("tightdp.ledger.sqlite_database.SECONDS", 0)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(dp.LedgerError, match=r"another program held its lock for 0 seconds: .*; nothing was spent$"):
        dp.Ledger(file)
    other.close()
    assert len(dp.Ledger(file).history) == 8
