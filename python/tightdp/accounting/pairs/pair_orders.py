"""A pair that dominates both orders (P, Q) and (Q, P) of a given pair, for "replace" (docs/theory/replace.md section
7).

The curve of a pair is its delta as a function of epsilon. The curve of the dominating pair is computed at nodes: at 0,
at absolute values of losses, and where the curves of the two orders cross.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.loss_tables import TOLERANCE, CompletePair
from ..numerics.outward import widen_up
from .hull import Point, build_lower_hull_of_curve, compute_slope_between_pair_points

MOST_NODES = 2000
"""Largest number of nodes of the dominating curve. Each exact slope between two nodes takes some ten microseconds."""
_FARTHEST = 300.0
_FAINTEST = 1e-150
"""A mass at a positive loss is moved to an infinite loss if the mass is below ``_FAINTEST`` or the loss is above
``_FARTHEST``. The remaining masses times e^-loss are then normal doubles."""
_APART = 1e-5
"""Smallest distance in epsilon between two kept points of a curve, divided by the delta of the first one. Slopes
between such points have errors of at most 1e-10, a tenth of ``TOLERANCE``."""
_ULP = 2.0**-53
_Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def unite_orders_of_pair(given: CompletePair) -> CompletePair:
    """Returns a symmetric pair whose curve is at least the curves of (P, Q) and of (Q, P) at every epsilon."""
    losses = given.losses
    # Q's mass at a loss y is P's mass times e^-y. So an error of y is a relative error of this mass, and of all masses
    # that are computed from y.
    unsure = math.expm1(given.slack) + given.relative
    nodes = np.unique(np.concatenate(([0.0], np.abs(losses[np.abs(losses) <= _FARTHEST]))))
    curves = [
        _CurveOfOrder(losses, given.masses, given.infinity, nodes),
        _CurveOfOrder(-losses[::-1], given.q_masses[::-1], given.hidden, nodes),
    ]
    over = curves[0].at - curves[1].at
    between = np.flatnonzero(over[:-1] * over[1:] < 0)
    share = over[between] / (over[between] - over[between + 1])
    crossings = nodes[between] + np.log1p(share * np.expm1(nodes[between + 1] - nodes[between]))
    beyond = np.maximum(*(curve.evaluate_pair_before_loss(between + 1, crossings) for curve in curves))
    at = np.concatenate((nodes, crossings))
    values = np.concatenate((np.maximum(curves[0].at, curves[1].at), beyond))
    order = np.argsort(at, kind="stable")
    at, values = at[order], values[order] * (1 + (2 * len(at) + 32) * _ULP + 2 * unsure + given.relative_ends)
    if len(at) > MOST_NODES:
        kept = np.unique(np.linspace(0, len(at) - 1, MOST_NODES).astype(np.intp))
        at, values = at[kept], values[kept]
    return _build_pair_of_both_orders(*_keep_pair_points_of_both_orders(at, np.minimum(values, 1.0)), given.slack)


def _keep_pair_points_of_both_orders(at: _Array, values: _Array) -> tuple[_Array, _Array]:
    """Returns the first point, the last one, and points between them that are far enough apart for accurate slopes."""
    kept = [0]
    for j in range(1, len(at)):
        if at[j] - at[kept[-1]] >= _APART * values[kept[-1]]:
            kept.append(j)
        elif j == len(at) - 1:
            kept = [*(kept[:-1] or [0]), j]
    return at[kept], values[kept]


class _CurveOfOrder:
    """The values of delta at the nodes: at 0, and at the absolute values of all losses up to ``_FARTHEST``, ascending.

    Each value is the value at the next node plus a positive term, so the sums are accurate.
    """

    def __init__(self, losses: _Array, masses: _Array, infinity: float, nodes: _Array) -> None:
        ahead = (losses > 0) & (losses <= _FARTHEST) & (masses >= _FAINTEST)
        far = float(masses[(losses > 0) & ~ahead].sum())
        here = np.zeros(len(nodes))
        np.add.at(here, np.searchsorted(nodes, losses[ahead]), masses[ahead] * np.exp(-losses[ahead]))
        self._slopes = np.cumsum(here[::-1])[::-1]  # minus the slope, in e^epsilon, to the left of each node
        self._nodes, x = nodes, np.exp(nodes)
        falls = np.append(self._slopes[1:] * (x[1:] - x[:-1]), infinity + far)
        self.at: _Array = np.cumsum(falls[::-1])[::-1]

    def evaluate_pair_before_loss(self, node: NDArray[np.intp], epsilons: _Array) -> _Array:
        """Returns delta at each epsilon, which is between the node with the given index and the node before it."""
        found: _Array = self.at[node] + self._slopes[node] * (np.exp(self._nodes[node]) - np.exp(epsilons))
        return found


def _build_pair_of_both_orders(at: _Array, values: _Array, slack: float) -> CompletePair:
    """Returns the symmetric pair whose curve at epsilon >= 0 is the lower hull of the points.

    The negative losses of the pair are the mirror images of its positive losses, and loss 0 has the rest of the mass.
    """
    rows = zip(at.tolist(), np.exp(at).tolist(), values.tolist(), strict=True)
    points = build_lower_hull_of_curve(Point(epsilon, Fraction(x), Fraction(value)) for epsilon, x, value in rows)
    slopes = [compute_slope_between_pair_points(*pair) for pair in pairwise(points)] + [Fraction(0)]
    kinks = zip(points[1:], pairwise(slopes), strict=True)
    ahead = [
        (point.epsilon, widen_up(float(point.x * (behind - before)), 2 * _ULP)) for point, (before, behind) in kinks
    ]
    image = [(-epsilon, widen_up(mass * math.exp(-epsilon), 2 * _ULP)) for epsilon, mass in reversed(ahead)]
    infinity = float(points[-1].value)
    middle = 1 - math.fsum((infinity, *(mass for _, mass in (*image, *ahead))))
    if middle < -TOLERANCE / 2:  # the slopes are too inaccurate, so all of delta(0) becomes the mass of infinite loss
        ahead, image, infinity, middle = [], [], float(points[0].value), 1 - float(points[0].value)
    atoms = [(y, mass) for y, mass in (*image, (0.0, middle), *ahead) if mass > 0]
    losses, masses = np.array([y for y, _ in atoms]), np.array([mass for _, mass in atoms])
    slack = 2 * slack + 8 * _ULP * (1 + float(at[-1]))
    return CompletePair(losses, masses, infinity, infinity, slack, 8 * _ULP + 2 * slack)
