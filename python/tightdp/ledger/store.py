"""The interface of a ledger's database. One transaction at a time may write, and commits last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

Run = Callable[..., list[tuple[Any, ...]]]
"""``run(sql, name=value)`` runs one statement, in which :name stands for a value, and returns its rows."""
SECONDS = 60
"""Seconds that a transaction waits for those of others. One takes milliseconds."""
UNDONE = "nothing was spent"
UNKNOWN = "it is not known whether the spend was recorded: release nothing, and look into the ledger"


class LedgerError(OSError):
    """Error of a ledger that cannot be read or written, or of a file that is not a ledger. Release nothing after it."""


class Store(Protocol):
    """Database that holds the tables of a ledger."""

    name: str
    """Name for messages, without a password."""
    address: str
    """Path or URL, without a password."""

    @property
    def forbid_changes(self) -> tuple[str, ...]:
        """Statements after which tables can only be added to."""

    def open_transaction(self, *, write: bool = False, create: bool = False) -> AbstractContextManager[Run]:
        """Executes all statements inside, or none, and commits at the end, so that a crash of the machine loses
        nothing.

        ``write`` waits until no other transaction writes, and sees all that others committed. Raises ``LedgerError`` if
        it fails.
        """

    def check_tables(self, run: Run, made: tuple[str, ...]) -> None:
        """Raises ``LedgerError`` if the database finds damage, or if its tables are not those that were ``made``."""

    def list_tables(self, run: Run) -> set[str]:
        """Returns the names of the tables that exist."""
