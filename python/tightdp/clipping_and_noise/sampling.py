"""Poisson sampling of a batch, in which each record takes part independently of all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .noise import RandomSource


def draw_poisson_sample(source: RandomSource, records: int, probability: float) -> NDArray[np.intp] | None:
    """Returns the ascending row numbers of a Poisson sample of ``records`` rows. Returns None, which stands for every
    row, if ``probability`` is 1."""
    return None if probability >= 1.0 else np.flatnonzero(source.bernoulli(probability, records))
