"""Sampled Gaussians of little noise, by how often the record takes part (docs/theory/closed-forms.md section 5).

Of ``count`` steps the record is in K ~ Bin(count, q). Given which they are, the curve is that of K Gaussians: their
mixture is an upper bound. Where the noise is little the output shows which they are, and the loss is less by how
improbable that was: a lower bound, and nearly the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from .... import _core
from ...numerics.outward import LARGEST, ULP, Range, down, exp, expm1, log, log1p, sqrt
from ...numerics.root import boundary
from ..closed_form.binomial import CONTEXT, compute_binomial_mass
from ..closed_form.gaussian import GaussianCurve

MOST_SPAN = 1 << 21
"""Numbers of participations told apart: a tenth of a second."""
_UNSEEN = 1e-290
"""More than what products of masses lose by underflow, and than the mass outside of the span."""
_ALL = 1 - 2.0**-50
_BLOCK = 128
"""Numbers of participations that are looked at together; sums of many blocks round by less than 2^-40."""
_TRIED = 32
"""Numbers of participations that a search looks at together, which costs little more than one."""
_MARGIN = 64 * ULP
"""More than a few products and sums of positive numbers, and of their square root, err by."""
_SERVED = 1e-9, 1e9
"""mu for which the curve of a Gaussian is certified: it grows with mu."""
_Array = NDArray[np.float64]


class Participations:
    """Masses of K ~ Bin(count, q) and of its upper and lower tails, each from below and from above."""

    def __init__(self, count: int, q: float) -> None:
        self.count, self.q = count, q
        mode = min(math.floor((count + 1) * q), count)
        reach = math.ceil(_bound_distance_from_mean(count, q))
        self.first, self.last = max(mode - reach, 0), min(mode + reach, count)
        odds = q / (1 - q)
        up_from = np.arange(mode, self.last, dtype=np.float64)
        down_from = np.arange(mode, self.first, -1, dtype=np.float64)
        above = np.cumprod((count - up_from) / (up_from + 1) * odds)
        below = np.cumprod(down_from / (count - down_from + 1) / odds)
        with localcontext(CONTEXT):
            anchor = compute_binomial_mass(count, mode, Decimal(q).ln(), (1 - Decimal(q)).ln())
        shape = np.concatenate((below[::-1], [1.0], above))
        # Of a ratio, five roundings with that of odds; of its product with those before, one.
        error = 4 * ULP * (np.abs(np.arange(self.first, self.last + 1) - mode) + 1.0)
        sums = 2 * len(shape) * ULP
        self.low = np.maximum(shape * (anchor.lo * (1 - error)) - _UNSEEN, 0.0)
        self.high = shape * (anchor.hi * (1 + error)) + _UNSEEN
        self.low_above = np.cumsum(self.low[::-1])[::-1] * (1 - sums)
        self.high_above = np.cumsum(self.high[::-1])[::-1] * (1 + sums)
        self.high_below = np.cumsum(self.high) * (1 + sums)


def can_serve_count(count: int, q: float) -> bool:
    return 2 * _bound_distance_from_mean(count, q) < MOST_SPAN


def _bound_distance_from_mean(count: int, q: float) -> float:
    """By Bernstein's inequality less than e^-700 of K is further from its mean."""
    return 500 + 40 * math.sqrt(count * q * (1 - q))


Curve = Callable[[float], float]
"""A bound of delta at epsilons from 0 on. Below, that of the reversed pair stands for it (``reverse_delta``)."""


