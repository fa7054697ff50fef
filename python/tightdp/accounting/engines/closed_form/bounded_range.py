"""Adaptively chosen bounded-range steps, by value iteration (docs/theory/filters.md section 9).

The worst step of range eta has two losses, t and t - eta. An adversary knows the sum of the losses so far and chooses t
in [0, eta]. The value function is the delta that the adversary can still reach, as a function of epsilon minus the sum
of the losses. It is stored at nodes with distance h = eta/n, and interpolated linearly in e^eps. The best t in each
cell between nodes then has a closed form. The value function is convex, so interpolation never makes it smaller, and
the result is an upper bound. The resulting epsilon is too large by a relative 1/(2 n^2) or so.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...._core import worst_selections
from ...numerics.outward import Range, widen_up
from .binomial import RepeatedResponseCurve
from .privacy_curve import PrivacyCurve

Array = NDArray[np.float64]
_WORK = 16_000
"""Largest product of the number of steps and the number n of nodes in a stretch of length eta. The time grows with the
square of this product, up to a quarter of a second."""
_MOST_CELLS, _FEWEST_CELLS = 32, 6
"""Largest and smallest number n of nodes, and so of cells, per eta. Epsilon is too large by a relative 5e-4 for the
largest n, and by 1e-2 for the smallest. Longer runs are served by zero-concentrated DP, whose epsilon is 5 to 10 % too
large."""
_SLACK = 1e-14
"""Generous bound on the relative rounding error of an interpolation."""


def count_bounded_range_cells(eta: float, count: int) -> int:
    """Returns the number of nodes per eta for ``count`` steps.

    Returns 0 if even the smallest number takes too much work, or if eta is out of range.
    """
    n = min(_MOST_CELLS, _WORK // count)
    return n if n >= _FEWEST_CELLS and 1e-8 <= eta <= 500 else 0


class RepeatedBoundedRangeCurve(PrivacyCurve):
    """The curve of ``count`` steps of range ``eta``, each of which is chosen after all earlier outputs are known.

    The upper bound is the curve of the worst adversary. The lower bound is the curve of randomised response that is
    (eta/2)-DP in every step.
    """

    term = "class"

    def __init__(self, eta: float, count: int) -> None:
        self.losses, self.deltas = find_worst_bounded_range_curve(eta, count)
        self.member = RepeatedResponseCurve(eta / 2, count)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        """Returns the delta of randomised response as lower end, and the value of a chord of the adversary's curve as
        upper end."""
        lower = self.member.delta(epsilon).lo
        if epsilon <= self.losses[0]:
            return Range(lower, 0.0)  # the caller takes the maximum with 1 - e^epsilon
        if epsilon >= self.losses[-1]:
            return Range(lower if epsilon < widen_up(self.losses[-1]) else 0.0, 0.0)
        k = int(np.searchsorted(self.losses, epsilon, side="right"))
        left, right = self.losses[k - 1], self.losses[k]
        share = np.expm1(epsilon - left) / np.expm1(right - left)
        value = (1 - share) * self.deltas[k - 1] + share * self.deltas[k]
        return Range(lower, widen_up(float(value), _SLACK))

    def invert_closed_form_delta(self, delta: float) -> Range:
        """Returns the epsilon of randomised response as lower end, and the epsilon of a chord as upper end."""
        lower = self.member.epsilon(delta).lo
        k = int(np.searchsorted(-self.deltas, -delta, side="left"))  # the first node with a delta of at most ``delta``
        if k == 0:
            return Range(lower, max(float(self.losses[0]), lower))
        left, right = self.losses[k - 1], self.losses[k]
        high, low = self.deltas[k - 1], self.deltas[k]
        share = min(max((high - delta) / (high - low), 0.0), 1.0)
        upper = left + np.log1p(share * np.expm1(right - left))
        return Range(lower, max(min(widen_up(float(upper), 1e-13), float(right)), lower))


@lru_cache(maxsize=32)
def find_worst_bounded_range_curve(eta: float, count: int) -> tuple[Array, Array]:
    """Returns the nodes from -count eta to count eta, and upper bounds of the adversary's delta at these losses.

    The adversary's delta is convex in e^eps, so chords between nodes bound it from above.
    """
    n = count_bounded_range_cells(eta, count)
    assert n, "refused before"
    losses = np.arange(-count * n, count * n + 1, dtype=np.float64) * (eta / n)
    curve = worst_selections(eta, count, n)
    losses.flags.writeable = curve.flags.writeable = False
    return losses, curve
