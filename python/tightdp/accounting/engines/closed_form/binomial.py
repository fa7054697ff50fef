"""The curve of k releases of e-DP binary randomised response (docs/theory/closed-forms.md section 4).

The curve gives delta as a function of epsilon, written eps, and e is the parameter of e-DP. By Kairouz, Oh and
Viswanath (2015), Theorem 3.3, the loss is e (2i - k), where i has the distribution Bin(k, p) and p = 1/(1 + exp(-e)).
So delta(eps) is a sum over all i > (k + eps/e)/2. If the first i is at least the mode, which is the most likely i, the
terms decrease. Otherwise 1 - delta is computed as two sums, whose terms decrease with the distance from the first i.
In either case the terms span about ten standard deviations of the binomial, and never all k.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ...._core import work_charge
from ...numerics.outward import INF, LARGEST, LIBM, ULP, Number, Range, as_range, exp, expm1, log, widen_down, widen_up
from .privacy_curve import PrivacyCurve, mirror_privacy_curve
from .single_mechanisms import BracketedCurve

MOST_TERMS = 10**7
"""Largest number of terms of a sum. A sum of this length takes a tenth of a second. A binomial is refused if its
standard deviation exceeds a tenth of this number."""
_UNITS = 15
"""Work units for one term."""
_CHUNK = 1 << 15
"""Number of terms that are computed at a time, small enough for the processor's cache."""
NEGLIGIBLE = 2.0**-70
"""Relative size of the terms that are left out of a sum, far below the roundings of the other terms."""
_CERTAIN = 700.0
"""Smallest e for which the largest loss counts as certain: its probability is at least 1 - 2^53 exp(-700) > 1 -
1e-280."""


class RepeatedResponseCurve(BracketedCurve):
    """The curve of ``count`` releases of e-DP binary randomised response. Here e = ``nominal`` > 0 may be a range."""

    def __init__(self, nominal: Number, count: int) -> None:
        e = as_range(nominal)
        less = _ExactRepeatedResponseCurve(e.lo, count)
        super().__init__(less, less if e.lo == e.hi else _ExactRepeatedResponseCurve(e.hi, count))


def measure_deviation_of_response(e: float, count: int) -> float:
    """Returns the standard deviation of the number of positive losses."""
    return math.sqrt(count * math.exp(-e)) / (1 + math.exp(-e))


class _ExactRepeatedResponseCurve(PrivacyCurve):
    """The curve of ``count`` releases of e-DP binary randomised response, for a double e."""

    def __init__(self, e: float, count: int) -> None:
        self.e, self.k = e, count
        with localcontext(CONTEXT):
            odds = (-Decimal(e)).exp()  # the odds of a negative loss
            self.log_p, self.log_q = -(1 + odds).ln(), -Decimal(e) - (1 + odds).ln()
            self.odds = float(odds)
            self.mode = math.floor((count + 1) / (1 + odds))
        self.chunk = int(min(max(measure_deviation_of_response(e, count), 64.0), _CHUNK))
        self._above = lru_cache(maxsize=2)(self._sum_masses_above)

    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        """Returns delta as a sum over the losses above ``epsilon``.

        If the most likely loss is larger than the first of these losses, returns 1 minus two sums. The first sum is the
        probability of the losses up to ``epsilon``. The second sum runs over the losses above ``epsilon``. Its terms
        are the probability of each loss, times exp(epsilon - loss).
        """
        if epsilon < 0:  # the pair is symmetric
            return mirror_privacy_curve(epsilon, self.evaluate_closed_form_delta(-epsilon))
        end = Fraction(self.e) * self.k
        if epsilon >= end:
            return Range(0.0)
        if self.e >= _CERTAIN:
            top = -expm1(-_round_closed_form_fraction(end - Fraction(epsilon)))
            return Range(max(top.lo - 1e-280, 0.0), top.hi + 1e-280)
        # ``first`` is the index of the least loss above epsilon.
        first = math.floor((self.k + Fraction(epsilon) / Fraction(self.e)) / 2) + 1
        spare = _round_closed_form_fraction((2 * first - self.k) * Fraction(self.e) - Fraction(epsilon))
        if first >= self.mode:
            all_above, lost, terms = self._above(first)
            work_charge(_UNITS * terms)  # a cached sum is charged as much as a new one
            return all_above * -expm1(-spare) + lost * exp(-spare)
        rest = (
            self._compute_mass_of_binomial(first)
            * exp(-spare)
            * self._sum_closed_form_binomial_terms(first, up=True, odds=self.odds)
        )
        below = (
            self._compute_mass_of_binomial(first - 1)
            * self._sum_closed_form_binomial_terms(first - 1, up=False, odds=self.odds)
            if first
            else Range(0.0)
        )
        return 1 - (rest + below)

    def bracket_closed_form_epsilon(self, delta: float) -> tuple[float, float]:
        mean = (1 - self.odds) / (1 + self.odds) * self.k
        # The spread is a guess that has the form of Hoeffding's bound.
        spread = 2 * measure_deviation_of_response(self.e, self.k) * math.sqrt(-2 * math.log(delta))
        most = self.e * self.k
        return max(self.e * (mean - spread), 0.0), min(max(self.e * (mean + spread), 0.5 * self.e), most)

    def _sum_masses_above(self, first: int) -> tuple[Range, Range, int]:
        """Returns two sums over all i >= ``first``, and their number of terms. ``first`` is at least the mode.

        The first sum has the masses as terms, and the second sum has the masses times 1 - exp(-2 e (i - first)). The
        same two sums give delta at all epsilons between two neighbouring losses. So both sums are cached for the last
        steps of an inversion.
        """
        mass, (sums, terms) = (
            self._compute_mass_of_binomial(first),
            self._sum_binomial_ratios(first, up=True, odds=1 / self.odds, spared=True),
        )
        return mass * sums[0], mass * sums[1], terms

    def _sum_closed_form_binomial_terms(self, start: int, up: bool, odds: float) -> Range:
        """Returns the first sum of ``_sum_binomial_ratios``, and charges its work."""
        sums, terms = self._sum_binomial_ratios(start, up, odds)
        work_charge(_UNITS * terms)
        return sums[0]

    def _sum_binomial_ratios(self, start: int, up: bool, odds: float, spared: bool = False) -> tuple[list[Range], int]:
        """Returns the sum of f(i)/f(start) for i = start, start +- 1, ..., and the number of terms.

        Here f(i) = C(k, i) odds^{+-i}, with the sign + if ``up``. With ``spared``, a second sum has the same terms
        times 1 - exp(-2 e |i - start|). The ratios of neighbouring terms must be at most 1 and decrease.
        """
        totals, slacks, last, done = [0.0] * (1 + spared), [0.0] * (1 + spared), 1.0, 0
        while True:
            m = np.arange(done, done + self.chunk, dtype=np.float64)
            i = start + m if up else start - m
            ratio = odds * np.maximum((self.k - i) / (i + 1) if up else i / (self.k - i + 1), 0.0)
            terms = last * np.concatenate(([1.0], np.cumprod(ratio[:-1])))
            error = _RATIO * m + 4 * ULP
            last = float(terms[-1] * ratio[-1])
            for which in range(len(totals)):
                if which:  # the condition number of expm1 is at most 1
                    terms *= -np.expm1(-2 * self.e * m)
                    error += LIBM + 4 * ULP
                part = float(terms.sum())
                totals[which] += part
                slacks[which] += float((terms * error).sum()) + 64 * ULP * part + self.chunk * _SUBNORMAL
            done += self.chunk
            following = float(ratio[-1])
            rest = last / (1 - following) if following < 1 else INF
            if rest <= NEGLIGIBLE * totals[-1] or done > MOST_TERMS:
                rest = rest if rest <= NEGLIGIBLE * totals[-1] else INF
                found = [
                    Range(widen_down(max(total - slack, 0.0)), (total + slack + rest) * (1 + 4 * ULP))
                    for total, slack in zip(totals, slacks, strict=True)
                ]
                return found, done

    def _compute_mass_of_binomial(self, i: int) -> Range:
        return compute_closed_form_binomial_mass(self.k, i, self.log_p, self.log_q)


