"""What a ledger asks of a database: transactions of which one at a time may write, and which last once committed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

Run = Callable[..., list[tuple[Any, ...]]]
"""``run(sql, name=value)`` runs one statement, in which :name stands for a value, and returns its rows."""
SECONDS = 60
"""How long a transaction waits for those of others. One takes milliseconds."""
UNDONE = "nothing was spent"
UNKNOWN = "it is not known whether the spend was recorded: release nothing, and look into the ledger"


class LedgerError(OSError):
    """A ledger cannot be read or written, or is none. What was to be spent must not be released."""


class Store(Protocol):
    """Where the tables of a ledger lie."""

    name: str
    """For messages; no password."""
    address: str
    """Where it lies, as a path or URL; no password."""

    @property
    def forbid_changes(self) -> tuple[str, ...]:
        """The statements after which what was written can only be added to."""

    def open_transaction(self, *, write: bool = False, create: bool = False) -> AbstractContextManager[Run]:
        """All statements inside, or none. ``write`` waits until no other writes, and sees all that others committed.

        Committed at the end, so that a crash of the machine loses nothing. Raises ``LedgerError`` for what fails.
        """

    def check_tables(self, run: Run, made: tuple[str, ...]) -> None:
        """``LedgerError`` where the database finds damage, or its tables are not those that were ``made``."""

    def list_tables(self, run: Run) -> set[str]:
        """The names of the tables there are."""
