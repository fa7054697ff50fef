"""A schema: what is declared of a table's columns before anybody looks at the records."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._strict_json import parse_json
from .columns import LEARN, Bounds, Fill, together
from .rows import Rows
from .text import MISSING, NO_VALUE, names_in, number_of

FORMAT = 1
MOST = 1000
"""The most labels, or categories of a column: a column with more values holds measurements, names or keys."""
DRAFT = (
    "NOT PRIVATE: read off the records. Replace each bound, each list and each number for missing ones by what is "
    "known without them, drop what names people, and then delete this entry. Keep the draft as you keep the records."
)
KINDS = (
    "Which columns hold numbers, 0 and 1 alone, or few texts, and which lack some, was read off the records. Check "
    "each kind, drop what names people, and then delete this entry. What says learn will be learned with noise, and "
    "charged: declare in its place what is known without the records, the classes above all."
)
DIGITS = re.compile(r"[+-]?[0-9]+")
CODE = re.compile(r"0[0-9]+")
"""Digits after a zero, which a number does not begin with: a postal code, or the number of an account."""
FEWEST = 20
"""Records from which on it means something that all values of a column differ: of fewer people, ages often do."""


@dataclass(frozen=True)
class Schema:
    """The label with its classes, and what each other column is: bounds, categories, or dropped."""

    label: str
    classes: tuple[str, ...] | Literal["learn"]
    """Here and in the next ones "learn" stands for what is to be learned with noise."""
    bounds: Mapping[str, Bounds]
    categories: Mapping[str, tuple[str, ...] | Literal["learn"]]
    dropped: frozenset[str]
    fills: Mapping[str, Fill]
    """What stands for numbers that are missing."""

    @classmethod
    def read(cls, file: Path) -> Schema:
        """ValueError, naming the file, with everything that is wrong with it."""
        try:
            return cls._of(parse_json(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    @classmethod
    def _of(cls, plain: Any) -> Schema:
        if not isinstance(plain, Mapping) or plain.get("tightdp_schema") != FORMAT:
            raise ValueError(f"must be a JSON object with tightdp_schema {FORMAT}, as `tightdp schema` drafts one")
        unknown = set(plain) - {"tightdp_schema", "label", "classes", "columns", "draft"}
        if "draft" in plain:
            raise ValueError("is a draft that nobody has reviewed: check each entry, and delete the entry 'draft'")
        if unknown:
            raise ValueError(f"has unknown entries: {', '.join(sorted(unknown))}")
        label, columns = plain.get("label"), plain.get("columns")
        if not isinstance(label, str) or not isinstance(columns, Mapping):
            raise ValueError("must have a label and columns")
        classes = plain.get("classes")
        parts: list[Any] = [lambda: LEARN if classes == LEARN else _values("classes", classes, 2)]
        parts += [partial(_column, name, declared) for name, declared in columns.items()]
        labels, *found = together(parts)
        named = dict(zip(columns, found, strict=True))
        return cls(
            label,
            labels,
            {name: kind[1] for name, kind in named.items() if kind[0] == "bounds"},
            {name: kind[1] for name, kind in named.items() if kind[0] == "categories"},
            frozenset(name for name, kind in named.items() if kind[0] == "drop"),
            {name: kind[2] for name, kind in named.items() if kind[2] is not None},
        )


def _column(name: str, declared: Any) -> tuple[str, Any, Any]:
    """What a column is, its values, and what stands for a missing number."""
    match declared:
        case {"bounds": "learn" | [int() | float(), int() | float()] as bounds, **rest} if rest.keys() <= {"missing"}:
            return "bounds", _bounds(name, bounds), _fill(name, rest.get("missing"))
        case {"categories": "learn", **rest} if not rest:
            return "categories", LEARN, None
        case {"categories": values, **rest} if not rest:
            return "categories", _values(f"categories of {name!r}", values, 1), None
        case {"drop": True, **rest} if not rest:
            return "drop", None, None
    raise ValueError(
        f'column {name!r} must be {{"bounds": [LOW, HIGH]}}, {{"categories": [...]}} or {{"drop": true}}; bounds and '
        'categories may be "learn", and numbers may have {"missing": NUMBER} or {"missing": "learn"}'
    )


def _bounds(name: str, given: Any) -> Any:
    if given == LEARN:
        return LEARN
    low, high = map(float, given)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f'bounds of {name!r} must be [LOW, HIGH] with LOW < HIGH, both finite, or "learn"')
    return low, high


def _fill(name: str, given: Any) -> Any:
    if given is None or given == LEARN:
        return given
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not np.isfinite(given):
        raise ValueError(f'missing of {name!r} must be a finite number or "learn"')
    return float(given)


def _values(name: str, values: Any, least: int) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() == value for value in values):
        raise ValueError(f"{name} must be a list of texts without blanks around them")
    if not least <= len(values) <= MOST or len(set(values)) < len(values) or "" in values:
        raise ValueError(f"{name} must be {least} to {MOST:,} different texts, none of them empty")
    return tuple(values)


def draft(rows: Rows, label: str, learn: bool = False) -> dict[str, Any]:
    """A schema that the records themselves suggest, marked as a draft, which is not private. With ``learn`` it says of
    each column what kind it is, and no values."""
    labels = sorted(set(rows.column(label)).difference(NO_VALUE))
    names = identifiers(rows, label)
    marked = f" Dropped as identifiers, since their values all differ: {names_in(names)}." if names else ""
    columns = {name: _suggested(cells, learn, rows.decimal) for name, cells in rows.columns.items() if name != label}
    return {
        "tightdp_schema": FORMAT,
        "draft": (KINDS if learn else DRAFT) + marked,
        "label": label,
        "classes": LEARN if learn else labels if len(labels) <= MOST else [],
        "columns": {name: {"drop": True} if name in names else how for name, how in columns.items()},
    }


def identifiers(rows: Rows, label: str) -> list[str]:
    """Columns of texts or integers of which no two records have the same: numbers of patients, of cards, names. Numbers
    with decimals are measurements."""
    return [name for name, cells in rows.columns.items() if name != label and _differ(cells, rows.decimal)]


def _differ(cells: list[str], decimal: str) -> bool:
    known = [cell for cell in cells if cell.lower() not in MISSING]
    if len(known) < FEWEST or len(set(known)) < len(known):
        return False
    numbers = [number_of(cell, decimal) for cell in known]
    return any(number is None for number in numbers) or all(DIGITS.fullmatch(cell) for cell in known)


def _suggested(cells: list[str], learn: bool, decimal: str) -> dict[str, Any]:
    """Returns bounds for numbers, with a number for those that are missing, and categories for a few texts that come
    back; anything else is to be dropped."""
    known = [cell for cell in cells if cell.lower() not in MISSING]
    numbers = [number_of(cell, decimal) for cell in known]
    finite = [number for number in numbers if number is not None and np.isfinite(number)]
    if finite and len(finite) == len(known) and not any(CODE.fullmatch(cell) for cell in known):
        low, high = min(finite), max(finite)
        flag = set(finite) <= {0.0, 1.0}  # which a definition will say as well, and learning would cost
        found: dict[str, Any] = {"bounds": LEARN if learn else [low, high if low < high else low + 1.0]}
        if learn and flag:
            found["bounds"] = [0, 1]
        if len(known) < len(cells):
            found["missing"] = LEARN if learn else float(np.median(finite))
        return found
    values = sorted(set(cells).difference(NO_VALUE))
    if values and len(values) <= min(MOST, max(2, len(cells) // 10)):
        return {"categories": LEARN if learn else values}
    return {"drop": True}
