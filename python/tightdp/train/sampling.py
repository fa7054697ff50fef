"""What training draws, all from one source: Poisson batches and rounded normals."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .model import Vector


class Source(Protocol):
    """What ``tightdp.SecureRandom`` and ``tightdp.Philox`` offer."""

    def stream(self) -> _core.RandomStream:
        """A stream of random words that no other call uses."""

    def uniform(self, size: int) -> Vector:
        """Independent uniforms inside (0, 1)."""

    def integers(self, size: int) -> NDArray[np.uint64]:
        """Independent uniform 64-bit integers."""

    def bernoulli(self, probability: float, size: int) -> NDArray[np.bool_]:
        """Independent coins, True with at most ``probability``."""


def poisson_sample(source: Source, records: int, probability: float) -> NDArray[np.intp] | None:
    """Each of ``records`` rows independently with ``probability``, ascending; None (every row) when it is 1."""
    if probability >= 1.0:
        return None
    return np.flatnonzero(source.bernoulli(probability, records))


def add_rounded_normals(source: Source, deviation: float | Vector, values: NDArray[np.int64]) -> None:
    """Adds floor(deviation Z + 1/2) to each of ``values``, Z a standard normal on the real line, modulo 2^64."""
    _core.add_rounded_normals(source.stream(), deviation, values.reshape(-1))
