"""How far a run went, as its ledger knows it: one copy of the run goes on, and the others are refused."""

import threading

import pytest

import tightdp as dp
from tightdp.ledger.run_progress import LedgerProgress


def made(where):
    return dp.Ledger.create(where, epsilon=1.0, delta=1e-6, dataset="test")


def test_what_was_recorded_last_is_known_to_whoever_opens_the_ledger(where):
    ledger, last = made(where), {}
    for run, releases in (("a", 1), ("b", 4), ("a", 2), ("a", 9), ("b", 5)):
        now = LedgerProgress(releases, f"turn {releases}")
        ledger.record_progress(run, last.get(run), now)
        last[run] = now
        assert {name: dp.Ledger(where).read_progress(name) for name in last} == last
    assert ledger.read_progress("c") is None and ledger.spent == 0.0


def test_whoever_does_not_know_the_last_is_refused(where):
    ledger = made(where)
    first, second = LedgerProgress(1, "x"), LedgerProgress(2, "x")
    ledger.record_progress("a", None, first)
    ledger.record_progress("a", first, second)
    for stale in (None, first, LedgerProgress(2, "y"), LedgerProgress(1, "y")):
        with pytest.raises(dp.BudgetExceeded, match="another copy of this run went on, up to 2 releases"):
            ledger.record_progress("a", stale, LedgerProgress(3, "y"))
        assert ledger.read_progress("a") == second


def test_progress_is_a_number_that_grows(where):
    ledger = made(where)
    for before, releases in ((None, 0), (None, 1.5), (LedgerProgress(3, "x"), 3)):
        with pytest.raises((TypeError, ValueError), match=r"^now\.releases must"):
            ledger.record_progress("a", before, LedgerProgress(releases, "x"))
    for known in (0, -1, 1.5, None, "1"):
        with pytest.raises((TypeError, ValueError), match=r"^before\.releases must"):
            ledger.record_progress("a", LedgerProgress(known, "x"), LedgerProgress(2, "x"))
    for before, now in ((0, LedgerProgress(1, "x")), (None, 1), (None, (1, "x"))):
        with pytest.raises(TypeError, match=r"^before and now must be LedgerProgress"):
            ledger.record_progress("a", before, now)
    for run, turn in ((3, "x"), ("a", None), ("a\0", "x")):
        with pytest.raises((TypeError, ValueError), match=r"^(run|turn) must"):
            ledger.record_progress(run, None, LedgerProgress(1, turn))


def test_of_many_at_once_one_has_each_number(where):
    """Every turn counts on from what it finds, and no number is recorded twice."""
    made(where)
    taken = []

    def go_on(turn):
        ledger = dp.Ledger(where)
        for _ in range(8):
            last = ledger.read_progress("a")
            now = LedgerProgress(1 if last is None else last.releases + 1, turn)
            try:
                ledger.record_progress("a", last, now)
            except dp.BudgetExceeded:
                continue
            taken.append(now.releases)

    threads = [threading.Thread(target=go_on, args=(str(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, len(taken) + 1)) and len(taken) >= 8
