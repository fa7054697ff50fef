"""Bounds on delta of sampled Gaussians with little noise (docs/theory/closed-forms.md section 5).

The record takes part in K of ``count`` steps, where K has the distribution Bin(count, q) and q is the sampling
probability. A curve is delta as a function of epsilon. If the adversary is told which K steps hold the record, the
curve is the curve of K Gaussians. The mixture of the curves over K is therefore an upper bound. With little noise, the
outputs themselves show which steps hold the record. The loss is then the loss of the K Gaussians plus the logarithm of
the probability that exactly these steps hold the record. The lower bound that follows is close to the exact delta.

The composition may also contain plain Gaussians, which are not sampled. The argument ``beside`` of the functions is the
sum of their mu^2, and ``mu_squared`` is the mu^2 of one sampled step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...._core import gaussian_deltas
from ...numerics.outward import LARGEST, ULP, Range, exp, expm1, log, log1p, sqrt, widen_down
from ...numerics.root import find_monotone_boundary
from ..closed_form.binomial import CONTEXT, compute_closed_form_binomial_mass
from ..closed_form.gaussian import GaussianCurve
from ..closed_form.privacy_curve import mirror_privacy_curve

_Array = NDArray[np.float64]
MOST_SPAN = 1 << 21
"""Largest number of values of K that have a term of their own. A sum of this length takes a tenth of a second."""
_UNSEEN = 1e-290
"""Bound on the error of products of masses that underflow, and on the mass of all values of K that are too far from the
mean to have a term."""
_ALL = 1 - 2.0**-50
"""Smallest delta that counts as 1."""
_BLOCK = 128
"""Number of terms that are summed together. The relative rounding error of sums of many such blocks is below 2^-40."""
_TRIED = 32
"""Number of participation counts that a search tries together, which takes little more time than one."""
_MARGIN = 64 * ULP
"""Bound on the relative rounding of a few products and sums of positive numbers, and of their square root."""
_SERVED = 1e-9, 1e9
"""Least and largest mu for which the curve of a Gaussian is certified. Mu is the distance of the means with and without
the record, in standard deviations of the noise. The curve grows with mu."""
_FARTHEST = 1e100
"""Number of standard deviations that stands for any larger one. Its square is finite, and its tail is 0 in a double."""


@dataclass(frozen=True, slots=True, eq=False)
class Participations:
    """The distribution of the number K of participations, which is Bin(count, q), from ``first`` to ``last``.

    ``low`` and ``high`` are bounds of the masses at these numbers. ``low_above`` and ``high_above`` are bounds of the
    upper tails that begin at these numbers, and ``high_below`` bounds the lower tails that end at them.
    """

    count: int
    q: float
    first: int
    last: int
    low: _Array
    high: _Array
    low_above: _Array
    high_above: _Array
    high_below: _Array


def list_likely_participations(count: int, q: float) -> Participations:
    """Returns the masses of all likely numbers of participations."""
    mode = min(math.floor((count + 1) * q), count)
    reach = math.ceil(_bound_participations_from_mean(count, q))
    first, last = max(mode - reach, 0), min(mode + reach, count)
    odds = q / (1 - q)
    up_from = np.arange(mode, last, dtype=np.float64)
    down_from = np.arange(mode, first, -1, dtype=np.float64)
    above = np.cumprod((count - up_from) / (up_from + 1) * odds)
    below = np.cumprod(down_from / (count - down_from + 1) / odds)
    with localcontext(CONTEXT):
        anchor = compute_closed_form_binomial_mass(count, mode, Decimal(q).ln(), (1 - Decimal(q)).ln())
    shape = np.concatenate((below[::-1], [1.0], above))
    # A ratio of neighbouring masses has five roundings, including the rounding of the odds. The product of the ratio
    # and the mass before adds one more rounding.
    error = 4 * ULP * (np.abs(np.arange(first, last + 1) - mode) + 1.0)
    sums = 2 * len(shape) * ULP
    low = np.maximum(shape * (anchor.lo * (1 - error)) - _UNSEEN, 0.0)
    high = shape * (anchor.hi * (1 + error)) + _UNSEEN
    low_above = np.cumsum(low[::-1])[::-1] * (1 - sums)
    high_above = np.cumsum(high[::-1])[::-1] * (1 + sums)
    return Participations(count, q, first, last, low, high, low_above, high_above, np.cumsum(high) * (1 + sums))


def take_median_participations(count: int, q: float) -> Participations:
    """Returns a distribution with one number of participations, for lower bounds.

    K is at least this number with a probability of at least 1/2.
    """
    return _take_number_of_participations(count, q, math.floor(Fraction(q) * count), 0.5)


def take_largest_participations(count: int, q: float) -> Participations:
    """Returns a distribution with one number of participations, for upper bounds. K hardly ever exceeds this number."""
    reach = math.ceil(Fraction(q) * count) + math.ceil(_bound_participations_from_mean(count, q))
    return _take_number_of_participations(count, q, min(reach, count), 1.0)


def _take_number_of_participations(count: int, q: float, number: int, mass: float) -> Participations:
    """Returns a distribution in which the single ``number`` stands for all numbers of participations.

    ``mass`` bounds the mass that this number stands for, from below for lower bounds and from above for upper bounds.
    """
    one = np.array([mass])
    return Participations(count, q, number, number, one, one, one, one, one)


def can_serve_participations(count: int, q: float) -> bool:
    """Tells whether there are at most ``MOST_SPAN`` likely numbers of participations."""
    return 2 * _bound_participations_from_mean(count, q) < MOST_SPAN


def _bound_participations_from_mean(count: int, q: float) -> float:
    """Returns a distance of K from its mean that is exceeded with a probability below e^-700.

    The distance follows from Bernstein's inequality.
    """
    return 500 + 40 * math.sqrt(count * q * (1 - q))


Curve = Callable[[float], float]
"""A bound of delta at epsilons >= 0. At negative epsilons, ``mirror_privacy_curve`` uses the curve of the
reversed pair."""


class ParticipationMixture:
    """Bounds of sum_k P(K = k) delta_k(eps + k rare + (n - k) common) for eps >= 0.

    Here delta_k is the curve of Gaussians whose mu^2 add up to ``beside`` + k ``mu_squared``, and n is the number of
    steps. The arguments ``rare`` and ``common`` shift epsilon for each step with the record and for each step without
    it. The terms' curves must grow with k, which is proved for eps >= 0. Raises ValueError for negative epsilons.
    """

    def __init__(
        self, k: Participations, mu_squared: Range, beside: Range, rare: float = 0.0, common: float = 0.0
    ) -> None:
        self._k, self._mu_squared, self._beside, self._rare, self._common = k, mu_squared, beside, rare, common

    def _shift_epsilon_by_participations(self, numbers: _Array) -> _Array:
        """Returns the shift of epsilon for each number of participations."""
        return numbers * self._rare + (self._k.count - numbers) * self._common

    def _bound_participation_curves_below(self, numbers: _Array, epsilon: float) -> _Array:
        """Returns lower ends of the curves for these numbers of participations."""
        mu = np.sqrt(numbers * self._mu_squared.lo + self._beside.lo) * (1 - _MARGIN)
        with np.errstate(over="ignore"):  # numbers that overflow are replaced by the largest double
            at = np.nextafter(epsilon + self._shift_epsilon_by_participations(numbers) * (1 + _MARGIN), np.inf)
        at = np.where(mu > _SERVED[1], _convert_epsilon_of_participations(at, mu, _MARGIN), at)
        low = gaussian_deltas(np.clip(mu, *_SERVED), np.minimum(at, LARGEST))[0]
        low[mu < _SERVED[0]] = 0.0
        return low

    def _bound_participation_curves_above(self, numbers: _Array, epsilon: float) -> _Array:
        """Returns upper ends of the curves for these numbers of participations."""
        mu = np.sqrt(numbers * self._mu_squared.hi + self._beside.hi) * (1 + _MARGIN)
        at = np.maximum(
            np.nextafter(epsilon + self._shift_epsilon_by_participations(numbers) * (1 - _MARGIN), -np.inf), 0.0
        )
        high = gaussian_deltas(np.clip(mu, *_SERVED), at)[1]
        high[mu == 0] = 0.0
        far = mu > _SERVED[1]
        if far.any():  # delta <= Phi(-a) <= e^{-a^2/2} for a = eps/mu - mu/2
            away = _convert_epsilon_of_participations(at[far], mu[far], -_MARGIN) / _SERVED[1] - 0.5 * _SERVED[1]
            away = np.clip(away, 0.0, _FARTHEST)
            high[far] = np.minimum(np.exp(-0.5 * away**2 * (1 - _MARGIN)) * (1 + _MARGIN), 1.0)
        return high

    def _find_end_of_participations(self, epsilon: float) -> int:
        """Returns the smallest number of participations whose curve is almost 1, or ``last`` + 1 if there is none."""
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}: use the reversed pair below 0")
        low, high = self._k.first, self._k.last + 1
        while low < high:
            numbers = np.unique(np.linspace(low, high - 1, _TRIED).astype(np.int64))
            all_but_1 = self._bound_participation_curves_below(numbers.astype(np.float64), epsilon) >= _ALL
            i = int(np.argmax(all_but_1)) if all_but_1.any() else len(numbers)
            low = int(numbers[i - 1]) + 1 if i else low
            high = int(numbers[i]) if i < len(numbers) else high
        return low

    def bound_participations_from_below(self, epsilon: float) -> float:
        """Returns a lower bound of the sum at ``epsilon``."""
        k, end = self._k, self._find_end_of_participations(epsilon)
        total = float(k.low_above[end - k.first]) * _ALL if end <= k.last else 0.0
        for numbers, at in self._iterate_participation_blocks(end):
            terms = self._bound_participation_curves_below(numbers, epsilon) * k.low[at]
            total += float(terms.sum())
            if terms[0] <= 2.0**-60 * total:
                break
        return total * (1 - 2.0**-40)

    def bound_participations_from_above(self, epsilon: float) -> float:
        """Returns an upper bound of the sum at ``epsilon``."""
        k, end = self._k, self._find_end_of_participations(epsilon)
        total = float(k.high_above[end - k.first]) if end <= k.last else 0.0
        for numbers, at in self._iterate_participation_blocks(end):
            curves = self._bound_participation_curves_above(numbers, epsilon)
            total += float((curves * k.high[at]).sum())
            rest = float(curves[0] * k.high_below[at][0])
            if rest <= max(2.0**-60 * total, _UNSEEN):
                total += rest
                break
        return min(total * (1 + 2.0**-40) + 2 * _UNSEEN, 1.0)

    def _iterate_participation_blocks(self, end: int) -> Iterator[tuple[_Array, slice]]:
        """Yields blocks of the numbers below ``end`` with their indices in the arrays of masses, the largest first."""
        first = self._k.first
        while end > first:
            begin = max(end - _BLOCK, first)
            yield np.arange(begin, end, dtype=np.float64), slice(begin - first, end - first)
            end = begin


def _convert_epsilon_of_participations(epsilon: _Array, mu: _Array, margin: float) -> _Array:
    """Returns the epsilon for the largest certified mu that corresponds to ``epsilon`` for ``mu``.

    Both epsilons have the same a = epsilon/mu - mu/2. At a given a, delta grows with mu (closed-forms.md section 2).
    The result is moved by ``margin``, whose size exceeds the rounding errors. The sign of ``margin`` is the direction
    in which the result may be wrong.
    """
    mu = np.maximum(mu, _SERVED[1])
    away = epsilon / mu - 0.5 * mu + margin * (epsilon / mu + mu)
    return _SERVED[1] * (0.5 * _SERVED[1] + away) + margin * _SERVED[1] * _SERVED[1]


def build_participation_mixture_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """Returns the upper bound sum_k P(K = k) delta_k(eps)."""
    return ParticipationMixture(k, mu_squared, beside).bound_participations_from_above


def build_mixture_when_participation_told(k: Participations, mu_squared: Range, beside: Range) -> ParticipationMixture:
    """Returns the mixture sum_k P(K = k) delta_k(eps - ln(q^k (1-q)^{n-k})).

    Here n is the number of steps. This mixture is the curve of outputs that show which steps hold the record. The
    mixture may be used only if ``is_monotone_when_participation_told`` returns True.
    """
    return ParticipationMixture(k, mu_squared, beside, (-log(Range(k.q))).lo, (-log1p(-Range(k.q))).lo)


def is_monotone_when_participation_told(q: Range, mu_squared: Range) -> bool:
    """Tells whether the curves of ``build_mixture_when_participation_told`` grow with k."""
    return (4 * (log1p(-q) - log(q))).hi <= mu_squared.lo


def bound_removed_participations_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """Returns the upper bound of the curve for "remove".

    The bound is the smaller of two bounds. One is the curve of outputs that show which steps hold the record, plus the
    probability of outputs that do not show this. The other is the mixture of the curves over K.
    """
    mixture = build_participation_mixture_above(k, mu_squared, beside)
    shown = build_mixture_when_participation_told(k, mu_squared, beside)
    mu, odds = sqrt(mu_squared), log1p(-Range(k.q)) - log(Range(k.q))
    # Consider the output at which q times the density with the record equals (1 - q) times the density without it.
    # ``near`` and ``far`` are its distances from the means with and without the record, in standard deviations.
    near, far = mu * 0.5 - odds / mu, mu * 0.5 + odds / mu
    tails = (1 / near + 1 / far) * _DENSITY
    unseen = (k.count * (Range(k.q) * exp(-0.5 * (near * near)) * tails)).hi

    def bound_delta_of_removed_participations(epsilon: float) -> float:
        found = (Range(shown.bound_participations_from_above(epsilon)) + unseen).hi
        return found if unseen <= _NOTHING * found else min(found, mixture(epsilon))

    return bound_delta_of_removed_participations


_DENSITY = 0.39894228040143274
"""The standard normal density phi at 0, rounded up. It bounds phi(t) in the tail bound Phi(-t) <= phi(t)/t."""
_NOTHING = 1e-9
"""Fraction of delta. The second of two bounds is not computed if it can lower delta by at most this fraction."""


def bound_added_participations_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """Returns the upper bound of the curve for "add".

    No loss of the sampled steps exceeds minus the logarithm of the probability that the record is in none of these
    steps.
    """
    mixture, never = build_participation_mixture_above(k, mu_squared, beside), _log_probability_of_no_participation(k)

    def bound_delta_of_added_participations(epsilon: float) -> float:
        found = _compute_delta_without_participation(beside, epsilon + never).hi
        # If one step with the record reveals almost everything, the mixture is not below ``found``.
        seen = GaussianCurve(mu_squared + beside).delta(epsilon).lo >= 1 - _NOTHING
        return found if seen else min(found, mixture(epsilon))

    return bound_delta_of_added_participations


def bound_replaced_participations_above(k: Participations, remove: Curve, add: Curve) -> Curve:
    """Returns the upper bound for a record that is replaced in a Poisson sample.

    Consider the density of the outputs with one of the two records, and the density with neither. The first is at least
    the second times the probability that no step holds the record. So delta is at most the delta of removal at a
    smaller epsilon, which may be negative.
    """
    never = _log_probability_of_no_participation(k).lo

    def bound_delta_of_replaced_participations(epsilon: float) -> float:
        at = widen_down(epsilon + never)
        return remove(at) if at >= 0 else mirror_privacy_curve(at, add(-at)).hi

    return bound_delta_of_replaced_participations


def _log_probability_of_no_participation(k: Participations) -> Range:
    """Returns the logarithm of the probability that the record is in none of the steps."""
    return k.count * log1p(-Range(k.q))


def bound_added_participations_below(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """Returns the lower bound of the curve for "add".

    The bound is the curve of an adversary who sees two things: whether the output of any sampled step exceeds mu/2, and
    the outputs of the plain Gaussians.
    """
    # Upper bound of the probability that one output without the record exceeds mu/2.
    beyond = Range((0.5 * exp(-0.125 * mu_squared)).hi)
    none = exp(k.count * log1p(-beyond)).lo
    less = (k.count * log1p(-k.q * (1 - beyond / (1 - beyond)))).hi
    return lambda epsilon: (none * _compute_delta_without_participation(beside, epsilon + Range(less))).lo


def find_participation_epsilon(curve: Curve, delta: float, start: float, *, above: bool) -> float:
    """Returns an epsilon at which the curve is at most ``delta``. The result is close to the smallest such epsilon.

    If ``above`` is False, returns an epsilon at which the curve is above ``delta``, close to the largest such epsilon.
    If no such epsilon is found, returns infinity if ``above`` is True, and 0 if not.
    """
    if not curve(0.0) > delta:
        return 0.0
    sign = 1.0 if above else -1.0
    found = find_monotone_boundary(
        lambda epsilon: sign * _compare_participation_delta(curve(epsilon), delta), start, -sign, *_SEARCHED
    )
    return found if found is not None else math.inf if above else 0.0


_SEARCHED = 1e-12, 1e300, 1e-10
"""Smallest and largest epsilon, and the distance from the boundary at which the search ends. The distance is measured
in log delta or in log epsilon."""


def _compare_participation_delta(value: float, delta: float) -> float:
    """Returns ln(value / delta). In spite of roundings, the result is positive if and only if ``value`` exceeds
    ``delta``."""
    if not value > 0:
        return -math.inf
    ratio = math.log(value) - math.log(delta)
    return max(ratio, _LEAST_RATIO) if value > delta else min(ratio, -_LEAST_RATIO)


_LEAST_RATIO = 1e-300


def _compute_delta_without_participation(beside: Range, epsilon: Range) -> Range:
    """Returns delta of the plain Gaussians alone, or of an empty composition."""
    return GaussianCurve(beside).delta(epsilon) if beside.hi else (-expm1(epsilon)).limit_range_to(0.0, 1.0)
