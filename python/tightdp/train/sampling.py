"""Randomness for training: one source for coins and noise, and Poisson batches drawn from it."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .model import Vector


class Source(Protocol):
    """What training draws from; ``tightdp.SecureRandom`` and ``tightdp.Philox`` are such sources."""

    def uniform(self, size: int) -> Vector:
        """Independent uniforms on [0, 1)."""

    def normal(self, size: int) -> Vector:
        """Independent standard normals."""


def poisson_sample(source: Source, records: int, probability: float) -> NDArray[np.intp] | None:
    """Each of ``records`` rows independently with ``probability``, ascending; None when the probability is 1.

    Draws the gaps between chosen rows, which are geometric: the cost is that of the batch, not of the data. A gap
    is 1 + floor(log(U) / log(1 - q)) with U uniform on (0, 1] in steps of 2^-53, so that each inclusion probability
    is exact up to about 2^-50; the accounting takes it as exact.
    """
    if probability >= 1.0:
        return None
    scale = 1.0 / math.log1p(-probability)
    mean = records * probability
    chosen: list[NDArray[np.float64]] = []
    last = -1.0
    while last < records:
        gaps = 1.0 + np.floor(np.log(1.0 - source.uniform(int(mean + 4.0 * math.sqrt(mean)) + 16)) * scale)
        rows = last + np.cumsum(gaps)
        chosen.append(rows)
        last, mean = float(rows[-1]), max(0.0, (records - float(rows[-1])) * probability)
    rows = np.concatenate(chosen)
    return rows[rows < records].astype(np.intp)


def gumbel(source: Source, size: int) -> Vector:
    """Standard Gumbel noise, -log(-log U) with U in (0, 1)."""
    return -np.log(-np.log(_open(source, size)))


def laplace(source: Source, size: int) -> Vector:
    """Standard Laplace noise: the difference of two exponentials."""
    return np.log(_open(source, size)) - np.log(_open(source, size))


def _open(source: Source, size: int) -> Vector:
    """Uniforms in (0, 1): the midpoints of steps of 2^-53."""
    u: Vector = np.maximum(source.uniform(size), 2.0**-54)
    return u
