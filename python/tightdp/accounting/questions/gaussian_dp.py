"""The smallest mu of Gaussian differential privacy (docs/theory/conversions.md section 15).

mu(eps, delta) is the mu whose Gaussian has delta at eps. A run needs the largest mu(eps, delta(eps)): on a cell [a, b]
of eps that is at most mu(b, delta(a)), and at a node at least what delta is there at least. Cells that may hold the
largest are halved.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

from ... import _core
from ... import mechanisms as m
from ...bound import Bound
from ...composition import Parts
from ..numerics.outward import INF, Range, sqrt
from ..numerics.work import try_to_spend_work
from ..pairs.replaced import Replaced, ReplacedGaussian

_LEAST, _MOST = 1e-9, 1e9
"""mu for which the curve of a Gaussian is certified."""
_WIDTH = 1e-3
"""Relative, that is aimed at."""
_CELLS = 400
_FAR = 8.0
"""Where a lower bound is looked for if losses have no end."""
_FIRST = 8
_UNITS = 10**6
"""Of work, for one cell: three inversions of a Gaussian's curve."""
NAME = "gaussian_dp"


def bound_smallest_mu(delta: Callable[[float], Bound], end: float, floor: float) -> Bound:
    """Bounds of the least mu with ``delta(eps)`` at most that of a Gaussian, or ``floor``, on [0, ``end``]."""
    if end == 0:
        return Bound(0.0, 0.0, NAME)
    lower, needed, cells = 0.0, 0.0, list[tuple[float, float, float, Bound]]()

    def evaluate_node(at: float) -> Bound:
        nonlocal lower, needed
        found = delta(at)
        if found.lower > floor:
            lower = max(lower, _bracket_mu(at, found.lower)[0])
        if found.upper > floor:
            needed = max(needed, _bracket_mu(at, found.upper)[1])
        return found

    def add_cell(a: float, b: float, left: Bound) -> None:
        top = _bracket_mu(b, left.upper)[1] if left.upper > floor else 0.0
        heapq.heappush(cells, (-top, a, b, left))

    reach = end if end < INF else _FAR
    edges = [reach * k / _FIRST for k in range(_FIRST + 1)]
    for a, b in itertools.pairwise(edges):
        add_cell(a, b, evaluate_node(a))
    for _ in range(_CELLS):
        top, a, b, left = cells[0]
        middle = 0.5 * (a + b)
        if -top <= needed * (1 + _WIDTH) or not a < middle < b or not try_to_spend_work(_UNITS):
            break
        heapq.heappop(cells)
        add_cell(a, middle, left)
        add_cell(middle, b, evaluate_node(middle))
    upper = max(-cells[0][0], lower) if end < INF else INF
    return Bound(lower, upper, NAME, {"cells": upper - lower} if upper < INF else {})


def split_gaussian_noise(parts: Parts) -> tuple[Range, Parts]:
    """A range of mu^2 of the Gaussian noise among ``parts``, sampled or not, and the rest."""
    total, rest = Range(0.0), []
    for mechanism, count in parts:
        match mechanism:
            case m.Gaussian(sigma) | m.PoissonSampled(m.Gaussian(sigma), _):
                total += count / (Range(sigma) * sigma)
            case ReplacedGaussian(sigma, _):  # a removal, and unsampled
                one = count / (Range(sigma) * sigma)
                total += Range(one.lo, (4 * one).hi)
            case Replaced(m.FixedSizeSampled(m.Gaussian(sigma))):  # with a probability it is exchanged in all samples
                total += 4 * count / (Range(sigma) * sigma)
            case _:
                rest.append((mechanism, count))
    return total, tuple(rest)


def combine_with_noise(mu_squared: Range, others: Bound) -> Bound:
    """Of both together: squares add up."""
    noise, high = sqrt(mu_squared), Range(others.upper)
    upper = sqrt(mu_squared + high * high).hi if others.upper < INF else INF
    return Bound(max(noise.lo, others.lower), upper, NAME, others.error_budget)


def limit_by_noise(found: Bound, mu_squared: Range) -> Bound:
    """Less may be required of the noise than exact Gaussian differential privacy, which would need this."""
    return Bound(found.lower, max(min(found.upper, sqrt(mu_squared).hi), found.lower), NAME, found.error_budget)


def _bracket_mu(epsilon: float, delta: float) -> tuple[float, float]:
    """Neighbours: the first has surely less than ``delta`` at ``epsilon``, the second surely as much."""
    if _core.gaussian_delta(_MOST, epsilon)[0] < delta:
        return 0.0, INF
    low, high = math.log(_LEAST), math.log(_MOST)
    least = 0.0 if _core.gaussian_delta(_LEAST, epsilon)[1] >= delta else _LEAST
    most = _LEAST if _core.gaussian_delta(_LEAST, epsilon)[0] >= delta else _MOST
    for _ in range(60):
        middle = math.exp(0.5 * (low + high))
        if not least < middle < most:
            break
        lo, hi = _core.gaussian_delta(middle, epsilon)
        if lo >= delta:
            most, high = middle, math.log(middle)
        elif hi < delta:
            least, low = middle, math.log(middle)
        else:
            break
    return least, most
