"""Tables of numbers and text: how a CSV file becomes features, what is declared of it, and models of its columns."""

from .model import TableModel, load

__all__ = ["TableModel", "load"]
