"""Upper bounds of K(c) = log E_P[e^{cY}] = c D_{c+1}(P || Q), c > 0 (docs/theory/conversions.md section 3).

K adds under composition, adaptive composition included as long as c is fixed in advance.
"""

from __future__ import annotations

from functools import lru_cache

from .... import mechanisms as m
from ...numerics.outward import INF, Range, exp, expm1, log, log1p
from ...pairs.neighbors import replaced
from ...pairs.replaced import Replaced, ReplacedClass, ReplacedGaussian, losses
from . import quadrature
from .sampled import sampled, sampled_gaussian

_EXP_LIMIT = 700.0
"""Exponents from here on are kept as logarithms."""
_LEAST = 1e-3
"""Smaller noise multipliers need no sampling to be of no use."""


@lru_cache(maxsize=4096)
def log_moment(mechanism: m.Mechanism, c: float) -> float:
    """An upper bound of K(c) for both directions of add-or-remove; infinite where none is known."""
    match mechanism:
        case m.Gaussian(sigma):
            return (Range(c) * (Range(c) + 1) / (2 * (Range(sigma) * sigma))).hi
        case m.ZCDP(rho, xi):
            return (Range(c) * ((Range(c) + 1) * rho + xi)).hi
        case Replaced(m.ZCDP(rho, xi)):  # two steps: conversions.md section 1
            order = Range(c) + 1
            return (Range(c) * (4 * rho * order + xi * (2 + 1 / (2 * order - 1)))).hi
        case Replaced(m.DiscreteGaussianVector(sigma, sensitivity)):
            ratio = 2 * Range(sensitivity) / sigma
            return (Range(c) * (Range(c) + 1) * (ratio * ratio) * 0.5).hi
        case Replaced(m.PoissonSampled(inner)):  # by joint convexity no more than without sampling
            return log_moment(Replaced(inner), c)
        case m.PureDP():
            return _binary(Range(mechanism.nominal_epsilon), c)
        case m.RandomizedResponse(p, buckets):
            wrong = Range(p) / buckets
            return _three_atoms(log1p((1 - Range(p)) / wrong), wrong, c)
        case m.Laplace(scale):
            return _laplace(1 / Range(scale), c)
        case m.DiscreteLaplace(scale, sensitivity):
            return _binary(sensitivity / Range(scale), c)
        case m.DiscreteGaussian(sigma, sensitivity) | m.DiscreteGaussianVector(
            sigma, sensitivity
        ):  # Canonne, Kamath and Steinke 2020, Theorem 4
            ratio = Range(sensitivity) / sigma
            return (Range(c) * (Range(c) + 1) * (ratio * ratio) * 0.5).hi
        case m.BoundedRange(eta):  # eta^2/8-zCDP, and eta-DP
            return min((Range(c) * (Range(c) + 1) * (Range(eta) * eta / 8)).hi, _binary(Range(eta), c))
        case m.PoissonSampled(inner, q):
            unsampled = log_moment(inner, c)
            if isinstance(inner, m.Gaussian):
                return min(sampled_gaussian(inner.noise_multiplier, q, c), unsampled)
            return min(sampled(lambda order: log_moment(inner, order), q, c), unsampled)
        case ReplacedGaussian(sigma, q):  # by joint convexity no more than without sampling
            unsampled = log_moment(m.Gaussian(sigma / 2), c)
            return min(quadrature.log_moment_replaced(sigma, q, c), unsampled) if sigma > _LEAST else unsampled
        case ReplacedClass() if mechanism.nominal_delta == 0:
            loss, log_mass = losses(mechanism)[1].positive[0]
            return _three_atoms(loss, exp(log_mass - loss), c)
        case m.FixedSizeSampled(inner, size, total):
            return _fixed_size(inner, size, total, c)
        case m.RandomAllocation(inner, _, selected):  # a mixture of products of ``selected`` steps: joint convexity
            return (selected * Range(log_moment(inner, c))).hi
    return INF


def _binary(e: Range, c: float) -> float:
    """M - 1 = (e^{ce} - 1)(1 - e^{-(c+1)e}) / (1 + e^{-e})."""
    if (c * e).hi > _EXP_LIMIT:
        return (c * e).hi
    return log1p(expm1(c * e) * -expm1(-((Range(c) + 1) * e)) / (1 + exp(-e))).hi


def _three_atoms(r: Range, wrong: Range, c: float) -> float:
    """Losses r, 0, -r, the last of mass ``wrong``: M - 1 = wrong (e^{cr} - 1)(e^{(c+1)r} - 1) e^{-cr}."""
    if (c * r).hi > _EXP_LIMIT:
        return (c * r).hi
    return log1p(wrong * -expm1(-(c * r)) * expm1((Range(c) + 1) * r)).hi


def _laplace(mu: Range, c: float) -> float:
    """M = ((c+1) e^{c mu} + c e^{-(c+1) mu}) / (2c + 1)."""
    if (c * mu).hi > _EXP_LIMIT:
        return (c * mu + log((Range(c) + 1 + exp(-mu)) / (2 * Range(c) + 1))).hi
    above, below = (Range(c) + 1) * expm1(c * mu), c * expm1(-((Range(c) + 1) * mu))
    return log1p(((above + below) / (2 * Range(c) + 1)).clamp(0.0, INF)).hi


def _fixed_size(inner: m.Mechanism, size: int, total: int, c: float) -> float:
    """The dominating curve is the "remove" one for eps >= 0 and the "add" one below (section 4), and
    M - 1 = c (c+1) int e^{c eps} (delta(eps) - (1 - e^eps)_+) d eps: so M - 1 <= 2 (M_remove - 1)."""
    doubled = replaced(inner)
    if doubled is None:
        return INF
    unsampled = log_moment(doubled, c)
    q = (Range(size) / total).hi
    if q >= 1:
        return unsampled
    once = log_moment(m.PoissonSampled(doubled, q), c)
    if once > _EXP_LIMIT:
        return min(once + 0.7, unsampled)
    return min(log1p(2 * expm1(once)).hi, unsampled)
