"""A ledger in a file, through SQLite: a rollback journal, and a commit returns once the disk has it."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from .._file_lock import LOCKS_FOLDERS, FileLock
from .store import SECONDS, UNDONE, UNKNOWN, LedgerError, Run

_KEPT = "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END"
_lock = threading.RLock()
"""Held in transactions and in forks: a child that was forked in the middle of one would find SQLite's own locks held by
a thread that it does not have."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class SQLite:
    """A file. Each transaction has a connection of its own, so a store may be used after a fork and by any thread."""

    forbid_changes = tuple(
        f"CREATE TRIGGER tightdp_{table}_{change.lower()} BEFORE {change} ON tightdp_{table} {_KEPT}"
        for table in ("ledger", "spent", "progress")
        for change in ("UPDATE", "DELETE")
    )

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.address = path, str(path), str(path)

    @contextmanager
    def transaction(self, *, write: bool = False, create: bool = False) -> Iterator[Run]:
        if not create and not self.path.exists():
            raise LedgerError(f"{self.name}: there is no such file; Ledger.create makes one")
        if create and not self.path.parent.is_dir():
            raise LedgerError(f"{self.name}: there is no folder {str(self.path.parent)!r}")
        if self.path.is_file() and self.path.stat().st_nlink != 1:
            raise LedgerError(f"{self.name}: must have no hard links, because locks do not hold between them")
        uri, outcome = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}", UNDONE
        try:
            with (
                _lock,
                self._take_turn(),
                closing(sqlite3.connect(uri, uri=True, timeout=SECONDS, isolation_level=None)) as connection,
            ):

                def run(sql: str, **values: Any) -> list[tuple[Any, ...]]:
                    try:
                        return connection.execute(sql, values).fetchall()
                    except UnicodeDecodeError:  # in SQLite's own message, which quotes what is damaged
                        raise LedgerError(f"{self.name}: is damaged; {UNDONE}") from None

                run("PRAGMA synchronous = EXTRA")  # also the folder, before a commit returns
                run("BEGIN IMMEDIATE" if write else "BEGIN")
                yield run
                outcome = UNKNOWN if write else UNDONE
                run("COMMIT")
        except sqlite3.Error as error:  # closing the connection undid what was not committed
            why = str(error) or "is malformed"  # Python 3.10 drops a message that quotes what is no UTF-8
            raise LedgerError(f"{self.name}: {why}; {outcome}") from error

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Holds the lock of the ledger's folder: LedgerError if others hold it for too long.

        SQLite has POSIX record locks, which a process loses when it closes any descriptor of the file: so by copying
        the ledger in another thread. Two processes could then write at once, or one could undo what another writes. On
        Windows locks belong to handles, and SQLite's are enough.
        """
        if not LOCKS_FOLDERS:
            yield
            return
        folder = self.path.resolve().parent
        try:
            lock = FileLock(folder, SECONDS)
        except BlockingIOError:
            raise LedgerError(f"{self.name}: others hold the lock of the folder {str(folder)!r}; {UNDONE}") from None
        except OSError as error:
            raise LedgerError(f"{self.name}: its folder cannot be locked: {error}; {UNDONE}") from error
        try:
            yield
        finally:
            lock.release_lock()

    def check(self, run: Run, made: tuple[str, ...]) -> None:
        ((found,),) = run("PRAGMA integrity_check(1)")
        if found != "ok":
            raise LedgerError(f"{self.name}: is damaged: {found}; {UNDONE}")
        if not {(sql,) for sql in made} <= set(run("SELECT sql FROM sqlite_master")):
            raise LedgerError(f"{self.name}: is damaged: its tables are not as they were made; {UNDONE}")

    def tables(self, run: Run) -> set[str]:
        return {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
