"""A budget of a data set that lasts, and that processes and machines share (docs/theory/filters.md, section 10)."""

from .ledger import Entry, Ledger
from .store import LedgerError

__all__ = ["Entry", "Ledger", "LedgerError"]
