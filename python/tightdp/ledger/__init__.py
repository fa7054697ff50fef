"""A lasting budget for all releases from a data set, which processes and machines share.

docs/theory/filters.md, section 10, has the theory.
"""

from .database_interface import LedgerError
from .ledger import Entry, Ledger
from .run_progress import LedgerProgress

__all__ = ["Entry", "Ledger", "LedgerError", "LedgerProgress"]
