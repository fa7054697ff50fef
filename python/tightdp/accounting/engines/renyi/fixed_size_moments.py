"""Upper bounds of K(c) = log E_P[e^{cY}] for samples of fixed size, truncated samples and draws with replacement.

Y is the privacy loss (docs/theory/conversions.md section 4). Moments of other mechanisms are passed as a function.
"""

from __future__ import annotations

import math

import numpy as np

from .... import mechanisms as m
from ...numerics.outward import INF, ULP, Range, expm1, log1p
from ...pairs.class_members import is_or_wraps_kind_of_mechanism
from ...pairs.neighbors import translate_to_replacement
from ...pairs.replacement import Replaced, ReplacedGaussian, Zeroed
from ..closed_form.truncation import compute_sample_truncation
from .selection_and_group_moments import Moment
from .two_sided_moments import EXP_LIMIT

_MOST_DRAWS = 20_000
"""Largest number of draws of ``bound_renyi_moment_of_draws``, which adds one term for each draw. 20,000 terms
take half a millisecond."""


def bound_renyi_moment_of_draws(size: int, total: int, mu: Range, c: float) -> float:
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


def bound_renyi_moment_of_truncated_sample(mechanism: m.Mechanism, c: float, of: Moment) -> float:
    """Bounds K(c) of a truncated Poisson sample.

    A truncated sample is a mixture of a Poisson sample and a sample of fixed size. The mean of their e^{K(c)}, with the
    mixture's weights, is an upper bound by joint convexity.
    """
    sample = mechanism.mechanism if isinstance(mechanism, (Replaced, Zeroed)) else mechanism
    assert isinstance(sample, m.TruncatedPoissonSampled)
    inner, q = sample.mechanism, sample.sampling_probability
    cut, within, _ = compute_sample_truncation(q, sample.batch_size, sample.dataset_size)
    doubled = translate_to_replacement(inner)
    share = max(within.hi, 1e-300)
    if isinstance(mechanism, Replaced):
        whole = of(doubled, c)
        if isinstance(inner, m.Gaussian) and q < 1:
            whole = min(whole, of(ReplacedGaussian(inner.noise_multiplier, q), c))
    else:
        whole = of(m.PoissonSampled(inner, q) if q < 1 else inner, c)
    fixed = of(m.PoissonSampled(doubled, share) if share < 1 else doubled, c)
    if not isinstance(mechanism, m.TruncatedPoissonSampled):  # the curve of a replacement is joined from two curves
        fixed = min(_bound_moment_of_joined_curves(doubled, fixed), of(doubled, c))
    if max(whole, fixed) > EXP_LIMIT:
        return max(whole, fixed)
    return log1p((1 - cut).limit_range_to(0.0, 1.0) * expm1(whole) + cut * expm1(fixed)).hi


def bound_renyi_moment_of_fixed_size(inner: m.Mechanism, q: float, c: float, of: Moment) -> float:
    """Bounds K(c) of replacing a record in a sample. By joint convexity, K(c) without sampling is also a bound."""
    doubled = translate_to_replacement(inner)
    unsampled = of(doubled, c)
    if q >= 1:
        return unsampled
    return min(_bound_moment_of_joined_curves(doubled, of(m.PoissonSampled(doubled, q), c)), unsampled)


def _bound_moment_of_joined_curves(doubled: m.Mechanism, k: float) -> float:
    """Bounds K of a curve that equals a "remove" curve for eps >= 0 and an "add" curve for eps < 0.

    ``k`` bounds K of both curves. Let M = e^K. Then M - 1 = c (c+1) int e^{c eps} (delta(eps) - (1 - e^eps)_+) d eps.
    Each of the two curves adds at most e^k - 1 to this number, so M - 1 of the joined curve is at most 2 (e^k - 1). In
    a class of pairs that need not be symmetric, M - 1 is at most 4 (e^k - 1) (docs/theory/conversions.md section 4).
    """
    once = _scale_renyi_moment_excess(k)
    return _scale_renyi_moment_excess(once) if is_or_wraps_kind_of_mechanism(doubled, m.ZCDP, m.BoundedRange) else once


def _scale_renyi_moment_excess(k: float) -> float:
    """Returns log(1 + 2 (M - 1)) for k = log M, rounded up."""
    return k + 0.7 if k > EXP_LIMIT else log1p(2 * expm1(k)).hi
