"""Keeps a ledger in a PostgreSQL database, which machines can share.

The connection is made by SQLAlchemy, which the extra ``ledger`` installs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .database_interface import SECONDS, UNDONE, UNKNOWN, LedgerError, Run

_LOCK = 0x74696768746470
"""The number of the lock that writers take: "tightdp" in ASCII."""
_DURABLE = """SELECT set_config('synchronous_commit', 'on', true)
    WHERE current_setting('synchronous_commit') = 'off'"""


class PostgreSQLLedgerStore:
    """A store in the current schema of a database. Users of the store need the rights to SELECT and INSERT, and no
    other rights."""

    forbid_changes = (
        "CREATE OR REPLACE FUNCTION tightdp_kept() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'a ledger is only added to'; END $$",
        *(
            f"CREATE TRIGGER tightdp_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON tightdp_{table} FOR EACH STATEMENT "
            "EXECUTE FUNCTION tightdp_kept()"
            for table in ("ledger", "spent", "progress")
        ),
    )

    def __init__(self, url: str) -> None:
        try:
            self._sql: Any = import_module("sqlalchemy")
            import_module("psycopg")
        except ImportError as error:
            raise ImportError(
                f"a ledger in PostgreSQL needs pip install sqlalchemy 'psycopg[binary]': {error}"
            ) from None
        try:
            address = self._sql.engine.make_url(url).set(drivername="postgresql+psycopg")
        except (self._sql.exc.ArgumentError, ValueError):  # the error may quote a part of the password
            raise ValueError("where must be a URL as in postgresql://user:password@host:port/database") from None
        self.name = address.difference_update_query(["password"]).render_as_string(hide_password=True)
        bare = address._replace(password=None).difference_update_query(["password"])
        self.address = bare.render_as_string(hide_password=False)
        try:
            # No connection outlives its transaction, so a forked child inherits no connection of its parent. With READ
            # COMMITTED, each statement sees everything that was committed before. Once a transaction has the lock, its
            # statements therefore see everything that the last holder of the lock wrote.
            self._engine: Any = self._sql.create_engine(
                address,
                poolclass=self._sql.pool.NullPool,
                isolation_level="READ COMMITTED",
                connect_args={"connect_timeout": SECONDS},
            )
        except self._sql.exc.SQLAlchemyError as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise LedgerError(f"{self.name}: {why}; {UNDONE}") from None

    @contextmanager
    def open_transaction(self, *, write: bool = False, create: bool = False) -> Iterator[Run]:
        """Executes all statements inside the context, or none (see ``LedgerStore``)."""
        outcome = UNDONE
        try:
            with self._engine.connect() as connection:

                def run(sql: str, **values: Any) -> list[tuple[Any, ...]]:
                    done = connection.execute(self._sql.text(sql), values)
                    return [tuple(row) for row in done] if done.returns_rows else []

                run(f"SET LOCAL lock_timeout = '{SECONDS}s'")
                run(_DURABLE)
                if write:
                    run(f"SELECT pg_advisory_xact_lock({_LOCK})")
                yield run
                outcome = UNKNOWN if write else UNDONE
                connection.commit()
        except self._sql.exc.SQLAlchemyError as error:
            why = str(getattr(error, "orig", None) or error).partition("\n")[0]
            raise LedgerError(f"{self.name}: {why}; {outcome}") from error

    def check_tables(self, run: Run, made: tuple[str, ...]) -> None:
        """Checks nothing. Damage is left to the server, which can have checksums of its own.

        A table that somebody altered, so that it is no longer as ``made`` creates it, is not noticed either.
        """

    def list_tables(self, run: Run) -> set[str]:
        found = run("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
        return {name for (name,) in found}
