"""Views of blocks: blocks that are computed from other blocks while they are read.

Statement and proof: docs/theory/blocks.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._core import RandomStream, random_integers
from .blocks import (
    Block,
    BlockFunction,
    Blocks,
    Lengths,
    Rows,
    convert_block_to_dense,
    join_record_block_weights,
    keep_block,
    validate_record_block_weights,
)

T = TypeVar("T")
Look = BlockFunction[Any]
"""Function of a block's features and targets that finds a fact about the targets. The fact also holds for views of the
same records, because views do not change targets."""


class BlockView(Blocks):
    """Base of blocks that are computed from other blocks."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self.width, self.dtype = blocks.width, blocks.dtype
        self.ahead, self.remote, self.weighted, self.typed = blocks.ahead, blocks.remote, blocks.weighted, blocks.typed
        self.columns, self.texts, self.copied = blocks.columns, dict(blocks.texts), blocks.copied

    @property
    def block_lengths(self) -> Lengths | None:
        """The number of records of each block, or None if no pass has counted them yet."""
        return self._blocks.block_lengths if isinstance(self._blocks, BlockView) else None

    def find_look_results(self, look: Look) -> list[Any] | None:
        """Returns the results that ``look`` had in an earlier pass, or None if no pass has called it."""
        return self._blocks.find_look_results(look) if isinstance(self._blocks, BlockView) else None


class CountedBlocks(BlockView):
    """A view of blocks whose records an earlier pass has counted.

    Later passes raise RuntimeError if they find other numbers of records.
    """

    def __init__(self, blocks: Blocks, lengths: Lengths, look: Look | None, found: list[Any]) -> None:
        super().__init__(blocks)
        self._lengths, self._look, self._found = lengths, look, found

    @property
    def block_lengths(self) -> Lengths:
        return self._lengths

    def find_look_results(self, look: Look) -> list[Any] | None:
        return self._found if look is self._look else None

    def __iter__(self) -> Iterator[Block]:
        return self.map_each_block(keep_block)

    def map_each_block(
        self, function: BlockFunction[T], rows: Sequence[Rows] | None = None, lengths: Lengths | None = None
    ) -> Iterator[T]:
        return self._blocks.map_each_block(function, rows, self._lengths)

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        return self._blocks.gather_batches(batches, self._lengths)


class MappedBlocks(BlockView):
    """A view of the same records with new features, which a function computes for each row separately.

    The new features are numbers, except for the columns in ``texts``.
    """

    def __init__(
        self, blocks: Blocks, function: Callable[[NDArray[Any]], Any], texts: Mapping[int, Any] | None = None
    ) -> None:
        super().__init__(blocks)
        self.dtype, self.columns, self.texts = np.dtype(object if texts else np.float64), None, texts or {}
        self.width = int(function(np.zeros((1, blocks.width), blocks.dtype)).shape[1])
        self._made = _MappedFeatures(function, self.width, self.dtype)

    def __iter__(self) -> Iterator[Block]:
        for given in self._blocks:
            x, y = self._blocks.block_form(*given)
            yield self._made(x), y

    def map_each_block(
        self, function: BlockFunction[T], rows: Sequence[Rows] | None = None, lengths: Lengths | None = None
    ) -> Iterator[T]:
        return self._blocks.map_each_block(_AfterMapping(self._made, function), rows, lengths)

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        for x, y in self._blocks.gather_batches(batches, lengths):
            yield self._made(x), y


@dataclass(frozen=True)
class _MappedFeatures:
    """A function that returns the new features of some rows. It accepts an array without rows too."""

    function: Callable[[NDArray[Any]], Any]
    width: int
    dtype: np.dtype[Any]

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        return convert_block_to_dense(self.function(rows) if len(rows) else np.zeros((0, self.width)), self.dtype)


@dataclass(frozen=True)
class _AfterMapping:
    """A function of a block that is called with the mapped features."""

    made: _MappedFeatures
    function: BlockFunction[Any]

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Any:
        return self.function(self.made(features), targets)


