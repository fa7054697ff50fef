"""A lasting budget for all releases from a data set, which processes and machines share.

docs/theory/filters.md, section 10, has the theory.
"""

from .ledger import Entry, Ledger
from .progress import LedgerProgress
from .store import LedgerError

__all__ = ["Entry", "Ledger", "LedgerError", "LedgerProgress"]
