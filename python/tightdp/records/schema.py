"""Reads and drafts schemas, and plans the columns that they declare.

A schema declares facts about a table's columns before anybody reads the records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._support import _check
from .._support.strict_json import (
    check_json_entries,
    check_json_format,
    construct_from_strict_json,
    read_json_value,
    read_strict_json_file,
)
from .column_encodings import (
    LEARN,
    Bounds,
    CategoryColumn,
    Column,
    Fill,
    LearnedColumn,
    NumberColumn,
    run_attempts_for_record_columns,
)
from .sources.rows import Rows
from .text import MISSING, NO_VALUE, join_record_column_names, parse_cell_number

FORMAT = 1
"""Number of the format of a schema. Files with another number are refused."""
MOST = 1000
"""Largest number of labels, or of categories of a column. A column with more values probably holds measurements, names
or keys."""
# The note in a draft of a schema. DRAFT is for a draft with values from the records, and KINDS for a draft that only
# states the kinds of the columns.
DRAFT = (
    "NOT PRIVATE: the values were read off the records. Replace each bound, each list and each number for missing "
    "numbers by what is known without the records. Drop the columns that name people, and then delete this entry. Keep "
    "the draft as safe as the records."
)
KINDS = (
    "The kinds of the columns were read off the records: numbers, 0 and 1 alone, or few texts, and whether cells are "
    "missing. Check each kind, drop the columns that name people, and then delete this entry. A value that is declared "
    "as learn will be learned with noise, and charged. Replace learn by what is known without the records, above all "
    "for the classes."
)
DIGITS = re.compile(r"[+-]?[0-9]+")
"""Pattern of a whole number."""
CODE = re.compile(r"0[0-9]+")
"""Pattern of a whole number with a leading zero. Such a text is a postal code or an account number, not a quantity."""
FEWEST = 20
"""Smallest number of records for which a column whose values all differ is taken for an identifier.

Among fewer records, even ages may all differ by chance."""
Values = tuple[str, ...] | Literal["learn"]
"""Labels, or the categories of a column. "learn" says that the values are to be learned with noise."""
_FORMS: tuple[Mapping[str, Any], ...] = (
    {"bounds": Bounds},
    {"bounds": Bounds, "missing": Fill},
    {"categories": Values},
    {"drop": Literal[True]},
)
"""Forms in which a column can be declared. Each form maps the entries of the declaration to their types."""


@dataclass(frozen=True)
class Schema:
    """The declarations about a table: the label and its classes, and how each other column is used.

    A column has bounds or categories, or is dropped.
    """

    label: str
    """Name of the column to predict."""
    classes: Values | None
    """Labels of a classifier. None stands for the labels that occur, which are declared public. An empty tuple stands
    for a regression, which has no labels."""
    bounds: Mapping[str, Bounds]
    categories: Mapping[str, Values | None]
    """Categories of each text column. None stands for the values that occur, which are declared public."""
    dropped: frozenset[str]
    fills: Mapping[str, Fill]
    """Numbers that replace missing numbers, by the name of the column."""
    missing: tuple[str, ...] = ()
    """Texts of cells that count as missing in all columns, as in ``TextFormat``."""
    complete: bool = True
    """True if a column that is not declared is an error. Otherwise such a column must hold numbers in [0, 1]."""

    @classmethod
    def read(cls, path: Path) -> Schema:
        """Returns the schema in a file. Raises one ValueError for all errors in the file. The error names the file."""
        return read_strict_json_file(path, cls._from_plain)

    @classmethod
    def _from_plain(cls, plain: Any) -> Schema:
        """Returns the schema that the parsed JSON of a file holds. Raises one ValueError for all errors in the JSON."""
        check_json_format(plain, "tightdp_schema", FORMAT, "`tightdp schema`")
        if "draft" in plain:
            raise ValueError("is a draft that nobody has reviewed: check each entry, and delete the entry 'draft'")
        optional = ("missing",) if "missing" in plain else ()
        check_json_entries("text", plain, ("tightdp_schema", "label", "classes", "columns", *optional))
        if not isinstance(plain["columns"], dict):
            raise ValueError(f"columns must be an object, got {_check.describe_argument(plain['columns'])}")
        reads: list[Any] = [partial(read_json_value, str, plain["label"], "label")]
        reads += [partial(_read_schema_values, "classes", plain["classes"], 2)]
        reads += [partial(_read_record_schema_column, name, how) for name, how in plain["columns"].items()]
        label, classes, *columns = run_attempts_for_record_columns(reads)
        missing: tuple[str, ...] = ()
        if optional:
            missing = _check_schema_texts("missing", read_json_value(tuple[str, ...], plain["missing"], "missing"), 1)

        def select_schema_entry(entry: str) -> dict[str, Any]:
            """Returns the values of one entry, for the columns that have this entry."""
            return {name: how[entry] for name, how in columns if entry in how}

        return cls(
            label,
            classes,
            select_schema_entry("bounds"),
            select_schema_entry("categories"),
            frozenset(select_schema_entry("drop")),
            select_schema_entry("missing"),
            missing,
        )


def _read_record_schema_column(name: str, plain: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name of a column, and the entries of its declaration."""
    at = f"columns[{read_json_value(str, name, 'columns')!r:.100}]"
    form = next((each for each in _FORMS if isinstance(plain, dict) and each.keys() == plain.keys()), None)
    if form is None:
        raise ValueError(
            f'{at} must be {{"bounds": [LOW, HIGH]}}, {{"categories": [...]}} or {{"drop": true}}; bounds and '
            'categories may be "learn", and numbers may have {"missing": NUMBER} or {"missing": "learn"}'
        )
    if "categories" in form:
        return name, {"categories": _read_schema_values(f"{at}.categories", plain["categories"], 1)}
    found = {entry: read_json_value(hint, plain[entry], f"{at}.{entry}") for entry, hint in form.items()}
    if found.get("bounds", LEARN) != LEARN:
        low, high = found["bounds"]
        construct_from_strict_json(
            NumberColumn, {"name": name, "low": low, "high": high}, at
        )  # raises an error for bad bounds
    return name, found


