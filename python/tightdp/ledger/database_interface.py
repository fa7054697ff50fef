"""The interface of a ledger's database. Only one transaction at a time may write, and committed data are durable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

Run = Callable[..., list[tuple[Any, ...]]]
"""``run(sql, name=value)`` runs one statement, in which :name stands for a value, and returns its rows."""
SECONDS = 20
"""Number of seconds that a transaction waits for a lock, and for a connection. A transaction takes milliseconds, so
that hundreds of other transactions end in this time."""
UNDONE = "nothing was spent"
UNKNOWN = "it is not known whether the spend was recorded: release nothing, and look into the ledger"


class LedgerError(OSError):
    """An error about a ledger that cannot be read or written, or about a file that does not hold a ledger.

    Release nothing after this error."""


class LedgerStore(Protocol):
    """A database that holds the tables of a ledger."""

    name: str
    """Name for messages, without a password."""
    address: str
    """Path or URL, without a password."""

    @property
    def forbid_changes(self) -> tuple[str, ...]:
        """SQL statements that forbid all changes of the tables except added rows."""

    def open_transaction(self, *, write: bool = False, create: bool = False) -> AbstractContextManager[Run]:
        """Executes all statements inside the context, or none.

        The transaction is committed at the end. No crash of the machine loses what was committed. With ``write`` the
        transaction first waits until no other transaction writes, and then sees everything that was committed. Raises
        ``LedgerError`` if the transaction fails.
        """

    def check_tables(self, run: Run, made: tuple[str, ...]) -> None:
        """Raises ``LedgerError`` if the database finds damage, or if a table is not as ``made`` creates it.

        ``made`` are the SQL statements that created the tables.
        """

    def list_tables(self, run: Run) -> set[str]:
        """Returns the names of the tables that exist."""


def insert_ledger_row(run: Run, where: str, table: str, keys: tuple[str, ...], row: Mapping[str, Any]) -> None:
    """Adds a row, which maps names of columns to values, and then reads the row's digest back.

    ``keys`` are the columns by which the row is found again. Raises ``LedgerError`` if the row is missing or has
    another digest, because a trigger of somebody else may drop or change a row.
    """
    run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)
    found = " AND ".join(f"{name} = :{name}" for name in keys)
    if run(f"SELECT digest FROM {table} WHERE {found}", **{name: row[name] for name in keys}) != [(row["digest"],)]:
        raise LedgerError(f"{where}: did not keep what was written to {table}; {UNDONE}")
