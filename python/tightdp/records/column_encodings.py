"""Encodes columns as features. Numbers are clipped to bounds and mapped to [0, 1], and categories become one-hot.

This module fits nothing. Bounds, labels and categories come from the caller, who may have learned them with noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from .sources.rows import Rows

SHOWN = 20
"""Largest number of problems of a table that one error message lists."""


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column with its bounds."""

    name: str
    low: float
    high: float
    missing: float | None = None
    """Number that replaces missing numbers. If it is None, missing numbers stay missing."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"bounds of column {self.name!r} must be low < high, got {self.low!r} and {self.high!r}")
        if math.isinf(self.high - self.low):
            raise ValueError(f"bounds of column {self.name!r} must have a finite width high - low")

    @property
    def feature_names(self) -> list[str]:
        return [self.name]

    def encode_record_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ``values``, clipped to the bounds and mapped to [0, 1], as an array of one column."""
        if self.missing is not None:
            values = np.where(np.isnan(values), self.missing, values)
        unit: NDArray[np.float64] = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return unit[:, None]


@dataclass(frozen=True)
class CategoryColumn:
    """A text column with its categories. Any other text becomes a row of zeros."""

    name: str
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(f"categories of column {self.name!r} must be different texts")

    @property
    def feature_names(self) -> list[str]:
        return [f"{self.name}={c}" for c in self.categories]

    def encode_record_values(self, values: Sequence[str]) -> NDArray[np.float64]:
        """Returns an array with a column for each category: 1 for records of this category, and 0 for others."""
        place = {category: i for i, category in enumerate(self.categories)}
        found = np.array([place.get(value, -1) for value in values], dtype=np.intp)
        out = np.zeros((len(found), len(place)))
        (known,) = np.nonzero(found >= 0)
        out[known, found[known]] = 1.0
        return out


Column = NumberColumn | CategoryColumn
"""Type of a column whose encoding is known."""
LEARN: Final = "learn"
"""Value in place of bounds, categories or a number, which are then learned with noise."""
Bounds = tuple[float, float] | Literal["learn"]
"""Bounds of a column, which are declared or are to be learned."""
Fill = float | Literal["learn"]
"""Number that replaces missing numbers in a column. It is declared or is to be learned."""


@dataclass(frozen=True)
class LearnedColumn:
    """A column whose categories, bounds or replacement for missing numbers are to be learned with noise."""

    name: str
    categories: bool = False
    bounds: Bounds = LEARN
    missing: Fill | None = None


def run_attempts_for_record_columns(attempts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Returns the results of all ``attempts``. Raises one ValueError that lists the first ``SHOWN`` errors.

    So the user can correct many errors at once.
    """
    found, problems = [], []
    for attempt in attempts:
        try:
            found.append(attempt())
        except ValueError as error:  # noqa: PERF203
            problems.append(str(error))
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise ValueError("; ".join(problems[:SHOWN]) + more)
    return found


def encode_record_columns(rows: Rows, columns: Sequence[Column], *, allow_missing: bool) -> NDArray[np.float64]:
    """Returns features (n, d) in [0, 1].

    A column may declare a replacement for missing numbers. Other missing numbers become NaN if ``allow_missing`` is
    True, and raise ValueError otherwise.
    """

    def encode_column(column: Column) -> NDArray[np.float64]:
        """Returns the features of one column."""
        if isinstance(column, NumberColumn):
            allowed = allow_missing or column.missing is not None
            return column.encode_record_values(rows.read_source_numbers(column.name, allow_missing=allowed))
        return column.encode_record_values(rows.get_source_column(column.name))

    return np.column_stack(run_attempts_for_record_columns([partial(encode_column, column) for column in columns]))
