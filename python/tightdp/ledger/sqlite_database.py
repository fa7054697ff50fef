"""Keeps a ledger in a file through SQLite, with a rollback journal and with commits that wait for the disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from .._support import _check
from .._support.file_lock import LOCKS_FOLDERS, FileLock
from .._support.files import check_regular_file, open_regular_file
from .database_interface import SECONDS, UNDONE, UNKNOWN, LedgerError, Run

_MAGIC, _ROLLBACK = b"SQLite format 3\0", b"\1\1"
"""First bytes of an SQLite file, and the bytes 18 and 19 of an SQLite file with a rollback journal."""
_FORBIDDEN_CHANGE = "BEGIN SELECT RAISE(ABORT, 'a ledger is only added to'); END"
_lock = threading.RLock()
"""A lock that is held during transactions and forks, so that no process forks in the middle of a transaction. The child
of such a fork could inherit a lock of SQLite, but not the thread that would release the lock."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class SQLiteLedgerStore:
    """A store in a file. Any thread may use the store, also after a fork, since each transaction opens a connection of
    its own."""

    forbid_changes = tuple(
        f"CREATE TRIGGER tightdp_{table}_{change.lower()} BEFORE {change} ON tightdp_{table} {_FORBIDDEN_CHANGE}"
        for table in ("ledger", "spent", "progress")
        for change in ("UPDATE", "DELETE")
    )

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.address = path, str(path), str(path)

    @contextmanager
    def open_transaction(self, *, write: bool = False, create: bool = False) -> Iterator[Run]:
        """Yields a function that runs the statements of one transaction.

        The transaction is committed at the end, and undone after an exception. If SQLite fails, a LedgerError says
        either that nothing was spent, or that it is not known whether anything was spent.
        """
        self._check_files(create)
        uri, outcome = f"{self.path.as_uri()}?mode={'rwc' if create else 'rw'}", UNDONE
        try:
            with (
                _lock,
                self._take_ledger_database_turn(),
                closing(sqlite3.connect(uri, uri=True, timeout=SECONDS, isolation_level=None)) as connection,
            ):

                def run(sql: str, **values: Any) -> list[tuple[Any, ...]]:
                    try:
                        return connection.execute(sql, values).fetchall()
                    except UnicodeDecodeError:  # this error's message quotes the damaged bytes
                        raise LedgerError(f"{self.name}: is damaged; {UNDONE}") from None

                self._check_journal()
                run("PRAGMA synchronous = EXTRA")  # a commit also waits until the folder is on the disk
                run("BEGIN IMMEDIATE" if write else "BEGIN")
                yield run
                outcome = UNKNOWN if write else UNDONE
                run("COMMIT")
        except sqlite3.Error as error:  # closing the connection undoes the transaction
            why = str(error) or "is damaged"  # Python 3.10 drops a message that is not UTF-8
            if type(error) is sqlite3.DatabaseError:  # SQLite cannot read the file
                why = "is damaged, or is no ledger"
            if why == "database is locked":  # by a program that does not take the folder's lock first
                why = f"another program held its lock for {SECONDS} seconds: end that program, or try again later"
            raise LedgerError(f"{self.name}: {why}; {outcome}") from error

    def _check_files(self, create: bool) -> None:
        """Raises LedgerError unless SQLite may open or make the ledger's file and SQLite's own files beside it."""
        try:
            if create and not self.path.parent.is_dir():
                raise LedgerError(f"{self.name}: there is no folder {str(self.path.parent)!r}")
            for path in (self.path, *(Path(f"{self.path}{end}") for end in ("-journal", "-wal", "-shm"))):
                with suppress(FileNotFoundError):
                    check_regular_file(path)
            if self.path.stat().st_nlink != 1:
                raise LedgerError(f"{self.name}: must have no hard links, because locks do not hold between them")
        except FileNotFoundError:
            if not create:
                raise LedgerError(f"{self.name}: there is no such file; Ledger.create makes one") from None
        except LedgerError:
            raise
        except ValueError as error:
            raise LedgerError(f"{error}; {UNDONE}") from None
        except OSError as error:
            raise LedgerError(
                f"{_check.describe_argument(self.name)}: cannot be opened: {error.strerror}; {UNDONE}"
            ) from None

    def _check_journal(self) -> None:
        """Raises LedgerError if the file is set to a write-ahead log instead of a rollback journal.

        The file itself stores this setting, and another program may have changed it. This module uses only a rollback
        journal. Callers must hold the folder's lock, because this method closes the file, which drops SQLite's own
        locks.
        """
        with open_regular_file(self.path) as file:
            start = file.read(20)
        if start.startswith(_MAGIC) and start[18:] != _ROLLBACK:
            raise LedgerError(
                f"{self.name}: must have a rollback journal, and somebody changed that: PRAGMA journal_mode = DELETE "
                f"brings it back; {UNDONE}"
            )

    @contextmanager
    def _take_ledger_database_turn(self) -> Iterator[None]:
        """Holds the lock of the ledger's folder. Raises LedgerError if another process holds this lock for too long.

        SQLite uses POSIX locks. A process loses these locks when it closes any descriptor of the file, for instance
        after copying the ledger in another thread. Another process could then write at the same time, or undo the
        transaction. On Windows locks belong to handles, so SQLite's locks are enough.
        """
        if not LOCKS_FOLDERS:
            yield
            return
        folder = self.path.resolve().parent
        try:
            lock = FileLock(folder, SECONDS)
        except BlockingIOError:
            raise LedgerError(
                f"{self.name}: others hold the lock of the folder {str(folder)!r} for {SECONDS} seconds; {UNDONE}"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.name}: its folder cannot be locked: {error}; {UNDONE}") from error
        try:
            yield
        finally:
            lock.release_lock()

    def check_tables(self, run: Run, made: tuple[str, ...]) -> None:
        """Raises LedgerError if the file is damaged, lacks one of the statements ``made``, or has other triggers."""
        ((found,),) = run("PRAGMA integrity_check(1)")
        if found != "ok":
            raise LedgerError(f"{self.name}: is damaged: {found}; {UNDONE}")
        changed = run("PRAGMA user_version") + run("PRAGMA application_id") != [(0,), (0,)]
        expected = {(sql,) for sql in made}
        # A trigger of somebody else may keep an entry from being written.
        triggers = set(run("SELECT sql FROM sqlite_master WHERE type = 'trigger'"))
        if changed or not triggers <= expected <= set(run("SELECT sql FROM sqlite_master")):
            raise LedgerError(f"{self.name}: is damaged: its tables are not as they were made; {UNDONE}")

    def list_tables(self, run: Run) -> set[str]:
        return {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
