"""The smallest mu of Gaussian differential privacy (docs/theory/conversions.md section 15).

The mu of a Gaussian is the inverse of its noise multiplier. Let mu(eps, delta) be the mu of the Gaussian whose privacy
profile has the value delta at eps. The mu of a composition is the supremum over eps of mu(eps, delta(eps)). In a cell a
<= eps <= b, mu(eps, delta(eps)) is at most mu(b, delta(a)), because delta never increases. A lower bound of delta at
the end of a cell gives a lower bound of mu. Cells that may hold the supremum are halved.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

from ... import mechanisms as m
from ..._core import gaussian_delta
from ...bound import Bound
from ...composition import Parts
from ..numerics.outward import INF, Range, sqrt
from ..numerics.shared_work import try_to_spend_work
from ..pairs.replacement import Replaced, ReplacedGaussian

_LEAST, _MOST = 1e-9, 1e9
"""Smallest and largest mu for which the curve of a Gaussian is certified."""
_WIDTH = 1e-3
"""Relative width of the bounds of mu. Once the bounds are this narrow, no more cells are halved."""
_CELLS = 400
"""Largest number of cells that are halved."""
_FAR = 8.0
"""Largest epsilon of the cells if losses are unbounded. The cells then give only a lower bound of mu."""
_FIRST = 8
"""Number of cells to begin with."""
_UNITS = 10**6
"""Work units for one cell, for which the privacy profile of a Gaussian is inverted three times."""
NAME = "gaussian_dp"


def bound_smallest_gaussian_mu(delta: Callable[[float], Bound], end: float, floor: float) -> Bound:
    """Returns bounds of the least mu whose Gaussian has a privacy profile of at least ``delta`` on [0, ``end``].

    Epsilons at which ``delta`` is at most ``floor`` are left out.
    """
    if end == 0:
        return Bound(0.0, 0.0, NAME)
    lower, needed, cells = 0.0, 0.0, list[tuple[float, float, float, Bound]]()

    def bound_gaussian_mu_at_node(at: float) -> Bound:
        nonlocal lower, needed
        found = delta(at)
        if found.lower > floor:
            lower = max(lower, _bracket_gaussian_mu(at, found.lower)[0])
        if found.upper > floor:
            needed = max(needed, _bracket_gaussian_mu(at, found.upper)[1])
        return found

    def add_cell_of_gaussian_mu(a: float, b: float, left: Bound) -> None:
        top = _bracket_gaussian_mu(b, left.upper)[1] if left.upper > floor else 0.0
        heapq.heappush(cells, (-top, a, b, left))

    reach = end if end < INF else _FAR
    edges = [reach * k / _FIRST for k in range(_FIRST + 1)]
    for a, b in itertools.pairwise(edges):
        add_cell_of_gaussian_mu(a, b, bound_gaussian_mu_at_node(a))
    for _ in range(_CELLS):
        top, a, b, left = cells[0]
        middle = 0.5 * (a + b)
        if -top <= needed * (1 + _WIDTH) or not a < middle < b or not try_to_spend_work(_UNITS):
            break
        heapq.heappop(cells)
        add_cell_of_gaussian_mu(a, middle, left)
        add_cell_of_gaussian_mu(middle, b, bound_gaussian_mu_at_node(middle))
    upper = max(-cells[0][0], lower) if end < INF else INF
    return Bound(lower, upper, NAME, {"cells": upper - lower} if upper < INF else {})


def split_noise_of_gaussian_dp(parts: Parts) -> tuple[Range, Parts]:
    """Returns a range of the sum of mu^2 over the Gaussians among ``parts``, and the other parts.

    Gaussians on samples count as if every sample held the record.
    """
    total, rest = Range(0.0), []
    for mechanism, count in parts:
        match mechanism:
            case m.Gaussian(sigma) | m.PoissonSampled(m.Gaussian(sigma), _):
                total += count / (Range(sigma) * sigma)
            case ReplacedGaussian(sigma, _):
                # mu^2 is at least that of a removal, 1/sigma^2, and at most that of a full replacement, 4/sigma^2.
                one = count / (Range(sigma) * sigma)
                total += Range(one.lo, (4 * one).hi)
            case Replaced(m.FixedSizeSampled(m.Gaussian(sigma))):  # as if every sample held the record
                total += 4 * count / (Range(sigma) * sigma)
            case _:
                rest.append((mechanism, count))
    return total, tuple(rest)


def combine_gaussian_dp_with_noise(mu_squared: Range, others: Bound) -> Bound:
    """Returns bounds of the mu of Gaussian noise composed with ``others``. The squares of the two mu add up."""
    noise, high = sqrt(mu_squared), Range(others.upper)
    upper = sqrt(mu_squared + high * high).hi if others.upper < INF else INF
    return Bound(max(noise.lo, others.lower), upper, NAME, others.error_budget)


def limit_gaussian_mu_by_noise(found: Bound, mu_squared: Range) -> Bound:
    """Returns ``found`` with its upper end limited to the mu of the noise, because this mu is valid for every delta."""
    return Bound(found.lower, max(min(found.upper, sqrt(mu_squared).hi), found.lower), NAME, found.error_budget)


def _bracket_gaussian_mu(epsilon: float, delta: float) -> tuple[float, float]:
    """Returns bounds of mu(epsilon, delta), as narrow as the certified curve of a Gaussian allows.

    At ``epsilon``, the Gaussian with the lower bound as mu has a delta below ``delta``, and the Gaussian with the upper
    bound as mu has at least ``delta``.
    """
    if gaussian_delta(_MOST, epsilon)[0] < delta:
        return 0.0, INF
    low, high = math.log(_LEAST), math.log(_MOST)
    least = 0.0 if gaussian_delta(_LEAST, epsilon)[1] >= delta else _LEAST
    most = _LEAST if gaussian_delta(_LEAST, epsilon)[0] >= delta else _MOST
    for _ in range(60):
        middle = math.exp(0.5 * (low + high))
        if not least < middle < most:
            break
        lo, hi = gaussian_delta(middle, epsilon)
        if lo >= delta:
            most, high = middle, math.log(middle)
        elif hi < delta:
            least, low = middle, math.log(middle)
        else:
            break
    return least, most
