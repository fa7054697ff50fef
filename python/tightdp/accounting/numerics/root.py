"""Searches for the boundary of a monotone condition, by bisection of x, or by secants in log x."""

from __future__ import annotations

import math
from collections.abc import Callable

MOST_STEPS = 200
"""Largest number of evaluations of ``gap`` in ``find_monotone_boundary``."""
_LONGEST = math.log(8.0)
"""Longest step in log x before points on both sides of the boundary are known."""


def bracket_monotone_crossing(
    above: Callable[[float], bool], high: float, tolerance: float, most: float = math.inf
) -> tuple[float, float]:
    """Returns two numbers, low and high, such that ``above`` changes from True to False between them.

    ``above`` is True at low, unless low is 0, and False at high. The search begins with [0, ``high``], and goes beyond
    this interval if necessary. The relative distance of the two numbers is at most ``tolerance``. The second number is
    infinite if it would exceed ``most``.
    """
    low = 0.0
    while above(high):
        low, high = high, 2 * high
        if high > most or math.isinf(high):
            return low, math.inf
    while high - low > tolerance * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high


def find_monotone_boundary(
    gap: Callable[[float], float], start: float, slope: float, low: float, high: float, tolerance: float
) -> float | None:
    """Returns a point x in [low, high] where ``gap(x)`` <= 0, close to the boundary of the set of all such points.

    Returns None if ``gap`` is positive everywhere. ``gap(x)`` is monotone in x, falling if ``slope`` < 0 and rising if
    ``slope`` > 0. Far from the boundary only the sign of ``gap`` matters, so its value may be infinite there. ``slope``
    is a guess of the derivative d gap / d log x. The point is within a relative ``tolerance`` of the boundary, or its
    gap is in [-tolerance, 0].
    """
    falling = slope < 0
    least, most = math.log(low), math.log(high)
    good: tuple[float, float] | None = None  # (log x, gap) of the point nearest to the boundary with gap <= 0
    bad: tuple[float, float] | None = None  # the same for gap > 0
    previous: tuple[float, float] | None = None
    at = min(max(math.log(start), least), most)
    stalled = 0
    for _ in range(MOST_STEPS):
        value = gap(min(max(math.exp(at), low), high))
        here = (at, value)
        if value <= 0:
            stalled = stalled + 1 if good is not None else 0
            good = here
            if value >= -tolerance or at == (least if falling else most):
                return min(max(math.exp(at), low), high)
        else:
            stalled = 0
            bad = here
            if at == (most if falling else least):
                return None
        if good is not None and bad is not None and abs(good[0] - bad[0]) <= tolerance:
            return min(max(math.exp(good[0]), low), high)
        following = _step_to_boundary_by_secant(previous or (good if bad is here else bad), here, slope, tolerance)
        if good is not None and bad is not None:
            inside = min(good[0], bad[0]), max(good[0], bad[0])
            if not inside[0] < following < inside[1] or stalled > 2:
                following, stalled = 0.5 * (good[0] + bad[0]), 0
        else:
            away = following - at
            outward = falling == (value > 0)  # True if the boundary lies at a larger x
            away = min(max(abs(away), tolerance), _LONGEST) * (1 if outward else -1)
            following = min(max(at + away, least), most)
        previous, at = here, following
    return None if good is None else min(max(math.exp(good[0]), low), high)


def _step_to_boundary_by_secant(
    before: tuple[float, float] | None, here: tuple[float, float], slope: float, tolerance: float
) -> float:
    """Returns the log x at which the line through two points (log x, gap) has the value -tolerance / 2.

    This value is below 0, so that the last step of the search finds a gap in [-tolerance, 0].
    """
    excess = here[1] + 0.5 * tolerance
    if not math.isfinite(excess):
        return here[0] + math.copysign(_LONGEST, -slope * excess)
    if before is not None and math.isfinite(before[1]) and before[0] != here[0]:
        steepness = (here[1] - before[1]) / (here[0] - before[0])
        if steepness * slope > 0:
            return here[0] - excess / steepness
    return here[0] - excess / slope
