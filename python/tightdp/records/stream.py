"""Integer sums over records in blocks. The sums do not depend on how the records are split into blocks.

Statement and proof: docs/theory/blocks.md, sections 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._core import RandomStream, random_integers
from ..clipping_and_noise.noise import RandomSource
from ..models.model_records import Records
from .blocks import WEIGHTS, Block, Blocks, Lengths, Rows, scale_weights_of_records, split_record_block_weights
from .views import BlockView, CountedBlocks, Look

AHEAD = 2**28
"""Number of bytes of features that one pass over files gathers for later steps."""
COINS = 2**20
"""Number of coins that are drawn at once. A coin is a random integer that decides whether a record is in a batch."""

Integers = NDArray[np.int64]
"""Integers of a sum, modulo 2^64."""
Prepare = Callable[[NDArray[Any], NDArray[Any]], Records]
"""Function that makes records from a block. Each record depends on its own row alone."""
Part = Callable[[Records], Integers]
"""Function that returns a sum over some records."""


@dataclass(frozen=True)
class BlockSum:
    """A function of a block that returns the block's part of a sum.

    The object may be sent to another process, and therefore holds nothing private."""

    prepare: Prepare
    part: Part
    size: int | None
    """Number of records that are summed together. With None, all records of the block are summed together."""
    center: NDArray[np.float64] | None
    """Vector that is subtracted from the features of each record, or None."""
    largest: float
    """Declared largest weight of a record."""

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Integers:
        targets, weights = split_record_block_weights(targets)
        records = self.prepare(features, targets)
        if weights is not None and isinstance(records, Records):
            records = records.multiply_weights(scale_weights_of_records(weights, self.largest))
        if self.center is not None:
            records = records.center_features(self.center)
        pieces = [records] if self.size is None or not len(records) else records.split_into_pieces(self.size)
        found = [self.part(piece) for piece in pieces]
        return found[0] if len(found) == 1 else np.sum(found, axis=0, dtype=np.int64)


class RecordStream:
    """Records in blocks. The queries of training are sums over all of these records, or over Poisson batches of them.

    An earlier pass has counted the records of ``blocks``. ``largest`` is the declared largest weight, and is not used
    unless the blocks hold weights.
    """

    def __init__(
        self, blocks: BlockView, prepare: Prepare, center: NDArray[np.float64] | None = None, largest: float = 1.0
    ) -> None:
        self._blocks, self._prepare, self._center, self._largest = blocks, prepare, center, largest
        self.has_weights = blocks.weighted or getattr(prepare, "weights", None) is not None
        """True if some weight may be below the largest."""
        self._lengths = cast(Lengths, blocks.block_lengths)
        self.width = blocks.width
        self._gathered: dict[float, Iterator[Block]] = {}

    @classmethod
    def from_blocks(
        cls, blocks: Blocks, prepare: Prepare, check: Look | None = None, largest: float = 1.0
    ) -> RecordStream:
        """Makes a stream after a pass that applies ``check`` to the targets of each block.

        The pass is skipped if an earlier pass applied the same ``check``.
        """
        return cls(scan_blocks(blocks, check)[0], prepare, largest=largest)

    def __len__(self) -> int:
        return int(self._lengths.sum())

    def center_features(self, center: NDArray[np.float64]) -> RecordStream:
        """Returns the same records with ``center`` subtracted from their features."""
        return RecordStream(self._blocks, self._prepare, center, self._largest)

    def sum_over_batch(
        self, part: Part, length: int, source: RandomSource, probability: float = 1.0, size: int | None = None
    ) -> Integers:
        """Returns the sum of ``part``, modulo 2^64, over a fresh batch that holds each record with ``probability``."""
        work = BlockSum(self._prepare, part, size, self._center, self._largest)
        total = np.zeros(length, np.int64)
        for found in (
            self._blocks.map_each_block(work)
            if probability >= 1.0
            else self._sum_samples_of_record_stream(work, source, probability)
        ):
            total += found
        return total

    def map_blocks(self, part: Callable[[Any], Any]) -> Iterable[Any]:
        """Yields the result of ``part`` for the records of each block, in order."""
        return self._blocks.map_each_block(BlockSum(self._prepare, part, None, self._center, self._largest))

    def _sum_samples_of_record_stream(
        self, work: BlockSum, source: RandomSource, probability: float
    ) -> Iterable[Integers]:
        """Yields the parts of the sum over a Poisson batch.

        The pass that gathers this batch also gathers the batches of later steps.
        """
        if self._blocks.remote:
            ends = np.cumsum(self._lengths)
            rows = draw_rows_of_record_stream(source.stream(), probability, len(self))
            parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
            starts = ends - self._lengths
            yield from self._blocks.map_each_block(
                work, [part - start for part, start in zip(parts, starts, strict=True)]
            )
            return
        ready = self._gathered.get(probability)
        if ready is None or (batch := next(ready, None)) is None:
            several = self._count_record_stream_batches_ahead(probability) if self._blocks.ahead else 1
            batches = [draw_rows_of_record_stream(source.stream(), probability, len(self)) for _ in range(several)]
            ready = self._gathered[probability] = self._blocks.gather_batches(batches)
            batch = next(ready)
        yield work(*batch)

    def _count_record_stream_batches_ahead(self, probability: float) -> int:
        """Returns the number of batches to gather in one pass.

        The features of these batches take about ``AHEAD`` bytes on average. The number of batches is limited to that of
        an epoch, 1 / ``probability``.
        """
        each = probability * len(self) * self.width * np.dtype(self._blocks.dtype).itemsize
        return math.ceil(min(max(1.0, AHEAD / max(float(each), 1.0)), 1 / probability))


@dataclass(frozen=True)
class _FirstPassOverBlock:
    """A function of a block for the first pass. It returns the number of records, whether a weight is above 0, and the
    result of ``look``."""

    look: Look | None

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> tuple[int, bool, Any]:
        plain, weights = split_record_block_weights(targets)
        found = None if self.look is None or not len(plain) else self.look(features, plain)
        return len(plain), weights is None or bool(weights.any()), found


def scan_blocks(blocks: Blocks, look: Look | None) -> tuple[BlockView, list[Any]]:
    """Returns the blocks for later passes, and the results of ``look`` for the blocks that have records.

    This takes one pass, or no pass if an earlier pass has found the lengths and these results. Raises ValueError if no
    block has a record, or if no weight is above 0.
    """
    if isinstance(blocks, BlockView) and blocks.block_lengths is not None:
        known = [] if look is None else blocks.find_look_results(look)
        return blocks, [
            seen for n, _, seen in blocks.map_each_block(_FirstPassOverBlock(look)) if n
        ] if known is None else known
    passed = list(blocks.map_each_block(_FirstPassOverBlock(look)))
    lengths, found = np.array([n for n, _, _ in passed], np.int64), [seen for n, _, seen in passed if n]
    if not lengths.any():
        raise ValueError("X must hold at least one record, got none")
    if not any(some for n, some, _ in passed if n):
        raise ValueError(WEIGHTS)
    return CountedBlocks(blocks, lengths, look, found), found


def draw_rows_of_record_stream(stream: RandomStream, probability: float, records: int) -> Rows:
    """Returns the ascending row numbers of a Poisson batch.

    The rows are those that ``RandomSource.bernoulli`` draws, but only ``COINS`` coins are in memory at a time. Record k
    gets coin k of the stream, however the records are divided into blocks."""
    threshold, found = np.uint64(math.floor(Fraction(probability) * 2**64)), [np.zeros(0, np.intp)]
    for first in range(0, records, COINS):
        coins = random_integers(stream, first, min(COINS, records - first))
        found.append(np.flatnonzero(coins < threshold) + first)
    return np.concatenate(found)
