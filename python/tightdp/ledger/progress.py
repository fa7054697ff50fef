"""How far each run went that the ledger was charged for, so that a copy that falls behind is noticed.

The protocol and its proof: docs/theory/filters.md, section 11.
"""

from __future__ import annotations

from typing import NamedTuple

from .budget import compute_digest
from .store import UNDONE, LedgerError, Run

TABLE = (
    "CREATE TABLE tightdp_progress (run TEXT NOT NULL, releases INTEGER NOT NULL, turn TEXT NOT NULL, "
    "digest TEXT NOT NULL, PRIMARY KEY (run, releases))"
)


class Progress(NamedTuple):
    """The number of releases that a run came to, and the name of the turn in which it made the last of them.

    A turn is what one process does of a run, from when it takes the run up to when it ends or is killed.
    """

    releases: int
    turn: str


def read_last_progress(run: Run, name: str, start: str, where: str) -> Progress | None:
    """Returns what was recorded last of the run of that name, None before its first release.

    ``start`` is the digest of the ledger's budget, and ``where`` its place for the error that tells of damage.
    """
    rows = run(
        "SELECT releases, turn, digest FROM tightdp_progress WHERE run = :name ORDER BY releases DESC LIMIT 1",
        name=name,
    )
    if not rows:
        return None
    releases, turn, digest = rows[0]
    if digest != compute_digest(start, name, releases, turn):
        raise LedgerError(f"{where}: is damaged in the progress of the run {name}; {UNDONE}")
    if not isinstance(releases, int) or releases < 1 or not isinstance(turn, str):
        raise LedgerError(f"{where}: the progress of the run {name} must be a number of releases and a turn; {UNDONE}")
    return Progress(releases, turn)


def append_progress(run: Run, name: str, start: str, now: Progress) -> None:
    """Adds what the run came to."""
    run(
        "INSERT INTO tightdp_progress (run, releases, turn, digest) VALUES (:name, :releases, :turn, :digest)",
        name=name, releases=now.releases, turn=now.turn, digest=compute_digest(start, name, *now),
    )  # fmt: skip
