"""Models of the columns of a table, in files."""

from .model import TableModel, load

__all__ = ["TableModel", "load"]
