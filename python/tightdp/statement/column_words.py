"""Words of statements about labels and columns of a table: declared, read off the records, or learned.

Whoever writes a statement, and whoever checks that it agrees with a model, takes the words from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..records.columns import Category, Column
from .wording import format_exactly, list_texts

DECLARED = "declared"
OCCURRING = "those that occur"


@dataclass(frozen=True)
class ColumnFact:
    """A fact about labels or a column that a model depends on, in the words of each way in which it may be known."""

    name: str
    """Name of the fact among the public facts of a statement."""
    value: str
    release: str
    """Beginning of the line about it among the releases of a statement, if it was learned."""
    use: str = ""
    """Text behind the value, if it was declared."""

    @property
    def declared_text(self) -> str:
        """The public fact, where it was declared."""
        return f"{DECLARED}: {self.value}{self.use}"

    @property
    def occurring_text(self) -> str:
        """The public fact, where the values that occur in the records were taken."""
        return f"{OCCURRING}: {self.value}"

    def describe_release(self, note: str = "") -> str:
        """The release, where it was learned with noise. ``note`` says more of it."""
        return f"{self.release}: {self.value}" + (f"; {note}" if note else "")

    def is_about(self, line: str) -> bool:
        """Tells whether a line among the releases is about this fact."""
        return line.startswith(f"{self.release}: ")

    def agrees_with(self, line: str) -> bool:
        """Tells whether a line about this fact gives this value."""
        return line == self.describe_release() or line.startswith(f"{self.describe_release()}; ")


def fact_of_labels(labels: Sequence[str]) -> ColumnFact:
    """Returns the fact that a classifier knows these labels."""
    return ColumnFact("labels", list_texts(labels), "labels, by noisy counts")


def fact_of_categories(name: str, categories: Sequence[str]) -> ColumnFact:
    """Returns the fact that a column has these categories."""
    shown = list_texts(categories) or "none was frequent, so the column is left out"
    return ColumnFact(f"categories of {name}", shown, f"categories of {name}, by noisy counts")


def fact_of_bounds(name: str, low: float, high: float) -> ColumnFact:
    """Returns the fact that a column of numbers has these bounds."""
    return ColumnFact(
        f"bounds of {name}", f"{format_exactly(low)} to {format_exactly(high)}", f"bounds of {name}, by noisy quantiles"
    )


def fact_of_missing(name: str, missing: float) -> ColumnFact:
    """Returns the fact that this number stands for the missing ones of a column."""
    release = f"a noisy median of {name}, for missing numbers"
    return ColumnFact(f"missing numbers of {name}", format_exactly(missing), release, use=" stands for them")


def facts_of_columns(columns: Iterable[Column]) -> list[ColumnFact]:
    """Returns the facts about columns that a model depends on."""
    facts = []
    for column in columns:
        if isinstance(column, Category):
            facts.append(fact_of_categories(column.name, column.categories))
            continue
        facts.append(fact_of_bounds(column.name, column.low, column.high))
        if column.missing is not None:
            facts.append(fact_of_missing(column.name, column.missing))
    return facts
