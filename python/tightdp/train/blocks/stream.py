"""A pass over blocks: an integer sum of what is made of each record, whatever the blocks and wherever they lie.

Statement and proof: docs/theory/blocks.md, sections 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...release.noise import RandomSource
from ..models.records import Records
from .blocks import Block, Blocks, Rows, Unweighted, parted

AHEAD = 2**28
"""Bytes of features that are gathered ahead for the steps to come: a pass over files then serves many steps."""
COINS = 2**20
"""Coins that are drawn at once."""

Integers = NDArray[np.int64]
Prepare = Callable[[NDArray[Any], NDArray[Any]], Records]
"""What makes records of a block, each a function of its own row."""
Part = Callable[[Records], Integers]
"""What a sum is made of: the sum over some records."""


@dataclass(frozen=True)
class Prepared:
    """A part of a sum as a function of a block. It travels to where the block is, so it holds nothing private."""

    prepare: Prepare
    part: Part
    size: int | None
    """So many records at a time; None for all of the block."""
    center: NDArray[np.float64] | None

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Integers:
        targets, weights = parted(targets)
        records = self.prepare(features, targets)
        if weights is not None and isinstance(records, Records):
            records = records.reweighted(weights)
        if self.center is not None:
            records = records.centered(self.center)
        pieces = [records] if self.size is None or not len(records) else records.pieces(self.size)
        found = [self.part(piece) for piece in pieces]
        return found[0] if len(found) == 1 else np.sum(found, axis=0, dtype=np.int64)


class Stream:
    """Records in blocks for an oracle: sums over all of them, or over Poisson batches.

    ``lengths`` are the numbers of records of the blocks. A later pass that finds others raises ``RuntimeError``.
    """

    def __init__(
        self,
        blocks: Blocks,
        prepare: Prepare,
        lengths: NDArray[np.int64],
        center: NDArray[np.float64] | None = None,
    ) -> None:
        self._blocks, self._prepare, self._lengths, self._center = blocks, prepare, lengths, center
        self.width = blocks.width
        self._gathered: dict[float, Iterator[Block]] = {}

    @classmethod
    def of(
        cls, blocks: Blocks, prepare: Prepare, check: Callable[[NDArray[Any], NDArray[Any]], Any] | None = None
    ) -> Stream:
        """After one pass, which applies ``check`` to each block."""
        return cls(blocks, prepare, scanned(blocks, check or _nothing)[0])

    def __len__(self) -> int:
        return int(self._lengths.sum())

    def centered(self, center: NDArray[np.float64]) -> Stream:
        """The same records with ``center`` subtracted from their features."""
        return Stream(self._blocks, self._prepare, self._lengths, center)

    def total(
        self, part: Part, length: int, source: RandomSource, probability: float = 1.0, size: int | None = None
    ) -> Integers:
        """The sum of ``part``, modulo 2^64, over a fresh batch that holds each record with ``probability``."""
        work = Prepared(self._prepare, part, size, self._center)
        total = np.zeros(length, np.int64)
        for found in self._everyone(work) if probability >= 1.0 else self._sampled(work, source, probability):
            total += found
        return total

    def each(self, part: Callable[[Any], Any]) -> Iterable[Any]:
        """What ``part`` makes of the records of each block, in order."""
        return self._everyone(Prepared(self._prepare, part, None, self._center))

    def _everyone(self, work: Prepared) -> Iterable[Any]:
        seen = []
        for length, found in self._blocks.map(Measured(work)):
            seen.append(length)
            yield found
        if not np.array_equal(seen, self._lengths):
            raise RuntimeError("X must have the same records in the same blocks at each pass, and they have changed")

    def _sampled(self, work: Prepared, source: RandomSource, probability: float) -> Iterable[Integers]:
        if self._blocks.remote:
            ends = np.cumsum(self._lengths)
            rows = chosen(source.stream(), probability, len(self))
            parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
            starts = ends - self._lengths
            yield from self._blocks.map(work, [part - start for part, start in zip(parts, starts, strict=True)])
            return
        ready = self._gathered.get(probability)
        if ready is None or (batch := next(ready, None)) is None:
            several = self._several(probability) if self._blocks.ahead else 1
            batches = [chosen(source.stream(), probability, len(self)) for _ in range(several)]
            ready = self._gathered[probability] = self._blocks.gather(batches)
            batch = next(ready)
        yield work(*batch)

    def _several(self, probability: float) -> int:
        """How many batches have ``AHEAD`` bytes of features on average, but at most those of one epoch."""
        each = probability * len(self) * self.width * np.dtype(self._blocks.dtype).itemsize
        return math.ceil(min(max(1.0, AHEAD / max(float(each), 1.0)), 1 / probability))


@dataclass(frozen=True)
class Measured:
    """Some work on a block, and the number of its records."""

    work: Callable[[NDArray[Any], NDArray[Any]], Any]

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> tuple[int, Any]:
        return len(features), self.work(features, targets)


def scanned(blocks: Blocks, look: Callable[[NDArray[Any], NDArray[Any]], Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """One pass: the numbers of records of the blocks, and what ``look`` found in those that have any. ValueError where
    none has."""
    found = list(blocks.map(Measured(Unweighted(look))))
    lengths = np.array([n for n, _ in found], np.int64)
    if not lengths.any():
        raise ValueError("X must hold at least one record, got none")
    return lengths, [seen for n, seen in found if n]


def _nothing(features: Any, targets: Any) -> None:
    return None


def chosen(stream: _core.RandomStream, probability: float, records: int) -> Rows:
    """The rows of a Poisson batch, ascending: those of ``RandomSource.bernoulli``, in the memory of a few of them.
    Record k has coin k of the stream, whatever the blocks are."""
    threshold, found = np.uint64(math.floor(Fraction(probability) * 2**64)), [np.zeros(0, np.intp)]
    for first in range(0, records, COINS):
        coins = _core.random_integers(stream, first, min(COINS, records - first))
        found.append(np.flatnonzero(coins < threshold) + first)
    return np.concatenate(found)
