"""Gaussians together with adaptively chosen selections (docs/theory/caps.md, "Selections").

The worst adversary's curve for the selections alone (``bounded_range.py``) is convex and piecewise linear in x = e^eps,
hence a mixture of max(0, 1 - e^(eps - L)) over its nodes L: a distribution with masses on the nodes. Gaussians turn
each into the Gaussian curve at eps - L, a sum of positive terms.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...._core import gaussian_mixture, worst_selections
from ...numerics.outward import INF, ULP, Range, widen_up
from .gaussian import GaussianCurve
from .law import PrivacyCurve

Array = NDArray[np.float64]
_CELLS = 8
"""Nodes to a range: the variance of the selections is 1/(3 8^2) = .5 % too large, and epsilon half of that."""
_MOST_NODES = 20_000
"""Largest number of nodes. Value iteration takes the square of their number: a tenth of a second."""
SECANTS = 40
CLOSE = 1e-11
"""Distance of log delta at which the inversion stops, and the part of epsilon by which it rises until it is
certified."""
FAR = 1e20
"""Largest epsilon that is tried: that of the largest Gaussian served is about half of 1e18."""
_LEAST = 1e-290
"""Curves below this have lost digits, or all of them, to underflow: a constant bounds them instead."""
_SHIFT = 2.0**-50
"""Rounding of eps - L and of L, relative to the largest of them and to 1 (L enters as e^L)."""


def can_serve_selections(mu_squared: Range, eta: float, count: int) -> bool:
    """Tells whether the run is within the ranges of both parts, and takes at most a tenth of a second."""
    return (
        mu_squared.lo >= 1e-18
        and mu_squared.hi <= 1e18
        and eta >= 1e-6
        and eta * count <= 300
        and count * _CELLS <= _MOST_NODES / 2
    )


class GaussianSelections(PrivacyCurve):
    """Gaussians of total ``mu_squared`` and ``count`` selections of range ``eta``, each chosen given all before.

    The upper bound is that of the worst adversary. The lower bound, that of members of the class, is found elsewhere
    (conversions.md section 7).
    """

    term = "class"

    def __init__(self, mu_squared: Range, eta: float, count: int) -> None:
        self.mu = widen_up(mu_squared.hi**0.5, 4e-16)
        self.losses, self.masses, self.factor, self.floor = build_node_masses(eta, count)
        self.guess = GaussianCurve(mu_squared + count * eta * eta / 4)

    def evaluate_delta(self, epsilon: float) -> Range:
        lowered = epsilon - _SHIFT * (1 + abs(epsilon) + float(self.losses[-1]))
        upper = gaussian_mixture(self.mu, self.losses, self.masses, lowered)
        return Range(0.0, widen_up(upper * self.factor + self.floor))

    def invert_delta(self, delta: float) -> Range:
        """Returns the upper end of epsilon alone.

        Secants start near a Gaussian that counts selections as zCDP does. Halvings follow if they leave the bracket,
        and the result is moved up until it is certified.
        """
        if delta == 0:
            return Range(0.0, INF)
        target = math.log(delta)

        def measure_gap(epsilon: float) -> float:
            found = self.delta(epsilon).hi
            wide = math.log(max(found, 1e-300)) - target
            return max(wide, ULP) if found > delta else min(wide, 0.0)

        left, right = (max(self.guess.epsilon(delta).hi, 1e-12) * share for share in (0.99, 1.04))
        low, high = 0.0, INF  # delta is above the target at ``low`` and not above it at ``high``
        gap_left, gap_right = measure_gap(left), measure_gap(right)
        for _ in range(SECANTS):
            for at, found in ((left, gap_left), (right, gap_right)):
                low, high = (max(low, at), high) if found > 0 else (low, min(high, at))
            if abs(gap_right) < CLOSE or high - low <= CLOSE * high or low > FAR:
                break
            slope = (gap_right - gap_left) / (right - left) if right != left else 0.0
            guess = right - gap_right / slope if slope < 0 else INF
            if not low < guess < high:
                guess = 0.5 * (low + high) if high < INF else 2 * low + 1
            left, right, gap_left, gap_right = right, guess, gap_right, measure_gap(guess)
        step = CLOSE * max(right, left)
        while right < high and self.delta(right).hi > delta:
            right, step = right + step, 4 * step
        return Range(0.0, min(right, high))


@lru_cache(maxsize=32)
def build_node_masses(eta: float, count: int) -> tuple[Array, Array, float, float]:
    """Returns nodes, masses on them, a factor and a floor: the curve of the masses times the factor, plus the floor, is
    above the adversary's curve.

    The masses are differences of slopes and suffer from rounding, so the factor is found afterwards. At each node both
    curves are sums of positive terms, and between nodes both are linear in x; at x = 0, below all nodes, both are 1.
    """
    losses = np.arange(-count * _CELLS, count * _CELLS + 1, dtype=np.float64) * (eta / _CELLS)
    curve = worst_selections(eta, count, _CELLS)
    x = np.exp(losses)
    slopes = np.concatenate(([-1.0], np.diff(curve) / np.diff(x), [0.0]))
    weights = np.maximum(np.diff(slopes), 0.0)
    # sum_j weights_j max(0, x_j - x) at 0 and at the nodes, from the last one down: positive terms alone.
    steps = np.diff(x, prepend=0.0)
    found = np.append(np.cumsum((steps * np.cumsum(weights[::-1])[::-1])[::-1])[::-1], 0.0)
    wanted = np.concatenate(([1.0], curve))
    seen = found > _LEAST
    factor = float(np.max(wanted[seen] / found[seen])) * (1 + 8 * len(x) * ULP)
    floor = 2 * float(np.max(wanted[~seen], initial=0.0))
    return losses, weights * x, factor, floor
