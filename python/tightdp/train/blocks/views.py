"""Blocks that are made of others while these are read: with other features, or some of the records.

Statement and proof: docs/theory/blocks.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ... import _core
from .blocks import Block, Blocks, Rows, checked_weights, joined

T = TypeVar("T")


class Mapped(Blocks):
    """The same records, with the features that a function makes of rows, each of its own row alone."""

    def __init__(self, blocks: Blocks, function: Callable[[NDArray[Any]], Any]) -> None:
        self._blocks, self.ahead, self.remote = blocks, blocks.ahead, blocks.remote
        self.weighted, self.typed = blocks.weighted, blocks.typed
        self.width = int(function(np.zeros((1, blocks.width), blocks.dtype)).shape[1])
        self._made = _Made(function, self.width)

    def __iter__(self) -> Iterator[Block]:
        for given in self._blocks:
            x, y = self._blocks.form(*given)
            yield self._made(x), y

    def map(
        self, function: Callable[[NDArray[Any], NDArray[Any]], T], rows: Sequence[Rows] | None = None
    ) -> Iterator[T]:
        return self._blocks.map(_Then(self._made, function), rows)

    def gather(self, batches: Sequence[Rows]) -> Iterator[Block]:
        for x, y in self._blocks.gather(batches):
            yield self._made(x), y


@dataclass(frozen=True)
class _Made:
    """The features of rows, of which there may be none."""

    function: Callable[[NDArray[Any]], Any]
    width: int

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        found = self.function(rows) if len(rows) else np.zeros((0, self.width))
        return np.ascontiguousarray(found, dtype=np.float64)


@dataclass(frozen=True)
class _Then:
    made: _Made
    function: Callable[[NDArray[Any], NDArray[Any]], Any]

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Any:
        return self.function(self.made(features), targets)


class Weighted(Blocks):
    """The same records with weights, one for each in their order."""

    weighted = True

    def __init__(self, blocks: Blocks, weights: Any) -> None:
        if blocks.weighted or blocks.remote:
            raise ValueError("sample_weight must be left out where blocks have weights, and given to DaskBlocks")
        self._blocks, self._weights = blocks, checked_weights(weights, np.size(weights))
        self.width, self.dtype, self.ahead, self.typed = blocks.width, blocks.dtype, blocks.ahead, blocks.typed
        if hasattr(blocks, "columns"):
            self.columns = blocks.columns

    def __iter__(self) -> Iterator[Block]:
        start = 0
        for given in self._blocks:
            x, y = self._blocks.form(*given)
            here = self._weights[start : start + len(x)]
            start += len(x)
            if len(here) < len(x):
                break
            yield x, joined(y, here)
        if start != len(self._weights):
            raise ValueError(
                f"sample_weight must have one number for each record: got {len(self._weights)}, and there are "
                f"{'more' if start > len(self._weights) else start} records"
            )

    def gather(self, batches: Sequence[Rows]) -> Iterator[Block]:
        for rows, (x, y) in zip(batches, self._blocks.gather(batches), strict=True):
            yield x, joined(y, self._weights[rows])


class Tossed(Sequence[Rows]):
    """For blocks of these lengths the rows of each whose coin shows ``heads``, or of the others.

    Record k has coin k of the stream, whatever the blocks are, as in ``RandomSource.bernoulli``. No more than the coins
    of one block are in memory.
    """

    def __init__(self, stream: _core.RandomStream, probability: float, lengths: NDArray[np.int64], heads: bool) -> None:
        self._stream, self._threshold = stream, np.uint64(math.floor(Fraction(probability) * 2**64))
        self._heads, self._ends = heads, np.cumsum(lengths)
        self._starts = self._ends - lengths
        self.counts = np.array([len(self[i]) for i in range(len(self))], np.int64)
        """How many rows of each block."""

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: Any) -> Any:
        start, end = int(self._starts[i]), int(self._ends[i])
        return np.flatnonzero(
            (_core.random_integers(self._stream, start, end - start) < self._threshold) == self._heads
        )

    def numbers(self, chosen: Rows) -> Rows:
        """The numbers among all records of the ``chosen`` among these, ascending."""
        ends = np.cumsum(self.counts)
        parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        found = [
            self[i][part - (ends[i] - self.counts[i])] + self._starts[i] for i, part in enumerate(parts) if len(part)
        ]
        return np.concatenate([np.zeros(0, np.intp), *found])


class Chosen(Blocks):
    """Some of the records."""

    def __init__(self, blocks: Blocks, rows: Tossed) -> None:
        self._blocks, self._rows, self.ahead, self.remote = blocks, rows, blocks.ahead, blocks.remote
        self.width, self.dtype = blocks.width, blocks.dtype
        self.weighted, self.typed = blocks.weighted, blocks.typed
        if hasattr(blocks, "columns"):
            self.columns = blocks.columns

    def __iter__(self) -> Iterator[Block]:
        for i, given in enumerate(self._blocks):
            x, y = self._blocks.form(*given)
            yield x[self._rows[i]], y[self._rows[i]]

    def map(
        self, function: Callable[[NDArray[Any], NDArray[Any]], T], rows: Sequence[Rows] | None = None
    ) -> Iterator[T]:
        return self._blocks.map(function, self._rows if rows is None else _Among(self._rows, rows))

    def gather(self, batches: Sequence[Rows]) -> Iterator[Block]:
        return self._blocks.gather([self._rows.numbers(batch) for batch in batches])


@dataclass(frozen=True)
class _Among(Sequence[Rows]):
    """Some of some rows, block by block."""

    rows: Tossed
    chosen: Sequence[Rows]

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i][self.chosen[i]]
