"""A schema: the declarations about a table's columns, made before anybody looks at the records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .. import _check
from .._strict_json import check_entries, check_format, construct_object, read_file, read_value
from .columns import LEARN, Bounds, Fill, Number, run_all_attempts
from .sources.rows import Rows
from .text import MISSING, NO_VALUE, join_names, parse_cell_number

FORMAT = 1
"""Number of the format of a schema. Another number is refused."""
MOST = 1000
"""Largest number of labels, or of categories of a column. A column with more values holds measurements, names or
keys."""
# Notes in a draft, with its values or with kinds of columns alone.
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
"""Pattern of a whole number."""
CODE = re.compile(r"0[0-9]+")
"""Pattern of digits after a leading zero. Such a text is a postal code or an account number, and not a quantity."""
FEWEST = 20
"""Smallest number of records for which a column whose values all differ is taken for an identifier.

In fewer records even ages often all differ."""
Values = tuple[str, ...] | Literal["learn"]
"""Labels, or the categories of a column; "learn" here and below if they are to be learned with noise."""
_FORMS: tuple[Mapping[str, Any], ...] = (
    {"bounds": Bounds},
    {"bounds": Bounds, "missing": Fill},
    {"categories": Values},
    {"drop": Literal[True]},
)
"""Entries of each form, with their types."""


@dataclass(frozen=True)
class Schema:
    """The label with its classes, and the bounds or categories of each other column, or that it is dropped."""

    label: str
    classes: Values
    bounds: Mapping[str, Bounds]
    categories: Mapping[str, Values]
    dropped: frozenset[str]
    fills: Mapping[str, Fill]
    """Numbers that stand for missing ones, by column."""

    @classmethod
    def read(cls, path: Path) -> Schema:
        """Returns the schema in a file. Raises ValueError, which names the file, with everything that is wrong."""
        return read_file(path, cls._from_plain)

    @classmethod
    def _from_plain(cls, plain: Any) -> Schema:
        """Returns the schema in the values of a file. ValueError with everything that is wrong in it."""
        check_format(plain, "tightdp_schema", FORMAT, "`tightdp schema`")
        if "draft" in plain:
            raise ValueError("is a draft that nobody has reviewed: check each entry, and delete the entry 'draft'")
        check_entries("text", plain, ("tightdp_schema", "label", "classes", "columns"))
        if not isinstance(plain["columns"], dict):
            raise ValueError(f"columns must be an object, got {_check.describe_value(plain['columns'])}")
        reads: list[Any] = [partial(read_value, str, plain["label"], "label")]
        reads += [partial(_read_values, "classes", plain["classes"], 2)]
        reads += [partial(_read_column, name, how) for name, how in plain["columns"].items()]
        label, classes, *columns = run_all_attempts(reads)

        def select_entry(entry: str) -> dict[str, Any]:
            """Returns one entry of all columns that have it."""
            return {name: how[entry] for name, how in columns if entry in how}

        return cls(
            label,
            classes,
            select_entry("bounds"),
            select_entry("categories"),
            frozenset(select_entry("drop")),
            select_entry("missing"),
        )


def _read_column(name: str, plain: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name of a column, and the entries of the form in which it is declared."""
    at = f"columns[{read_value(str, name, 'columns')!r:.100}]"
    form = next((each for each in _FORMS if isinstance(plain, dict) and each.keys() == plain.keys()), None)
    if form is None:
        raise ValueError(
            f'{at} must be {{"bounds": [LOW, HIGH]}}, {{"categories": [...]}} or {{"drop": true}}; bounds and '
            'categories may be "learn", and numbers may have {"missing": NUMBER} or {"missing": "learn"}'
        )
    if "categories" in form:
        return name, {"categories": _read_values(f"{at}.categories", plain["categories"], 1)}
    found = {entry: read_value(hint, plain[entry], f"{at}.{entry}") for entry, hint in form.items()}
    if found.get("bounds", LEARN) != LEARN:
        low, high = found["bounds"]
        construct_object(Number, {"name": name, "low": low, "high": high}, at)  # which checks them
    return name, found


def _read_values(name: str, plain: Any, least: int) -> Values:
    """Returns the labels, or the categories of a column."""
    values: Values = read_value(Values, plain, name)
    if values == LEARN:
        return values
    if not least <= len(values) <= MOST or len(set(values)) < len(values):
        raise ValueError(f"{name} must be {least} to {MOST:,} different texts, got {_check.describe_value(plain)}")
    if not all(value and value == value.strip() for value in values):
        raise ValueError(f"{name} must be texts without blanks around them, none of them empty")
    return values


def draft_schema(rows: Rows, label: str, learn: bool = False) -> dict[str, Any]:
    """Returns a schema that the records themselves suggest, marked as a draft, which is not private. With ``learn`` it
    says of each column what kind it is, and no values."""
    labels = sorted(set(rows.get_column(label)).difference(NO_VALUE))
    names = find_identifiers(rows, label)
    marked = f" Dropped as identifiers, since their values all differ: {join_names(names)}." if names else ""
    columns = {name: _draft_column(cells, learn, rows.decimal) for name, cells in rows.columns.items() if name != label}
    return {
        "tightdp_schema": FORMAT,
        "draft": (KINDS if learn else DRAFT) + marked,
        "label": label,
        "classes": LEARN if learn else labels if len(labels) <= MOST else [],
        "columns": {name: {"drop": True} if name in names else how for name, how in columns.items()},
    }


def find_identifiers(rows: Rows, label: str) -> list[str]:
    """Returns the columns of texts or integers in which no value occurs twice, such as patient numbers and names.

    Numbers with decimals are measurements, and no identifiers.
    """
    return [name for name, cells in rows.columns.items() if name != label and _is_identifier(cells, rows.decimal)]


def _is_identifier(cells: list[str], decimal: str) -> bool:
    """Tells whether all values of a column differ, and are texts or whole numbers."""
    known = [cell for cell in cells if cell.lower() not in MISSING]
    if len(known) < FEWEST or len(set(known)) < len(known):
        return False
    numbers = [parse_cell_number(cell, decimal) for cell in known]
    return any(number is None for number in numbers) or all(DIGITS.fullmatch(cell) for cell in known)


def _draft_column(cells: list[str], learn: bool, decimal: str) -> dict[str, Any]:
    """Drafts one column: bounds for numbers, categories for few distinct texts, or else that it is dropped.

    Bounds come with a number for missing cells if some cells are missing.
    """
    known = [cell for cell in cells if cell.lower() not in MISSING]
    numbers = [parse_cell_number(cell, decimal) for cell in known]
    finite = [number for number in numbers if number is not None and np.isfinite(number)]
    if finite and len(finite) == len(known) and not any(CODE.fullmatch(cell) for cell in known):
        low, high = min(finite), max(finite)
        flag = set(finite) <= {0.0, 1.0}  # a definition says the bounds, and learning them would cost budget
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
