"""Lower bounds for the class of all (xi, rho)-zCDP mechanisms (docs/theory/conversions.md section 7).

A lower bound for one member of the class is a lower bound for the class. The members that are tried have two outputs.
Let P = Ber(r) and Q = Ber(s) be Bernoulli distributions, and D_a the Renyi divergence of order a. The pair (P, Q) is a
member if D_a(P || Q) and D_a(Q || P) are at most xi + a rho at every order a > 1. For a given r the smallest such s is
found by bisection. Each candidate is checked at all orders at once.

Upper bounds for the class are computed from its moments, as for any other mechanism (``moments.py``,
``conversion.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...numerics.outward import Range, exp, log, widen_down

_Array = NDArray[np.float64]
_ORDERS = 160
"""Number of cells into which the orders are divided to check whether a pair is a member."""
_SHARES = 7
"""Number of values of r that are tried together."""
_SPREADS = 0.5, 0.08
"""Half-widths of the interval of log r in which the first and the second round try members. The first interval is
centred at a guess, and the second at the best member of the first round."""
_BISECTIONS = 20
"""Number of bisections of the interval that holds ln(r/s)."""
_MARGIN = 1e-13
"""Bound on the relative error of a sum of logarithms, which has five roundings and the errors of the logarithms."""
_ORDERS_LESS_ONE = np.exp(np.linspace(math.log(1e-6), math.log(1e12), 600))
"""Values of c, for the orders c + 1, among which the search finds its first guess."""
_LOG_KAPPA = -np.log1p(_ORDERS_LESS_ONE) - _ORDERS_LESS_ONE * np.log1p(1 / _ORDERS_LESS_ONE)
"""Logarithms of kappa(c) = c^c / (1+c)^(1+c), which the conversion from moments to delta multiplies by (conversions.md
section 2)."""


@lru_cache(maxsize=256)
@np.errstate(over="ignore")
def bound_zcdp_epsilon_below(rho: float, xi: float, delta: float) -> float:
    """Returns a lower bound of epsilon(delta) of the class.

    The bound is log((r - delta)/s) for the best member that is found.
    """

    def log_ratio_of_member(r: _Array, log_s: _Array) -> _Array:
        return np.where(r > delta, np.log(np.maximum(r - delta, 1e-320)), -math.inf) - log_s

    c = _ORDERS_LESS_ONE
    best = int(np.argmin(xi + (c + 1) * rho + (_LOG_KAPPA - math.log(delta)) / c))
    r, log_s = _find_best_zcdp_member(rho, xi, log_ratio_of_member, math.log(delta) + math.log1p(c[best]))
    return max(widen_down((log(Range(r) - delta) - log_s).lo, _MARGIN), 0.0) if r > delta else 0.0


@lru_cache(maxsize=256)
@np.errstate(over="ignore")
def bound_zcdp_delta_below(rho: float, xi: float, epsilon: float) -> float:
    """Returns a lower bound of delta(epsilon) of the class.

    The bound is r - e^epsilon s for the best member that is found.
    """

    def delta_of_member(r: _Array, log_s: _Array) -> _Array:
        return r - np.exp(np.minimum(epsilon + log_s, 700.0))

    c = _ORDERS_LESS_ONE
    bounds = c * (xi + (c + 1) * rho - epsilon) + _LOG_KAPPA
    best = int(np.argmin(bounds))
    r, log_s = _find_best_zcdp_member(rho, xi, delta_of_member, float(bounds[best]) + math.log1p(c[best]))
    most = Range(epsilon) + log_s
    return max((Range(r) - exp(most + _MARGIN * abs(log_s))).lo, 0.0) if r > 0 and most.hi < 700 else 0.0


def _find_best_zcdp_member(
    rho: float, xi: float, gain: Callable[[_Array, _Array], _Array], log_r: float
) -> tuple[float, float]:
    """Returns (r, ln s) of the member with the largest gain among the members that are tried near ``log_r``.

    ``gain`` is the lower bound that a member gives. As ``log_r`` the callers pass log(delta * a), where a is the order
    at which the conversion of moments to (epsilon, delta) gives the best bound. The inequality behind the conversion is
    an equality at one loss only, and delta * a is the probability that this loss then has.
    """
    best = (0.0, 0.0, -math.inf)
    for spread in _SPREADS:
        r = np.exp(np.clip(log_r + spread * np.linspace(-1, 1, _SHARES), -690.0, -1e-9))
        log_s = np.log(r) - _find_zcdp_member_ratios(r, rho, xi)
        found = gain(r, log_s)
        at = int(np.argmax(found))
        if found[at] > best[2]:
            best = float(r[at]), float(log_s[at]), float(found[at])
            log_r = math.log(r[at])
    return best[:2]


def _find_zcdp_member_ratios(r: _Array, rho: float, xi: float) -> _Array:
    """Returns, for each r, the largest ln(r/s) that was tried and for which (Ber(r), Ber(s)) is proved to be a
    member."""
    # D_a >= ln(r/s) + ln(r)/(a - 1). So ln(r/s) <= xi + a rho - ln(r)/(a - 1) for a member and every a > 1. This bound
    # is smallest at a = 1 + (-ln r / rho)^(1/2).
    high = (xi + rho + 2 * np.sqrt(-rho * np.log(r))) * 1.0001
    # D(Q || P) hardly ever matters, so the search takes D(Q || P) into account only if the first result fails the
    # check.
    for both in (False, True):
        low, most = np.zeros_like(high), high
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + most)
            good = _is_zcdp_member(r, middle, rho, xi, both)
            low, most = np.where(good, middle, low), np.where(good, most, middle)
        if both or np.all(_is_zcdp_member(r, low, rho, xi, True) | (low == 0)):
            break
    return low


@np.errstate(over="ignore", invalid="ignore")
def _is_zcdp_member(r: _Array, loss: _Array, rho: float, xi: float, both: bool) -> NDArray[np.bool_]:
    """Tells whether D_{c+1}(P || Q) <= xi + (c+1) rho for all c > 0 and, with ``both``, whether this bound holds for
    D_{c+1}(Q || P) too.

    Returns False if this is not certain. Let K(c) = c D_{c+1}, which is convex, and R(c) = c (xi + (c+1) rho). On a
    cell [a, b] of c, R exceeds its chord minus rho (b - a)^2/4. So K <= R holds on the cell if K <= R - rho (b - a)^2/4
    at both ends. As D grows with its order, K <= R also holds if D_{1+b} <= xi + (1+a) rho. Let y be the largest loss.
    For 1 + c >= (y - xi)/rho no check is needed, because D <= y. Numbers that overflow, and differences of infinities,
    never count as certain.
    """
    log_r, log_not_r = np.log(r), np.log1p(-r)
    log_s = log_r - loss
    log_not_s = np.log1p(-np.exp(log_s))
    good = np.ones(len(r), dtype=bool)
    directions = (log_r, log_not_r, log_s, log_not_s), (log_s, log_not_s, log_r, log_not_r)
    for p, not_p, q, not_q in directions[: 1 + both]:
        most = np.maximum(p - q, not_p - not_q)
        last = np.maximum((most * (1 + 1e-9) - xi) / rho, 1.0)[:, None]
        c = last * (np.arange(1, _ORDERS + 1) / _ORDERS) ** 2
        one = (c + 1) * p[:, None] - c * q[:, None]
        other = (c + 1) * not_p[:, None] - c * not_q[:, None]
        # The relative error of each term of the sum of exponentials comes from the two products in the exponent of the
        # term.
        size_one = (c + 1) * np.abs(p)[:, None] + c * np.abs(q)[:, None]
        size_other = (c + 1) * np.abs(not_p)[:, None] + c * np.abs(not_q)[:, None]
        k = np.logaddexp(one, other)
        weighted = np.exp(np.minimum(one - k, 0.0)) * size_one + np.exp(np.minimum(other - k, 0.0)) * size_other
        k = k + _MARGIN * (weighted + np.abs(k))
        before = np.concatenate((np.zeros_like(last), c[:, :-1]), axis=1)
        spare = c * (xi + (c + 1) * rho) * (1 - _MARGIN) - rho * (c - before) ** 2 / 4
        second = k <= spare
        # ``second`` is the check at the right end of each cell, and ``left`` is the check at its left end. The left end
        # is also the right end of the cell before, but that cell is narrower, so its check does not suffice.
        at_left = np.concatenate((np.zeros_like(last), k[:, :-1]), axis=1)
        left = at_left <= before * (xi + (before + 1) * rho) * (1 - _MARGIN) - rho * (c - before) ** 2 / 4
        # ``first`` is the check that follows from the growth of D with its order.
        first = k <= c * (xi + (1 + before) * rho) * (1 - _MARGIN)
        good &= np.all((second & left) | first, axis=1)
    return good
