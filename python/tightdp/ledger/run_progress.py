"""Stores the progress of each run that a ledger was charged for, so that only one of two copies of a run can go on.

docs/theory/filters.md, section 11, describes the protocol and proves that it works.
"""

from __future__ import annotations

from typing import NamedTuple

from .database_interface import UNDONE, LedgerError, Run, insert_ledger_row
from .ledger_facts import digest_ledger_values

TABLE = (
    "CREATE TABLE tightdp_progress (run TEXT NOT NULL, releases INTEGER NOT NULL, turn TEXT NOT NULL, "
    "digest TEXT NOT NULL, PRIMARY KEY (run, releases))"
)


class LedgerProgress(NamedTuple):
    """The number of releases that a run has made so far, and the name of the turn with the last release.

    A turn is the part of a run that one process makes, from the moment when the process takes up the run.
    """

    releases: int
    turn: str


def read_last_ledger_progress(run: Run, name: str, start: str, where: str) -> LedgerProgress | None:
    """Returns the last stored progress of the run ``name``, or None before the first release of this run.

    The function ``run`` executes SQL. ``start`` is the digest of the ledger's budget. ``where`` names the ledger in
    errors about damage.
    """
    rows = run(
        "SELECT releases, turn, digest FROM tightdp_progress WHERE run = :name ORDER BY releases DESC LIMIT 1",
        name=name,
    )
    if not rows:
        return None
    releases, turn, digest = rows[0]
    if digest != digest_ledger_values(start, name, releases, turn):
        raise LedgerError(f"{where}: is damaged in the progress of the run {name}; {UNDONE}")
    if not isinstance(releases, int) or releases < 1 or not isinstance(turn, str):
        raise LedgerError(f"{where}: the progress of the run {name} must be a number of releases and a turn; {UNDONE}")
    return LedgerProgress(releases, turn)


def append_ledger_progress(run: Run, name: str, start: str, now: LedgerProgress, where: str) -> None:
    """Adds a row with the progress ``now`` of the run ``name``. ``where`` names the ledger in an error."""
    row = {"run": name, "releases": now.releases, "turn": now.turn, "digest": digest_ledger_values(start, name, *now)}
    insert_ledger_row(run, where, "tightdp_progress", ("run", "releases"), row)
