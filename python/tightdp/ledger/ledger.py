"""The ledger: one budget of one data set, which processes share and which survives crashes."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .._support import _check
from .._support.number_texts import format_up
from .._support.strict_json import read_json_value
from ..accounting.running_accounts.accountant import Accountant
from ..accounting.running_accounts.filters import BudgetExceeded, PrivacyFilter, _FilterState, _ReleaseCost
from ..composition import Composable
from ..mechanisms import Mechanism
from ..options import Neighbors
from .database_interface import UNDONE, LedgerError, LedgerStore, Run, insert_ledger_row
from .ledger_facts import (
    LedgerBudget,
    add_release_to_ledger_entry,
    check_ledger_identifier,
    check_ledger_text,
    digest_ledger_values,
    read_account_of_ledger,
    split_release_from_ledger_entry,
    write_account_of_ledger,
)
from .place import open_ledger_store
from .run_progress import TABLE, LedgerProgress, append_ledger_progress, read_last_ledger_progress

if TYPE_CHECKING:
    from os import PathLike

FORMAT = 2
_PARAMETERS = "parameters of "
"""Prefix for rows about parameters in the table of progress (``run_progress.py``). In the column ``run``, such a row
has this prefix and a release's identifier. In the column ``turn``, the row has the hash of the released parameters."""
_COLUMNS = "number, time, note, account, digest"
_TABLES = (
    "CREATE TABLE tightdp_ledger (format INTEGER NOT NULL, budget TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE tightdp_spent (number INTEGER PRIMARY KEY, time TEXT NOT NULL, note TEXT NOT NULL, "
    "account TEXT NOT NULL, digest TEXT NOT NULL UNIQUE)",  # UNIQUE makes an index, which stores all digests again
    TABLE,
)


class Entry(NamedTuple):
    """An entry for one spend.

    ``number`` counts the entries from 1. ``time`` is the time of the entry (UTC, ISO 8601), and ``note`` the caller's
    note. ``releases`` holds the mechanisms that were charged, with their counts. ``release`` is an identifier, which
    the statement of the release repeats. In entries of older versions, which drew no identifiers, ``release`` is None.
    """

    number: int
    time: str
    note: str
    releases: tuple[tuple[Mechanism, int], ...]
    release: str | None = None


class _KnownLedgerEntries(NamedTuple):
    """A summary of the entries of the ledger that were read and checked so far."""

    number: int
    """Number of the last entry that was read, or 0 before the first entry."""
    digest: str
    """Digest of the last entry that was read, or the digest of the budget before the first entry."""
    spent: _FilterState | None
    """State of the filter after all entries that were read, or None if the filter would not have allowed them."""


