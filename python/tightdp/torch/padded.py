"""Physical batches of one shape, whose records stand in random places (docs/theory/training.md, section 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..release.noise import RandomSource
from . import examples

Rows = npt.NDArray[np.intp]
STREAMS = 2**62
"""The first stream of places; batches have those below, and noise those from 2^63 on."""
_BITS = 64
"""A batch has more records than places with a chance of at most 2^-64."""


def places_for(records: int, probability: float, size: int) -> int:
    """How many places a batch has: a multiple of ``size``, public.

    The least that Chernoff's bound P(Bin(n, q) >= k) <= exp(-n KL(k/n, q)) allows, and no more than all records take.
    """
    low, high = math.ceil(records * probability), records
    while low < high:
        k = (low + high) // 2
        if records * _divergence(k / records, probability) >= _BITS * math.log(2):
            high = k
        else:
            low = k + 1
    return -(-high // size) * size


def _divergence(a: float, q: float) -> float:
    """KL of a coin of probability ``a`` from one of ``q``."""
    if q >= 1.0:
        return 0.0 if a >= 1.0 else math.inf
    rest = 0.0 if a >= 1.0 else (1 - a) * math.log((1 - a) / (1 - q))
    return a * math.log(a / q) + rest


def placed(rows: Rows, places: int, size: int, source: RandomSource) -> Rows:
    """The rows in places chosen at random, and -1 in all others; further physical batches where places are too few."""
    places = max(places, -(-len(rows) // size) * size)
    order = np.lexsort(source.integers((2, places)))  # 128 bits a place: no two are the same
    found = np.full(places, -1, np.intp)
    found[order[: len(rows)]] = rows
    return found


@dataclass(frozen=True)
class Places:
    """Where the records of a physical batch stand in it, ascending, and how many places it has."""

    where: Rows
    size: int

    def filled(self, batch: Any, records: int) -> Any:
        """The batch with a row for each place: copies of the first record where none stands."""
        tensors, rebuild = examples.split(batch, records)
        chosen = torch.zeros(self.size, dtype=torch.int64)
        chosen[torch.from_numpy(self.where)] = torch.arange(records)
        return rebuild([tensor[chosen.to(tensor.device)] for tensor in tensors])

    def weights(self) -> npt.NDArray[np.float64]:
        """1 for a record and 0 for a copy."""
        found = np.zeros(self.size)
        found[self.where] = 1.0
        return found
