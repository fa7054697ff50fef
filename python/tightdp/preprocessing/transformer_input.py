"""Reads tables column by column. A table is an array, a list of rows, a data frame or a mapping of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records.numbers import check_column_names
from ..records.record_cells import (
    as_column_of_cells,
    as_table_of_record_cells,
    convert_cell_to_text,
    convert_cells_to_text,
)
from ..records.sources.arrays import ArrayBlocks
from ..release_gate.count_threshold import count_values_for_threshold


def get_columns_for_transformer(X: Any) -> list[Any] | None:
    """Returns the column names of a data frame or a mapping. Returns None for an array."""
    if isinstance(X, Mapping):
        return list(X)
    columns = getattr(X, "columns", None)
    return None if columns is None else list(columns)


def list_columns_to_preprocess(columns: Any) -> list[Any]:
    """Returns a list of the names or numbers of columns. Raises ValueError for other keys, and for booleans, which
    Python would treat as the numbers 0 and 1."""
    keys = [columns] if isinstance(columns, (str, int, np.integer)) or not np.iterable(columns) else list(columns)
    for key in keys:
        if isinstance(key, bool) or not isinstance(key, (str, int, np.integer)):
            raise ValueError(f"columns must be names or numbers of columns of X, got {key!r}")
    return keys


def convert_memory_map_to_preprocess(X: Any) -> Any:
    """Returns a memory map as blocks, and any other table unchanged."""
    return ArrayBlocks(X, np.zeros(len(X))) if isinstance(X, np.memmap) and X.ndim == 2 and len(X) else X


def split_columns_to_preprocess(X: Any) -> list[Any]:
    """Returns the columns of a table, each a sequence of cells. Raises TypeError or ValueError if X is not a dense
    table. Messages quote no cell."""
    if hasattr(X, "tocsr"):
        raise TypeError("X must be a dense 2-D array: sparse input is not supported")
    names = get_columns_for_transformer(X)
    if names is not None:
        check_column_names(X)
        found = [as_column_of_cells(X[name]) for name in names]
        if len({len(column) for column in found}) > 1:
            raise ValueError("X must have columns of one length")
        return found
    try:
        array = as_table_of_record_cells(X)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2:
        raise ValueError(f"X must be a 2-D array, got shape {array.shape}. Reshape your data")
    if array.dtype.kind == "c":
        raise ValueError("X must hold texts or real numbers: Complex data not supported")
    return list(array.T)


def check_shape_to_preprocess(estimator: Any, X: Any, columns: list[Any], *, reset: bool) -> None:
    """Checks the number and names of the columns. With ``reset``, stores the number and names. Otherwise compares them
    with those that ``fit`` stored."""
    count = len(columns)
    rows = len(columns[0]) if columns else 0
    if not count or not rows:
        what = f"0 feature(s) (shape=({rows}, {count}))" if not count else f"0 sample(s) (shape=({rows}, {count}))"
        raise ValueError(f"Found array with {what} while a minimum of 1 is required: X must be a non-empty 2-D array")
    check_width_to_preprocess(estimator, X, count, reset=reset)


def check_width_to_preprocess(estimator: Any, X: Any, count: int | None, *, reset: bool) -> None:
    """Checks the number and names of the columns of a table or of blocks, as ``check_shape_to_preprocess`` does.

    If ``count`` is None, X must be blocks of numbers, whose columns have no names."""
    names = None if count is None else get_columns_for_transformer(X)
    count = X.width if count is None else count
    texts = names is not None and all(isinstance(name, str) for name in names)
    if reset:
        estimator.n_features_in_ = count
        if texts:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if count != estimator.n_features_in_:
        raise ValueError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} features "
            f"as input"
        )
    known = getattr(estimator, "feature_names_in_", None)
    if texts and known is not None and list(known) != names:
        raise ValueError("The feature names should match those that were passed during fit")


def select_columns_to_preprocess(estimator: Any, X: Any) -> Any:
    """Returns a table with the columns of ``fit`` in the order of ``fit``. Returns X unchanged if names are not known.
    Raises ValueError if a column of ``fit`` is missing."""
    known, names = getattr(estimator, "feature_names_in_", None), get_columns_for_transformer(X)
    if known is None or names is None or list(known) == names:
        return X
    check_column_names(X)
    lacking = [name for name in known if name not in names]
    if lacking:
        raise ValueError(f"X must have the columns of fit: it lacks {', '.join(lacking)}")
    return {name: X[name] for name in known} if isinstance(X, Mapping) else X[list(known)]


def read_texts_for_encoder(estimator: Any, X: Any, *, reset: bool) -> list[list[str]]:
    """Returns the columns as texts without blanks at their ends. None, NaN and NA become ""."""
    columns = split_columns_to_preprocess(X)
    check_shape_to_preprocess(estimator, X, columns, reset=reset)
    return [convert_cells_to_text(column) for column in columns]


def count_categories_of_columns(rows: NDArray[Any], missing: Sequence[str]) -> list[Counter[str]]:
    """Returns, for each column, the number of rows with each value. Values are texts. Texts in ``missing`` are not
    counted."""
    if rows.dtype == object:
        return [count_values_for_threshold(convert_cells_to_text(column), missing) for column in rows.T]
    found = []
    for column in rows.T:
        counts: Counter[str] = Counter()
        for cell, number in zip(*np.unique(column, return_counts=True), strict=True):
            text = convert_cell_to_text(cell)
            if text not in missing:
                counts[text] += int(number)
        found.append(counts)
    return found


def select_rows_to_preprocess(X: Any, chosen: NDArray[np.bool_]) -> Any:
    """Returns the rows of a table for which ``chosen`` is True. No cell changes its type."""
    if isinstance(X, Mapping):
        return {name: as_column_of_cells(column)[chosen] for name, column in X.items()}
    return X[chosen] if get_columns_for_transformer(X) is not None else as_table_of_record_cells(X)[chosen]
