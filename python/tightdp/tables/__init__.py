"""Tables of numbers and text: how a CSV file becomes features, what is declared of it, and models of its columns."""

from .frequent import FrequentValues, frequent_values
from .model import TableModel, load

__all__ = ["FrequentValues", "TableModel", "frequent_values", "load"]