def _read_schema_values(name: str, plain: Any, least: int) -> Values:
    """Returns labels or the categories of a column. Raises ValueError unless there are at least ``least``."""
    values: Values = read_json_value(Values, plain, name)
    return LEARN if values == LEARN else _check_schema_texts(name, values, least)


def _check_schema_texts(name: str, values: tuple[str, ...], least: int) -> tuple[str, ...]:
    """Returns ``values``. Raises ValueError unless they are ``least`` to ``MOST`` texts, all different."""
    if not least <= len(values) <= MOST or len(set(values)) < len(values):
        raise ValueError(
            f"{name} must be {least} to {MOST:,} different texts, got {_check.describe_argument(list(values))}"
        )
    if not all(value and value == value.strip() for value in values):
        raise ValueError(f"{name} must be texts without blanks around them, none of them empty")
    return values


def plan_record_schema_columns(
    rows: Rows, declared: Schema, categories: Mapping[str, Values]
) -> tuple[Column | LearnedColumn, ...]:
    """Decides how each column is encoded, except for the label and the dropped columns.

    ``categories`` has the categories of ``declared``. If these are None for a column, it has the values that occur in
    that column. Raises ValueError for unknown names and for missing bounds. A column whose values all lie in [0, 1]
    needs no bounds if ``declared`` is not complete.
    """
    bounds, dropped = declared.bounds, declared.dropped
    named = *categories, *bounds, *dropped, *declared.fills
    run_attempts_for_record_columns(
        [partial(rows.get_source_column, name) for name in dict.fromkeys((declared.label, *named))]
    )
    if declared.label in named:
        raise ValueError(f"column {declared.label!r} is the label and cannot be a feature as well")

    both = {name for name in dropped if name in categories or name in bounds}
    names = [name for name in rows.columns if name != declared.label and (name not in dropped or name in both)]
    columns = run_attempts_for_record_columns(
        [partial(_plan_record_schema_column, name, rows, declared, categories) for name in names]
    )
    if not columns:
        raise ValueError(f"{rows.file}: no column but the label {declared.label!r}")
    return tuple(columns)


def _plan_record_schema_column(
    name: str, rows: Rows, declared: Schema, categories: Mapping[str, Values]
) -> Column | LearnedColumn:
    """Returns the encoding of one column, which is declared or is to be learned.

    Raises ValueError if the declarations about the column contradict each other.
    """
    bounds, dropped, fills = declared.bounds, declared.dropped, declared.fills
    ways = [name in categories, name in bounds, name in dropped]
    if sum(ways) > 1:
        kinds = [kind for kind, way in zip(("categorical", "bounded", "dropped"), ways, strict=True) if way]
        raise ValueError(f"column {name!r} is both {' and '.join(kinds)}")
    if name in fills and (name in categories or name in dropped):
        raise ValueError(f"column {name!r} holds no numbers, so no number can replace missing ones")
    if name in categories:
        known = categories[name]
        return LearnedColumn(name, True) if known == LEARN else CategoryColumn(name, known)
    if name in bounds:
        given, fill = bounds[name], fills.get(name)
        if given == LEARN or fill == LEARN:
            return LearnedColumn(name, False, given, fill)
        return NumberColumn(name, *given, fill)
    if declared.complete:
        raise ValueError(f"column {name!r} is not declared: give it bounds or categories, or drop it")
    if not name:
        raise ValueError(
            'a column has no name, as the index that pandas writes: leave it out, --drop "", or declare it, as '
            "--bounds =LOW:HIGH"
        )
    values = rows.read_source_numbers(name, allow_missing=True)
    if ((values < 0) | (values > 1)).any():
        raise ValueError(
            f"column {name!r} goes beyond [0, 1] and has no bounds: give public ones, "
            f"--bounds {name}=LOW:HIGH, chosen without looking at the data, or --learn-bounds {name}"
        )
    fill = fills.get(name)
    return LearnedColumn(name, False, (0.0, 1.0), fill) if fill == LEARN else NumberColumn(name, 0.0, 1.0, fill)


