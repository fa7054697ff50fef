"""Gaussians together with adaptively chosen selections (docs/theory/caps.md, "Selections").

The worst adversary's curve for the selections alone (``selection.py``) is convex and piecewise linear in x = e^eps,
hence a mixture of max(0, 1 - e^(eps - L)) over its nodes L: a law with masses on the nodes. Gaussians turn each into
the Gaussian curve at eps - L, a sum of positive terms.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..outward import INF, ULP, Range, up
from .base import Law
from .gaussian import Gaussian

Array = NDArray[np.float64]
_CELLS = 8
"""Nodes to a range: the variance of the selections comes out 1/(3 8^2) = .5 % too large, epsilon by half of that."""
_MOST_NODES = 20_000
"""Value iteration takes the square of it: a tenth of a second."""
SECANTS = 12
CLOSE = 1e-11
"""The inversion stops where log delta is this close, and rises by this part of epsilon until it is certified."""
_SHIFT = 2.0**-50
"""What eps - L and L may lose in rounding, relative to the largest of them and to 1 (for L enters as e^L)."""


def servable(mu_squared: Range, eta: float, count: int) -> bool:
    """Whether this law covers the run: within the ranges of its parts, and at most a tenth of a second."""
    return (
        mu_squared.lo >= 1e-18
        and mu_squared.hi <= 1e18
        and eta >= 1e-6
        and eta * count <= 300
        and count * _CELLS <= _MOST_NODES / 2
    )


class GaussianSelections(Law):
    """Gaussians of total ``mu_squared`` and ``count`` selections of range ``eta``, each chosen given all before.

    The upper bound is that of the worst adversary; there is no lower one here, for members of the class have theirs
    elsewhere (conversions.md section 7).
    """

    term = "class"

    def __init__(self, mu_squared: Range, eta: float, count: int) -> None:
        self.mu = up(mu_squared.hi**0.5, 4e-16)
        self.losses, self.masses, self.factor = masses(eta, count)
        self.guess = Gaussian(mu_squared + count * eta * eta / 4)

    def at(self, epsilon: float) -> Range:
        lowered = epsilon - _SHIFT * (1 + abs(epsilon) + float(self.losses[-1]))
        upper = _core.gaussian_mixture(self.mu, self.losses, self.masses, lowered)
        return Range(0.0, up(upper * self.factor))

    def inverse(self, delta: float) -> Range:
        """The upper end alone: secants from near a Gaussian that counts selections as zCDP does, then certified."""
        if delta == 0:
            return Range(0.0, INF)
        target = math.log(delta)

        def gap(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon).hi, 1e-300)) - target

        left, right = (max(self.guess.epsilon(delta).hi, 1e-12) * share for share in (0.99, 1.04))
        gap_left, gap_right = gap(left), gap(right)
        for _ in range(SECANTS):
            if gap_left == gap_right or abs(gap_right) < CLOSE:
                break
            left, right = right, max(right - gap_right * (right - left) / (gap_right - gap_left), 0.0)
            gap_left, gap_right = gap_right, gap(right)
        step = CLOSE * right
        while self.delta(right).hi > delta:  # delta falls to 0, so this ends
            right, step = right + step, 4 * step
        return Range(0.0, right)


@lru_cache(maxsize=32)
def masses(eta: float, count: int) -> tuple[Array, Array, float]:
    """Nodes, masses on them, and the factor by which their curve times it is above the adversary's everywhere.

    The masses are slopes' differences and suffer from rounding, so the factor is found afterwards: at each node both
    curves are sums of positive terms, and between nodes both are linear in x; at x = 0, below all nodes, both are 1.
    """
    losses = np.arange(-count * _CELLS, count * _CELLS + 1, dtype=np.float64) * (eta / _CELLS)
    curve = _core.worst_selections(eta, count, _CELLS)
    x = np.exp(losses)
    slopes = np.concatenate(([-1.0], np.diff(curve) / np.diff(x), [0.0]))
    weights = np.maximum(np.diff(slopes), 0.0)
    # sum_j weights_j max(0, x_j - x) at 0 and at the nodes, from the last one down: positive terms alone.
    steps = np.diff(x, prepend=0.0)
    found = np.append(np.cumsum((steps * np.cumsum(weights[::-1])[::-1])[::-1])[::-1], 0.0)
    wanted = np.concatenate(([1.0], curve))
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = float(np.nanmax(wanted / found)) * (1 + 8 * len(x) * ULP)
    return losses, weights * x, factor
