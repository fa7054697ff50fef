"""The input of transformers: numbers in memory, or in blocks that are read in passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..clipping_and_noise.noise import RandomSource
from ..records.blocks import Blocks
from ..records.stream import RecordStream, scan_blocks

Array = NDArray[np.float64]
Values = Array | RecordStream
"""Array of n rows with d columns, or a stream of such rows."""


def count_records_to_preprocess(X: Any) -> Any:
    """Passes over blocks once to count their records, and returns the counted blocks. Returns other tables
    unchanged."""
    return scan_blocks(X, None)[0] if isinstance(X, Blocks) else X


def stream_features_to_preprocess(blocks: Blocks) -> RecordStream:
    """Returns a stream of the features of blocks, after one pass over the blocks."""
    return RecordStream.from_blocks(blocks, _get_features_to_preprocess)


def _get_features_to_preprocess(features: NDArray[Any], targets: Any) -> Any:
    return features


def count_columns_to_preprocess(values: Values) -> int:
    """Returns the number of columns."""
    return values.width if isinstance(values, RecordStream) else int(values.shape[1])


def sum_rows_to_preprocess(
    values: Values, part: Callable[[Array], NDArray[np.int64]], length: int, source: RandomSource
) -> NDArray[np.int64]:
    """Returns the sum of ``part`` over all rows, modulo 2^64.

    ``part`` maps some rows to ``length`` integers, and each integer is a sum with one term from each row."""
    if isinstance(values, RecordStream):
        return values.sum_over_batch(_PartOfDoubles(part), length, source)
    return part(values)


class _PartOfDoubles:
    """A function that converts rows of any float type to float64, and calls ``part`` with them."""

    def __init__(self, part: Callable[[Array], NDArray[np.int64]]) -> None:
        self._part = part

    def __call__(self, rows: Any) -> NDArray[np.int64]:
        return self._part(rows.astype(np.float64))
