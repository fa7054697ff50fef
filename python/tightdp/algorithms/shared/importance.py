"""Sampling in two stages: a record is a candidate by a bound on its norm, and then taken by the norm itself.

The bound is from when the record was last looked at, so that a step needs the gradients of candidates alone. Bounds,
candidates and norms are as private as the records (docs/theory/dpis.md, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...release.noise import RandomSource

COIN = 2.0**-50
"""Subtracted from every probability: more than the resolution 2^-53 of the uniforms that are compared with it
(docs/theory/dpis.md, section 3)."""

Reals = NDArray[np.float64]
"""Real numbers, one for each record."""
Chosen = NDArray[np.bool_]
"""A mask of records."""


class TwoStages(NamedTuple):
    """A sampling scheme that takes record k with probability q min(|g_k|, C) / C at most, whatever its bound says."""

    sampling_probability: float
    """The largest probability, q."""
    max_norm: float
    """The norm bound, C."""
    reach: float
    floor: float

    def bound_norms(self, norms: Reals) -> Reals:
        """Returns bounds on norms for later steps, from the norms of this one."""
        return self.reach * np.maximum(np.minimum(norms, self.max_norm), self.floor * self.max_norm)

    def draw_candidates(self, source: RandomSource, bounds: Reals) -> Chosen:
        """Flips the first coin of every record, and returns a mask of the candidates."""
        return source.uniform(len(bounds)) < bounds * (self.sampling_probability / self.max_norm) - COIN

    def select_by_norms(self, coins: Reals, bounds: Reals, norms: Reals) -> Chosen:
        """Flips the second coin of candidates, by a uniform number each and the bounds they were drawn with.

        The mask is False where a norm is infinite.
        """
        clipped = np.minimum(np.minimum(norms, self.max_norm), bounds)
        return (coins < clipped / bounds - COIN) & (norms < np.inf)
