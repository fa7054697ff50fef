"""M = E[W^a] of the Poisson-subsampled Gaussian at any real order a > 1 (docs/theory/conversions.md section 5).

Here W = 1 - q + q e^x and x = u/sigma - 1/(2 sigma^2), where u is standard normal. M is computed by the trapezoidal
rule with step h. For every y < pi sigma the relative error of M is at most e0 = 2 e^{y^2/2} / (e^{2 pi y/h} - 1). This
holds because |W(u + iv)| <= W(u), and because W has no zero in the strip |v| <= y.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...numerics.outward import ULP, Range

_EXPONENT = 60.0
"""The step h is chosen for e0 <= 2.1 e^-60. The errors of 1e9 composed mechanisms then have a small sum."""
_RELATIVE = 3 * math.exp(-_EXPONENT)
_REACH = 12.0
"""Nodes u run from -12 to a/sigma + 12. The part of the sum to the left of the nodes is below a e^-70, where a is the
order. To the right of the last node the terms fall by a factor of at least e^12 for each unit of u. The reason is that
the slope of log(W^a phi) is at most a/sigma - u, where phi is the standard normal density."""
_LARGE = 30.0
"""If a term of the sum for M has a logarithm above this number, M itself is summed. Otherwise M - 1 is summed, without
cancellation."""


def _choose_quadrature_step(sigma: float) -> float:
    """Returns the step h of the trapezoidal rule with e0 <= 2.1 e^-60."""
    y = min(math.sqrt(2 * _EXPONENT), 0.99 * math.pi * sigma)
    return 2 * math.pi * y / (_EXPONENT + 0.5 * y * y)


def count_quadrature_nodes(sigma: float, c: float) -> float:
    """Returns the number of nodes of ``bound_moment_above_by_quadrature``, for the order a = c + 1."""
    return ((c + 1) / sigma + 2 * _REACH) / _choose_quadrature_step(sigma)


def bound_moment_above_by_quadrature(sigma: float, q: float, c: float) -> float:
    """Returns an upper bound of log E[W^{c+1}] for 0 < q < 1."""
    return bound_moment_by_quadrature(sigma, q, c).hi


def bound_moment_by_quadrature(sigma: float, q: float, c: float) -> Range:
    """Returns a range of log E[W^{c+1}] for 0 < q < 1.

    No term is negative, so leaving out nodes never raises the sum. Only the upper end needs a term for these nodes.
    """
    a, h = c + 1, _choose_quadrature_step(sigma)
    u = np.arange(-math.ceil(_REACH / h), math.ceil((a / sigma + _REACH) / h) + 1) * h
    x = u / sigma - 0.5 / (sigma * sigma)
    log_phi = -0.5 * u * u - 0.5 * math.log(2 * math.pi)
    log_w = np.where(x < 1, np.log1p(q * np.expm1(np.minimum(x, 1.0))), np.logaddexp(math.log1p(-q), x + math.log(q)))
    power = a * log_w
    logs = power + log_phi
    # The error of x is at most a few ULP times ``spread``, which is the sum of the absolute values of both terms of x.
    # Each logarithm has a relative error of a few ULP.
    spread = np.abs(u) / sigma + 0.5 / (sigma * sigma)
    top = float(logs.max())
    tail = h / -math.expm1(-_REACH * h)
    if top > _LARGE:
        terms = np.exp(logs - top)
        error = 8 * ULP * (a * spread + np.abs(power) + u * u + 16)
        total = h * float((terms * (1 + error)).sum()) + tail * float(terms[-1]) * 2
        least = (top + math.log(h * float((terms * (1 - error)).sum())) - 4 * _RELATIVE) * (1 - 8 * ULP)
        return Range(least, (top + math.log(total) + 4 * _RELATIVE) * (1 + 8 * ULP) + a * math.exp(-70 - top))
    phi, full = np.exp(log_phi), np.exp(logs)
    once = np.exp(x + math.log(q) + log_phi)  # q e^x phi
    direct = (power < 1) & (x < 1)  # where W^a - 1 and W - 1 are computed by expm1, and not as differences
    grown = np.where(direct, phi * np.expm1(np.minimum(power, 1.0)), full - phi)
    linear = a * np.where(direct, q * np.expm1(np.minimum(x, 1.0)) * phi, once - q * phi)
    value = grown - linear
    share = np.exp(np.minimum(x + math.log(q) - log_w, 0.0))  # d log W / dx
    exponents = np.where(direct, 0.0, u * u + np.abs(x) - math.log(q))
    error = (
        a * spread * (share * full + once)
        + np.abs(power) * full
        + (np.abs(grown) + np.abs(linear)) * 4
        + (full + phi + a * (once + q * phi)) * exponents
        + np.abs(value) * (16 + u * u)
    )
    rounding = 8 * ULP * h * float(error.sum())
    total = max(h * float(value.sum()) + rounding, 0.0) + 2 * tail * float(full[-1])
    total += a * math.exp(-70) + _RELATIVE * 2 * (a + 1 + total)
    least = max(h * float(value.sum()) - rounding - _RELATIVE * 2 * (a + 1 + total), 0.0)
    return Range(math.log1p(least) * (1 - 8 * ULP), math.log1p(total) * (1 + 8 * ULP))


def bound_replaced_moment_by_quadrature(sigma: float, q: float, c: float) -> Range:
    """Returns a range of log E[W(u)^{c+1} W(-u)^{-c}] for 0 < q < 1.

    This logarithm is c times the Renyi divergence of order c + 1 between the outputs on two data sets that differ by
    replacing a record (K(c) of docs/theory/replace.md section 6). The upper end is infinite if more than ``MOST_NODES``
    nodes would be needed.
    """
    h = max(_choose_replaced_quadrature_step(sigma, c, share) for share in (0.2, 0.35, 0.5, 0.65, 0.8))
    last = (1 + 2 * c) / sigma + _REACH
    if not (last + _REACH) / h < MOST_NODES:
        return Range(0.0, math.inf)
    u: NDArray[np.float64] = np.arange(-math.ceil(_REACH / h), math.ceil(last / h) + 1, dtype=np.float64) * h
    ahead = (c + 1) * _compute_renyi_log_ratios(u, sigma, q)
    behind = -c * _compute_renyi_log_ratios(-u, sigma, q)
    logs = ahead + behind - 0.5 * u * u - 0.5 * math.log(2 * math.pi)
    spread = np.abs(u) / sigma + 0.5 / (sigma * sigma)
    error = 8 * ULP * ((2 * c + 1) * spread + np.abs(ahead) + np.abs(behind) + u * u + 16)
    top = float(logs.max())
    terms = np.exp(logs - top) * (1 + error)
    tail = h / -math.expm1(-_REACH * h)
    total = h * float(terms.sum()) + 2 * tail * float(terms[-1])
    least = h * float((terms * (1 - 2 * error)).sum())
    slack = 4 * _RELATIVE + (len(u) + 64) * ULP
    below = (top + math.log(least)) - 8 * ULP * abs(top) - slack if least > 0 else 0.0
    return Range(max(below, 0.0), (top + math.log(total)) * (1 + 8 * ULP) + slack)


MOST_NODES = 20_000
"""Largest number of nodes of one sum. A sum over 20,000 nodes takes half a millisecond."""


def _choose_replaced_quadrature_step(sigma: float, c: float, share: float) -> float:
    """Returns the step for e0 <= 2.1 e^-60 in the strip |Im u| <= y, where y is at most ``share`` times pi sigma.

    In this strip W(-u)^{-c} grows by a factor of at most cos(y/(2 sigma))^{-c}.
    """
    y = min(math.sqrt(2 * _EXPONENT), share * math.pi * sigma)
    return 2 * math.pi * y / (_EXPONENT + 0.5 * y * y - c * math.log(math.cos(0.5 * y / sigma)))


def _compute_renyi_log_ratios(u: NDArray[np.float64], sigma: float, q: float) -> NDArray[np.float64]:
    """Returns log W at the nodes."""
    x = u / sigma - 0.5 / (sigma * sigma)
    large = np.logaddexp(math.log1p(-q), x + math.log(q))
    return np.where(x < 1, np.log1p(q * np.expm1(np.minimum(x, 1.0))), large)
