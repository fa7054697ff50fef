"""The payment of one run from a ledger, under an identifier that the run's statement repeats."""

from __future__ import annotations

import re
import secrets
from os import PathLike

from ..composition import Composable
from .ledger import Ledger, name_ledger


class LedgerPayment:
    """The payment for one run. A ledger pays the charge if ``ledger`` is not None.

    Ledgers and statements call the whole run a release. Each run has an identifier, which is drawn before the charge.
    The ledger's entry and the statement both name it, so that two runs of equal charge can be told apart.
    """

    def __init__(self, ledger: Ledger | str | PathLike[str] | None, note: str) -> None:
        self.ledger = open_ledger(ledger)
        self.release = secrets.token_hex(16)
        """Identifier of the run, 32 random hexadecimal digits."""
        self._note = note

    def spend_charge(self, charge: Composable) -> None:
        """Spends the charge if there is a ledger. Callers call this method before the run releases anything."""
        if self.ledger is not None:
            self.ledger.spend(charge, note=self._note, release=self.release)

    @property
    def ledger_text(self) -> str | None:
        """The text by which a statement names the ledger and the release, or None without a ledger."""
        return name_ledger_payment(self.ledger, self.release)


def open_ledger(ledger: Ledger | str | PathLike[str] | None) -> Ledger | None:
    """Returns the ledger that an argument names. The argument is a ``Ledger``, a path, a URL, or None for no ledger."""
    return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)


def name_ledger_payment(ledger: Ledger | None, release: str) -> str | None:
    """Returns the text by which a statement names a ledger and a release that the ledger paid for. Returns None
    without a ledger."""
    return None if ledger is None else f"{name_ledger(ledger)}, release {release}"


def list_ledger_releases(ledger: Ledger, text: str) -> tuple[str, ...]:
    """Returns the identifiers of releases in ``text``, which is the part of a statement about its ledger.

    The result is empty if the text has no identifiers, as in older versions, or is about another ledger.
    """
    found = re.findall(r", release ([0-9a-f]{32})(?=; |$)", text)
    return tuple(found) if text == "; ".join(f"{name_ledger_payment(ledger, each)}" for each in found) else ()
