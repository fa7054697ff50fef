"""What training draws: Poisson batches and the noise of selections, all from one source."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .model import Vector


class Source(Protocol):
    """What ``tightdp.SecureRandom`` and ``tightdp.Philox`` offer."""

    def uniform(self, size: int) -> Vector:
        """Independent uniforms inside (0, 1)."""

    def normal(self, size: int) -> NDArray[Any]:
        """Independent standard normals."""

    def bernoulli(self, probability: float, size: int) -> NDArray[np.bool_]:
        """Independent coins, True with at most ``probability``."""


def poisson_sample(source: Source, records: int, probability: float) -> NDArray[np.intp] | None:
    """Each of ``records`` rows independently with ``probability``, ascending; None (every row) when it is 1."""
    if probability >= 1.0:
        return None
    return np.flatnonzero(source.bernoulli(probability, records))


def gumbel(source: Source, size: int) -> Vector:
    """Standard Gumbel noise, -log(-log U)."""
    return np.asarray(-np.log(-np.log(source.uniform(size))))


def laplace(source: Source, size: int) -> Vector:
    """Standard Laplace noise: the difference of two exponentials."""
    return np.asarray(np.log(source.uniform(size)) - np.log(source.uniform(size)))
