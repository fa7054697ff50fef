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
from ....mechanisms.complete_pairs import CompletePair
from ....mechanisms.selections_and_groups import SelectionOrGroup
from ...numerics.outward import INF, TINY, ULP, Range, expm1, log1p, widen_up
from ...pairs.members import is_or_wraps_mechanism
from ...pairs.neighbors import translate_to_replacement
from ...pairs.replacement import Replaced, ReplacedClass, ReplacedGaussian, Zeroed, bracket_replaced_losses
from ..closed_form.truncation import compute_sample_truncation
from . import quadrature, selection_and_group_moments
from .sampled_moments import bound_sampled_gaussian_moment, bound_sampled_moment
from .two_sided_moments import compute_binary_moment, compute_exact_moment

_EXP_LIMIT = 700.0
"""Largest x for which e^x is computed. A larger power is represented by its logarithm x."""
_MOST_DRAWS = 20_000
"""Largest number of draws of ``_bound_moment_of_draws``, which adds one term for each draw. 20,000 terms
take half a millisecond."""
_LEAST = 1e-3
"""Smallest noise multiplier for which sampling is taken into account. With less noise, sampling hardly reduces
moments."""


@lru_cache(maxsize=4096)
def bound_renyi_moment(mechanism: m.Mechanism, c: float) -> float:
    """Returns an upper bound of K(c) for both directions of add-or-remove; infinite if none is known."""
    match mechanism:
        case m.Gaussian(sigma):
            return (Range(c) * (Range(c) + 1) / (2 * (Range(sigma) * sigma))).hi
        case m.ZCDP(rho, xi):
            return (Range(c) * ((Range(c) + 1) * rho + xi)).hi
        case Replaced(m.ZCDP(rho, xi)):  # a replacement is two steps: conversions.md section 1
            order = Range(c) + 1
            return (Range(c) * (4 * rho * order + xi * (2 + 1 / (2 * order - 1)))).hi
        case Replaced(m.DiscreteGaussianVector(sigma, sensitivity)):
            ratio = 2 * Range(sensitivity) / sigma
            return (Range(c) * (Range(c) + 1) * (ratio * ratio) * 0.5).hi
        case m.PureDP() | m.RandomizedResponse() | m.Laplace():
            return compute_exact_moment(mechanism, c).hi
        case m.DiscreteLaplace(scale, sensitivity):
            return compute_binary_moment(sensitivity / Range(scale), c).hi
        case m.DiscreteGaussian(sigma, sensitivity) | m.DiscreteGaussianVector(sigma, sensitivity):
            ratio = Range(sensitivity) / sigma  # Canonne, Kamath and Steinke 2020, Theorem 4
            return (Range(c) * (Range(c) + 1) * (ratio * ratio) * 0.5).hi
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
            return _bound_moment_of_joined_sample(inner, q, c)
        case Replaced(m.SampledWithReplacement() as inner) | Zeroed(m.SampledWithReplacement() as inner):
            twice = (2 if isinstance(mechanism, Replaced) else 1) / Range(inner.mechanism.noise_multiplier)
            return _bound_moment_of_draws(inner.sample_size, inner.dataset_size, twice, c)
        case m.TruncatedPoissonSampled() | Replaced(m.TruncatedPoissonSampled()) | Zeroed(m.TruncatedPoissonSampled()):
            return _bound_moment_when_truncated(mechanism, c)
        case Replaced(m.FixedSizeSampled(inner, size, total)) | Zeroed(m.FixedSizeSampled(inner, size, total)):
            # Zeroing a record reveals no more than replacing it.
            return _bound_moment_of_joined_sample(inner, (Range(size) / total).hi, c)
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
            found = bracket_replaced_losses(mechanism)[1]
            if not found.positive:  # the losses are 0 or infinite
                return INF if found.infinity.hi > 0 else 0.0
            return compute_exact_moment(mechanism, c).hi
        case PrivacyLoss() if mechanism.dominating.largest_absolute_loss < INF:
            return max(_bound_moment_of_complete_pair(mechanism.dominating, power) for power in (c, -c - 1))
        case SelectionOrGroup():
            return selection_and_group_moments.bound_moment_of_derived(mechanism, c, bound_renyi_moment)
        case m.RandomAllocation(inner, _, selected):  # by joint convexity: a mixture of products of ``selected`` steps
            return (selected * Range(bound_renyi_moment(inner, c))).hi
    return INF


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
        if largest > _EXP_LIMIT:  # the largest exponent bounds the mean
            return largest
        grown = math.fsum(shares * np.expm1(exponents)) * (1 + 32 * ULP) + len(norms) * 4 * TINY
    return log1p(Range(grown) * q * (1 + 2.0**-48)).hi