class Ledger:
    """One budget of one data set, for everything that is ever released from it, by any process or machine.

    ``where`` is the path of an SQLite file, or a URL such as ``postgresql://user@host/database``. PostgreSQL needs the
    extra ``ledger``, and each schema of a database has room for one ledger. ``Ledger.create`` makes a ledger, and
    ``Ledger(where)`` opens it.

    Call ``spend`` BEFORE a release, and release nothing unless ``spend`` returns. The call checks the budget and writes
    the charge in one transaction, which is on the disk before ``spend`` returns. Therefore, even if a process is killed
    at any time, everything that was released has an entry, and the total of all charges is within the budget.

    Guarantee: all releases whose ``spend`` returned, by all processes together, are (``epsilon``, ``delta``)-DP under
    ``neighbors``. The guarantee holds even if later releases depend on earlier releases, because all charges pass one
    ``PrivacyFilter`` (docs/theory/filters.md, sections 1 and 10). There must be only one ledger. A copy of the file, a
    restored backup, or a file whose last entries were deleted is a second budget for the same data. Only a process that
    has seen later entries detects it.

    A ledger holds no data except the notes that callers write. Any number of threads and forked children may use one
    ``Ledger``. A ``Ledger`` can be pickled, because the budget is in the file or the database. A pickle holds no
    password. When a pickle is loaded, PostgreSQL takes the password from PGPASSWORD or a password file. Failures raise
    ``LedgerError``, and refused spends raise ``BudgetExceeded``.

    >>> import os, tempfile
    >>> import tightdp as dp
    >>> path = os.path.join(tempfile.mkdtemp(), "census.ledger")
    >>> ledger = dp.Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="census 2030")
    >>> ledger.spend(dp.Gaussian(10.0), note="mean age")
    >>> dp.Ledger(path).can_spend(dp.Gaussian(1.0))
    False
    """

    def __init__(self, where: str | PathLike[str]) -> None:
        store = open_ledger_store(where)
        with store.open_transaction() as run:
            plain, start = _read_budget_of_ledger_database(store, run)
            store.check_tables(run, _TABLES + store.forbid_changes)
        try:
            budget = LedgerBudget.from_json(plain)
        except (TypeError, ValueError) as error:
            raise LedgerError(f"{store.name}: holds no budget that this version can keep: {error}") from None
        self._set_up_ledger(where, store, budget, start)

    def _set_up_ledger(self, where: str | PathLike[str], store: LedgerStore, budget: LedgerBudget, start: str) -> None:
        # The path is absolute, since a relative path would lead to another ledger, or to none, in another folder.
        self._where = where if "://" in str(where) else store.name
        self._store, self._budget = store, budget
        self._filter = budget.build_ledger_filter()
        self._start = self._known = _KnownLedgerEntries(0, start, self._filter._shared.state)
        self._releases: set[str] = set()  # identifiers in the known entries, and perhaps in later entries
        self._price = lru_cache(1024)(self._filter._build_filter_cost)

    @classmethod
    def create(
        cls,
        where: str | PathLike[str],
        *,
        epsilon: float,
        delta: float,
        dataset: str,
        neighbors: Neighbors = "add_or_remove",
        family: Literal["renyi", "zcdp", "gaussian"] = "renyi",
        order: float | None = None,
        expected: Composable | None = None,
        others: Composable | None = None,
        failure: float = 0.0,
    ) -> Ledger:
        """Makes a ledger, whose budget, neighbouring relation and data set never change.

        ``dataset`` says in words which data the budget is about. The other arguments are those of ``PrivacyFilter``.
        The ``family`` "renyi" can charge every mechanism, and "gaussian" is tightest for Gaussians on all records.
        ``failure`` sets aside a part of ``delta`` for releases that are charged an epsilon and a delta of their own,
        such as objective perturbation. Raises ``LedgerError`` if there is a ledger already.

        Parameters
        ----------
        where : the path of an SQLite file that does not exist yet, or the URL of a database.
        epsilon : the epsilon of the guarantee, in nats, > 0.
        delta : the delta of the guarantee, in (0, 1).
        dataset : which data the budget is about, in words.
        neighbors : the neighbouring relation of the guarantee.
        family, order, expected, others, failure : as for ``PrivacyFilter``.
        """
        store = open_ledger_store(where)
        rules = {"family": family, "order": order, "others": others, "failure": failure, "neighbors": neighbors}
        budget = LedgerBudget.from_arguments(dataset, epsilon, delta, expected, **rules)
        plain = budget.to_json()
        start = digest_ledger_values(FORMAT, plain)
        with store.open_transaction(write=True, create=True) as run:
            tables = store.list_tables(run)
            if "tightdp_ledger" in tables:
                raise LedgerError(f"{store.name}: there is a ledger already, and its budget is fixed")
            for statement in _TABLES + store.forbid_changes:
                run(statement)
            made = "INSERT INTO tightdp_ledger VALUES (:format, :budget, :digest)"
            run(made, format=FORMAT, budget=plain, digest=start)
        ledger = cls.__new__(cls)
        ledger._set_up_ledger(where, store, budget, start)
        return ledger

    @property
    def dataset(self) -> str:
        """Text that says which data the budget is about."""
        return self._budget.dataset

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee for everything, in nats."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the guarantee for everything."""
        return self._budget.delta

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation of the guarantee."""
        return self._budget.neighbors

    @property
    def identity(self) -> str:
        """Text of 32 random digits, made with the ledger, for it alone."""
        return self._budget.identity

    @property
    def family(self) -> str:
        """Name of the quantity that the filter adds up, as in ``PrivacyFilter``."""
        return self._budget.family

    def spend(self, mechanism: Composable, count: int = 1, *, note: str = "", release: str | None = None) -> None:
        """Charges ``count`` releases of a mechanism, or of a composition as a whole, BEFORE they are made.

        ``release`` is an identifier for the release, 32 hexadecimal digits that no other release has. The ledger's
        entry and the statement both name this identifier. None draws an identifier at random. A run of many releases is
        charged once, under one identifier. If the ledger has an entry with this identifier already, raises ValueError
        and charges nothing.

        Raises ``BudgetExceeded`` and charges nothing if the budget does not cover the releases. After any other
        exception, release nothing either. If the exception occurred during the commit, the ledger may nevertheless have
        an entry for the spend.
        """
        account, prices = self._price_ledger_releases(mechanism, count)
        release = secrets.token_hex(16) if release is None else check_ledger_identifier("release", release)
        account = add_release_to_ledger_entry(account, release)
        note = check_ledger_text("note", note)
        with self._store.open_transaction(write=True) as run:
            known = self._update_known_ledger_entries(run)
            if release in self._releases:
                raise ValueError(
                    f"release must be an identifier that no entry has: {self._store.name} was charged for {release} "
                    f"already; {UNDONE}"
                )
            spent = _add_releases_to_ledger_filter(self._filter, known.spent, prices)
            if spent is None:
                raise BudgetExceeded(self._explain_ledger_refusal(known.spent, prices))
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            row = (known.number + 1, now, note, account)
            digest = digest_ledger_values(known.digest, *row)
            named = dict(zip(_COLUMNS.split(", "), (*row, digest), strict=True))
            insert_ledger_row(run, self._store.name, "tightdp_spent", ("number",), named)
        self._releases.add(release)
        self._known = _KnownLedgerEntries(row[0], digest, spent)

    def can_spend(self, mechanism: Composable, count: int = 1) -> bool:
        """Returns True if the budget covers ``count`` more releases of ``mechanism`` at this moment.

        ``count`` is an integer >= 1. Others may spend afterwards, so only ``spend`` decides. Raises TypeError if
        ``mechanism`` is neither a mechanism nor a composition.
        """
        return math.isfinite(self.spent_after(mechanism, count))

    def read_progress(self, run: str) -> LedgerProgress | None:
        """Returns the last stored progress of a run, or None before the first release of this run."""
        with self._store.open_transaction() as transaction:
            self._check_header(transaction)
            return read_last_ledger_progress(
                transaction, check_ledger_text("run", run), self._start.digest, self._store.name
            )

    def record_progress(self, run: str, before: LedgerProgress | None, now: LedgerProgress) -> None:
        """Stores the number of a run's releases up to and including the next release, BEFORE this next release.

        Raises ``BudgetExceeded`` and stores nothing unless ``before`` is the last stored progress of this run. A later
        progress would mean that another copy of the run has made further releases. After any exception release nothing.

        ``run`` is the name of the run. ``before`` and ``now`` are the progress before and after the release. Each
        has the number of releases and the name of the turn, the part of the run that one process makes.
        """
        if not isinstance(now, LedgerProgress) or not isinstance(before, LedgerProgress | None):
            raise TypeError(f"before and now must be LedgerProgress(releases, turn), got {before!r} and {now!r}")
        name, turn = check_ledger_text("run", run), check_ledger_text("turn", now.turn)
        known = 0 if before is None else _check.check_count_argument("before.releases", before.releases)
        now = LedgerProgress(_check.check_count_argument("now.releases", now.releases, least=known + 1), turn)
        with self._store.open_transaction(write=True) as transaction:
            self._check_header(transaction)
            last = read_last_ledger_progress(transaction, name, self._start.digest, self._store.name)
            if last != before:
                raise BudgetExceeded(
                    f"{self._store.name}: another copy of this run went on, up to "
                    f"{0 if last is None else last.releases} releases: continue with that copy. This one knows of "
                    f"{known}, and may release no more"
                )
            append_ledger_progress(transaction, name, self._start.digest, now, self._store.name)

    def record_parameters(self, release: str, parameters: str) -> None:
        """Stores the hash of the parameters that a release consists of, once.

        Raises ValueError if the ledger was never charged for this release. Raises ``BudgetExceeded`` if the ledger has
        another hash for this release, because the charge paid only for the parameters with that hash.
        """
        self._read_current()
        if check_ledger_identifier("release", release) not in self._releases:
            raise ValueError(
                f"release must be an identifier that {self._store.name} was charged for, and it has no entry of "
                f"{release}"
            )
        if not re.fullmatch("sha256:[0-9a-f]{64}", check_ledger_text("parameters", parameters)):
            raise ValueError(
                f"parameters must be sha256: and 64 hexadecimal digits, got {_check.describe_argument(parameters)}"
            )
        known = self.read_parameters(release)
        if known == parameters:
            return
        if known is not None:
            raise BudgetExceeded(f"{self._store.name}: release {release} was paid for parameters {known}")
        self.record_progress(_PARAMETERS + release, None, LedgerProgress(1, parameters))

    def read_parameters(self, release: str) -> str | None:
        """Returns the stored hash of the parameters that a release consists of, or None if no hash was stored."""
        found = self.read_progress(_PARAMETERS + check_ledger_identifier("release", release))
        return None if found is None else found.turn

    @property
    def spent(self) -> float:
        """Spent share of the filter's cap, rounded up, in [0, 1].

        The share is infinite if the filter, with the bounds of this version, would not have allowed all entries. The
        share says nothing about epsilon: the guarantee has the same epsilon however much of the cap is spent.
        """
        return self._compute_share_of_ledger_cap(self._read_current().spent)

    def spent_after(self, mechanism: Composable, count: int = 1) -> float:
        """Returns the value that ``spent`` would have after ``count`` more releases.

        Returns infinity if ``spend`` would refuse these releases.

        ``mechanism`` and ``count`` are as for ``spend``.
        """
        _, prices = self._price_ledger_releases(mechanism, count)
        return self._compute_share_of_ledger_cap(
            _add_releases_to_ledger_filter(self._filter, self._read_current().spent, prices)
        )

    def _compute_share_of_ledger_cap(self, spent: _FilterState | None) -> float:
        """Returns the spent share of the cap, rounded up. Returns infinity for None, a state that is not allowed."""
        if spent is None:
            return math.inf
        return min(1.0, math.nextafter(spent.total.hi / self._filter.cap, 2.0)) if spent.total.hi else 0.0

    @property
    def history(self) -> tuple[Entry, ...]:
        """The entries of all spends, in order."""
        with self._store.open_transaction() as run:
            # Raises LedgerError if entries that were seen before are lost.
            self._known = self._update_known_ledger_entries(run)
            return tuple(entry for entry, _ in self._read_entries(run, self._start))

    @property
    def account(self) -> Accountant:
        """Everything that was spent, as one account.

        The account's bounds hold if all releases were fixed in advance. The ledger's own guarantee, (``epsilon``,
        ``delta``), holds in any case.
        """
        account = Accountant(neighbors=self.neighbors)
        for entry in self.history:
            for mechanism, count in entry.releases:
                account.compose(mechanism, count)
        return account

    def _price_ledger_releases(self, mechanism: Composable, count: int) -> tuple[str, list[_ReleaseCost]]:
        """Returns the account of the releases as JSON, and the filter's charge for each distinct mechanism in them."""
        if not isinstance(mechanism, Composable):
            raise TypeError(f"mechanism must be a Mechanism or a Composition, got {mechanism!r}")
        count = _check.check_count_argument("count", count)
        parts = ((mechanism, 1),) if isinstance(mechanism, Mechanism) else mechanism._to_composition().parts
        if not parts:
            raise ValueError("mechanism must be at least one release, got a composition of none")
        prices = [self._price(each, _check.check_count_argument("count", times * count)) for each, times in parts]
        return write_account_of_ledger(mechanism, count, self.neighbors), prices

    def _read_current(self) -> _KnownLedgerEntries:
        with self._store.open_transaction() as run:
            self._known = self._update_known_ledger_entries(run)
        return self._known

    def _update_known_ledger_entries(self, run: Run) -> _KnownLedgerEntries:
        """Reads the entries that were added since the last call, and returns the summary of all entries.

        Afterwards ``_releases`` has the identifiers of all entries.
        """
        self._check_header(run)
        known = self._known
        for entry, digest in self._read_entries(run, known):
            prices = [self._price(each, times) for each, times in entry.releases]
            if entry.release is not None:
                self._releases.add(entry.release)
            known = _KnownLedgerEntries(
                entry.number, digest, _add_releases_to_ledger_filter(self._filter, known.spent, prices)
            )
        return known

    def _check_header(self, run: Run) -> None:
        if _read_budget_of_ledger_database(self._store, run)[1] != self._start.digest:
            raise LedgerError(f"{self._store.name}: is another ledger than the one that was opened; {UNDONE}")

    def _read_entries(self, run: Run, known: _KnownLedgerEntries) -> Iterator[tuple[Entry, str]]:
        """Yields the entries after the known entries, each with its digest, after a check of the digest."""
        rows = run(f"SELECT {_COLUMNS} FROM tightdp_spent WHERE number >= :number ORDER BY number", number=known.number)
        if known.number:
            if not rows or rows[0][4] != known.digest:
                raise LedgerError(f"{self._store.name}: has lost entries, as if an older copy were put back; {UNDONE}")
            del rows[0]
        before = known
        for number, time, note, account, digest in rows:
            if number != before.number + 1 or digest != digest_ledger_values(
                before.digest, number, time, note, account
            ):
                raise LedgerError(f"{self._store.name}: is damaged at entry {before.number + 1}; {UNDONE}")
            before = _KnownLedgerEntries(number, digest, None)
            try:
                entry = self._read_ledger_entry(number, time, note, account)
            except ValueError as error:
                raise LedgerError(
                    f"{self._store.name}: entry {number} cannot be read by this version of tightdp ({error}); {UNDONE}"
                ) from None
            yield entry, digest

    def _read_ledger_entry(self, number: int, time: Any, note: Any, account: Any) -> Entry:
        """Returns the entry that ``spend`` wrote. Raises ValueError for anything else."""
        check_ledger_text("note", read_json_value(str, note, "note"))
        moment = read_json_value(str, time, "time")
        if not _is_ledger_time(moment):
            raise ValueError(f"time must be YYYY-MM-DDTHH:MM:SS+00:00, got {_check.describe_argument(moment)}")
        spent, release = split_release_from_ledger_entry(read_json_value(str, account, "account"))
        releases = read_account_of_ledger(spent, self.neighbors, "account").history
        if not releases:
            raise ValueError("account.history must have at least one release")
        return Entry(number, moment, note, releases, release)

    def _explain_ledger_refusal(self, spent: _FilterState | None, prices: list[_ReleaseCost]) -> str:
        """Returns the reason why the budget does not cover these releases."""
        if spent is None:
            return f"{self._store.name}: what is recorded would not be allowed by the bounds of this version"
        parts = " + ".join(f"{price.mechanism!r} * {price.count}" for price in prices)
        if any(price.failure_probability for price in prices) and not self._budget.failure:
            return (
                f"{parts} may fail, and this ledger sets no part of delta aside for that: make one with a failure, a "
                "part of its delta (tightdp ledger create --failure)"
            )
        cost = sum(price.release_cost * price.count for price in prices)
        return (
            f"{parts} would exceed the budget of {self.dataset!r}: {format_up(spent.total.hi, '.6g')} of "
            f"{self._filter.cap:.6g} ({self._filter.unit}) are spent, and this costs {format_up(cost, '.6g')}"
        )

    def __repr__(self) -> str:
        budget = f"({self.epsilon!r}, {self.delta!r}), neighbors={self.neighbors!r}"
        return f"<Ledger of {self.dataset!r} in {self._store.name}: {budget}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (self._store.address,)

    def __copy__(self) -> Ledger:
        return Ledger(self._where)

    def __deepcopy__(self, memo: Any) -> Ledger:
        return Ledger(self._where)


