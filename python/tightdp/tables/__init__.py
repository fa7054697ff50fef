"""Linear models of a table's columns, which are kept in files."""

from .model import TableModel, load

__all__ = ["TableModel", "load"]
