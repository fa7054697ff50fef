"""Numbers in memory, or in blocks that are passed over: what transformers learn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records.blocks import Blocks
from ..records.stream import Stream, scan_blocks
from ..release.noise import RandomSource

Array = NDArray[np.float64]
Values = Array | Stream
"""Rows (n, d), or a stream of such rows."""


def count_blocks(X: Any) -> Any:
    """Blocks after the pass that counts their records, for all that learn from them; anything else as it is."""
    return scan_blocks(X, None)[0] if isinstance(X, Blocks) else X


def stream_features(blocks: Blocks) -> Stream:
    """The features of blocks, after one pass over them."""
    return Stream.from_blocks(blocks, _get_features)


def _get_features(features: NDArray[Any], targets: Any) -> Any:
    return features


def width_of(values: Values) -> int:
    """The number of columns."""
    return values.width if isinstance(values, Stream) else int(values.shape[1])


def sum_over_rows(
    values: Values, part: Callable[[Array], NDArray[np.int64]], length: int, source: RandomSource
) -> NDArray[np.int64]:
    """The sum of ``part`` over all rows, modulo 2^64. A part is a sum over rows of integers, each of its own row."""
    if isinstance(values, Stream):
        return values.sum_over_batch(_PartOfDoubles(part), length, source)
    return part(values)


class _PartOfDoubles:
    """A part, of rows in any type of floats."""

    def __init__(self, part: Callable[[Array], NDArray[np.int64]]) -> None:
        self._part = part

    def __call__(self, rows: Any) -> NDArray[np.int64]:
        return self._part(rows.astype(np.float64))
