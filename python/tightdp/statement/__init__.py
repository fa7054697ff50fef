"""Privacy statements, which tell the person who signs what a bound covers, what it assumes and what it leaves out."""

from .statement import Statement

__all__ = ["Statement"]
