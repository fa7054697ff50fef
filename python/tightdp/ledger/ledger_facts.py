"""Facts that are fixed when a ledger is made: the data set, the budget, and the filter that enforces the budget."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass
from typing import Any

from .._support import _check
from .._support.strict_json import parse_json, read_json_object, read_json_value
from ..accounting.running_accounts.accountant import Accountant
from ..accounting.running_accounts.filter_costs import RenyiFilterCosts
from ..accounting.running_accounts.filters import PrivacyFilter
from ..composition import Composable
from ..options import Neighbors

LONGEST_LEDGER_TEXT = 10_000
"""Largest number of characters of a text, such as a note or a data set's name."""


@dataclass(frozen=True)
class LedgerBudget:
    """The data set of a ledger, the arguments of its filter, and an identifier that no other ledger has."""

    dataset: str
    epsilon: float
    delta: float
    neighbors: Neighbors
    family: str
    order: float | None
    failure: float
    others: str | None
    """The argument ``others`` of the filter, as the JSON of an account. Each mechanism of this account may be released
    up to its count, and does not count towards the filter's cap. None if the argument was not given."""
    identity: str
    """32 random hexadecimal digits."""

    def __post_init__(self) -> None:
        check_ledger_text("dataset", self.dataset)
        if not self.dataset.strip():
            raise ValueError("dataset must say which data this is the budget of")
        check_ledger_identifier("identity", self.identity)
        self.build_ledger_filter()  # raises an error unless the filter accepts its arguments
        if (self.order is None) != (self.family != "renyi"):
            raise ValueError(f"order must be given for family 'renyi' alone, got {self.order!r} for {self.family!r}")

    @classmethod
    def from_arguments(
        cls, dataset: Any, epsilon: float, delta: float, expected: Composable | None, **rules: Any
    ) -> LedgerBudget:
        """Returns the budget for the arguments of ``Ledger.create``.

        If no Renyi order is given, the budget keeps the order that the filter chooses.
        """
        made = PrivacyFilter(epsilon, delta, expected=expected, **rules)
        rules["order"] = 1 + made._family.c if isinstance(made._family, RenyiFilterCosts) else None
        others = rules.pop("others")
        rules["others"] = None if others is None else write_account_of_ledger(others, 1, made.neighbors)
        return cls(dataset, made.epsilon, made.delta, identity=secrets.token_hex(16), **rules)

    @classmethod
    def from_json(cls, plain: str) -> LedgerBudget:
        """Returns the budget that ``to_json`` wrote. Raises ValueError for anything else."""
        return read_json_object(cls, parse_json(plain), "budget")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def build_ledger_filter(self) -> PrivacyFilter:
        """Returns the filter that decides whether a spend is allowed."""
        others = (
            None if self.others is None else read_account_of_ledger(self.others, self.neighbors, "others").composition
        )
        rules: Any = {"family": self.family, "order": self.order, "failure": self.failure}
        return PrivacyFilter(self.epsilon, self.delta, neighbors=self.neighbors, others=others, **rules)


def read_account_of_ledger(plain: str, neighbors: Neighbors, name: str) -> Accountant:
    """Returns the account that ``write_account_of_ledger`` wrote as ``plain``.

    Raises ValueError for other text, and for an account under another neighbouring relation. Messages begin with
    ``name``, the place of the account in the ledger.
    """
    try:
        account = Accountant.from_json(plain)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    if account.neighbors != neighbors:
        raise ValueError(f"{name}: neighbors must be {neighbors!r}, as those of the budget, got {account.neighbors!r}")
    return account


def add_release_to_ledger_entry(account: str, release: str) -> str:
    """Returns the JSON text ``account`` with the identifier of the release that the entry pays for."""
    return json.dumps({**json.loads(account), "release": release})


def split_release_from_ledger_entry(plain: str) -> tuple[str, str | None]:
    """Returns the account of an entry as ``write_account_of_ledger`` wrote it, and the release's identifier.

    The identifier is None for entries of older versions, which drew no identifiers, and for text that
    ``read_account_of_ledger`` refuses.
    """
    try:
        values = parse_json(plain)
    except ValueError:
        return plain, None
    if not isinstance(values, dict) or "release" not in values:
        return plain, None
    name = "account.release"
    release = check_ledger_identifier(name, read_json_value(str, values.pop("release"), name))
    return json.dumps(values), release


def check_ledger_identifier(name: str, value: Any) -> str:
    """Returns ``value`` if it is 32 hexadecimal digits. Raises TypeError or ValueError for anything else."""
    if not re.fullmatch("[0-9a-f]{32}", check_ledger_text(name, value)):
        raise ValueError(f"{name} must be 32 hexadecimal digits, got {_check.describe_argument(value)}")
    return str(value)


def check_ledger_text(name: str, value: Any) -> str:
    """Returns ``value`` if it is a text that every database can keep. Raises TypeError or ValueError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    if len(value) > LONGEST_LEDGER_TEXT or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{name} must be at most {LONGEST_LEDGER_TEXT:,} characters that UTF-8 can write, without NUL")
    return value


def digest_ledger_values(*values: Any) -> str:
    """Returns the digest of an entry's values.

    Each entry's values include the digest of the previous entry, so a change of an entry shows in all later digests.
    """
    return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()


def write_account_of_ledger(releases: Composable, count: int, neighbors: Neighbors) -> str:
    """Returns an account of ``count`` times ``releases`` as JSON. Raises TypeError unless an equal account can be read
    back from the JSON."""
    account = Accountant(neighbors=neighbors)
    account.compose(releases, count)
    try:
        plain = account.to_json()
        same = Accountant.from_json(plain) == account
    except (TypeError, ValueError):
        same = False
    if not same:
        raise TypeError(f"mechanism must be one that Accountant.to_json can write, got {releases!r}")
    return plain
