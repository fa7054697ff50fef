"""Gaussians, however many: mu^2 adds (docs/theory/closed-forms.md section 2).

With a = eps/mu - mu/2, b = a + mu and the Mills ratio m(x) = (1 - Phi(x)) / phi(x),
delta(eps) = phi(a) (m(a) - m(b)), for e^eps phi(b) = phi(a). Where mu is small that difference is the alternating
series of mu^j I_j(a) / j!, I_j(a) = int_0^inf t^j e^{-a t - t^2/2} dt, so that nothing cancels.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from ..outward import INF, TINY, ULP, Number, Range, as_range, down, exp, expm1, sqrt, up
from .base import TINY_EPSILON, Law, _certified_above, _certified_below, invert

_ROOT_HALF = math.sqrt(0.5)
_ROOT_HALF_PI = math.sqrt(0.5 * math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_SMALL_MU = 0.5
"""Below this the series is used: its terms fall at least as fast as mu^j / sqrt(j!)."""
_FRACTION = 2.0
"""From here on the continued fraction of the Mills ratio; below it the error function of the C library."""
_ERFC = 48 * ULP
"""m(x) by erfc for |x| < 2: erfc itself (8 ulps allowed, the C library states 5 at most), its argument (x m^{-1} <= 5
ulps), the exponential and the products."""


class Gaussian(Law):
    """The pair N(mu, 1), N(0, 1)."""

    def __init__(self, mu_squared: Number) -> None:
        self.mu_squared = as_range(mu_squared)
        self.mu = sqrt(self.mu_squared)

    def at(self, epsilon: float) -> Range:
        if epsilon < 0:  # reversal; the pair is symmetric, and both terms are positive
            return -expm1(epsilon) + exp(epsilon) * self.at(-epsilon)
        if self.mu.hi == 0:
            return Range(0.0)
        if self.mu.lo <= 0 or self.mu.hi == INF:
            return Range(0.0, 1.0 if self.mu.hi > 1e150 else _delta(Range(epsilon / self.mu.hi).lo, self.mu.hi).hi)
        a = epsilon / self.mu - self.mu * 0.5
        return Range(_delta(a.hi, self.mu.lo).lo, _delta(a.lo, self.mu.hi).hi)

    def inverse(self, delta: float) -> Range:
        mu = 0.5 * (self.mu.lo + self.mu.hi)
        if delta == 0 or not TINY_EPSILON < mu < 1e150:
            return Range(0.0, INF) if self.mu.hi > 0 else Range(0.0)
        # log delta is concave and below log Phi(-a): Newton's steps from where that is met fall to the root.
        quantile = -NormalDist().inv_cdf(delta)
        eps = mu * mu / 2 + mu * quantile
        for _ in range(60):
            if not eps > 0:
                return invert(self, delta, 0.0, mu)
            a = eps / mu - mu / 2
            found = _delta(a, mu)
            value, slope = 0.5 * (found.lo + found.hi), _phi(a).hi * _mills(a + mu).hi
            if not (value > 0 and slope > 0):
                return invert(self, delta, 0.0, eps)
            step = value / slope * math.log(value / delta)
            eps += step
            if abs(step) <= 4e-16 * eps:
                break
        return Range(_certified_below(self, delta, eps), _certified_above(self, delta, eps))


def _delta(a: float, mu: float) -> Range:
    """phi(a) (m(a) - m(a + mu)) for exact a >= -mu/2 and mu > 0."""
    if a < 0 and mu >= _SMALL_MU:
        return _tail(a) - _phi(a) * _mills_over(Range(a) + mu)
    if mu >= _SMALL_MU:
        return _phi(a) * (_mills(a) - _mills_over(Range(a) + mu))
    return _phi(a) * _series(a, mu)


def _phi(x: float) -> Range:
    return exp(-0.5 * (Range(x) * x)) / Range(_ROOT_TWO_PI * (1 - ULP), _ROOT_TWO_PI * (1 + ULP))


def _tail(x: float) -> Range:
    """1 - Phi(x) for x < 0, where erfc is in [1, 2]."""
    value = 0.5 * math.erfc(x * _ROOT_HALF)
    return Range(down(value, _ERFC), up(value, _ERFC))


def _mills_over(x: Range) -> Range:
    return Range(_mills(x.hi).lo, _mills(x.lo).hi)


def _mills(x: float) -> Range:
    """(1 - Phi(x)) / phi(x) for x > -2."""
    if x < _FRACTION:
        value = _ROOT_HALF_PI * math.erfc(x * _ROOT_HALF) * math.exp(0.5 * x * x)
        return Range(down(value, _ERFC), up(value, _ERFC))
    if x > 1e8:  # 1/x - 1/x^3 < m(x) < 1/x
        return Range(down(1 / x, 4 * ULP), up(1 / x)) if x < INF else Range(0.0, TINY)
    r = _ratios(x, 1)[0]
    return Range(down(1 / up(x + r.hi)), up(1 / down(x + r.lo)))


def _ratios(x: float, count: int) -> list[Range]:
    """I_j(x) / I_{j-1}(x) for j = 1 .. count and x >= 2: r_j = j / (x + r_{j+1}), from far enough out.

    Starting from the bounds 0 and j/x of r_j the two results bracket the truth; each step adds two roundings and
    shrinks the error before it by r / (x + r) <= 4/5, hence 10 roundings in all.
    """
    last = count + 16 + int(200 / (x * x))
    lo, hi = 0.0, (last + 1) / x
    found = []
    for j in range(last, 0, -1):
        lo, hi = j / (x + hi), j / (x + lo)
        if j <= count:
            found.append(Range(down(lo, 8 * ULP), up(hi, 8 * ULP)))
    return found[::-1]


def _series(a: float, mu: float) -> Range:
    """sum_{j >= 1} (-1)^{j+1} mu^j I_j(a) / j! for mu < 1/2 and a >= -1/4.

    I_{j+1} <= sqrt(2 (j+1)) max(1, 1/(1 + a)) I_j, so that the terms fall by mu r_j / j < 1 and the first that is
    left out bounds the rest.
    """
    mills = _mills(a)
    if a >= _FRACTION:
        moment = 0.5 * (mills.lo + mills.hi)
        total, slack, factor = 0.0, 0.0, 1.0
        relative = (mills.hi - mills.lo) / mills.lo
        for j, r in enumerate(_ratios(a, _TERMS), 1):
            moment *= 0.5 * (r.lo + r.hi)
            relative += (r.hi - r.lo) / r.lo + 4 * ULP
            factor *= mu / j
            term = factor * moment
            slack += term * relative
            if term <= 1e-18 * total:
                break
            total += term if j % 2 else -term
    else:
        before, moment = 0.5 * (mills.lo + mills.hi), 0.0
        error_before = mills.hi - mills.lo
        moment = 1 - a * before
        error = abs(a) * error_before + 2 * ULP
        total, slack, factor = 0.0, 0.0, 1.0
        for j in range(1, _TERMS + 1):
            factor *= mu / j
            term = factor * moment
            slack += factor * (error + abs(moment) * 2 * j * ULP)
            if term <= 1e-18 * total:
                break
            total += term if j % 2 else -term
            after = j * before - a * moment
            error_after = j * error_before + abs(a) * error + 2 * ULP * (j * before + abs(a * moment))
            before, moment, error_before, error = moment, after, error, error_after
    slack += abs(term) + 2 * _TERMS * ULP * total
    return Range(max(down(total - slack), 0.0), up(total + slack))


_TERMS = 40
"""mu^j I_j / j! for mu = 1/2, a = -1/4 is under 1e-18 of the first term by j = 24."""
