"""Builds a kernel that a given pair dominates (docs/theory/adaptive.md section 4).

A kernel is a distribution of losses on a grid. The adversary of docs/theory/adaptive.md, section 2, chooses among
kernels. The pair (P, Q) is given by bounds of its curve, delta as a function of epsilon, at points in each cell of the
grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.outward import ULP

Array = NDArray[np.float64]
STEP = 0.125
"""Distance of two points from the middle of their cell, divided by the cell's width. The curve is evaluated at the
middle and at these points. Its slope at the middle is between the slopes of the two chords that meet there."""
_ROUNDINGS = 64 * ULP


class Side(NamedTuple):
    """Bounds of a pair's delta at three epsilons of each cell, one row for each cell.

    Cell j is (j h, (j + 1) h). The epsilons are the middle of the cell, and the points ``STEP`` h before and after the
    middle.
    """

    lower: Array
    upper: Array


def list_fixed_size_epsilons(n: int, h: float) -> Array:
    """Returns the epsilons at which a ``Side`` is evaluated, one row for each cell."""
    places: Array = (np.arange(n)[:, None] + np.array([0.5 - STEP, 0.5, 0.5 + STEP])) * h
    return places


def bound_fixed_size_masses_below(right: Side, left: Side, h: float) -> Array:
    """Returns the masses under P, at the losses -n h, ..., n h, of a distribution that the pair dominates.

    Here n is the number of cells of ``right`` and of ``left``. ``right`` bounds the pair, and ``left`` bounds the
    reversed pair.
    """
    n = len(right.lower)
    behind = _bound_fixed_size_cells(left, n, h, mirrored=True)
    ahead = _bound_fixed_size_cells(right, n, h, mirrored=False)
    # A node is a common end of two cells. It gets the smaller one of the lower bounds from these cells.
    starts, ends = (np.concatenate(pair) for pair in zip(behind, ahead, strict=True))
    values = np.append(starts, 0.0)
    values[1:-1] = np.minimum(starts[1:], ends[:-1])
    # The curve is at least 0, so any lower bound may be replaced by 0. The code looks for the first bound that is not
    # positive, among the losses >= 0. This bound and all later bounds become 0, and so does the bound before it.
    drowned = np.flatnonzero(values[n:] <= 0)
    values[max(n + int(drowned[0]) - 1, n) :] = 0.0
    return _build_fixed_size_masses(values, n, h)


def _bound_fixed_size_cells(side: Side, n: int, h: float, mirrored: bool) -> tuple[Array, Array]:
    """Returns lower bounds of the curve at both ends of each cell, from lines below the curve in x = e^eps.

    For x < 1 the trivial curve 1 - x is subtracted from the curve, and the bounds hold for the difference.
    """
    at, edges = list_fixed_size_epsilons(n, h), np.arange(n + 1) * h
    low, high = side.lower, side.upper
    if mirrored:  # delta(-eps) - (1 - e^-eps) is e^-eps times the reversed pair's delta(eps)
        at, edges = -at[::-1, ::-1], -edges[::-1]
        low, high = low[::-1, ::-1] * np.exp(at), high[::-1, ::-1] * np.exp(at)
    x, ends = np.exp(at), np.exp(edges)
    least = (low[:, 1] - high[:, 0]) / (x[:, 1] - x[:, 0])
    most = (high[:, 2] - low[:, 1]) / (x[:, 2] - x[:, 1])
    rounding = _ROUNDINGS / STEP * (1 + 1 / h) * high.max(axis=1)
    start = low[:, 1] - most * (x[:, 1] - ends[:-1]) - rounding
    end = low[:, 1] + least * (ends[1:] - x[:, 1]) - rounding
    return start, end


def _build_fixed_size_masses(values: Array, n: int, h: float) -> Array:
    """Returns the masses, rounded down, of the pair whose curve is the lower convex hull of some points.

    ``values`` are bounds of the curve minus max(0, 1 - x), at x = e^{-n h}, ..., e^{n h}. First, max(0, 1 - x) is added
    to them again. The hull is that of these sums and of the point with the value 1 at x = 0.
    """
    x = np.exp(np.arange(-n, n + 1) * h)

    def compute_slope_of_fixed_size_piece(i: int, j: int) -> float:
        before, start = (values[i], x[i]) if i >= 0 else (0.0, 0.0)
        width = x[j] - start
        bare = -1.0 if j <= n else 0.0 if i >= n else -(1 - start) / width
        return float((values[j] - before) / width + bare)

    nodes, slopes = [-1], [-np.inf]  # nodes of the hull so far, and the slopes of its pieces that end there
    for j in range(2 * n + 1):
        while (ahead := compute_slope_of_fixed_size_piece(nodes[-1], j)) < slopes[-1]:
            nodes.pop()
            slopes.pop()
        nodes.append(j)
        slopes.append(ahead)
    kept, after = np.array(nodes[1:]), np.append(slopes[2:], 0.0)
    kinks = after - np.array(slopes[1:])
    rounding = _ROUNDINGS * (1 + 1 / h) * (np.abs(after) + np.abs(slopes[1:]))
    masses = np.zeros(2 * n + 1)
    masses[kept] = np.maximum(kinks - rounding, 0.0) * x[kept] * (1 - _ROUNDINGS)
    return masses
