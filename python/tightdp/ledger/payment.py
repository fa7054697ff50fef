"""The payment of one run from a ledger, under an identifier that the run's statement repeats."""

from __future__ import annotations

import re
import secrets
from os import PathLike

from ..composition import Composable
from .ledger import Ledger, name_of


class LedgerPayment:
    """One charge to a ledger, or to none, for a release with an identifier of its own.

    The identifier is drawn here, before the charge. It stands in the ledger's entry and in the statement, which tells
    two releases of equal charge apart.
    """

    def __init__(self, ledger: Ledger | str | PathLike[str] | None, note: str) -> None:
        self.ledger = open_ledger(ledger)
        self.release = secrets.token_hex(16)
        """Identifier of the release, 32 random hexadecimal digits."""
        self._note = note

    def spend_charge(self, charge: Composable) -> None:
        """Spends the charge from the ledger, if there is one; called before the first release."""
        if self.ledger is not None:
            self.ledger.spend(charge, note=self._note, release=self.release)

    @property
    def ledger_text(self) -> str | None:
        """The ledger and the release, as a statement names them; None without a ledger."""
        return name_payment(self.ledger, self.release)


def open_ledger(ledger: Ledger | str | PathLike[str] | None) -> Ledger | None:
    """Returns the ledger that an estimator was given, as it is or by its path or URL; None if it was given none."""
    return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)


def name_payment(ledger: Ledger | None, release: str) -> str | None:
    """Returns the name of a ledger and of a release that it paid for, for the statement; None without a ledger."""
    return None if ledger is None else f"{name_of(ledger)}, release {release}"


def list_releases(ledger: Ledger, text: str) -> tuple[str, ...]:
    """Returns the identifiers of the releases that a statement's text on its ledger names.

    There are none in text of a version without identifiers, or in text about another ledger.
    """
    found = re.findall(r", release ([0-9a-f]{32})(?=; |$)", text)
    return tuple(found) if text == "; ".join(f"{name_payment(ledger, each)}" for each in found) else ()
