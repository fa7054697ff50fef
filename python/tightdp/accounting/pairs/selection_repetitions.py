"""The random number of repetitions of a run before its best output is selected (docs/theory/derived.md section 1).

Let f be the probability generating function of the number of runs. Let F be the probability that the output of one run
is at most as good as a certain output. The density with which this output is selected is f'(F) times its density in one
run, where f' is the derivative of f. The gain of selecting is the supremum of log(f'(F) / f'(G)) over all outputs,
where G is F on a neighbouring data set. The curve of a run is its delta as a function of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ...mechanisms import RepeatAndSelect
from ...mechanisms.selections_and_groups import POISSON
from ..numerics.outward import INF, Range, exp, expm1, log, log1p, widen_up
from ..numerics.root import find_monotone_boundary

_MARGIN = 1e-13
"""Relative margin, larger than the roundings of logarithms with values up to 1e3."""
_MOST_EXPONENT = 600.0
"""Limit of log(1/gamma) max(1, |eta|). The exponentials in ``repetition_selection_probability`` are then finite."""
_BISECTIONS = 200


@dataclass(frozen=True, slots=True)
class Repetitions:
    """The distribution of the number of repetitions.

    It is a Poisson distribution if ``poisson``, or else a negative binomial one of shape ``eta``, truncated to exclude
    0. The parameter gamma is defined in docs/theory/derived.md section 1.
    """

    mean: Range
    poisson: bool
    eta: float
    log_inverse_gamma: Range
    """The number log(1/gamma), for the truncated negative binomial distribution."""

    def bound_gain_of_repetitions(self, delta: Callable[[float], float]) -> float:
        """Returns an upper bound of the gain, the logarithm of a ratio that the module's docstring defines.

        The gain compares a data set with a neighbouring data set. ``delta`` is an upper bound of the curve of one run,
        with these two data sets exchanged.
        """
        if self.poisson:
            return (self.mean * delta(0.0)).hi
        if self.log_inverse_gamma.hi == 0:
            return 0.0
        height = _log_expm1_for_repetitions(self.log_inverse_gamma.hi)

        def compare_repetition_gain(epsilon: float) -> float:
            found = delta(epsilon)
            return (
                (math.log(found) if found > 0 else -INF)
                + height
                - _log_expm1_for_repetitions(epsilon)
                + _MARGIN * (1 + abs(height))
            )

        # exp(gain / (eta + 1)) is at most 1/gamma for every curve, so the search ends at log(1/gamma).
        found = find_monotone_boundary(
            compare_repetition_gain, min(self.log_inverse_gamma.hi, 1.0), -1.0, 1e-300, self.log_inverse_gamma.hi, 1e-9
        )
        return (Range(self.log_inverse_gamma.hi if found is None else found) * (Range(self.eta) + 1)).hi

    def repetition_selection_probability(self, share: float) -> Range:
        """Returns the probability that the selected output is in a set of the best outputs.

        The output of one run is in this set with probability ``share``.
        """
        if self.poisson:
            return -expm1(-(self.mean * share))
        return self._weigh_repetition_exponent(
            log1p(expm1(self.log_inverse_gamma) * share)
        ) / self._weigh_repetition_exponent(self.log_inverse_gamma)

    def differentiate_selection_probability(self, share: float) -> Range:
        """Returns the derivative of ``repetition_selection_probability`` with respect to ``share``.

        The larger ``share`` is, the smaller is the derivative.
        """
        if self.poisson:
            return self.mean * exp(-(self.mean * share))
        return self.mean * exp(-(log1p(expm1(self.log_inverse_gamma) * share) * (Range(self.eta) + 1)))

    def _weigh_repetition_exponent(self, v: Range) -> Range:
        """Returns (1 - e^{-eta v}) / eta, or its limit ``v`` if eta is 0."""
        return v if self.eta == 0 else -expm1(-(v * self.eta)) / abs(self.eta) * math.copysign(1.0, self.eta)

    @property
    def has_computable_repetitions(self) -> bool:
        """True if all terms of ``repetition_selection_probability`` are finite doubles without large errors."""
        return self.poisson or (
            self.log_inverse_gamma.lo > 0 and self.log_inverse_gamma.hi * max(1.0, abs(self.eta)) < _MOST_EXPONENT
        )


@lru_cache(maxsize=1024)
def build_selection_repetitions(mechanism: RepeatAndSelect) -> Repetitions:
    """Returns the distribution of the number of repetitions of ``mechanism``."""
    mean = Range(mechanism.mean)
    if mechanism.shape == POISSON:
        return Repetitions(mean, True, 0.0, Range(0.0))
    eta = float(mechanism.shape)
    return Repetitions(mean, False, eta, _solve_log_inverse_gamma_of_repetitions(eta, mechanism.mean))


def _solve_log_inverse_gamma_of_repetitions(eta: float, mean: float) -> Range:
    """Returns l = log(1/gamma), for which eta (e^l - 1)/(1 - e^{-eta l}) is ``mean``. This expression grows with l."""
    if mean == 1:
        return Range(0.0)
    if eta == 1:
        return log(mean)
    target = math.log(mean)
    low, high = 0.0, 1.0
    while _log_mean_number_of_repetitions(eta, high).lo < target + _MARGIN and high < 1e300:
        high *= 2
    inside = (low, high)  # both searches start from this interval
    # The first search finds the largest l for which the mean number of repetitions is surely below ``mean``. The second
    # search finds the smallest l for which it is surely above ``mean``.
    for aim in (0, 1):
        least, most = inside
        for _ in range(_BISECTIONS):
            middle = 0.5 * (least + most)
            if not least < middle < most:
                break
            found = _log_mean_number_of_repetitions(eta, middle)
            below = found.hi < target - _MARGIN if aim == 0 else found.lo < target + _MARGIN
            least, most = (middle, most) if below else (least, middle)
        if aim == 0:
            low = least
        else:
            high = most
    return Range(low, widen_up(high))


def _log_mean_number_of_repetitions(eta: float, l: float) -> Range:
    """Returns the logarithm of the mean number of repetitions, where ``l`` is log(1/gamma)."""
    grown = Range(l) + log(-expm1(-Range(l)))  # log(e^l - 1)
    if eta == 0:
        return grown - log(l)
    v = Range(l) * abs(eta)
    weight = log(-expm1(-v)) + (v if eta < 0 else 0.0)  # log |1 - e^{-eta l}|
    return log(abs(eta)) + grown - weight


def _log_expm1_for_repetitions(x: float) -> float:
    """Returns log(e^x - 1), which is minus infinity at 0."""
    return x + math.log(-math.expm1(-x)) if x > 0 else -INF
