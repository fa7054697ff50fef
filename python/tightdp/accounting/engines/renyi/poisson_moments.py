"""Moments of Poisson sampling (docs/theory/conversions.md section 4).

Let (P, Q) be the pair without sampling, q the sampling probability, and W = 1 - q + q dP/dQ. The moment in the
direction "remove" is M(c) = E_Q[W^{c+1}]. The moment in the direction "add" is at most the larger of two "remove"
moments: that of (P, Q), and that of the reversed pair (Q, P). At integer orders c + 1, M is a sum of positive terms.
K = log M is convex, so a chord bounds K between integer orders. For Gaussians the trapezoidal rule gives K at any
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...numerics.outward import INF, ULP, Range, widen_down, widen_up
from . import quadrature

MOST_TERMS = 20_000
"""Largest number of terms of a sum or of nodes of a quadrature. A sum of this length takes half a millisecond. A moment
that needs more terms or nodes counts as infinite."""
_LEAST = 1e-150
"""Smallest noise multiplier whose sampled moments are computed. The square of a smaller noise multiplier would be
subnormal. With so little noise, bounds of the moments without sampling are used."""
_MOST_INNER = 256
"""Largest integer order for sampled mechanisms other than Gaussians. Their moments are evaluated one by one."""


def bound_sampled_moment(inner: Callable[[float], float], q: float, c: float) -> float:
    """Returns an upper bound of K(c) for an inner mechanism with moment bounds ``inner``, for both directions."""
    return _bound_moment_by_chord(
        lambda order: bound_moment_at_integer_order(np.array([inner(j - 1.0) for j in range(2, order + 1)]), q).hi,
        c,
        _MOST_INNER,
    )


def bound_sampled_gaussian_moment(sigma: float, q: float, c: float) -> float:
    """Returns an upper bound of K(c) for a sampled Gaussian, for both directions."""
    if sigma < _LEAST:
        return INF
    nodes = quadrature.count_quadrature_nodes(sigma, c)
    if nodes <= MOST_TERMS and (c != int(c) or nodes < c):
        return quadrature.bound_moment_above_by_quadrature(sigma, q, c)

    def bound_renyi_moment_at_order(order: int) -> float:
        j = np.arange(2.0, order + 1)
        with np.errstate(over="ignore"):
            return bound_moment_at_integer_order(j * (j - 1) / (2 * sigma * sigma) * (1 + 8 * ULP), q).hi

    return _bound_moment_by_chord(bound_renyi_moment_at_order, c, MOST_TERMS)


def _bound_moment_by_chord(at_order: Callable[[int], float], c: float, most: int) -> float:
    """Bounds K(c), whose order is c + 1, by the chord between the two nearest integer orders. K is 0 at order 1."""
    below = math.floor(c) + 1
    above = below if c == int(c) else below + 1
    if above > most:
        return INF
    low = 0.0 if below == 1 else at_order(below)
    if above == below:
        return low
    share = c + 1 - below
    return widen_up((1 - share) * low + share * at_order(above), 8 * ULP)


def bound_moment_at_integer_order(inner: NDArray[np.float64], q: float) -> Range:
    """Returns K at the integer order a = len(inner) + 1 from the moments K_2, ..., K_a of the inner mechanism.

    The result is log(1 + sum_{j=2}^{a} C(a, j) q^j (1-q)^{a-j} (e^{K_j} - 1)), where ``inner`` holds the K_j. Writing
    the sum with e^{K_j} - 1 avoids cancellation.
    """
    a = len(inner) + 1
    if not inner[-1] < INF:
        return Range(INF)
    j = np.arange(2.0, a + 1)
    log_choose = np.cumsum(np.log((a - j + 1) / j)) + math.log(a)
    sampled_out = (a - j) * math.log1p(-q) if q < 1 else np.where(j < a, -INF, 0.0)
    with np.errstate(divide="ignore"):  # K_j = 0 adds nothing
        large = inner > 30.0
        log_grown = np.where(large, inner, np.log(np.expm1(np.minimum(inner, 30.0))))
    logs = log_choose + j * math.log(q) + sampled_out + log_grown
    top = float(logs.max())
    if top == -INF:
        return Range(0.0)
    if not top < INF:  # a finite moment and the other logarithms add up to more than the largest double
        return Range(0.0, INF)
    total = float(np.exp(logs - top).sum())
    finite = logs[logs > -INF]
    # Each logarithm has roundings of two kinds. The cumulative sum rounds its partial sums, which are at most
    # ``chosen``. Other products and sums round results that are at most ``size``.
    chosen = float(np.abs(log_choose).max())
    size = chosen + a * abs(math.log(q)) + float(np.abs(finite).max()) + float(inner[-1])
    slack = (a + 16) * 2 * ULP + (16 * size + a * chosen) * ULP
    exponent = top + math.log(total)
    return Range(
        max(widen_down(_log_one_plus_sampled_moment(exponent - slack), 16 * ULP), 0.0),
        widen_up(_log_one_plus_sampled_moment(exponent + slack), 16 * ULP),
    )


def _log_one_plus_sampled_moment(exponent: float) -> float:
    """Returns log(1 + e^exponent)."""
    return math.log1p(math.exp(exponent)) if exponent < 700 else exponent + math.exp(-exponent)
