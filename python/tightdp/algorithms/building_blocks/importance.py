"""Importance sampling in two stages, which needs the gradients of few records in each step.

The first stage draws candidates. A record's probability is proportional to a bound on the norm of its gradient. The
second stage takes some of the candidates, with probabilities that depend on the norms themselves. The bound for a
record is from the last time that its gradient was computed, so a step computes gradients of candidates alone. Bounds,
candidates and norms are as private as the records (docs/theory/dpis.md, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...clipping_and_noise.noise import RandomSource

COIN = 2.0**-50
"""Number subtracted from every probability. Uniform numbers are multiples of 2^-53. A comparison with them could
otherwise succeed with too large a probability (docs/theory/dpis.md, section 3)."""

Reals = NDArray[np.float64]
"""Array with a real number for each record."""
Chosen = NDArray[np.bool_]
"""Mask: True for each chosen record."""


class ImportanceSampling(NamedTuple):
    """A sampling scheme that takes record k with probability at most q min(|g_k|, C) / C.

    Here g_k is the record's gradient, q is ``sampling_probability``, and C is ``max_norm``. The limit holds for any
    remembered bound on |g_k|.
    """

    sampling_probability: float
    """Largest probability of taking a record."""
    max_norm: float
    """Clipping norm."""
    reach: float
    """Factor by which the bound for later steps exceeds the norm in this step."""
    floor: float
    """Number such that norms below ``floor * max_norm`` count as ``floor * max_norm`` in bounds."""

    def bound_norms(self, norms: Reals) -> Reals:
        """Returns bounds on the norms of gradients in later steps, from the norms in this step."""
        return self.reach * np.maximum(np.minimum(norms, self.max_norm), self.floor * self.max_norm)

    def draw_candidates(self, source: RandomSource, bounds: Reals) -> Chosen:
        """Flips the first coin of every record, and returns a mask of the candidates."""
        return source.uniform(len(bounds)) < bounds * (self.sampling_probability / self.max_norm) - COIN

    def select_by_norms(self, coins: Reals, bounds: Reals, norms: Reals) -> Chosen:
        """Flips the second coin of every candidate, and returns a mask of the candidates that are taken.

        For each candidate, ``coins`` has a uniform number, and ``bounds`` has the bound by which the candidate was
        drawn. The mask is False where a norm is infinite.
        """
        clipped = np.minimum(np.minimum(norms, self.max_norm), bounds)
        return (coins < clipped / bounds - COIN) & (norms < np.inf)