def draft_record_schema(rows: Rows, label: str, learn: bool = False, missing: Iterable[str] = ()) -> dict[str, Any]:
    """Returns a draft of a schema. The draft is not private, because its values are taken from the records.

    With ``learn``, the draft holds no values of the records, and only states the kind of each column. ``missing`` are
    the texts that counted as missing when ``rows`` was read. The draft's note names the entries that must be corrected,
    because ``Schema.read`` would refuse them.
    """
    labels = sorted(set(rows.get_source_column(label)).difference(NO_VALUE))
    names = find_record_identifier_columns(rows, label)
    marked = (
        f" Dropped as identifiers, since their values all differ: {join_record_column_names(names)}." if names else ""
    )
    columns = {
        name: _draft_record_schema_column(cells, learn, rows.decimal)
        for name, cells in rows.columns.items()
        if name != label
    }
    texts = [name for name, how in columns.items() if "drop" in how and name not in names]
    marked += (
        f" Dropped, since they hold too many different texts or none: {join_record_column_names(texts)}."
        if texts
        else ""
    )
    classes: Any = LEARN if learn else labels if len(labels) <= MOST else []
    columns |= {name: {"drop": True} for name in names}
    tried: list[tuple[str, Callable[[], Any]]] = [("classes", partial(_read_schema_values, "classes", classes, 2))]
    tried += [(repr(name), partial(_read_record_schema_column, name, how)) for name, how in columns.items()]
    refused = [name for name, read in tried if not _is_schema_part_accepted(read)]
    marked += f" Refused by tightdp train until you correct them: {', '.join(refused)}." if refused else ""
    markers = sorted(set(missing).difference(NO_VALUE))
    return {
        "tightdp_schema": FORMAT,
        "draft": (KINDS if learn else DRAFT) + marked,
        "label": label,
        "classes": classes,
        **({"missing": markers} if markers else {}),
        "columns": columns,
    }


def _is_schema_part_accepted(read: Callable[[], Any]) -> bool:
    """Returns whether a part of a draft would be read without an error."""
    try:
        read()
    except ValueError:
        return False
    return True


def find_record_identifier_columns(rows: Rows, label: str) -> list[str]:
    """Returns the columns of texts or integers in which no value occurs twice, such as patient numbers and names.

    Columns of numbers with decimals are taken for measurements, and not for identifiers.
    """
    return [
        name
        for name, cells in rows.columns.items()
        if name != label and _is_record_identifier_column(cells, rows.decimal)
    ]


def _is_record_identifier_column(cells: list[str], decimal: str) -> bool:
    """Returns whether a column looks like an identifier: all values differ, and are texts or whole numbers."""
    known = [cell for cell in cells if cell.lower() not in MISSING]
    if len(known) < FEWEST or len(set(known)) < len(known):
        return False
    numbers = [parse_cell_number(cell, decimal) for cell in known]
    return any(number is None for number in numbers) or all(DIGITS.fullmatch(cell) for cell in known)


def _draft_record_schema_column(cells: list[str], learn: bool, decimal: str) -> dict[str, Any]:
    """Returns the draft for one column: bounds for numbers, categories for few distinct texts, or else "drop".

    If some cells of a column of numbers are missing, the draft includes a number that replaces missing numbers.
    """
    known = [cell for cell in cells if cell.lower() not in MISSING]
    numbers = [parse_cell_number(cell, decimal) for cell in known]
    finite = [number for number in numbers if number is not None and np.isfinite(number)]
    if finite and len(finite) == len(known) and not any(CODE.fullmatch(cell) for cell in known):
        low, high = min(finite), max(finite)
        flag = set(finite) <= {0.0, 1.0}  # truth values, whose bounds need not be learned
        found: dict[str, Any] = {"bounds": LEARN if learn else [low, high if low < high else low + 1.0]}
        if learn and flag:
            found["bounds"] = [0, 1]
        if len(known) < len(cells):
            found["missing"] = LEARN if learn else 2 * float(np.median(np.divide(finite, 2)))  # halves avoid overflow
        return found
    values = sorted(set(cells).difference(NO_VALUE))
    if values and len(values) <= min(MOST, max(2, len(cells) // 10)):
        return {"categories": LEARN if learn else values}
    return {"drop": True}
