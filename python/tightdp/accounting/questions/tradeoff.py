"""The trade-off curve of hypothesis testing from bounds of delta (docs/theory/conversions.md section 9).

Let delta be the privacy profile of a pair (P, Q) of output distributions. The type I error alpha of a test is the
probability of deciding for P under Q. The least type II error is beta(alpha) = sup over x > 0 of g(x), where x = e^eps
and g(x) = 1 - delta(log x) - alpha x. The value g(x) at any x is a lower bound of beta(alpha). For an upper bound, g is
evaluated at some x, called nodes. Since g is concave, the line through the values of g at two nodes lies above g
outside the interval between these nodes. Nodes are added near the supremum. Each halving of the distance between nodes
divides the width of the bounds by four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..._core import Budget
from ...bound import Curve
from ...composition import Parts
from ...options import Direction
from ..engines import auto
from ..engines.engine_interface import Engine, Request
from ..numerics.outward import expm1
from ..numerics.shared_work import share_work_results, try_to_spend_work

Array = NDArray[np.float64]
Ends = tuple[float, float]
Ask = Callable[[float, float], Ends]
"""Function of an epsilon and a relative width that returns bounds of delta at this epsilon."""
_LEAST = 1e-14
"""Smallest x of a node. For smaller x, g(x) <= x (1 - alpha)."""
_MOST = 700.0
"""Largest log x of a node. At type I errors below e^-700 the upper bound is 1."""
_FAR, _FARTHEST = 1e4, 1e6
"""Values of epsilon at which delta stands for delta at infinity. At the first, all engines answer quickly."""
_FIRST = 65
"""Number of nodes to begin with."""
_ROUNDS = 24
"""Largest number of rounds of adding nodes, enough to halve every interval down to the accuracy of doubles."""
_ROUGH = 3e-3
"""Relative width of the first delta at each node."""
_PATIENCE = 6
"""Number of rounds within which the width must fall by a fifth, or no more nodes are added. While delta is known
accurately, the width falls by a factor of 4 in each round."""
_UNITS = 2 * 10**9
"""Work units for all nodes of one pair. Once these units are spent, further nodes have the trivial bounds of delta."""
_NODE = 10**5
"""Work units for a node whose delta has a formula."""
_SLACK = 1e-15
"""Bound on the rounding of g(x) and of a chord between two of its values, relative to the largest of 1 and alpha x."""


def bound_tradeoff_curve(
    pairs: Sequence[tuple[Parts, Direction]], alphas: Array, engine: str | Engine, request: Request
) -> Curve:
    """Returns bounds on the smallest beta of all pairs at each alpha. Each pair is a composition over all steps.

    Here the width of ``request`` is an absolute width.
    """
    curves = []
    for parts, direction in pairs:

        def bound_delta_at_tradeoff_node(
            eps: float, width: float, parts: Parts = parts, direction: Direction = direction
        ) -> Ends:
            if not try_to_spend_work(_NODE):
                return max((-expm1(eps)).lo, 0.0), 1.0
            found = auto.run_engines_for_delta(engine, parts, direction, eps, replace(request, width=width))
            return found.lower, found.upper

        with share_work_results(), Budget(_UNITS):
            curves.append(_bound_tradeoff_of_pair(bound_delta_at_tradeoff_node, alphas.ravel(), request.width))
    lower = np.min([curve.lower for curve in curves], axis=0)
    upper = np.min([curve.upper for curve in curves], axis=0)
    return Curve(lower.reshape(alphas.shape), upper.reshape(alphas.shape))


def _bound_tradeoff_of_pair(delta: Ask, alphas: Array, tolerance: float) -> Curve:
    """Returns bounds on one pair's beta at each alpha. Nodes are added until the two bounds are ``tolerance`` apart."""
    if not alphas.size:
        return Curve(alphas.copy(), alphas.copy())
    lower, upper = np.zeros(alphas.shape), np.ones(alphas.shape)
    if (alphas == 0).any():  # beta(0) is 1 - delta(infinity), where delta(infinity) is P's mass where Q has none
        never = delta(_FAR, max(tolerance, _ROUGH))[1]  # asked before the nodes, which may take all of the work
        if never > tolerance:
            never = min(never, delta(_FARTHEST, max(tolerance, _ROUGH))[1])
        lower[alphas == 0] = 1 - never - _SLACK
    inside = alphas[(alphas > 0) & (alphas < 1)]
    most = min(max(-np.log(inside.min()), 1e-6), _MOST) if inside.size else 1.0  # g(x) <= 0 from x = 1/alpha on
    nodes = np.union1d(np.linspace(np.log(_LEAST), most, _FIRST), [0.0])  # delta(0) is the largest advantage of a test
    nodes = nodes[np.unique(np.exp(nodes), return_index=True)[1]]  # chords divide by differences of e^node
    known = _narrow_tradeoff_deltas(_bound_delta_for_tradeoff(delta, nodes, tolerance))
    widths = [np.full(alphas.shape, np.inf)] * _PATIENCE
    for _ in range(_ROUNDS):
        low, high, where = _bound_tradeoff_between_nodes(nodes, known, alphas)
        lower, upper = (
            np.maximum(lower, low),
            np.minimum(upper, high),
        )  # bounds of earlier rounds are kept, since a new node with a wide bound of delta may loosen a chord
        widths.append(upper - lower)
        # If the width comes from the bounds of delta at the nodes, further nodes do not help.
        useful = widths[-1] < 0.8 * widths[-1 - _PATIENCE]
        wide = (widths[-1] > tolerance) & useful & (alphas > 0) & (alphas < 1)
        split = np.unique(where[wide])
        split = np.unique(np.clip(np.concatenate((split - 1, split, split + 1)), 0, len(nodes) - 2))
        middles = 0.5 * (nodes[split] + nodes[split + 1])
        # A middle is left out if e^middle is not strictly between the e^node of its two neighbours.
        slopes, left, right = (np.exp(at) for at in (middles, nodes[split], nodes[split + 1]))
        middles = middles[(left < slopes) & (slopes < right) & bool(wide.any())]
        if not middles.size:
            break
        order = np.argsort(np.concatenate((nodes, middles)), kind="stable")
        known = _narrow_tradeoff_deltas(
            np.concatenate((known, _bound_delta_for_tradeoff(delta, middles, tolerance)))[order]
        )
        nodes = np.concatenate((nodes, middles))[order]
    upper = np.minimum(upper, _bound_tradeoff_by_advantage(float(known[nodes >= 0, 0].max()), alphas))
    upper[alphas < np.exp(-_MOST)] = 1.0
    lower[alphas == 1] = upper[alphas == 1] = 0.0
    rounded = 1 - alphas
    rest = (1 - rounded) - alphas  # exactly the rounding error of 1 - alpha
    below = np.where(rest < 0, np.nextafter(rounded, 0.0), rounded)
    above = np.where(rest > 0, np.nextafter(rounded, 1.0), rounded)
    lower = np.clip(lower, 0.0, below)
    return Curve(lower, np.clip(upper, lower, above))


