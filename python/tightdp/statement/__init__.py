"""Privacy statements: the cover, the assumptions and the limits of a bound, for the person who signs."""

from .statement import Statement

__all__ = ["Statement"]
