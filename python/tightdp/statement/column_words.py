"""Words by which statements say how labels and columns are known: declared, read off records, or learned with noise.

The code that writes a statement and the code that checks a statement against a model take the words from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..records.column_encodings import CategoryColumn, Column
from .wording import format_stated_exactly, list_stated_texts

DECLARED = "declared"
OCCURRING = "those that occur"


@dataclass(frozen=True)
class StatedColumnFact:
    """A fact about the labels or a column that a model depends on, with words for each way in which the fact may be
    known."""

    name: str
    """Name of the fact among the public facts of a statement."""
    value: str
    """The fact as text, such as a list of categories."""
    release: str
    """Beginning of the fact's line in the list of releases of a statement, if the fact was learned."""
    use: str = ""
    """Text that follows the value, for a fact that was declared."""

    @property
    def declared_text(self) -> str:
        """The text of the public fact if it was declared."""
        return f"{DECLARED}: {self.value}{self.use}"

    @property
    def occurring_text(self) -> str:
        """The text of the public fact if it was read off the records."""
        return f"{OCCURRING}: {self.value}"

    def describe_release(self, note: str = "") -> str:
        """Returns the line about the fact among the releases, if it was learned with noise. The line ends with
        ``note``."""
        return f"{self.release}: {self.value}" + (f"; {note}" if note else "")

    def is_about(self, line: str) -> bool:
        """Tells whether a line among the releases is about this fact."""
        return line.startswith(f"{self.release}: ")

    def agrees_with(self, line: str) -> bool:
        """Tells whether a line about this fact gives the same value as this fact."""
        return line == self.describe_release() or line.startswith(f"{self.describe_release()}; ")


def state_fact_of_labels(labels: Sequence[str]) -> StatedColumnFact:
    """Returns the fact that a classifier knows these labels."""
    return StatedColumnFact("labels", list_stated_texts(labels), "labels, by noisy counts")


def state_fact_of_categories(name: str, categories: Sequence[str]) -> StatedColumnFact:
    """Returns the fact that a column has these categories."""
    shown = list_stated_texts(categories) or "none was frequent, so the column is left out"
    return StatedColumnFact(f"categories of {name}", shown, f"categories of {name}, by noisy counts")


def state_fact_of_column_bounds(name: str, low: float, high: float) -> StatedColumnFact:
    """Returns the fact that a column of numbers has these bounds."""
    return StatedColumnFact(
        f"bounds of {name}",
        f"{format_stated_exactly(low)} to {format_stated_exactly(high)}",
        f"bounds of {name}, by noisy quantiles",
    )


def state_fact_of_missing(name: str, missing: float) -> StatedColumnFact:
    """Returns the fact that the number ``missing`` stands for the missing numbers of a column."""
    release = f"a noisy median of {name}, for missing numbers"
    return StatedColumnFact(
        f"missing numbers of {name}", format_stated_exactly(missing), release, use=" stands for them"
    )


def state_facts_of_columns(columns: Iterable[Column]) -> list[StatedColumnFact]:
    """Returns the facts about columns that a model depends on."""
    facts = []
    for column in columns:
        if isinstance(column, CategoryColumn):
            facts.append(state_fact_of_categories(column.name, column.categories))
            continue
        facts.append(state_fact_of_column_bounds(column.name, column.low, column.high))
        if column.missing is not None:
            facts.append(state_fact_of_missing(column.name, column.missing))
    return facts