def _read_budget_of_ledger_database(store: LedgerStore, run: Run) -> tuple[str, str]:
    """Returns the budget of a ledger as JSON, and its digest."""
    if "tightdp_ledger" not in store.list_tables(run):
        raise LedgerError(f"{store.name}: holds no ledger; Ledger.create makes one")
    formats = run("SELECT format FROM tightdp_ledger")
    if formats != [(FORMAT,)]:
        of = f"format {formats[0][0]!r}" if len(formats) == 1 else "no format"
        raise LedgerError(f"{store.name}: is a ledger of {of}, and this version reads format {FORMAT}; {UNDONE}")
    plain, digest = run("SELECT budget, digest FROM tightdp_ledger")[0]
    if digest != digest_ledger_values(FORMAT, plain):
        raise LedgerError(f"{store.name}: is damaged in its budget; {UNDONE}")
    return plain, digest


def _is_ledger_time(moment: str) -> bool:
    """Tells whether a text is a time as ``spend`` writes it, in UTC and to the second."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return False
    return found.tzinfo == timezone.utc and found.isoformat(timespec="seconds") == moment


def _add_releases_to_ledger_filter(
    rules: PrivacyFilter, spent: _FilterState | None, prices: list[_ReleaseCost]
) -> _FilterState | None:
    """Returns the filter's state after one spend of several releases. Returns None if the budget does not cover all of
    them."""
    for price in prices:
        if spent is None:
            return None
        spent = rules._try_to_add_to_filter(spent, price)
    return None if spent is None else spent._replace(entries=None)  # the entries are in the database


def name_ledger(ledger: Ledger | None) -> str | None:
    """Returns the text by which a statement names a ledger, with the ledger's identity. Returns None for None."""
    if ledger is None:
        return None
    return f"that of {ledger.dataset!r}, ({ledger.epsilon!r}, {ledger.delta!r}) in all, identity {ledger.identity}"