def _bound_moment_of_draws(size: int, total: int, mu: Range, c: float) -> float:
    """Bounds K(c) of a standard normal that is shifted by k mu, where k has the distribution Bin(size, 1/total).

    The bound is infinite if the sum would have too many terms.
    """
    if size > _MOST_DRAWS:
        return INF
    exponent = Range(c) * (Range(c) + 1) * (mu * mu) * 0.5
    if not exponent.hi * size * size < 1e300:
        return INF
    k = np.arange(1.0, size + 1)
    log_choose = np.cumsum(np.log((size - k + 1) / k))
    out = (size - k) * math.log1p(-1 / total) if total > 1 else np.where(k < size, -INF, 0.0)
    logs = log_choose - k * math.log(total) + out + exponent.hi * k * k
    top = float(logs.max())
    # Entry k of ``logs`` adds a cumulative sum of k terms and three products. None of these exceeds ``spread``.
    spread = float(np.abs(log_choose).max()) + size * math.log(total) + 1 + exponent.hi * size * size
    slack = (size + 32) * 4 * ULP * spread
    whole = top + math.log(float(np.exp(logs - top).sum())) + slack
    return whole + math.exp(-whole) if whole > 30 else math.log1p(math.exp(whole)) * (1 + 8 * ULP)


def _bound_moment_when_truncated(mechanism: m.Mechanism, c: float) -> float:
    """Bounds K(c) of a truncated Poisson sample.

    By joint convexity, the mean of the moments of a Poisson sample and a sample of fixed size is an upper bound.
    """
    sample = mechanism.mechanism if isinstance(mechanism, (Replaced, Zeroed)) else mechanism
    assert isinstance(sample, m.TruncatedPoissonSampled)
    inner, q = sample.mechanism, sample.sampling_probability
    cut, within, _ = compute_sample_truncation(q, sample.batch_size, sample.dataset_size)
    doubled = translate_to_replacement(inner)
    share = max(within.hi, 1e-300)
    if isinstance(mechanism, Replaced):
        whole = bound_renyi_moment(doubled, c)
        if isinstance(inner, m.Gaussian) and q < 1:
            whole = min(whole, bound_renyi_moment(ReplacedGaussian(inner.noise_multiplier, q), c))
    else:
        whole = bound_renyi_moment(m.PoissonSampled(inner, q) if q < 1 else inner, c)
    fixed = bound_renyi_moment(m.PoissonSampled(doubled, share) if share < 1 else doubled, c)
    if not isinstance(mechanism, m.TruncatedPoissonSampled):  # the curve of a replacement is joined from two curves
        fixed = min(_bound_moment_of_joined_curves(doubled, fixed), bound_renyi_moment(doubled, c))
    if max(whole, fixed) > _EXP_LIMIT:
        return max(whole, fixed)
    return log1p((1 - cut).limit_to(0.0, 1.0) * expm1(whole) + cut * expm1(fixed)).hi


def _bound_moment_of_joined_sample(inner: m.Mechanism, q: float, c: float) -> float:
    """Bounds K(c) of replacing a record in a sample. By joint convexity, K(c) without sampling is also a bound."""
    doubled = translate_to_replacement(inner)
    unsampled = bound_renyi_moment(doubled, c)
    if q >= 1:
        return unsampled
    return min(_bound_moment_of_joined_curves(doubled, bound_renyi_moment(m.PoissonSampled(doubled, q), c)), unsampled)


def _bound_moment_of_joined_curves(doubled: m.Mechanism, k: float) -> float:
    """Bounds K of a curve that equals a "remove" curve for eps >= 0 and an "add" curve for eps < 0.

    ``k`` bounds K of both curves. Let M = e^K. Then M - 1 = c (c+1) int e^{c eps} (delta(eps) - (1 - e^eps)_+) d eps.
    Each of the two curves adds at most e^k - 1 to this number, so M - 1 of the joined curve is at most 2 (e^k - 1). In
    a class of pairs that need not be symmetric, M - 1 is at most 4 (e^k - 1) (docs/theory/conversions.md section 4).
    """
    once = _scale_moment_excess_by_two(k)
    return _scale_moment_excess_by_two(once) if is_or_wraps_mechanism(doubled, m.ZCDP, m.BoundedRange) else once


def _scale_moment_excess_by_two(k: float) -> float:
    """Returns log(1 + 2 (M - 1)) for k = log M, rounded up."""
    return k + 0.7 if k > _EXP_LIMIT else log1p(2 * expm1(k)).hi
