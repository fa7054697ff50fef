"""Search for the parameter that just meets a privacy target.

The upper bound on epsilon is compared with the target, so the true epsilon meets the target as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..._support import _check
from ...bound import Bound
from ...composition import Composable, Composition
from ...mechanisms import Gaussian, PoissonSampled
from ...options import Options, accept_options_as_arguments
from ..engines.closed_form.gaussian import GaussianCurve
from ..numerics.root import find_monotone_boundary
from .question import Question

if TYPE_CHECKING:
    from typing_extensions import Unpack

LEAST, MOST = 1e-9, 1e15
"""Default range of a parameter that is searched."""
_TOLERANCE = 1e-9
"""Relative tolerance of the search. The search ends if epsilon is this close to the target, or if the parameter is this
close to the boundary, where epsilon passes the target."""
_WIDE, _NEAR = 0.2, 3e-3
"""``_WIDE`` is the relative width of the bounds that the search computes while it is far from the boundary. The search
stops using wide bounds at a relative distance of ``_NEAR`` from the boundary. For fixed-size samples, wide bounds take
a hundredth of the work of narrow bounds."""
_PART = 1e-3
"""Relative tolerance of a search with slow bounds (``_SLOW``), divided by the relative width of a bound."""
_SLOW = "grid", "allocation", "fixed_size"
"""Names of the engines that take longer for a narrow bound than for a wide one."""
_FLOOR = 1e-300
"""Lower limit of the argument of a logarithm. Smaller epsilons and deltas, including 0, are replaced by this limit."""


@accept_options_as_arguments
def calibrate(
    factory: Callable[[Any], Composable],
    *,
    epsilon: float,
    delta: float,
    low: float = LEAST,
    high: float = MOST,
    integer: bool = False,
    **options: Unpack[Options],
) -> float:
    """Returns the parameter x at which ``factory(x)`` just is (``epsilon``, ``delta``)-DP by its upper bound.

    If a larger parameter means more privacy, as for noise, x is the smallest parameter in [``low``, ``high``] that
    meets the target. If a larger parameter means less privacy, as for steps or a sampling probability, x is the largest
    one. The function finds out which case holds.

    The bound is computed at the result itself, so ``factory(x).epsilon(delta).upper <= epsilon`` always holds. The
    relative difference of the two sides is less than 1e-9, or x is within a relative distance of 1e-9 from a parameter
    that does not meet the target. For the grid, allocation and fixed-size engines, the difference may also be a
    thousandth of the bound's own width. With ``integer``, x is the exact boundary among integers.

    A parameter that ``factory`` refuses with ValueError does not meet the target. ``delta`` is in [0, 1), and 0 asks
    for pure differential privacy, which Gaussian noise never has. Guarantee, neighbouring relation and engines are as
    for ``Composable.epsilon``.

    Raises ValueError if no parameter in the range meets the target, or if the bound does not depend on the parameter.

    Parameters
    ----------
    factory : a function that makes a mechanism or a composition from one number.
    epsilon : the target, in nats, >= 0.
    delta : the target, in [0, 1).
    low, high : the ends of the range that is searched, 0 < low < high.
    integer : whether the parameter is an integer, at most 2^53.
    neighbors, engine, width, eps_error, delta_error : as for ``Composition.epsilon``.

    >>> import tightdp as dp
    >>> sigma = dp.calibrate(lambda s: dp.Gaussian(s) * 10, epsilon=1.0, delta=1e-6)
    >>> (dp.Gaussian(sigma) * 10).epsilon(1e-6).upper <= 1.0
    True
    """
    _check.check_function_argument("factory", factory, "parameter")
    target = _check.nonnegative("epsilon", epsilon)
    delta = _check.below_one("delta", delta)
    low, high = _check.positive("low", low), _check.positive("high", high)
    if not low < high:
        raise ValueError(f"low must be a number below high, got low={low!r} and high={high!r}")
    asked = Question.from_question_options(Composition(), **options)
    if integer:
        low, high = math.ceil(low), math.floor(min(high, _check.MAX_COUNT))

    search = _CalibrationSearch(factory, integer, target, delta, asked)
    gap = search.measure_calibration_gap
    start = min(max(1.0, low), high)
    slope = _find_slope_of_calibration(
        gap if integer else search.measure_rough_calibration_gap, start, low, high, integer
    )
    if slope is None:
        raise ValueError(_explain_failed_calibration(delta, low, high, infinite=delta == 0 and gap(start) == math.inf))
    if integer:
        return _calibrate_integer(gap, slope < 0, int(low), int(high), target)
    if search.slow:
        start, slope = search.find_rough_calibration(start, slope, low, high)
    found = find_monotone_boundary(gap, start, slope, low, high, search.gap_tolerance)
    if found is None:
        raise ValueError(f"epsilon={target!r} is not met at delta={delta!r} by any parameter in [{low!r}, {high!r}]")
    return found


def _explain_failed_calibration(delta: float, low: float, high: float, infinite: bool) -> str:
    """Returns the error message for a factory whose epsilon is the same at all parameters."""
    if infinite:
        return (
            f"delta must be > 0 for this factory: at delta=0 no parameter between {low!r} and {high!r} was found "
            "with a finite epsilon. Gaussian noise, however large, has no guarantee at delta 0"
        )
    return (
        f"factory must build something whose epsilon depends on its parameter: at delta={delta!r} it does not "
        f"between {low!r} and {high!r}"
    )


class _CalibrationSearch:
    """The distances of the factory's upper bounds from the target. The bound at each parameter is computed once.

    If narrow bounds take long, the search uses wide bounds until it is near the boundary.
    """

    def __init__(
        self, factory: Callable[[Any], Composable], integer: bool, target: float, delta: float, asked: Question
    ) -> None:
        self.factory, self.integer, self.target, self.delta, self.asked = factory, integer, target, delta, asked
        self.wide = asked._replace(request=replace(asked.request, width=max(asked.request.width, _WIDE)))
        self.slow: bool | None = None
        """True if the engine that answers is faster for wide bounds than for narrow bounds. None before the first
        bound."""
        self._sharp: dict[float, Bound | None] = {}
        self._rough: dict[float, float] = {}

    def measure_calibration_gap(self, x: float) -> float:
        """Computes the bound of the requested width at parameter ``x``, and returns its distance from the target.

        The distance is the number that ``_compare_epsilon_to_calibration_target`` returns.
        """
        if x not in self._sharp:
            self._sharp[x] = self._bound_at_calibrated_parameter(self.asked, x)
        return self._compare_calibrated_bound(self._sharp[x])

    def measure_rough_calibration_gap(self, x: float) -> float:
        """Returns the distance of a wide bound from the target.

        Returns the result of ``measure_calibration_gap`` instead if narrow bounds take no longer.
        """
        if self.slow is False:
            return self.measure_calibration_gap(x)
        if x not in self._rough:
            bound = self._bound_at_calibrated_parameter(self.wide, x)
            if self.slow is None and bound is not None:
                self.slow = any(name in bound.engine for name in _SLOW)
                if not self.slow:
                    return self.measure_calibration_gap(x)
            self._rough[x] = self._compare_calibrated_bound(bound)
        return self._rough[x]

    @property
    def gap_tolerance(self) -> float:
        """Distance from the target at which the search stops. This distance grows with the width of a slow bound."""
        widths = [bound.width / bound.upper for bound in self._sharp.values() if bound and 0 < bound.upper < math.inf]
        return max(_TOLERANCE, _PART * widths[-1]) if self.slow and widths else _TOLERANCE

    def _compare_calibrated_bound(self, bound: Bound | None) -> float:
        """Returns the distance of a bound from the target; infinite for None, which stands for a parameter that is
        refused."""
        return math.inf if bound is None else _compare_epsilon_to_calibration_target(bound.upper, self.target)

    def find_rough_calibration(self, start: float, slope: float, low: float, high: float) -> tuple[float, float]:
        """Returns the approximate parameter at which wide bounds meet the target, and the slope of the gap there."""
        found = find_monotone_boundary(self.measure_rough_calibration_gap, start, slope, low, high, _NEAR)
        if found is None:
            return start, slope
        self.measure_calibration_gap(found)  # the width of this bound decides ``gap_tolerance``
        return found, self._estimate_calibration_slope(found) or slope

    def _estimate_calibration_slope(self, x: float) -> float | None:
        """Returns the slope between the two wide bounds whose parameters are nearest to ``x``.

        Returns None if there are fewer than two wide bounds, or if these two are equal.
        """
        seen = sorted((abs(math.log(at / x)), at) for at, value in self._rough.items() if math.isfinite(value))
        if len(seen) < 2 or self._rough[seen[0][1]] == self._rough[seen[1][1]]:
            return None
        (_, one), (_, other) = seen[:2]
        return (self._rough[one] - self._rough[other]) / math.log(one / other)

    def _bound_at_calibrated_parameter(self, question: Question, x: float) -> Bound | None:
        """Returns the bound for the mechanism that the factory builds from ``x``, or None if the factory refuses."""
        try:
            built = self.factory(round(x) if self.integer else x)
        except ValueError:
            return None
        if not isinstance(built, Composable):
            raise TypeError(f"factory must return a Mechanism or a Composition, got {built!r}")
        return question.replace_composition_of_question(built._to_composition()).epsilon(self.delta)


def _compare_epsilon_to_calibration_target(upper: float, target: float) -> float:
    """Returns the logarithm of upper / target, which is at most 0 if and only if the target is met."""
    if upper <= target:
        return min(math.log(upper / target), 0.0) if upper > 0 else -math.inf
    return max(math.log(upper / max(target, _FLOOR)), 5e-324) if upper < math.inf else math.inf


def _find_slope_of_calibration(
    gap: Callable[[float], float], start: float, low: float, high: float, integer: bool
) -> float | None:
    """Returns a guess of the derivative d gap / d log x, with the right sign, from points around ``start``.

    The points are ``start`` multiplied by a ratio and divided by it. The ratio is squared until ``gap`` differs from
    its value at ``start``. Returns None if ``gap`` has the same value at all points.
    """
    here = gap(start)
    ratio = 2.0
    while start * ratio <= high or start / ratio >= low:
        if start * ratio <= high:
            above = gap(start * ratio)
            if above != here:
                return _limit_slope_of_calibration(above - here, ratio)
        if start / ratio >= low and not integer:
            below = gap(start / ratio)
            if below != here:
                return _limit_slope_of_calibration(here - below, ratio)
        ratio *= ratio
    for end in (low, high):  # the last points of the loop may be well inside the range
        if end != start and (there := gap(end)) != here:
            return _limit_slope_of_calibration(
                (there - here) * (1 if end > start else -1), max(end / start, start / end)
            )
    return None


def _limit_slope_of_calibration(rise: float, ratio: float) -> float:
    """Returns a slope with the sign of ``rise`` and a size between 1/4 and 4, so that a step is neither 0 nor huge."""
    steepness = abs(rise) / math.log(ratio)
    return math.copysign(min(max(steepness, 0.25), 4.0) if math.isfinite(steepness) else 1.0, rise)


def _calibrate_integer(gap: Callable[[float], float], falling: bool, low: int, high: int, target: float) -> int:
    """Returns the boundary among integers. The step from ``low`` is doubled until it passes the boundary. The last step
    is then bisected."""

    def is_before_calibration_target(n: int) -> bool:  # True if n is on the same side of the boundary as ``low``
        return (gap(n) <= 0) != falling

    unmet = f"epsilon={target!r} is not met by any parameter in [{low}, {high}]"
    if not is_before_calibration_target(low):
        if falling:
            return low
        raise ValueError(unmet)
    inside, step = low, 1
    while inside + step < high and is_before_calibration_target(inside + step):
        inside, step = inside + step, 2 * step
    outside = min(inside + step, high)
    if outside == high and is_before_calibration_target(high):
        if falling:
            raise ValueError(unmet)
        return high
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if is_before_calibration_target(middle) else (inside, middle)
    return outside if falling else inside


@accept_options_as_arguments
def noise_multiplier(
    epsilon: float, delta: float, sampling_probability: float = 1.0, steps: int = 1, **options: Unpack[Options]
) -> float:
    """Returns the smallest noise multiplier that makes DP-SGD (``epsilon``, ``delta``)-DP by its upper bound.

    DP-SGD is ``steps`` releases of ``PoissonSampled(Gaussian(result), sampling_probability)``. The further keywords are
    as for ``Composable.epsilon``. The search starts from an estimate by the central limit theorem and computes a
    handful of bounds. If ``delta`` is above the probability that a record is sampled at all, any noise meets the
    target. The result is then 1e-4, the smallest multiplier that is searched.

    Parameters
    ----------
    epsilon : the target, in nats, > 0.
    delta : the target, in (0, 1).
    sampling_probability : the probability that a record is in a batch, in (0, 1].
    steps : the number of steps, an integer in [1, 2^53].
    neighbors, engine, width, eps_error, delta_error : as for ``Composition.epsilon``.

    Raises ValueError for an argument out of its range, or if no noise multiplier up to 1e12 meets the target.

    >>> import tightdp as dp
    >>> s = dp.noise_multiplier(epsilon=2.0, delta=1e-5, sampling_probability=0.01, steps=1000)
    >>> round(s, 6)
    0.959102
    """
    target = _check.positive("epsilon", epsilon)
    delta = _check.open_unit("delta", delta)
    q = _check.probability("sampling_probability", sampling_probability)
    steps = _check.check_count_argument("steps", steps)
    asked = Question.from_question_options(Composition(), **options)

    def compare_noise_to_target(sigma: float) -> float:
        """Returns the distance of DP-SGD with noise multiplier ``sigma`` from the target."""
        run = asked.replace_composition_of_question(PoissonSampled(Gaussian(sigma), q) * steps)
        return _compare_epsilon_to_calibration_target(run.epsilon(delta).upper, target)

    start = _estimate_noise_multiplier(target, delta, q, steps) * (2 if asked.neighbors == "replace" else 1)
    found = find_monotone_boundary(compare_noise_to_target, start, -1.5, *_SIGMAS, _TOLERANCE)
    if found is None:
        raise ValueError(
            f"epsilon={target!r} is below every epsilon that can be shown at delta={delta!r} for a noise multiplier "
            f"up to {_SIGMAS[1]:g}"
        )
    return found


_SIGMAS = 1e-4, 1e12
"""Smallest and largest noise multiplier that is searched."""


def _estimate_noise_multiplier(epsilon: float, delta: float, q: float, steps: int) -> float:
    """Returns an estimate of the noise multiplier sigma, from the central limit.

    The estimate solves steps q^2 (e^{1/sigma^2} - 1) = mu^2, where the Gaussian of this mu is (epsilon, delta)-DP. For
    q = 1 the estimate is sqrt(steps)/mu.
    """
    mu = _estimate_gaussian_mu(epsilon, delta)
    if q == 1:
        return min(max(math.sqrt(steps) / mu, _SIGMAS[0]), _SIGMAS[1])
    rate = mu * mu / steps / q / q
    return min(max(1 / math.sqrt(math.log1p(rate)) if rate > 1e-15 else rate**-0.5, _SIGMAS[0]), _SIGMAS[1])


def _estimate_gaussian_mu(epsilon: float, delta: float) -> float:
    """Returns the mu of a Gaussian whose delta(epsilon) is about ``delta``, found by a few secant steps."""
    epsilon, delta = max(epsilon, _FLOOR), max(delta, _FLOOR)
    start = epsilon / math.sqrt(2 * math.log(1.25 / delta))

    def compare_gaussian_delta(mu: float) -> float:
        found = GaussianCurve(mu * mu).delta(epsilon).hi
        return (math.log(found) if found > 0 else -800.0) - math.log(delta)

    return find_monotone_boundary(compare_gaussian_delta, start, 2 * math.log(1.25 / delta), 1e-12, 1e12, 1e-3) or start
