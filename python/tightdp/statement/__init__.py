"""Privacy statements: what a bound covers, what it rests on, and what it does not cover, for whoever signs."""

from .statement import Statement

__all__ = ["Statement"]
