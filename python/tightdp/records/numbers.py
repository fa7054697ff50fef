"""Converts tables and targets to arrays of numbers. Each cell is converted by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from .text import find_repeated_column_names


def as_table_of_numbers(X: Any) -> NDArray[Any]:
    """Returns X as float32 if it has that dtype, and as float64 otherwise. Errors do not quote a cell.

    If X has no dtype, each cell becomes a float64 by itself, because a type that NumPy chose would depend on all cells.
    """
    _check.refuse_masked_array("X", X)
    try:
        array = np.asarray(X) if hasattr(X, "dtype") or hasattr(X, "columns") else np.asarray(X, dtype=np.float64)
        if array.dtype not in (np.float32, np.float64) and array.dtype.kind != "c":
            array = array.astype(np.float64)
    except TypeError as error:  # NumPy's message names a type, and quotes no value
        raise TypeError(f"X must be a 2-D array of numbers: {error}") from None
    except (ValueError, OverflowError):
        raise ValueError("X must be a 2-D array of numbers: a cell is not a number, or rows differ in length") from None
    if array.dtype.kind == "c":
        raise ValueError("X must be a 2-D array of numbers: Complex data not supported")
    return array


def refuse_dates_in_records(X: Any) -> None:
    """Raises TypeError if X is an array of dates or of durations, or a table with such a column.

    NumPy would convert dates to numbers in a unit that depends on how the dates were read.
    """
    types = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", ()))
    if any(getattr(each, "kind", "") in ("m", "M") for each in types):
        raise TypeError("X must hold numbers: turn dates and durations into numbers first, for example into years")


def convert_record_numbers_to_doubles(y: Any) -> Any:
    """Returns a list or tuple of targets as doubles. Each target is converted by itself.

    Other targets are returned unchanged. Raises ValueError if a target is not a number.
    """
    try:
        return np.asarray(y, dtype=np.float64) if isinstance(y, (list, tuple)) else y
    except (TypeError, ValueError, OverflowError):
        raise ValueError("y must hold numbers, one for each record") from None


def check_column_names(X: Any) -> None:
    """Raises ValueError for a data frame that has columns of the same name."""
    names = [str(name) for name in columns] if (columns := getattr(X, "columns", None)) is not None else []
    twice = find_repeated_column_names(names)
    if twice:
        raise ValueError(f"X must have columns of different names, and these stand more than once: {', '.join(twice)}")
