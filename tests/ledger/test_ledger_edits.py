"""A ledger whose digests somebody computed again: what it says is what is read of it, or it is refused by name."""

import json
import sqlite3

import pytest
from edits import is_same, list_changes, list_edits, list_texts

import tightdp as dp
from tightdp.ledger.ledger_facts import LedgerBudget, digest_ledger_values
from tightdp.ledger.run_progress import LedgerProgress

PAID = dp.PoissonSampled(dp.Gaussian(30.0), 0.1) * 3 + dp.DiscreteLaplace(200.0, 2)
OTHERS = dp.Laplace(40.0) * 2
BUDGETS = {
    "renyi": {"failure": 1e-8},
    "gaussian": {"family": "gaussian", "neighbors": "replace", "others": OTHERS},
}


@pytest.fixture(params=sorted(BUDGETS))
def file(tmp_path, request):
    path = tmp_path / "test.ledger"
    ledger = dp.Ledger.create(path, epsilon=1.5, delta=1e-6, dataset="test", **BUDGETS[request.param])
    for k in range(2):
        ledger.spend(dp.Gaussian(200.0) if request.param == "gaussian" else PAID, note=f"release {k}")
    ledger.record_progress("a run", None, LedgerProgress(3, "a turn"))
    return path


def forge(path, **values):
    """Writes a budget, columns of the last entry, or of the progress, and every digest that then holds."""
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA synchronous = OFF")  # no edit has to outlive the machine
        triggers = file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            file.execute(f"DROP TRIGGER {name}")
        for name, value in values.items():
            table = "ledger" if name == "budget" else "progress" if name in ("releases", "turn") else "spent"
            last = " WHERE number = 2" if table == "spent" else ""
            file.execute(f"UPDATE tightdp_{table} SET {name} = ?{last}", (value,))
        ((budget,),) = file.execute("SELECT budget FROM tightdp_ledger")
        start = digest = digest_ledger_values(2, budget)
        file.execute("UPDATE tightdp_ledger SET digest = ?", (start,))
        for row in file.execute("SELECT number, time, note, account FROM tightdp_spent ORDER BY number").fetchall():
            digest = digest_ledger_values(digest, *row)
            file.execute("UPDATE tightdp_spent SET digest = ? WHERE number = ?", (digest, row[0]))
        for row in file.execute("SELECT run, releases, turn FROM tightdp_progress").fetchall():
            file.execute(
                "UPDATE tightdp_progress SET digest = ? WHERE run = ?", (digest_ledger_values(start, *row), row[0])
            )
        for _, sql in triggers:
            file.execute(sql)
    file.close()


def read_column(path, column, table):
    with sqlite3.connect(path) as file:
        found = file.execute(f"SELECT {column} FROM tightdp_{table} ORDER BY rowid DESC").fetchone()[0]
    file.close()
    return found


def refused(path, act, words):
    """What is said of a ledger that is refused, in one line of ordinary length, which names the file."""
    with pytest.raises(dp.LedgerError, match=words) as seen:
        act(dp.Ledger(path))
    message = str(seen.value)
    assert message.startswith(f"{path}: ") and len(message) < 1000 and message.isprintable()
    return message


def test_a_budget_is_read_as_it_was_written(file):
    text = read_column(file, "budget", "ledger")
    plain = json.loads(text)
    told = 0
    for edit in list_edits(plain):
        edited = json.dumps(edit.plain)
        try:
            found = LedgerBudget.from_json(edited)
        except (ValueError, TypeError) as error:
            message = str(error)
            assert edit.entry in message or edit.entry in ("family", "neighbors", "delta"), (edit, message)
            assert len(message) < 800 and message.isprintable()
            told += 1
        else:
            assert is_same(json.loads(found.to_json()), edit.plain), edit
    assert told > 80
    for entry in plain:
        forge(file, budget=json.dumps({**plain, entry: []}))
        refused(file, lambda ledger: ledger.spent, entry)
    forge(file, budget=text)
    assert len(dp.Ledger(file).history) == 2


def test_others_are_read_as_they_were_written():
    rules = {"family": "gaussian", "order": None, "failure": 0.0, "neighbors": "replace", "others": OTHERS}
    budget = LedgerBudget.from_arguments("test", 1.5, 1e-6, None, **rules)
    plain = json.loads(budget.to_json())
    told = 0
    for edit in list_edits(json.loads(plain["others"])):
        try:
            found = LedgerBudget.from_json(json.dumps({**plain, "others": json.dumps(edit.plain)}))
        except ValueError as error:  # noqa: PERF203
            assert str(error).startswith("budget: others: ") and len(str(error)) < 800, (edit, error)
            told += 1
        else:
            assert is_same(json.loads(found.others), edit.plain) and edit.plain["neighbors"] == "replace", edit
    assert told > 60


def test_an_entry_is_read_as_it_was_written(file):
    """Mechanisms, counts and the relation of what was spent: the neighbors of an entry were read and forgotten."""
    text = read_column(file, "account", "spent")
    plain = json.loads(text)
    told = 0
    for edit in list_edits(plain):
        forge(file, account=json.dumps(edit.plain))
        try:
            releases = dp.Ledger(file).history[1].releases
        except dp.LedgerError as error:
            message = str(error)
            assert message.startswith(f"{file}: entry 2 cannot be read") and edit.entry in message, (edit, message)
            assert len(message) < 1000 and message.isprintable()
            told += 1
        else:
            account = dp.Accountant(neighbors=plain["neighbors"])
            for mechanism, count in releases:
                account.compose(mechanism, count)
            left = {name: value for name, value in edit.plain.items() if name != "release"}
            assert is_same(json.loads(account.to_json()), left), edit
    assert told > 50


@pytest.mark.parametrize(("text", "words"), list_texts({"tightdp_accountant": 1, "neighbors": "replace"}))
def test_what_is_no_account_is_refused_before_it_is_parsed(file, text, words):
    for given in (text.decode(errors="replace"), text):
        if given == text:
            words = "account must be text"
        forge(file, account=given)
        message = refused(file, lambda ledger: ledger.spent, words)
        assert "entry 2 cannot be read" in message and len(message) < 500


@pytest.mark.parametrize("column", ["time", "note", "account", "releases", "turn"])
def test_columns_hold_what_was_written(file, column):
    """SQLite keeps a value of any type in any column."""
    progress = column in ("releases", "turn")
    written = read_column(file, column, "progress" if progress else "spent")
    for value in (b"x", b"\xff", *(each for each in list_changes(written) if isinstance(each, (int, str)))):
        if isinstance(value, int) and abs(value) >= 2**63:
            continue
        forge(file, **{column: value})
        kept = read_column(file, column, "progress" if progress else "spent")
        ledger = dp.Ledger(file)
        try:
            found = ledger.read_progress("a run") if progress else ledger.history[1]
        except dp.LedgerError as error:
            assert column in str(error) or "a number of releases and a turn" in str(error), (value, error)
        else:
            assert is_same(getattr(found, column), kept) and column in ("note", "turn", "releases"), value
            assert column != "releases" or kept > 0
