"""Adaptively chosen bounded-range steps, by value iteration over a continuum (docs/theory/filters.md section 9).

A step of range eta is at worst binary, with losses t and t - eta. The adversary chooses t in [0, eta] and knows the
loss so far. With nodes at distance h = eta/n and linear interpolation in e^eps between them, the best t of each cell
has a closed form. Interpolating a convex function from above keeps the result an upper bound. It exceeds epsilon by
about 1/(3 n^2) of it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...._core import worst_selections
from ...numerics.outward import Range, widen_up
from .binomial import PureFold
from .law import PrivacyCurve

Array = NDArray[np.float64]
_WORK = 16_000
"""Largest number of steps times cells, whose square takes about a quarter of a second."""
_MOST_CELLS, _FEWEST_CELLS = 32, 6
"""Nodes to a step: the excess is 3e-4 to 1e-2. Longer runs are served by zero-concentrated DP, which is 5 to 10 %
above."""
_SLACK = 1e-14
"""Generous bound on the relative rounding of an interpolation."""


def count_cells(eta: float, count: int) -> int:
    """Returns the nodes per eta for that many steps; 0 if even the fewest cost too much, or eta is out of range."""
    n = min(_MOST_CELLS, _WORK // count)
    return n if n >= _FEWEST_CELLS and 1e-8 <= eta <= 500 else 0


class BoundedRangeFold(PrivacyCurve):
    """``count`` steps of range ``eta``, each chosen after all earlier outputs were seen.

    The upper bound is that of the worst adversary, the lower one that of randomised response at eta/2 in every step.
    """

    term = "class"

    def __init__(self, eta: float, count: int) -> None:
        self.losses, self.deltas = find_worst_case(eta, count)
        self.member = PureFold(eta / 2, count)

    def evaluate_delta(self, epsilon: float) -> Range:
        """Returns the chord of the worst adversary's curve as upper end, and the member's delta as lower end."""
        lower = self.member.delta(epsilon).lo
        if epsilon <= self.losses[0]:
            return Range(lower, 0.0)  # the caller takes the maximum with the trivial curve
        if epsilon >= self.losses[-1]:
            return Range(lower if epsilon < widen_up(self.losses[-1]) else 0.0, 0.0)
        k = int(np.searchsorted(self.losses, epsilon, side="right"))
        left, right = self.losses[k - 1], self.losses[k]
        share = np.expm1(epsilon - left) / np.expm1(right - left)
        value = (1 - share) * self.deltas[k - 1] + share * self.deltas[k]
        return Range(lower, widen_up(float(value), _SLACK))

    def invert_delta(self, delta: float) -> Range:
        """Inverts the chord for the upper end; the lower end is that of the member."""
        lower = self.member.epsilon(delta).lo
        k = int(np.searchsorted(-self.deltas, -delta, side="left"))  # the first node whose delta is small enough
        if k == 0:
            return Range(lower, max(float(self.losses[0]), lower))
        left, right = self.losses[k - 1], self.losses[k]
        high, low = self.deltas[k - 1], self.deltas[k]
        share = min(max((high - delta) / (high - low), 0.0), 1.0)
        upper = left + np.log1p(share * np.expm1(right - left))
        return Range(lower, max(min(widen_up(float(upper), 1e-13), float(right)), lower))


@lru_cache(maxsize=32)
def find_worst_case(eta: float, count: int) -> tuple[Array, Array]:
    """Returns the losses -count eta, ..., count eta and upper bounds of the adversary's delta there, convex in e^eps
    between."""
    n = count_cells(eta, count)
    assert n, "refused before"
    losses = np.arange(-count * n, count * n + 1, dtype=np.float64) * (eta / n)
    curve = worst_selections(eta, count, n)
    losses.flags.writeable = curve.flags.writeable = False
    return losses, curve
