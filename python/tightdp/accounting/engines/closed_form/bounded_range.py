"""Adaptively chosen bounded-range steps, by value iteration over a continuum (docs/theory/filters.md section 9).

A step of range eta is at worst binary: losses t and t - eta, t in [0, eta] as the adversary likes, who knows the loss
so far. With nodes of distance h = eta/n and linear interpolation in e^eps between them, the best t of each cell has a
closed form; interpolating a convex function from above keeps the result an upper bound. The excess of epsilon is
about 1/(3 n^2) of it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .... import _core
from ...numerics.outward import Range, up
from .binomial import PureFold
from .law import PrivacyCurve

Array = NDArray[np.float64]
_WORK = 16_000
"""Steps times cells, whose square is a quarter of a second or so."""
_MOST_CELLS, _FEWEST_CELLS = 32, 6
"""Nodes to a step: an excess of 3e-4 to 1e-2. Zero-concentrated DP is above by 5 to 10 % and serves longer runs."""
_SLACK = 1e-14
"""Relative rounding of an interpolation, generously."""


def count_cells(eta: float, count: int) -> int:
    """Nodes per eta for that many steps; 0 where even the fewest cost too much, or eta is out of range."""
    n = min(_MOST_CELLS, _WORK // count)
    return n if n >= _FEWEST_CELLS and 1e-8 <= eta <= 500 else 0


class BoundedRangeFold(PrivacyCurve):
    """``count`` steps of range ``eta``, each chosen in the light of all before.

    The upper bound is that of the worst adversary, the lower one of randomised response at eta/2 in every step.
    """

    term = "class"

    def __init__(self, eta: float, count: int) -> None:
        self.losses, self.deltas = find_worst_case(eta, count)
        self.member = PureFold(eta / 2, count)

    def evaluate_delta(self, epsilon: float) -> Range:
        lower = self.member.delta(epsilon).lo
        if epsilon <= self.losses[0]:
            return Range(lower, 0.0)  # the trivial curve, which the caller takes the maximum with
        if epsilon >= self.losses[-1]:
            return Range(lower if epsilon < up(self.losses[-1]) else 0.0, 0.0)
        k = int(np.searchsorted(self.losses, epsilon, side="right"))
        left, right = self.losses[k - 1], self.losses[k]
        share = np.expm1(epsilon - left) / np.expm1(right - left)
        value = (1 - share) * self.deltas[k - 1] + share * self.deltas[k]
        return Range(lower, up(float(value), _SLACK))

    def invert_delta(self, delta: float) -> Range:
        """Inverts the chord; the lower end is that of the member."""
        lower = self.member.epsilon(delta).lo
        k = int(np.searchsorted(-self.deltas, -delta, side="left"))  # the first node with a delta that small
        if k == 0:
            return Range(lower, max(float(self.losses[0]), lower))
        left, right = self.losses[k - 1], self.losses[k]
        high, low = self.deltas[k - 1], self.deltas[k]
        share = min(max((high - delta) / (high - low), 0.0), 1.0)
        upper = left + np.log1p(share * np.expm1(right - left))
        return Range(lower, max(min(up(float(upper), 1e-13), float(right)), lower))


@lru_cache(maxsize=32)
def find_worst_case(eta: float, count: int) -> tuple[Array, Array]:
    """Losses -count eta, ..., count eta and upper bounds of the adversary's delta there, convex in e^eps between."""
    n = count_cells(eta, count)
    assert n, "refused before"
    losses = np.arange(-count * n, count * n + 1, dtype=np.float64) * (eta / n)
    curve = _core.worst_selections(eta, count, n)
    losses.flags.writeable = curve.flags.writeable = False
    return losses, curve