class Mixture:
    """sum_k P(K = k) delta_k(eps + k rare + (n - k) common), eps >= 0, delta_k the curve of mu_0^2 + k mu^2, from both
    sides. The terms' curves must grow with k, which is proved for eps >= 0: ValueError below."""

    def __init__(
        self, k: Participations, mu_squared: Range, beside: Range, rare: float = 0.0, common: float = 0.0
    ) -> None:
        self._k, self._mu_squared, self._beside, self._rare, self._common = k, mu_squared, beside, rare, common

    def _shift_by_numbers(self, numbers: _Array) -> _Array:
        return numbers * self._rare + (self._k.count - numbers) * self._common

    def _bound_curves_below(self, numbers: _Array, epsilon: float) -> _Array:
        """Lower ends of the curves."""
        mu = np.sqrt(numbers * self._mu_squared.lo + self._beside.lo) * (1 - _MARGIN)
        with np.errstate(over="ignore"):  # beyond the largest double, which is asked for then
            at = np.nextafter(epsilon + self._shift_by_numbers(numbers) * (1 + _MARGIN), np.inf)
        low = _core.gaussian_deltas(np.clip(mu, *_SERVED), np.minimum(at, LARGEST))[0]
        low[mu < _SERVED[0]] = 0.0
        return low

    def _bound_curves_above(self, numbers: _Array, epsilon: float) -> _Array:
        """Upper ends of the curves."""
        mu = np.sqrt(numbers * self._mu_squared.hi + self._beside.hi) * (1 + _MARGIN)
        at = np.maximum(np.nextafter(epsilon + self._shift_by_numbers(numbers) * (1 - _MARGIN), -np.inf), 0.0)
        high = _core.gaussian_deltas(np.clip(mu, *_SERVED), at)[1]
        high[mu > _SERVED[1]] = 1.0
        high[mu == 0] = 0.0
        return high

    def _find_end(self, epsilon: float) -> int:
        """The least number whose curve is all but 1, or one after the last."""
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}: what is below is the reversed pair's")
        low, high = self._k.first, self._k.last + 1
        while low < high:
            numbers = np.unique(np.linspace(low, high - 1, _TRIED).astype(np.int64))
            all_but_1 = self._bound_curves_below(numbers.astype(np.float64), epsilon) >= _ALL
            i = int(np.argmax(all_but_1)) if all_but_1.any() else len(numbers)
            low = int(numbers[i - 1]) + 1 if i else low
            high = int(numbers[i]) if i < len(numbers) else high
        return low

    def bound_from_below(self, epsilon: float) -> float:
        """From below."""
        k, end = self._k, self._find_end(epsilon)
        total = float(k.low_above[end - k.first]) * _ALL if end <= k.last else 0.0
        for numbers, at in self._iterate_blocks(end):
            terms = self._bound_curves_below(numbers, epsilon) * k.low[at]
            total += float(terms.sum())
            if terms[0] <= 2.0**-60 * total:
                break
        return total * (1 - 2.0**-40)

    def bound_from_above(self, epsilon: float) -> float:
        """From above."""
        k, end = self._k, self._find_end(epsilon)
        total = float(k.high_above[end - k.first]) if end <= k.last else 0.0
        for numbers, at in self._iterate_blocks(end):
            curves = self._bound_curves_above(numbers, epsilon)
            total += float((curves * k.high[at]).sum())
            rest = float(curves[0] * k.high_below[at][0])
            if rest <= max(2.0**-60 * total, _UNSEEN):
                total += rest
                break
        return min(total * (1 + 2.0**-40) + 2 * _UNSEEN, 1.0)

    def _iterate_blocks(self, end: int) -> Iterator[tuple[_Array, slice]]:
        """Numbers below ``end`` from the greatest on, and where they stand among the masses."""
        first = self._k.first
        while end > first:
            begin = max(end - _BLOCK, first)
            yield np.arange(begin, end, dtype=np.float64), slice(begin - first, end - first)
            end = begin


def build_mixture_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """sum_k P(K = k) delta_k(eps)."""
    return Mixture(k, mu_squared, beside).bound_from_above


def build_mixture_when_told(k: Participations, mu_squared: Range, beside: Range) -> Mixture:
    """sum_k P(K = k) delta_k(eps - ln(q^k (1-q)^{n-k})): what is revealed where the outputs show in which steps the
    record is. See ``is_monotone_when_told``."""
    return Mixture(k, mu_squared, beside, (-log(Range(k.q))).lo, (-log1p(-Range(k.q))).lo)


def is_monotone_when_told(q: Range, mu_squared: Range) -> bool:
    """Whether ``build_mixture_when_told`` may be asked."""
    return (4 * (log1p(-q) - log(q))).hi <= mu_squared.lo