class WeightedBlocks(BlockView):
    """A view of the same records with weights. There is one weight for each record, in the order of the records."""

    def __init__(self, blocks: Blocks, weights: Any) -> None:
        if blocks.weighted or blocks.remote:
            raise ValueError("sample_weight must be left out where blocks have weights, and given to DaskBlocks")
        super().__init__(blocks)
        self._weights, self.weighted = validate_record_block_weights(weights, np.size(weights)), True

    def __iter__(self) -> Iterator[Block]:
        start = 0
        for given in self._blocks:
            x, y = self._blocks.block_form(*given)
            here = self._weights[start : start + len(x)]
            start += len(x)
            if len(here) < len(x):
                break
            yield x, join_record_block_weights(y, here)
        if start != len(self._weights):
            raise ValueError(
                f"sample_weight must have one number for each record: got {len(self._weights)}, and there are "
                f"{'more' if start > len(self._weights) else start} records"
            )

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        for rows, (x, y) in zip(batches, self._blocks.gather_batches(batches, lengths), strict=True):
            yield x, join_record_block_weights(y, self._weights[rows])


class RandomRecordSubset(Sequence[Rows]):
    """The rows of each block that belong to a random subset of the records, for blocks of the given ``lengths``.

    A coin is drawn for each record: heads with the given ``probability``. The subset consists of the records with heads
    if ``heads`` is True, and of the other records if it is False. Record k gets coin k of the stream, as in
    ``RandomSource.bernoulli``. So coins do not depend on how the records are divided into blocks. The coins of only one
    block at a time are in memory.
    """

    def __init__(self, stream: RandomStream, probability: float, lengths: NDArray[np.int64], heads: bool) -> None:
        self._stream, self._threshold = stream, np.uint64(math.floor(Fraction(probability) * 2**64))
        self._heads, self._ends = heads, np.cumsum(lengths)
        self._starts = self._ends - lengths
        self.counts = np.array([len(self[i]) for i in range(len(self))], np.int64)
        """Number of chosen rows of each block."""

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: Any) -> Any:
        start, end = int(self._starts[i]), int(self._ends[i])
        return np.flatnonzero((random_integers(self._stream, start, end - start) < self._threshold) == self._heads)

    def translate_to_record_numbers(self, chosen: Rows) -> Rows:
        """Returns the numbers, among all records, of some records of the subset.

        ``chosen`` has the ascending numbers of these records within the subset.
        """
        ends = np.cumsum(self.counts)
        parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        found = [
            self[i][part - (ends[i] - self.counts[i])] + self._starts[i] for i, part in enumerate(parts) if len(part)
        ]
        return np.concatenate([np.zeros(0, np.intp), *found])


class SelectedRows(BlockView):
    """A view of the records of a random subset, which may be empty."""

    def __init__(self, blocks: Blocks, rows: RandomRecordSubset) -> None:
        super().__init__(blocks)
        self._rows = rows

    @property
    def block_lengths(self) -> Lengths:
        return self._rows.counts

    def find_look_results(self, look: Look) -> list[Any] | None:
        return None

    def __iter__(self) -> Iterator[Block]:
        for i, given in enumerate(self._blocks):
            x, y = self._blocks.block_form(*given)
            yield x[self._rows[i]], y[self._rows[i]]

    def map_each_block(
        self, function: BlockFunction[T], rows: Sequence[Rows] | None = None, lengths: Lengths | None = None
    ) -> Iterator[T]:
        return self._blocks.map_each_block(function, self._rows if rows is None else _SelectedAgain(self._rows, rows))

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        return self._blocks.gather_batches([self._rows.translate_to_record_numbers(batch) for batch in batches])


@dataclass(frozen=True)
class _SelectedAgain(Sequence[Rows]):
    """Some rows of a random subset, for each block.

    ``chosen[i]`` has indices into the array of the subset's rows in block i.
    """

    rows: RandomRecordSubset
    chosen: Sequence[Rows]

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i][self.chosen[i]]
