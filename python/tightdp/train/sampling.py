"""What training draws: Poisson batches and the noise of selections, all from one source."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..exact import _rounded_up
from .model import Vector


class Source(Protocol):
    """What ``tightdp.SecureRandom`` and ``tightdp.Philox`` offer."""

    def stream(self) -> _core.RandomStream:
        """A stream of random words that no other call uses."""

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


def add_rounded_normals(source: Source, deviation: float | Vector, values: NDArray[np.int64]) -> None:
    """Adds floor(deviation Z + 1/2) to each of ``values``, Z a standard normal on the real line, modulo 2^64."""
    if isinstance(deviation, np.ndarray):
        for i, each in enumerate(deviation):
            add_rounded_normals(source, float(each), values[i : i + 1])
    elif deviation >= 2.0**-10:
        ratio = _rounded_up(Fraction(deviation), 30)
        _core.add_rounded_normal(source.stream(), ratio.numerator, ratio.denominator.bit_length() - 1, values)
