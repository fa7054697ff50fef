"""Two-sided bounds of the moments that have a formula, and lower bounds of other moments.

The moment K(c) is log M, where M = E_P[e^{cY}] and Y is the privacy loss. A pair is attained if two neighbours have
these output distributions. Its moments are lower bounds. See docs/theory/conversions.md sections 3 and 14.
"""

from __future__ import annotations

import math

import numpy as np

from .... import mechanisms as m
from ....composition import Parts
from ...numerics.outward import INF, Range, exp, expm1, log, log1p
from ...pairs.neighbors import translate_to_replacement
from ...pairs.replacement import Replaced, ReplacedClass, ReplacedGaussian, bracket_losses_of_replaced_pair
from ..engine_interface import Direction
from . import quadrature
from .poisson_moments import bound_moment_at_integer_order

EXP_LIMIT = 700.0
"""Largest x for which e^x is computed. A larger power of e is represented by its logarithm."""
_MOST_ORDER = 256
"""Largest integer order at which the moment of a sample is computed from moments of the inner mechanism."""
_LEAST = 1e-3
"""Smallest noise multiplier for which quadratures are used."""


def compute_exact_moment(mechanism: m.Mechanism, c: float) -> Range:
    """Returns K(c), which is the same in both directions. Returns the range from 0 to infinity if K(c) has no formula
    here."""
    match mechanism:
        case m.Gaussian(sigma):
            return Range(c) * (Range(c) + 1) / (2 * (Range(sigma) * sigma))
        case m.PureDP():
            return compute_binary_moment(Range(mechanism.nominal_epsilon), c)
        case m.RandomizedResponse(p, buckets):
            wrong = Range(p) / buckets
            return _compute_moment_of_atoms(log1p((1 - Range(p)) / wrong), wrong, c)
        case m.Laplace(scale):
            return _compute_moment_of_laplace(1 / Range(scale), c)
        case ReplacedClass():
            less, more = bracket_losses_of_replaced_pair(mechanism)
            if not (less is more and more.positive and mechanism.nominal_delta == 0):
                return Range(0.0, INF)
            loss, log_mass = more.positive[0]
            return _compute_moment_of_atoms(loss, exp(log_mass - loss), c)
    return Range(0.0, INF)


def bound_attained_moment(parts: Parts, direction: Direction, c: float) -> float:
    """Returns a lower bound of K(c) for pairs that a composition attains in one direction."""
    total = Range(0.0)
    for mechanism, count in parts:
        one = _bound_attained_moment_of_step(mechanism, direction, c)
        if one == INF:
            return INF
        total += count * Range(one)
    return max(total.lo, 0.0)


def _bound_attained_moment_of_step(mechanism: m.Mechanism, direction: Direction, c: float) -> float:
    """Returns a lower bound of K(c) for a pair that one mechanism attains."""
    match mechanism:
        case m.ApproximateDP() if mechanism.nominal_delta > 0:
            return INF
        case ReplacedClass() if mechanism.nominal_delta > 0:
            return INF if bracket_losses_of_replaced_pair(mechanism)[0].infinity.lo > 0 else 0.0
        case m.ZCDP(rho, xi):  # a Gaussian and randomised response
            return (Range(c) * (Range(c) + 1) * rho + compute_binary_moment(Range(xi), c)).lo
        case m.BoundedRange(eta):  # randomised response
            return compute_binary_moment(Range(eta) * 0.5, c).lo
        case m.DiscreteLaplace(scale, 1):
            return compute_binary_moment(1 / Range(scale), c).lo
        case m.DiscreteGaussian(sigma, sensitivity):  # exact if c * sensitivity is an integer; K(c)/c grows with c
            at = math.floor(min(c * sensitivity, 2.0**52)) / Range(sensitivity)
            ratio = Range(sensitivity) / sigma
            return (Range(c) * (at + 1) * (ratio * ratio) * 0.5).lo if at.lo > 0 else 0.0
        case Replaced(m.FixedSizeSampled(inner, size, total)):
            return _bound_attained_moment_of_step(
                m.PoissonSampled(translate_to_replacement(inner), (Range(size) / total).lo), "remove", c
            )
        case m.PoissonSampled(inner, q) if direction == "remove" and q < 1:
            return _bound_attained_moment_of_sample(inner, q, c)
        case ReplacedGaussian(sigma, q) if sigma > _LEAST:
            return quadrature.bound_replaced_moment_by_quadrature(sigma, q, c).lo
    return compute_exact_moment(mechanism, c).lo


def _bound_attained_moment_of_sample(inner: m.Mechanism, q: float, c: float) -> float:
    """Returns a lower bound of K(c) for a Poisson sample, by quadrature or from the next lower integer order."""
    sigma = inner.noise_multiplier if isinstance(inner, m.Gaussian) else 0.0
    if sigma > _LEAST and quadrature.count_quadrature_nodes(sigma, c) <= quadrature.MOST_NODES:
        return quadrature.bound_moment_by_quadrature(sigma, q, c).lo
    order = math.floor(c) + 1  # K(c)/c grows with c
    if not 2 <= order <= _MOST_ORDER:
        return 0.0
    known = np.array([_bound_attained_moment_of_step(inner, "remove", j - 1.0) for j in range(2, order + 1)])
    if not np.all(known < INF):
        return INF if q > 0 else 0.0
    return max(bound_moment_at_integer_order(known, q).lo, 0.0) * (c / (order - 1)) * (1 - 1e-15)


def compute_binary_moment(e: Range, c: float) -> Range:
    """Returns K(c) of e-DP binary randomised response: M - 1 = (exp(ce) - 1)(1 - exp(-(c+1)e)) / (1 + exp(-e))."""
    if (c * e).hi > EXP_LIMIT:  # M is at most e^{ce}, and at least that times 1/(1 + e^-e)
        return Range(max((c * e - log1p(exp(-e))).lo, 0.0), (c * e).hi)
    return log1p(expm1(c * e) * -expm1(-((Range(c) + 1) * e)) / (1 + exp(-e)))


def _compute_moment_of_atoms(r: Range, wrong: Range, c: float) -> Range:
    """Returns K(c) of the losses r, 0 and -r, if -r has the mass ``wrong``.

    Then M - 1 = wrong (e^{cr} - 1)(e^{(c+1)r} - 1) e^{-cr}.
    """
    if (c * r).hi > EXP_LIMIT:  # the lower end counts the mass at r alone
        return Range(max((c * r + r + log(wrong)).lo, 0.0), (c * r).hi)
    return log1p(wrong * -expm1(-(c * r)) * expm1((Range(c) + 1) * r))


def _compute_moment_of_laplace(mu: Range, c: float) -> Range:
    """Returns K(c) of Laplace noise: M = ((c+1) e^{c mu} + c e^{-(c+1) mu}) / (2c + 1)."""
    if (c * mu).hi > EXP_LIMIT:
        less, more = Range(c) + 1, Range(c) + 1 + exp(-mu)
        return Range((c * mu + log(less / (2 * Range(c) + 1))).lo, (c * mu + log(more / (2 * Range(c) + 1))).hi)
    above, below = (Range(c) + 1) * expm1(c * mu), c * expm1(-((Range(c) + 1) * mu))
    return log1p(((above + below) / (2 * Range(c) + 1)).limit_range_to(0.0, INF))
