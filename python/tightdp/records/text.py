"""Converts cells to texts, and texts to numbers."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

EXACT = 2.0**64
"""Whole floats are written as integers if their magnitude is below this number."""
MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "#n/a", "#na", "<na>", "nan", "null", "none"})
"""Texts that stand for a missing number, in lower case."""
NO_VALUE = ("", "?")
"""Texts that stand for a missing label or category. The other texts in ``MISSING`` may be values, as NA for Namibia."""
SHOWN = 50
"""Largest number of names that one message lists."""


def write_record_cell_as_text(cell: Any) -> str:
    """Returns ``str`` of a cell, except that whole floats are written as integers.

    A data frame turns integers into floats if a cell is missing. This must not change the texts of the other cells.
    """
    if isinstance(cell, (float, np.floating)) and abs(float(cell)) < EXACT and cell.is_integer():
        return str(int(cell))
    return str(cell)


def parse_cell_number(cell: str, decimal: str = ".") -> float | None:
    """Returns a cell as a number, or None for text. A cell such as 1_0, which only Python reads as a number, is text.

    If ``decimal`` is a comma, a cell with a point is text too, because the point could separate thousands or decimals.
    """
    if decimal == ",":
        cell = "_" if "." in cell else cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def join_record_column_names(names: Iterable[str]) -> str:
    """Returns the names of columns as one text for an error message.

    If one of the names is a number, the file may have no line of names, and the names may be values of a record. In
    this case the returned text contains none of the names."""
    found = list(names)
    cells = (
        found if len(found) > 1 else re.split(r"[\s;|]+", " ".join(found))
    )  # a single name may be a whole line, with another delimiter than was expected
    if any(parse_cell_number(cell) is not None for cell in cells):
        return f"{len(found):,} that are not listed, as the first line holds numbers: it must hold the names"
    more = f", and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return ", ".join(name or "''" for name in found[:SHOWN]) + more


def find_repeated_column_names(names: Iterable[str]) -> list[str]:
    """Returns the names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def is_text_encoding(name: Any) -> bool:
    """Tells whether ``name`` is the name of an encoding of texts."""
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, TypeError, ValueError):
        return False
