"""A CSV file as features and labels: numbers clipped to public bounds and mapped to [0, 1], categories one-hot.

Nothing is fitted: bounds, labels and categories come from the caller. Errors name file, record and column, never what a
cell holds: they may end up in a log.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "?", "na", "nan", "null", "none"})


@dataclass(frozen=True)
class Number:
    """A numeric column with its public bounds."""

    name: str
    low: float
    high: float

    @property
    def features(self) -> list[str]:
        return [self.name]

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        unit: NDArray[np.float64] = (np.clip(values, self.low, self.high) - self.low) / (self.high - self.low)
        return unit[:, None]


@dataclass(frozen=True)
class Category:
    """A text column with its public categories; a text that is none of them is a row of zeros."""

    name: str
    categories: tuple[str, ...]

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={c}" for c in self.categories]

    def encode(self, values: Sequence[str]) -> NDArray[np.float64]:
        place = {category: i for i, category in enumerate(self.categories)}
        found = np.array([place.get(value, -1) for value in values])
        out = np.zeros((len(found), len(place)))
        (known,) = np.nonzero(found >= 0)
        out[known, found[known]] = 1.0
        return out


Column = Number | Category


@dataclass(frozen=True)
class Rows:
    """A CSV file as text, column by column."""

    file: str
    columns: Mapping[str, list[str]]

    @classmethod
    def read(cls, file: Path) -> Rows:
        """The whole file. ValueError, with file and line, for what is no table."""
        try:
            return cls._read(file)
        except UnicodeDecodeError as error:
            raise ValueError(f"{file}: must be a text file in UTF-8, and is not at byte {error.start}") from None
        except csv.Error as error:
            raise ValueError(f"{file}: {error}") from None

    @classmethod
    def _read(cls, file: Path) -> Rows:
        with file.open(newline="", encoding="utf-8-sig") as text:
            reader = csv.reader(text, skipinitialspace=True)
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise ValueError(f"{file}: the file is empty; a header line is expected")
            twice = {name for name in header if header.count(name) > 1}
            if twice:
                raise ValueError(f"{file}: columns named twice: {', '.join(sorted(twice))}")
            cells: list[list[str]] = [[] for _ in header]
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ValueError(
                        f"{file}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}"
                    )
                for column, cell in zip(cells, row, strict=True):
                    column.append(cell.strip())
        if not cells[0]:
            raise ValueError(f"{file}: no records below the header")
        return cls(str(file), dict(zip(header, cells, strict=True)))

    def column(self, name: str) -> list[str]:
        if name not in self.columns:
            raise ValueError(f"{self.file}: no column {name!r}; there are {', '.join(self.columns)}")
        return self.columns[name]

    def undeclared(self, name: str, values: Sequence[str]) -> NDArray[np.bool_]:
        """Which records have a text in a column that is not among ``values``; an empty cell counts as such."""
        known = frozenset(values)
        return np.array([cell not in known for cell in self.column(name)])

    def numbers(self, name: str, *, allow_missing: bool) -> NDArray[np.float64]:
        """A column as finite numbers, NaN where missing. ValueError, with the record, for text or what is missing."""
        out = np.empty(len(self.column(name)))
        for record, cell in enumerate(self.column(name), start=1):
            missing = cell.lower() in MISSING
            if missing and not allow_missing:
                raise ValueError(f"{self.file}: record {record} has no {name}; see --allow-missing")
            number = None if missing else _number(cell)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.file}: record {record}, column {name}: must be a finite number")
            if number is None and not missing:
                raise ValueError(
                    f"{self.file}: record {record}, column {name}: not a number "
                    f"(text columns are named with --categories or --categorical)"
                )
            out[record - 1] = np.nan if number is None else number
        return out


def _number(cell: str) -> float | None:
    """None for text, and for 1_0, which only Python reads as a number."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def plan_columns(
    rows: Rows, label: str, categories: Mapping[str, tuple[str, ...]], bounds: Mapping[str, tuple[float, float]]
) -> tuple[Column, ...]:
    """How each column but the label is encoded. ValueError for unknown names and for missing bounds."""
    for name in (label, *categories, *bounds):
        rows.column(name)
    if label in categories or label in bounds:
        raise ValueError(f"column {label!r} is the label and cannot be a feature as well")
    columns: list[Column] = []
    for name in rows.columns:
        if name == label:
            continue
        if name in categories:
            if name in bounds:
                raise ValueError(f"column {name!r} is both categorical and bounded")
            columns.append(Category(name, categories[name]))
        elif name in bounds:
            columns.append(Number(name, *bounds[name]))
        else:
            values = rows.numbers(name, allow_missing=True)
            if ((values < 0) | (values > 1)).any():
                raise ValueError(
                    f"column {name!r} goes beyond [0, 1] and has no bounds: give public ones, "
                    f"--bounds {name}=LOW:HIGH, chosen without looking at the data"
                )
            columns.append(Number(name, 0.0, 1.0))
    if not columns:
        raise ValueError(f"{rows.file}: no column but the label {label!r}")
    return tuple(columns)


def encode(rows: Rows, columns: Sequence[Column], *, allow_missing: bool) -> NDArray[np.float64]:
    """Features (n, d) in [0, 1]; a record with something missing is a row with NaN."""
    blocks: list[NDArray[Any]] = []
    for column in columns:
        if isinstance(column, Number):
            blocks.append(column.encode(rows.numbers(column.name, allow_missing=allow_missing)))
        else:
            blocks.append(column.encode(rows.column(column.name)))
    return np.column_stack(blocks)
