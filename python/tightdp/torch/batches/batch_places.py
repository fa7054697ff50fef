"""Physical batches of one shape, where each record draws its own place (docs/theory/training.md, section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...release.noise import RandomSource
from . import collated_batch

Rows = npt.NDArray[np.intp]
STREAMS = 3 * 2**61
"""The first stream of places: two for each step. Batches have those below 2^62, sums of norms those from there on, and
noise those from 2^63 on."""


def choose_size(expected: float) -> int:
    """How many places a physical batch has where nobody says: a power of two, from 8 to 64.

    About an eighth of the records that a step expects. With more places than that too many stay empty, and with fewer
    PyTorch's calls take longer than their rows.
    """
    return next((size for size in (64, 32, 16) if 8 * size <= expected), 8)


def draw_places(rows: Rows, size: int, source: RandomSource) -> Rows:
    """The rows in physical batches of ``size`` places, -1 in a place that stays empty.

    Each row draws its place, whatever the others draw, and has it in the first physical batch where it is free.
    """
    drawn = source.integers(len(rows)) % size
    order = np.argsort(drawn, kind="stable")
    place = drawn[order].astype(np.intp)
    batch = np.arange(len(rows)) - np.searchsorted(place, place)
    found = np.full((batch.max(initial=-1) + 1, size), -1, np.intp)
    found[batch, place] = rows[order]
    return found.reshape(-1)


def fill_places(places: Places | None, batch: Any, records: int) -> tuple[Any, int, npt.NDArray[np.float64] | None]:
    """The batch with a row for each place, how many rows there are, and the weights of records among them, where there
    are places; else as it is, without weights."""
    if places is None:
        return batch, records, None
    return places.filled(batch, records), places.size, places.weights()


@dataclass(frozen=True)
class Places:
    """Where the records of a physical batch stand in it, ascending, and how many places it has."""

    where: Rows
    size: int

    def filled(self, batch: Any, records: int) -> Any:
        """The batch with a row for each place: copies of the first record where none stands."""
        tensors, rebuild = collated_batch.split_records(batch, records)
        chosen = torch.zeros(self.size, dtype=torch.int64)
        chosen[torch.from_numpy(self.where)] = torch.arange(records)
        return rebuild([tensor[chosen.to(tensor.device)] for tensor in tensors])

    def weights(self) -> npt.NDArray[np.float64]:
        """1 for a record and 0 for a copy."""
        found = np.zeros(self.size)
        found[self.where] = 1.0
        return found