def bound_removed_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """What the outputs reveal where they show it, and all where they may not."""
    mixture, shown = build_mixture_above(k, mu_squared, beside), build_mixture_when_told(k, mu_squared, beside)
    mu, odds = sqrt(mu_squared), log1p(-Range(k.q)) - log(Range(k.q))
    near, far = mu * 0.5 - odds / mu, mu * 0.5 + odds / mu  # of N(1) and N(0) from where their parts are equal
    tails = (1 / near + 1 / far) * _DENSITY
    unseen = (k.count * (Range(k.q) * exp(-0.5 * (near * near)) * tails)).hi

    def bound_delta(epsilon: float) -> float:
        found = (Range(shown.bound_from_above(epsilon)) + unseen).hi
        return found if unseen <= _NOTHING * found else min(found, mixture(epsilon))

    return bound_delta


_DENSITY = 0.39894228040143274
"""phi(0), rounded up: Phi(-t) <= phi(t)/t."""
_NOTHING = 1e-9
"""Of delta: what may be lost without a look at the other bound."""


def bound_added_above(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """The same for "add", where the record is in none of the steps with a probability that bounds the losses."""
    mixture, never = build_mixture_above(k, mu_squared, beside), _log_probability_of_none(k)

    def bound_delta(epsilon: float) -> float:
        found = _evaluate_plain(beside, epsilon + never).hi
        # With one step with the record as good as all is revealed: the mixture is no less.
        seen = GaussianCurve(mu_squared + beside).delta(epsilon).lo >= 1 - _NOTHING
        return found if seen else min(found, mixture(epsilon))

    return bound_delta


def bound_replaced_above(k: Participations, remove: Curve, add: Curve) -> Curve:
    """Of a record that is replaced in a Poisson sample: neither is in any of the steps with the same probability, so
    that delta is at most that of removal at an epsilon that is less, and may be below 0."""
    never = _log_probability_of_none(k).lo

    def bound_delta(epsilon: float) -> float:
        at = down(epsilon + never)
        return remove(at) if at >= 0 else reverse_delta(at, add(-at)).hi

    return bound_delta


def reverse_delta(epsilon: float, back: float) -> Range:
    """delta(epsilon) < 0 of a pair from ``back``, that of the reversed pair at -epsilon: 1 - e^eps + e^eps back."""
    return -expm1(epsilon) + exp(epsilon) * back


def _log_probability_of_none(k: Participations) -> Range:
    return k.count * log1p(-Range(k.q))


def bound_added_below(k: Participations, mu_squared: Range, beside: Range) -> Curve:
    """The test that no output lies beyond mu/2, and what the Gaussians beside tell."""
    beyond = Range((0.5 * exp(-0.125 * mu_squared)).hi)  # of one output without the record, at most
    none = exp(k.count * log1p(-beyond)).lo
    less = (k.count * log1p(-k.q * (1 - beyond / (1 - beyond)))).hi
    return lambda epsilon: (none * _evaluate_plain(beside, epsilon + Range(less))).lo


def epsilon_above(curve: Curve, delta: float, start: float) -> float:
    """An epsilon where the curve is at most ``delta``, all but the least one; infinity where none was found."""
    if not curve(0.0) > delta:
        return 0.0
    found = boundary(lambda epsilon: _log_ratio(curve(epsilon), delta), start, -1.0, *_SEARCHED)
    return math.inf if found is None else found


def epsilon_below(curve: Curve, delta: float, start: float) -> float:
    """An epsilon where the curve is above ``delta``, all but the greatest one; 0 where none was found."""
    if not curve(0.0) > delta:
        return 0.0
    found = boundary(lambda epsilon: -_log_ratio(curve(epsilon), delta), start, 1.0, *_SEARCHED)
    return 0.0 if found is None else found


_SEARCHED = 1e-12, 1e300, 1e-10
"""Least and greatest epsilon, and how near to the boundary, as a logarithm of delta or of epsilon."""


def _log_ratio(value: float, delta: float) -> float:
    """ln(value / delta), positive where the value is greater and negative elsewhere, whatever is rounded."""
    if not value > 0:
        return -math.inf
    ratio = math.log(value) - math.log(delta)
    return max(ratio, _LEAST_RATIO) if value > delta else min(ratio, -_LEAST_RATIO)


_LEAST_RATIO = 1e-300


def _evaluate_plain(beside: Range, epsilon: Range) -> Range:
    """The curve of Gaussians alone, or of nothing."""
    return GaussianCurve(beside).delta(epsilon) if beside.hi else (-expm1(epsilon)).clamp(0.0, 1.0)
