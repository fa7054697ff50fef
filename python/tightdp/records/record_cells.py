"""Reads the cells of tables. Each cell is converted without regard to other cells (docs/theory/exact.md, section 6).

From a list, NumPy would make an array of a type that fits all cells. A single text would turn all numbers into texts,
and a single float64 would change values that were float32. The type of an array or a column counts as public. A list, a
tuple or an array of objects has no such type, and each of its cells keeps its own type.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from .text import write_record_cell_as_text

NESTED = (list, tuple, dict, set, np.ndarray)
"""Types that a cell never has, because they hold several values."""
NUMERIC = "biuf"
"""NumPy's letters for the types of numbers: booleans, integers, unsigned integers and floats."""
WHOLE = range(-(2**63), 2**63)
"""Whole numbers that an array of 64-bit integers holds."""


def as_column_of_cells(cells: Any) -> NDArray[Any]:
    """Returns the cells of one column as an array. The array has the type of the column, or the type object if the
    column has none.

    Missing values of data frames become None, because they cannot be compared. Raises TypeError for a text, and for an
    object without a length.
    """
    if isinstance(cells, np.ndarray):
        return cells
    if hasattr(cells, "to_numpy") and getattr(getattr(cells, "dtype", None), "kind", "O") in NUMERIC:
        plain = np.asarray(cells.to_numpy())
        if plain.dtype.kind in NUMERIC:  # a column of pandas' own integers becomes objects if an integer is missing
            return plain
    if hasattr(cells, "to_numpy"):
        try:
            return np.asarray(cells.to_numpy(dtype=object, na_value=None))
        except TypeError:  # Polars, whose to_numpy() would turn integers into floats if a cell is missing
            cells = cells.to_list()
    if hasattr(cells, "__array__"):
        return np.asarray(cells)
    if isinstance(cells, (str, bytes)) or not hasattr(cells, "__len__"):
        raise TypeError(f"a column must be a sequence of cells, got {type(cells).__name__}")
    return np.fromiter(cells, dtype=object, count=len(cells))


def describe_cell_type(dtype: Any) -> str:
    """Returns the type of an array or a column, without the width of its texts, which would reveal the length of the
    longest text."""
    kind = getattr(dtype, "kind", "O")
    return str(dtype) if kind in NUMERIC else "each cell's own" if str(dtype) == "object" else "text"


def list_column_types(X: Any) -> list[str]:
    """Returns the types of the columns of a data frame. Each type may depend on all records. The list is empty for
    other tables."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return [f"{name}: {describe_cell_type(dtype)}" for name, dtype in zip(X.columns, X.dtypes, strict=True)]
    return []


def as_table_of_record_cells(rows: Any) -> NDArray[Any]:
    """Returns an array as it is, and a list of rows as an array of objects.

    If rows differ in length, the array does not have two axes, or NumPy raises ValueError. Raises TypeError for an
    array with a mask.
    """
    _check.refuse_masked_array("X", rows)
    return rows if isinstance(rows, np.ndarray) else np.array(rows, dtype=object)


def match_record_cells(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns, for each row, whether two columns have equal cells. A number never equals a text."""
    kinds = {one.dtype.kind, other.dtype.kind}
    if kinds <= set(NUMERIC) or (len(kinds) == 1 and "O" not in kinds):
        return np.asarray(one == other, dtype=np.bool_)
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return np.fromiter(starmap(_is_equal_cell, pairs), np.bool_, count=len(one))


def _is_equal_cell(one: Any, other: Any) -> bool:
    """Returns whether two cells are equal. Cells that cannot be compared count as different."""
    return bool((found := operator.eq(one, other)) is True or (isinstance(found, np.bool_) and found))


def as_label_of_record_cell(cell: Any) -> tuple[str, Any]:
    """Returns the kind of a label, and the label as a plain value of that kind. Raises TypeError for an object that is
    not a label."""
    if isinstance(cell, (bool, np.bool_)):
        return "truth value", bool(cell)
    if isinstance(cell, (int, np.integer)) and int(cell) in WHOLE:
        return "whole number", int(cell)
    if isinstance(cell, (float, np.floating)):
        return "float", float(cell)
    if isinstance(cell, str):
        return "text", str(cell)
    raise TypeError("no label")


def as_labels_of_record_cells(cells: Iterable[Any]) -> NDArray[Any]:
    """Returns labels as an array. All labels must be of one kind, and the array has the type of this kind.

    No label is converted to the kind of another label. Raises TypeError if two labels have different kinds, or if a
    cell is not a label.
    """
    found = [as_label_of_record_cell(cell) for cell in cells]
    if len({kind for kind, _ in found}) > 1:
        raise TypeError("labels of several kinds")
    return np.array([label for _, label in found])


def as_targets_of_record_cells(cells: Any) -> NDArray[Any]:
    """Returns targets as an array.

    A list of labels of one kind becomes an array of the type of that kind. Any other list becomes an array of objects.
    """
    if not isinstance(cells, (list, tuple)):
        return np.asarray(cells)
    try:
        return as_labels_of_record_cells(cells)
    except TypeError:
        return np.fromiter(cells, dtype=object, count=len(cells))


def convert_cells_to_text(column: Any) -> list[str]:
    """Returns cells as texts without blanks around them. None, NaN and pandas' NA become ""."""
    if isinstance(column, np.ndarray) and column.dtype.kind in NUMERIC:
        different, places = np.unique(column, return_inverse=True)
        texts = [convert_cell_to_text(cell) for cell in different]
        return [texts[place] for place in places.tolist()]
    return [cell.strip() if type(cell) is str else convert_cell_to_text(cell) for cell in column]


def convert_cell_to_text(cell: Any) -> str:
    """Returns one cell as text, which is "" for a missing cell. Raises TypeError unless the cell is a text, a number or
    missing."""
    try:
        missing = cell is None or bool(cell != cell)
    except (TypeError, ValueError):
        if type(cell).__name__ != "NAType":  # pandas' NA, which cannot be compared
            raise TypeError(f"X must hold texts or numbers: a cell is a {type(cell).__name__}") from None
        missing = True
    return "" if missing else convert_cell_value_to_text(cell).strip()


def convert_cell_value_to_text(cell: Any) -> str:
    """Returns ``write_record_cell_as_text`` of a cell.

    Python refuses to write an integer with too many digits. The ValueError that is then raised quotes no digit.
    """
    try:
        return write_record_cell_as_text(cell)
    except ValueError:
        raise ValueError("a cell must be written in fewer digits than that number has") from None