def compute_closed_form_binomial_mass(k: int, i: int, log_p: Decimal, log_q: Decimal) -> Range:
    """Returns C(k, i) p^i q^{k-i}.

    The logarithm of this mass has large terms that cancel. They are added in decimal arithmetic with many spare digits.
    """
    j = k - i
    with localcontext(CONTEXT):
        large = i * log_p + j * log_q
        if i and j:
            large += (
                _compute_n_log_n_of_binomial(k)
                - _compute_n_log_n_of_binomial(i)
                - _compute_n_log_n_of_binomial(j)
                + (Decimal(k) / i / j).ln() / 2
            )
        nearest = float(large.exp())
    value = Range(widen_down(nearest, 2 * ULP), widen_up(nearest, 2 * ULP))
    if not (i and j):
        return value
    return value * exp(
        _bound_closed_form_stirling_error(k)
        - _bound_closed_form_stirling_error(i)
        - _bound_closed_form_stirling_error(j)
        - _HALF_LOG_TWO_PI
    )


CONTEXT = Context(prec=60)
"""Decimal arithmetic with 60 digits. A term is a count up to 2^53 times a logarithm. The logarithm is at most 745 in
magnitude, because the smallest double is about e^-745. So terms are at most 2^53 * 745 < 1e19, and their sum has 40
correct digits after the point."""
_SUBNORMAL = 2.0**-1072
"""Generous bound on the rounding error of a subnormal term."""
_RATIO = 4 * ULP
"""Bound on the relative error of the step from one term to the next. A step multiplies by (k - i) / (i + 1) * odds. The
bound covers four roundings and the error of the odds."""
_TWO_PI = Range(widen_down(2 * math.pi), widen_up(2 * math.pi))
_HALF_LOG_TWO_PI = 0.5 * log(_TWO_PI)


def _compute_n_log_n_of_binomial(n: int) -> Decimal:
    """Returns n log n."""
    return n * Decimal(n).ln()


def _round_closed_form_fraction(x: Fraction) -> Range:
    """Returns a range of doubles that holds a fraction >= 0."""
    if x > LARGEST:
        return Range(LARGEST, INF)
    nearest = float(x)
    return Range(widen_down(nearest), widen_up(nearest)) if nearest else Range(0.0)


def _bound_closed_form_stirling_error(n: int) -> Range:
    """Returns a range of log n! - (n + 1/2) log n + n - log(2 pi)/2.

    Stirling's series for this number alternates, so two consecutive partial sums bracket it.
    """
    if n < 16:
        return log(math.factorial(n)) - (n + 0.5) * log(n) + n - _HALF_LOG_TWO_PI
    x = 1 / Range(n)
    square = x * x
    lower = x * (1 / Range(12) - square * (1 / Range(360) - square * (1 / Range(1260) - square / Range(1680))))
    return Range(lower.lo, widen_up(lower.hi + (1 / 1188) * x.hi**9))
