"""Conversion of moments to (epsilon, delta), minimised over orders (docs/theory/conversions.md section 2).

The logarithm K(c) of a moment is c times the Renyi divergence of order c + 1. For every c > 0,
delta(eps) <= e^{K(c) - c eps} c^c / (1+c)^{1+c} (Canonne, Kamath and Steinke 2020, Proposition 12). The bound holds at
every order, so the search need not find the best one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...numerics.outward import INF, Range, exp, log, log1p, widen_up

_LEAST, _MOST = 1e-9, 1e15
"""Smallest and largest c that are searched, where c is the order minus 1. The best c is about (2 log(1/delta) /
variance of the loss)^(1/2)."""
_SCAN = 4.0
"""Ratio of neighbouring c in the first scan."""
_GOLDEN = 0.5 * (math.sqrt(5) - 1)
_REFINE = 28
"""Number of golden sections after the scan. They find c up to a relative error of 2 ln(4) * 0.618^28 = 4e-6, and the
minimum up to about the square of this error."""


def convert_moments_to_delta(log_moment: Callable[[float], float], epsilon: float) -> float:
    """Returns the smallest upper bound of delta(epsilon) over the orders searched, at most 1."""
    return convert_renyi_log_delta(
        minimize_over_renyi_orders(lambda c: log_delta_at_renyi_order(c, log_moment(c), epsilon))[0]
    )


def convert_renyi_log_delta(log_delta: float) -> float:
    """Returns delta, at most 1, from an upper bound of its logarithm."""
    return min(widen_up(exp(log_delta).hi, 0.0), 1.0)


def epsilon_at_renyi_order(c: float, moment: float, delta: float) -> float:
    """Returns the upper bound of epsilon from the single order c + 1. The bound may be negative."""
    if not moment < INF:
        return INF
    return ((moment + log_factor_of_renyi_conversion(c) - log(delta)) / c).hi


def log_delta_at_renyi_order(c: float, moment: float, epsilon: float) -> float:
    """Returns the upper bound of log delta from the single order c + 1."""
    if not moment < INF:
        return INF
    return (moment + log_factor_of_renyi_conversion(c) - Range(c) * epsilon).hi


def log_factor_of_renyi_conversion(c: float) -> Range:
    """Returns c log c - (1+c) log(1+c) = -log(1+c) - c log(1 + 1/c)."""
    return -log1p(c) - c * log1p(1 / Range(c))


def minimize_over_renyi_orders(value: Callable[[float], float]) -> tuple[float, float]:
    """Returns the minimum of a quasi-convex function of c, and the c at which it is attained.

    The function may be infinite for all large c.
    """
    best_at, best, c = _LEAST, value(_LEAST), _LEAST
    worse = 0
    while c < _MOST and worse < 4:
        c *= _SCAN
        found = value(c)
        if found < best:
            best_at, best, worse = c, found, 0
        elif found == INF or best < INF:
            worse += 1
    return _refine_best_renyi_order(value, best_at / _SCAN, best_at * _SCAN, _REFINE, (best, best_at))


def minimize_near_renyi_order(value: Callable[[float], float], start: float) -> float:
    """Returns a minimum of ``value`` over c near ``start``.

    One evaluation may take a second, so few are made. ``value`` may be infinite at ``start``.
    """
    best_at, best = start, value(start)
    while best == INF and best_at > _LEAST:
        best_at /= _SCAN
        best = value(best_at)
    if best == INF:
        return INF
    for ratio in (_STEP, 1 / _STEP):
        while _LEAST < best_at < _MOST and (found := value(best_at * ratio)) < best:
            best_at, best = best_at * ratio, found
    return _refine_best_renyi_order(value, best_at / _STEP, best_at * _STEP, _FEW, (best, best_at))[0]


_STEP = 1.5
"""Ratio of neighbouring c in the descent of ``minimize_near_renyi_order``."""
_FEW = 6
"""Number of golden sections after a descent. They find c up to a relative error of 2 ln(1.5) * 0.618^6 = 5 %, and the
minimum up to a fraction of the square of this error."""


def _refine_best_renyi_order(
    value: Callable[[float], float], least: float, most: float, times: int, best: tuple[float, float]
) -> tuple[float, float]:
    """Returns the minimum and the c at which it is attained, by golden sections, or ``best`` if that is lower."""
    low, high = math.log(least), math.log(most)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(math.exp(left)), value(math.exp(right))
    for _ in range(times):
        best = min(best, (at_left, math.exp(left)), (at_right, math.exp(right)))
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(math.exp(right))
    return min(best, (at_left, math.exp(left)), (at_right, math.exp(right)))
