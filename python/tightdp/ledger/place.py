"""Chooses the kind of store, SQLite or PostgreSQL, for the path or the URL of a ledger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .database_interface import LedgerStore


def open_ledger_store(where: Any) -> LedgerStore:
    """Returns the store that a path or a URL names. Raises TypeError or ValueError if ``where`` names no store."""
    if isinstance(where, str) and "://" in where:
        if where.partition("://")[0] not in ("postgresql", "postgresql+psycopg"):
            raise ValueError("where must be a path or a URL that begins with postgresql://")
        from .postgresql_database import PostgreSQLLedgerStore  # this import needs the extra ``ledger``

        return PostgreSQLLedgerStore(where)
    if not isinstance(where, (str, os.PathLike)) or not isinstance(os.fspath(where), str):
        raise TypeError(f"where must be a path or a URL that begins with postgresql://, got {where!r}")
    if not os.fspath(where) or where == ":memory:" or "\0" in os.fspath(where):
        raise ValueError(f"where must be the path of a file, got {where!r}")
    from .sqlite_database import SQLiteLedgerStore  # not every Python has SQLite

    return SQLiteLedgerStore(Path(where).absolute())
