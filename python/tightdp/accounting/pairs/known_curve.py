"""Bounds of one privacy curve from a few of its points (docs/theory/conversions.md section 16).

Delta is a convex function of x = e^epsilon. It is 1 at x = 0 and falls with growing x, with slopes of at least -1. So a
few points of the curve give an upper and a lower bound of delta at every x. The same points bound the inverse of the
curve, epsilon as a function of delta. If an answer is wider than requested, the inclusion probability and the largest
loss narrow the answer. Both are known without asking an engine. If the answer is still wide, engines are asked for
other points of the curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..._core import Budget
from ...bound import Bound, ContradictionError
from ..numerics.outward import INF, Range, expm1, log1p
from ..numerics.shared_work import try_to_spend_work

Ask = Callable[[float], Bound]

_WIDE = 0.02
"""Relative width of an answer above which other points are asked for."""
_NEAR = 1e-3
"""Relative distance between an end of an interval and a point beside this end. Engines are asked for this point, to
learn whether the truth is near the end."""
_SHARE, _SPARE = 2, 10**8
"""Work units that other points may take: ``_SHARE`` times the work of the first answer, plus ``_SPARE`` units, which
are a tenth of a second."""
_LEAST = 1e-300
"""Smallest delta that the steps inside an interval ask for."""
_FAR = 700.0
"""Largest absolute value of the epsilons that are asked for. e^700 is a finite double."""
NAME = "curve"


class KnownCurve:
    """The known points of the curve of one direction, each with a lower and an upper bound of delta at an epsilon.

    The first point is x = 0, that is epsilon = -infinity, where delta is 1.
    """

    def __init__(self, inclusion_probability: float = 1.0, largest: float = INF) -> None:
        """Starts a curve on which delta(0) is at most ``inclusion_probability``, and all losses at most ``largest``."""
        self._points: dict[float, tuple[float, float]] = {-INF: (1.0, 1.0)}
        if inclusion_probability < 1:
            self.add(0.0, 0.0, inclusion_probability)
        if largest < INF:
            self.add(largest, 0.0, 0.0)

    def add(self, epsilon: float, lower: float, upper: float) -> None:
        """Adds bounds of delta(epsilon). Raises ContradictionError if the new and the earlier bounds are disjoint."""
        low, high = self._points.get(epsilon, (0.0, 1.0))
        low, high = max(low, lower), min(high, upper)
        if not low <= high:
            raise ContradictionError(f"delta({epsilon!r}) has a lower bound {low!r} above an upper one {high!r}")
        self._points[epsilon] = low, high

    def add_inverse_to_known_curve(self, delta: float, lower: float, upper: float) -> None:
        """Adds bounds of epsilon(delta).

        At the upper bound, the curve is at most ``delta``. At a positive lower bound, the curve is at least ``delta``,
        because the curve is continuous.
        """
        if upper < INF:
            self.add(upper, 0.0, delta)
        if 0 < lower < INF:
            self.add(lower, delta, 1.0)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Returns bounds of delta at any epsilon."""
        points = self._sort_known_curve_points()
        left, right = [p for p in points if p[0] < epsilon], [p for p in points if p[0] > epsilon]
        low, high = self._points.get(epsilon, (0.0, 1.0))
        low = max(low, (-expm1(epsilon)).lo, *(lower for _, lower, _ in right), 0.0)
        high = min(high, *(upper for _, _, upper in left))
        for a, _, above in left:
            for b, _, below in right:  # the chord between a and b is above the curve
                if below < high:
                    share = _compute_fall_of_known_curve(epsilon, b) / _compute_fall_of_known_curve(a, b)
                    high = min(high, (below + (Range(above) - below) * Range(0.0, min(share.hi, 1.0))).hi)
        for i, (b, lower, _) in enumerate(left):  # a chord that is extended beyond its ends is below the curve there
            for a, _, above in left[:i]:
                if lower > low:
                    low = max(
                        low,
                        (
                            lower
                            - (Range(above) - lower) * (expm1(Range(epsilon) - b) / _compute_fall_of_known_curve(a, b))
                        ).lo,
                    )
        for i, (a, lower, _) in enumerate(right):
            for b, _, above in right[i + 1 :]:
                if lower > above:
                    rise = _compute_fall_of_known_curve(epsilon, a) / expm1(Range(b) - a)
                    low = max(low, (lower + (Range(lower) - above) * Range(max(rise.lo, 0.0), rise.hi)).lo)
        return low, high

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Returns bounds of epsilon(delta), for delta in (0, 1)."""
        points = self._sort_known_curve_points()
        low, high = 0.0, INF
        for i, (b, lower, upper) in enumerate(points):
            if lower > delta:
                low = max(low, b)
                for a, _, above in points[:i]:  # the chord from a to b, extended to the right, is below the curve
                    room = (Range(lower) - delta) / (Range(above) - lower) if above > lower else Range(0.0)
                    low = max(low, (b + log1p(Range(max(room.lo, 0.0)) * _compute_fall_of_known_curve(a, b))).lo)
            if upper <= delta:
                high = min(high, max(b, 0.0))
                for a, _, above in points[:i]:
                    if above > delta:
                        share = (Range(delta) - upper) / (Range(above) - upper)
                        high = min(
                            high,
                            max((b + log1p(-Range(max(share.lo, 0.0)) * _compute_fall_of_known_curve(a, b))).hi, 0.0),
                        )
        return low, high

    def _sort_known_curve_points(self) -> list[tuple[float, float, float]]:
        """Returns the known points, each as epsilon, lower and upper bound of delta, with ascending epsilons."""
        return sorted((epsilon, *ends) for epsilon, ends in self._points.items())


def _compute_fall_of_known_curve(a: float, b: float) -> Range:
    """Returns 1 - e^(a - b) for a < b."""
    return -expm1(Range(a) - b) if a > -INF else Range(1.0)


def narrow_by_known_curve(
    found: Bound, curve: str, at: float, known: KnownCurve, asks: Mapping[str, Ask], work: int
) -> Bound:
    """Returns the bounds ``found``, narrowed by the known curve and, if they are still wide, by further points.

    ``curve`` is "delta" or "epsilon", and ``found`` bounds this function at ``at``. ``asks`` has one function for
    "delta" and one for "epsilon" that bound further points. If ``asks`` is empty, no further points are asked for.
    ``work`` is the number of work units that ``found`` took. Further points may take a multiple of ``work``.
    """
    take = {"delta": known.add, "epsilon": known.add_inverse_to_known_curve}
    follows = {"delta": known.delta, "epsilon": known.epsilon}[curve]
    beside = {"delta": _choose_known_curve_points_for_delta, "epsilon": _choose_known_curve_points_for_epsilon}[curve]

    def intersect_with_known_curve() -> tuple[float, float]:
        low, high = follows(at)
        return max(low, found.lower), min(high, found.upper)

    take[curve](at, found.lower, found.upper)
    low, high = intersect_with_known_curve()
    idle = 0
    with Budget(_SHARE * work + _SPARE):
        for step in _STEPS if asks else ():
            if not high - low > _WIDE * high or idle == _PATIENCE or not try_to_spend_work(_UNITS):
                break
            before = low, high
            for other, there in beside(step, at, low, high):
                answer = asks[other](there)
                take[other](there, answer.lower, answer.upper)
            low, high = intersect_with_known_curve()
            idle = 0 if (low, high) != before else idle + 1
    if (low, high) == (found.lower, found.upper):
        return found
    return Bound(low, high, f"{found.engine}+{NAME}", found.error_budget)


Points = list[tuple[str, float]]
"""Points to ask for next, each as "delta" or "epsilon" and the argument of this function."""
_STEPS = "zero", "middle", "near low", "half", "double", "near high", "middle"
"""Names of the steps of the search, in order. Each step asks for at most one further point."""
_BESIDE = 1e3
"""Factor between the given delta and the deltas of the steps "half" and "double"."""
_PATIENCE = 3
"""Number of steps in a row without any gain after which no more points are asked for."""
_UNITS = 10**6
"""Work units that one step of the search takes to combine the known points. There are about a dozen points."""


def _choose_known_curve_points_for_delta(step: str, epsilon: float, low: float, high: float) -> Points:
    """Returns the points of a step that may narrow an interval of delta(epsilon)."""
    if step in _INSIDE:
        inside = _INSIDE[step](max(low, _LEAST), high)
        return [("epsilon", inside)] if low < inside < min(high, 1.0) else []
    there = {"zero": 0.0, "half": epsilon / 2, "double": 2 * epsilon}[step]
    return [("delta", there)] if abs(there) < _FAR and there != epsilon else []


def _choose_known_curve_points_for_epsilon(step: str, delta: float, low: float, high: float) -> Points:
    """Returns the points of a step that may narrow an interval of epsilon(delta)."""
    if step in _INSIDE:
        most = high if high < INF else min(4 * low + 1, _FAR)
        inside = _INSIDE[step](max(low, _NEAR * _NEAR * most), most)
        return [("delta", inside)] if low < inside < min(high, _FAR) else []
    if step == "zero":
        return [("delta", 0.0)]
    there = {"half": delta / _BESIDE, "double": delta * _BESIDE}[step]
    return [("epsilon", there)] if 0 < there < 1 else []


_INSIDE: dict[str, Callable[[float, float], float]] = {
    "near low": lambda low, high: low * (1 + _NEAR),
    "near high": lambda low, high: high * (1 - _NEAR),
    "middle": lambda low, high: math.sqrt(low) * math.sqrt(high),
}
"""Functions that return a point inside of an interval: close to its lower end, close to its upper end, or at the
geometric mean of both ends."""
