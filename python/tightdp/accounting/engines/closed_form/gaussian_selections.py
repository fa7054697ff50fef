"""Gaussians together with adaptively chosen selections (docs/theory/caps.md, "Selections").

A selection has a range eta: all values of its privacy loss lie in an interval of length eta. The worst selection takes
only the two ends of the interval. A curve is delta as a function of epsilon (eps). The worst adversary's curve for the
selections alone (``bounded_range.py``) is computed at nodes, which are values L of eps. Between nodes it is
interpolated linearly in x = e^eps. The interpolated curve is convex. So it is the curve of a loss distribution with
masses on the nodes L: a weighted sum of the terms max(0, 1 - e^(eps - L)). Composed with Gaussians, each of these terms
becomes the Gaussian curve at eps - L. The result is a sum of positive terms.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...._core import gaussian_mixture, worst_selections
from ...numerics.outward import INF, ULP, Range, widen_up
from .gaussian import GaussianCurve
from .privacy_curve import PrivacyCurve

Array = NDArray[np.float64]
_CELLS = 8
"""Number of cells between nodes, in each interval of losses of length eta. With 8 cells the variance of the selections
is too large by up to 1/8^2 = 1.6 %, and epsilon by up to half of that (docs/theory/filters.md, section 9)."""
_MOST_NODES = 20_000
"""Largest number of nodes. The time of value iteration grows with the square of this number, up to a tenth of a
second."""
SECANTS = 40
"""Largest number of secant steps of the inversion."""
CLOSE = 1e-11
"""Distance of log delta from its target at which the inversion stops. It is also the first of the relative steps by
which epsilon is then increased until it is certified."""
FAR = 1e20
"""Largest epsilon that is tried. Epsilon is at most about mu^2 / 2, and mu^2 is at most 1e18."""
_LEAST = 1e-290
"""Delta below which a curve that is computed from masses may be inaccurate because of underflow. The floor of
``build_gaussian_selection_masses`` bounds the adversary's curve there."""
_SHIFT = 2.0**-50
"""Bound on the rounding errors of eps - L and of L, divided by (1 + |eps| + the largest L). The relative rounding error
of e^L has the effect of a constant shift of L. The term 1 covers this shift."""


def can_serve_gaussian_selections(mu_squared: Range, eta: float, count: int) -> bool:
    """Tells whether this module serves the Gaussians and the selections, in at most a tenth of a second."""
    return (
        mu_squared.lo >= 1e-18
        and mu_squared.hi <= 1e18
        and eta >= 1e-6
        and eta * count <= 300
        and count * _CELLS <= _MOST_NODES / 2
    )


class GaussianSelections(PrivacyCurve):
    """The curve of Gaussians of total ``mu_squared`` and ``count`` selections of range ``eta``, chosen adaptively.

    The upper bound is the curve of the worst adversary. The lower bound is 0 here. A better lower bound comes from
    single mechanisms whose losses have the range ``eta`` (conversions.md section 7).
    """

    term = "class"

    def __init__(self, mu_squared: Range, eta: float, count: int) -> None:
        self.mu = widen_up(mu_squared.hi**0.5, 4e-16)
        self.losses, self.masses, self.factor, self.floor = build_gaussian_selection_masses(eta, count)
        self.guess = GaussianCurve(mu_squared + count * eta * eta / 4)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        lowered = epsilon - _SHIFT * (1 + abs(epsilon) + float(self.losses[-1]))
        upper = gaussian_mixture(self.mu, self.losses, self.masses, lowered)
        return Range(0.0, widen_up(upper * self.factor + self.floor))

    def invert_closed_form_delta(self, delta: float) -> Range:
        """Returns an upper bound of epsilon. The lower end of the range is 0.

        The search starts near the epsilon of a Gaussian with the zCDP of all mechanisms together. The search takes
        secant steps. If a step leaves the bracket, the bracket is halved. The result is increased until certified.
        """
        if delta == 0:
            return Range(0.0, INF)
        target = math.log(delta)

        def measure_gap_of_gaussian_selections(epsilon: float) -> float:
            found = self.delta(epsilon).hi
            wide = math.log(max(found, 1e-300)) - target
            return max(wide, ULP) if found > delta else min(wide, 0.0)

        left, right = (max(self.guess.epsilon(delta).hi, 1e-12) * share for share in (0.99, 1.04))
        low, high = 0.0, INF  # delta is above the target at ``low`` and not above it at ``high``
        gap_left, gap_right = measure_gap_of_gaussian_selections(left), measure_gap_of_gaussian_selections(right)
        for _ in range(SECANTS):
            for at, found in ((left, gap_left), (right, gap_right)):
                low, high = (max(low, at), high) if found > 0 else (low, min(high, at))
            if abs(gap_right) < CLOSE or high - low <= CLOSE * high or low > FAR:
                break
            slope = (gap_right - gap_left) / (right - left) if right != left else 0.0
            guess = right - gap_right / slope if slope < 0 else INF
            if not low < guess < high:
                guess = 0.5 * (low + high) if high < INF else 2 * low + 1
            left, right, gap_left, gap_right = right, guess, gap_right, measure_gap_of_gaussian_selections(guess)
        step = CLOSE * max(right, left)
        while right < high and self.delta(right).hi > delta:
            right, step = right + step, 4 * step
        return Range(0.0, min(right, high))


@lru_cache(maxsize=32)
def build_gaussian_selection_masses(eta: float, count: int) -> tuple[Array, Array, float, float]:
    """Returns the nodes, the masses on them, a factor and a floor.

    The factor times the curve of the masses, plus the floor, is at least the adversary's curve. The masses are
    differences of slopes and suffer from rounding. The factor corrects for this rounding. It is the largest ratio of
    the adversary's curve to the curve of the masses, over x = 0 and the nodes. The ratios at nodes suffice, because
    both curves are linear in x between nodes. The values of both curves at nodes are sums of positive terms, so the
    ratios are accurate.
    """
    losses = np.arange(-count * _CELLS, count * _CELLS + 1, dtype=np.float64) * (eta / _CELLS)
    curve = worst_selections(eta, count, _CELLS)
    x = np.exp(losses)
    slopes = np.concatenate(([-1.0], np.diff(curve) / np.diff(x), [0.0]))
    weights = np.maximum(np.diff(slopes), 0.0)
    # ``found`` is sum_j weights_j max(0, x_j - x) at x = 0 and at the nodes. It is added from the last node down, so
    # that all terms are positive.
    steps = np.diff(x, prepend=0.0)
    found = np.append(np.cumsum((steps * np.cumsum(weights[::-1])[::-1])[::-1])[::-1], 0.0)
    wanted = np.concatenate(([1.0], curve))
    seen = found > _LEAST
    factor = float(np.max(wanted[seen] / found[seen])) * (1 + 8 * len(x) * ULP)
    floor = 2 * float(np.max(wanted[~seen], initial=0.0))
    return losses, weights * x, factor, floor
