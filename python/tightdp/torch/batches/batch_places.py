"""Physical batches of one shape, in which each record draws its own place (docs/theory/training.md, section 8).

A physical batch holds the records that go through the model together, and a place is a row of this batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...clipping_and_noise.noise import RandomSource
from . import collated_batch

RecordIndices = npt.NDArray[np.intp]
"""Indices of records in the data set."""
PLACE_STREAMS = 3 * 2**61
"""Number of the first stream of random numbers for places. Each step has two of these streams. Streams below 2^62 are
for batches, streams from 2^62 on for sums of norms, and streams from 2^63 on for noise."""


def choose_number_of_batch_places(expected: float) -> int:
    """Returns the default number of places in a physical batch: a power of two, from 8 to 64.

    The number is about an eighth of the expected number of records in a step. With more places, too many of them stay
    empty. With fewer places, the overhead of PyTorch's calls takes longer than the computation on the rows.
    """
    return next((size for size in (64, 32, 16) if 8 * size <= expected), 8)


def draw_batch_places(rows: RecordIndices, size: int, source: RandomSource) -> RecordIndices:
    """Returns the records' indices ``rows``, laid out in physical batches of ``size`` places, with -1 in empty places.

    Each record draws its place independently, and goes to the first physical batch in which this place is free.
    """
    drawn = source.integers(len(rows)) % size
    order = np.argsort(drawn, kind="stable")
    place = drawn[order].astype(np.intp)
    batch = np.arange(len(rows)) - np.searchsorted(place, place)
    found = np.full((batch.max(initial=-1) + 1, size), -1, np.intp)
    found[batch, place] = rows[order]
    return found.reshape(-1)


def fill_batch_places(
    places: BatchPlaces | None, batch: Any, records: int
) -> tuple[Any, int, npt.NDArray[np.float64] | None]:
    """Returns a batch with a row for each place, the number of rows, and the weights of the rows.

    A row has weight 1 if it is a record, and 0 if it is a copy in an empty place. Without ``places`` the function
    returns the unchanged batch, its number of records, and None instead of the weights.
    """
    if places is None:
        return batch, records, None
    return places.fill_batch(batch, records), places.size, places.weigh_batch_places()


@dataclass(frozen=True)
class BatchPlaces:
    """The places of the records in a physical batch.

    ``where`` has the place of each record, in ascending order, and ``size`` is the number of places in the batch.
    """

    where: RecordIndices
    size: int

    def fill_batch(self, batch: Any, records: int) -> Any:
        """Returns the batch with a row for each place. An empty place gets a copy of the first record."""
        tensors, rebuild = collated_batch.split_collated_batch(batch, records)
        chosen = torch.zeros(self.size, dtype=torch.int64)
        chosen[torch.from_numpy(self.where)] = torch.arange(records)
        return rebuild([tensor[chosen.to(tensor.device)] for tensor in tensors])

    def weigh_batch_places(self) -> npt.NDArray[np.float64]:
        """Returns a weight for each place: 1 for a record and 0 for a copy."""
        found = np.zeros(self.size)
        found[self.where] = 1.0
        return found