def _bound_tradeoff_by_advantage(advantage: float, alphas: Array) -> Array:
    """Returns an upper bound of beta if some test has alpha + beta <= r = 1 - advantage.

    The bound consists of the chords from (0, 1) to (r, r) to (1, 0) (docs/theory/conversions.md section 9).
    """
    r = 1 - advantage + _SLACK
    if not r < 0.5:
        return 1 - alphas + _SLACK
    return np.maximum(1 - alphas * ((1 - r) / r), (1 - alphas) * (r / (1 - r))) + _SLACK


def _bound_delta_for_tradeoff(delta: Ask, nodes: Array, tolerance: float) -> Array:
    """Returns bounds of delta at all nodes, with an absolute width of at most a quarter of the tolerance.

    All nodes first get wide bounds, beginning with the nodes nearest to 0, and then narrow ones where needed. So if the
    work runs out, every delta is known to a few digits.
    """
    order = np.argsort(np.abs(nodes), kind="stable")
    rough = max(tolerance, _ROUGH)
    found = np.empty((len(nodes), 2))
    for i in order:
        found[i] = delta(float(nodes[i]), rough)
    for i in order:
        lower, upper = found[i]
        if upper - lower > tolerance / 4:
            low, high = delta(float(nodes[i]), min(tolerance / 4 / upper, rough))
            found[i] = max(lower, low), min(upper, high)
    return found


def _narrow_tradeoff_deltas(known: Array) -> Array:
    """Returns the bounds of delta, each improved by the bounds at other nodes, because delta never increases."""
    lower, upper = np.maximum.accumulate(known[::-1, 0])[::-1], np.minimum.accumulate(known[:, 1])
    return np.stack((lower, upper), axis=1)


def _bound_tradeoff_between_nodes(nodes: Array, known: Array, alphas: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Returns lower and upper bounds of the supremum of g for each alpha.

    The third array has the index of the interval between nodes where the upper bound is largest.
    """
    x = np.exp(nodes)[:, None]
    slack = _SLACK * np.maximum(alphas * x, 1.0)
    low = 1 - known[:, 1:] - alphas * x - slack
    high = 1 - known[:, :1] - alphas * x + slack
    rise = np.full((len(nodes) - 1, len(alphas)), np.inf)  # the chord from the left, continued to the right node
    fall = rise.copy()
    step = np.diff(x, axis=0)
    rise[1:] = high[1:-1] + np.maximum(high[1:-1] - low[:-2], 0.0) * (step[1:] / step[:-1])
    fall[:-1] = high[1:-1] + np.maximum(high[1:-1] - low[2:], 0.0) * (step[:-1] / step[1:])
    between = np.minimum(np.maximum(rise, high[:-1]), np.maximum(fall, high[1:]))
    lower = np.maximum(low.max(axis=0), 0.0)
    outside = np.maximum(_LEAST * (1 - alphas), high[-1])
    return lower, np.maximum(between.max(axis=0), outside), between.argmax(axis=0)
