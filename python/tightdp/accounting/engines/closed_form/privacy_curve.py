"""The base class of privacy curves with a formula, and their inversion, which finds epsilon for a delta.

A privacy curve is delta as a function of epsilon.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from ...numerics.outward import INF, LARGEST, Number, Range, exp, expm1


class PrivacyCurve(ABC):
    """The hockey-stick curve of a dominating pair."""

    term = "rounding"
    """Name of the only term in the error budget of a bound. The term is the width of the range."""
    making_units = 0
    """Work units for building the curve, in addition to the work of evaluating it."""

    @abstractmethod
    def evaluate_closed_form_delta(self, epsilon: float) -> Range:
        """Returns a range that holds delta(epsilon).

        The true value is in [max(1 - e^epsilon, 0), 1], but the range may go beyond this interval.
        """

    def delta(self, epsilon: Number) -> Range:
        """Returns a range that holds delta(epsilon), at every epsilon in the range if ``epsilon`` is a range.

        ``epsilon`` may be infinite. Delta never increases with epsilon.
        """
        if isinstance(epsilon, Range):
            return Range(self.delta(epsilon.hi).lo, self.delta(epsilon.lo).hi)
        if epsilon == INF:
            epsilon = LARGEST  # delta there is an upper bound, since delta never increases with epsilon
            return Range(0.0, self.delta(epsilon).hi)
        if epsilon == -INF:
            return Range(1.0)
        trivial = -expm1(epsilon)
        found = self.evaluate_closed_form_delta(epsilon)
        return Range(min(max(found.lo, trivial.lo, 0.0), 1.0), min(max(found.hi, trivial.hi, 0.0), 1.0))

    def epsilon(self, delta: Number) -> Range:
        """Returns a range that holds inf{epsilon >= 0 : delta(epsilon) <= delta}."""
        if isinstance(delta, Range):
            if delta.lo == delta.hi:
                return self.epsilon(delta.lo)
            return Range(self.epsilon(delta.hi).lo, self.epsilon(delta.lo).hi)
        if delta >= 1:
            return Range(0.0)
        if delta < 0:
            return Range(INF)
        if self.delta(0.0).hi <= delta:
            return Range(0.0)
        return self.invert_closed_form_delta(delta)

    def invert_closed_form_delta(self, delta: float) -> Range:
        """Returns a range that holds epsilon(delta), for delta in [0, 1) where epsilon is not known to be 0."""
        if delta == 0:
            return Range(0.0, INF)
        return invert_closed_form_curve(self, delta, *self.bracket_closed_form_epsilon(delta))

    def bracket_closed_form_epsilon(self, delta: float) -> tuple[float, float]:
        """Returns the interval in which the search for epsilon(delta) begins. This interval need not hold
        epsilon(delta)."""
        return 0.0, 1.0


def mirror_privacy_curve(epsilon: float, back: Number) -> Range:
    """Returns delta(epsilon) = 1 - e^eps + e^eps ``back``. Here ``back`` is the delta of the reversed pair at -epsilon.

    At epsilon < 0 both terms are positive.
    """
    return -expm1(epsilon) + exp(epsilon) * back


def invert_closed_form_curve(curve: PrivacyCurve, delta: float, low: float, high: float) -> Range:
    """Returns a range that holds the root eps >= 0 of curve.delta(eps) = delta.

    Both ends of the range are certified by evaluating the curve there. The search starts with the interval from ``low``
    to ``high``. While this interval does not hold the root, an end of it is moved outward.
    """
    target = math.log(delta)

    def measure_gap_of_closed_form_curve(eps: float) -> float:
        found = curve.delta(eps)
        mid = 0.5 * (found.lo + found.hi)
        return (math.log(mid) if mid > 0 else -2000.0) - target  # -2000 is below the logarithm of every double

    low, high = min(max(low, 0.0), LARGEST), min(max(high, TINY_EPSILON), LARGEST)
    g_low, g_high = measure_gap_of_closed_form_curve(low), measure_gap_of_closed_form_curve(high)
    while g_high > 0:
        low, g_low = high, g_high
        if high >= LARGEST / 4:
            return Range(low if curve.delta(low).lo > delta else 0.0, INF)
        high *= 4
        g_high = measure_gap_of_closed_form_curve(high)
    while g_low < 0 and low > 0:
        high, g_high = low, g_low
        low = low / 4 if low > TINY_EPSILON else 0.0
        g_low = measure_gap_of_closed_form_curve(low)
    root = _find_root_of_closed_form_curve(measure_gap_of_closed_form_curve, low, high, g_low, g_high)
    return Range(invert_closed_form_from_below(curve, delta, root), invert_closed_form_from_above(curve, delta, root))


TINY_EPSILON = 1e-300
"""Smallest positive epsilon that is returned."""
_STEPS = 100
"""Largest number of evaluations. Every eighth one is at the middle of the bracket."""
_CLOSE = 4e-16
"""Relative width of the bracket at which the search ends, two ulps. Certified ends are then searched for near the
root."""


def _find_root_of_closed_form_curve(
    gap: Callable[[float], float], low: float, high: float, g_low: float, g_high: float
) -> float:
    """Returns a zero of the decreasing function ``gap``, accurate to a few ulps.

    The method is regula falsi with the Illinois rule and bisections.
    """
    side = 0
    for step in range(_STEPS):
        if high - low <= _CLOSE * high or g_low == g_high:  # equal gaps are both 0
            break
        mid = low + (high - low) * (g_low / (g_low - g_high)) if step % 8 != 7 else 0.5 * low + 0.5 * high
        if not low < mid < high:
            mid = 0.5 * low + 0.5 * high
            if not low < mid < high:
                break
        g = gap(mid)
        if abs(g) <= 1e-15:
            return mid
        if g > 0:
            low, g_low = mid, g
            g_high = 0.5 * g_high if side > 0 else g_high
            side = 1
        else:
            high, g_high = mid, g
            g_low = 0.5 * g_low if side < 0 else g_low
            side = -1
    return 0.5 * low + 0.5 * high  # low + high could overflow


def invert_closed_form_from_above(curve: PrivacyCurve, delta: float, root: float) -> float:
    """Returns an epsilon just above ``root`` where the curve is certified to be at most ``delta``.

    Returns infinity if none is found.
    """
    step = max(root * 2.0**-52, TINY_EPSILON)
    while root + step <= LARGEST / 4:
        if curve.delta(root + step).hi <= delta:
            return root + step
        step *= 4
    return INF


def invert_closed_form_from_below(curve: PrivacyCurve, delta: float, root: float) -> float:
    """Returns an epsilon just below ``root`` where the curve is certified to exceed ``delta``.

    Returns 0 if none is found.
    """
    step = max(root * 2.0**-52, TINY_EPSILON)
    while step < root:
        if curve.delta(root - step).lo > delta:
            return root - step
        step *= 4
    return 0.0
