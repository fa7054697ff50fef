"""Linear models of a table's columns, which are kept in files."""

from .model_file import TableModel, load

__all__ = ["TableModel", "load"]
