"""A budget that lasts: one for a data set, shared by processes and machines (docs/theory/filters.md, section 10)."""

from .ledger import Entry, Ledger
from .store import LedgerError

__all__ = ["Entry", "Ledger", "LedgerError"]
