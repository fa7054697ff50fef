"""Upper bounds of K(c) = log E_P[e^{cY}] = c D_{c+1}(P || Q) for c > 0 (docs/theory/conversions.md section 3).

Y is the privacy loss, and D_{c+1} the Renyi divergence of order c + 1. Under composition the K(c) of all steps add up.
This holds for adaptive composition too, if c is fixed in advance.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .... import mechanisms as m
from ....mechanisms import PrivacyLoss
from ....mechanisms.loss_tables import CompletePair
from ....mechanisms.selections_and_groups import SelectionOrGroup
from ...numerics.outward import INF, TINY, ULP, Range, log1p, widen_up
from ...pairs.neighbors import translate_to_replacement
from ...pairs.replacement import Replaced, ReplacedClass, ReplacedGaussian, Zeroed, bracket_losses_of_replaced_pair
from . import quadrature, selection_and_group_moments
from .fixed_size_moments import (
    bound_renyi_moment_of_draws,
    bound_renyi_moment_of_fixed_size,
    bound_renyi_moment_of_truncated_sample,
)
from .poisson_moments import bound_sampled_gaussian_moment, bound_sampled_moment
from .two_sided_moments import EXP_LIMIT, compute_binary_moment, compute_exact_moment

_LEAST = 1e-3
"""Smallest noise multiplier for which sampling is taken into account. With less noise, sampling hardly reduces
moments."""


@lru_cache(maxsize=4096)
def bound_renyi_moment(mechanism: m.Mechanism, c: float) -> float:
    """Returns an upper bound of K(c) for both directions of add-or-remove; infinite if none is known."""
    match mechanism:
        case m.ZCDP(rho, xi):
            return (Range(c) * ((Range(c) + 1) * rho + xi)).hi
        case Replaced(m.ZCDP(rho, xi)):  # a replacement is two steps: conversions.md section 1
            order = Range(c) + 1
            return (Range(c) * (4 * rho * order + xi * (2 + 1 / (2 * order - 1)))).hi
        case Replaced(m.DiscreteGaussianVector(sigma, sensitivity)):
            return _bound_moment_of_shift(2 * Range(sensitivity) / sigma, c)
        case m.Gaussian() | m.PureDP() | m.RandomizedResponse() | m.Laplace():
            return compute_exact_moment(mechanism, c).hi
        case m.DiscreteLaplace(scale, sensitivity):
            return compute_binary_moment(sensitivity / Range(scale), c).hi
        case m.DiscreteGaussian(sigma, sensitivity) | m.DiscreteGaussianVector(sigma, sensitivity):
            return _bound_moment_of_shift(Range(sensitivity) / sigma, c)  # Canonne, Kamath and Steinke 2020, Theorem 4
        case m.BoundedRange(eta):  # these mechanisms are eta^2/8-zCDP and eta-DP
            return min((Range(c) * (Range(c) + 1) * (Range(eta) * eta / 8)).hi, compute_binary_moment(Range(eta), c).hi)
        case m.MixtureOfGaussians():
            return _bound_moment_of_mixture(mechanism, 1.0, 1.0, c)
        case m.PoissonSampled(m.MixtureOfGaussians() as inner, q):
            return _bound_moment_of_mixture(inner, q, 1.0, c)
        case Replaced(m.MixtureOfGaussians() as inner):
            return _bound_moment_of_mixture(inner, 1.0, 2.0, c)
        case Replaced(m.PoissonSampled(m.MixtureOfGaussians() as inner, q)):
            return _bound_moment_of_mixture(inner, q, 2.0, c)
        case Replaced(m.PoissonSampled(inner, q)):  # the bound of a sample of fixed size: grid.md section 6.2
            return bound_renyi_moment_of_fixed_size(inner, q, c, bound_renyi_moment)
        case Replaced(m.SampledWithReplacement() as inner) | Zeroed(m.SampledWithReplacement() as inner):
            twice = (2 if isinstance(mechanism, Replaced) else 1) / Range(inner.mechanism.noise_multiplier)
            return bound_renyi_moment_of_draws(inner.sample_size, inner.dataset_size, twice, c)
        case m.TruncatedPoissonSampled() | Replaced(m.TruncatedPoissonSampled()) | Zeroed(m.TruncatedPoissonSampled()):
            return bound_renyi_moment_of_truncated_sample(mechanism, c, bound_renyi_moment)
        case Replaced(m.FixedSizeSampled(inner, size, total)) | Zeroed(m.FixedSizeSampled(inner, size, total)):
            # Zeroing a record reveals no more than replacing it.
            return bound_renyi_moment_of_fixed_size(inner, (Range(size) / total).hi, c, bound_renyi_moment)
        case m.PoissonSampled(inner, q):
            unsampled = bound_renyi_moment(inner, c)
            if isinstance(inner, m.Gaussian):
                return min(bound_sampled_gaussian_moment(inner.noise_multiplier, q, c), unsampled)
            return min(bound_sampled_moment(lambda order: bound_renyi_moment(inner, order), q, c), unsampled)
        case ReplacedGaussian(sigma, q):  # joint convexity: sampling does not increase the moment
            unsampled = bound_renyi_moment(translate_to_replacement(m.Gaussian(sigma)), c)
            sampled = quadrature.bound_replaced_moment_by_quadrature(sigma, q, c).hi if sigma > _LEAST else unsampled
            return min(sampled, unsampled)
        case ReplacedClass() if mechanism.nominal_delta == 0:
            found = bracket_losses_of_replaced_pair(mechanism)[1]
            if not found.positive:  # the losses are 0 or infinite
                return INF if found.infinity.hi > 0 else 0.0
            return compute_exact_moment(mechanism, c).hi
        case PrivacyLoss() if mechanism.dominating.largest_absolute_loss < INF:
            return max(_bound_moment_of_complete_pair(mechanism.dominating, power) for power in (c, -c - 1))
        case SelectionOrGroup():
            return selection_and_group_moments.bound_selection_or_group_moment(mechanism, c, bound_renyi_moment)
        case m.RandomAllocation(inner, _, selected):  # by joint convexity: a mixture of products of ``selected`` steps
            return (selected * Range(bound_renyi_moment(inner, c))).hi
    return INF


def _bound_moment_of_shift(ratio: Range, c: float) -> float:
    """Returns K(c) of Gaussian noise whose mean is shifted by ``ratio`` standard deviations, rounded up."""
    return (Range(c) * (Range(c) + 1) * (ratio * ratio) * 0.5).hi


def _bound_moment_of_complete_pair(pair: CompletePair, power: float) -> float:
    """Returns log E_P[e^{power Y}], rounded up.

    At power c this is K(c) of the pair (P, Q), and at power -c - 1 it is K(c) of the pair (Q, P).
    """
    y, log_p = pair.losses, np.log(pair.masses)
    exponents = log_p + power * y
    top = float(exponents.max(initial=-INF))
    if not -INF < top < INF:
        return INF
    found = top + math.log(float(np.sum(np.exp(exponents - top))))
    size = float(np.abs(log_p).max()) + abs(power) * float(np.abs(y).max()) + math.log2(len(y)) + 8
    return max(widen_up(found + 8 * ULP * size + abs(power) * pair.slack + pair.relative), 0.0)


def _bound_moment_of_mixture(mixture: m.MixtureOfGaussians, q: float, times: float, c: float) -> float:
    """Bounds K(c) of a mixture on a Poisson sample.

    The shifts are the sensitivities multiplied by ``times``, and ``q`` is the sampling probability. The bound follows
    because the moment is jointly convex in the two densities. All numbers here are positive. An exponent has at most
    ten roundings, NumPy's expm1 adds a few, and the sum adds one.
    """
    norms, shares = np.asarray(mixture.sensitivities), np.asarray(mixture.probabilities)
    unit = (Range(c) * (Range(c) + 1) * 0.5).hi
    with np.errstate(over="ignore", under="ignore"):
        mu = times * (norms / mixture.noise_multiplier)
        exponents = np.where(norms > 0, unit * mu * mu * (1 + 16 * ULP) + 4 * TINY, 0.0)
        largest = float(exponents.max())
        if largest > EXP_LIMIT:  # the largest exponent bounds the mean
            return largest
        grown = math.fsum(shares * np.expm1(exponents)) * (1 + 32 * ULP) + len(norms) * 4 * TINY
    return log1p(Range(grown) * q * (1 + 2.0**-48)).hi
