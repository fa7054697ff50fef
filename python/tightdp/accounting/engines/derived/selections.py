"""The best of a random number of runs (docs/theory/derived.md section 1)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ....selections_and_groups import RepeatAndSelect
from ...numerics.outward import INF, Range, exp, expm1
from ...pairs.repetitions import Repetitions, build_repetitions
from ..engine_interface import Bound
from . import groups
from .inner_run import KnownRun

_CELLS = 16
"""Cells of the type I error of a test. In each of them a line bounds the least gain of selecting."""
_WIDE = 1e-3
"""Relative width of an answer that the convex hull of all upper ends may improve."""
_LARGEST = 1e300
_FAR = 700.0
"""Largest epsilon in the search for a lower end."""
_BISECTIONS = 10
_STARTS = 0.98, 0.9, 0.7
_SHARES = 0.0, 0.25, 0.6
_CHORD = 0.95
"""The chord from this part of epsilon to epsilon is at least as steep as any line below the upper ends."""
_FARTHEST = 1.0
"""Largest distance of a threshold from epsilon: the set that loses most has one above epsilon, by a part of the
gain."""
_BESIDE = 0.0, 0.5, 0.9, 0.98
"""Parts of epsilon at which the upper bounds of the curve limit how large the set of its test can be."""


def delta(
    mechanism: RepeatAndSelect, run: KnownRun, epsilon: float, known: groups.KnownLimits, above: bool = False
) -> tuple[float, float]:
    """Returns both ends of delta, or with ``above`` the upper one alone. The caller adds the trivial lower end."""
    runs = build_repetitions(mechanism)
    upper = _build_upper_curve(runs, run)(epsilon).upper
    if above:
        return 0.0, upper
    lower = (
        _bound_from_below(runs, run, epsilon)
        if epsilon >= 0
        else _mirror_delta(_bound_from_below(runs, _reverse_run(run), -epsilon), epsilon).lo
    )
    if lower < upper * (1 - _WIDE) and not _is_on_hull(runs, run, epsilon, upper):
        upper = min(upper, groups.delta([as_one_link(runs, run)], epsilon, known))
    return lower, upper


def epsilon(mechanism: RepeatAndSelect, run: KnownRun, delta: float, known: groups.KnownLimits) -> tuple[float, float]:
    """Returns both ends of epsilon.

    The upper end is that of one run at delta divided by the mean number of runs, plus the gain of selecting.
    """
    runs = build_repetitions(mechanism)
    gain = _compute_gain(runs, run)
    share = (delta / runs.mean).lo
    once = run.epsilon(share) if 0 < share < 1 else Bound(0.0, 0.0 if share >= 1 else INF, "trivial")
    upper = (Range(once.upper) + gain).hi if share < 1 else 0.0
    if once.upper == 0 and 0 < upper < INF:  # the run's own epsilon may be negative
        upper = _bisect_last_above(lambda eps: _bound_selected_delta(runs, run, gain, eps) > delta, 0.0, upper)[1]
    if 0 < upper < INF and not _is_on_hull(runs, run, upper, delta):
        upper = min(upper, groups.epsilon([as_one_link(runs, run)], delta, known))
    # The loss of selecting is at least that of the test of one run whose outputs are preferred.
    high = min(upper, once.lower, _FAR)
    for start in _STARTS if high > 0 else ():
        low, _ = _bisect_last_above(lambda eps: _bound_smallest_gain(runs, run, eps, eps) > delta, start * high, high)
        if low > start * high:
            return low, upper
    return 0.0, upper


def _bisect_last_above(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Bisects [low, high] for the place where ``above`` turns from True to False.

    Both ends are ``low`` if it is False there. ``above(high)`` is not evaluated.
    """
    if not above(low):
        return low, low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high


def as_one_link(runs: Repetitions, run: KnownRun) -> KnownRun:
    """Returns the selection as a chain of one link, whose answers are the convex hull of its bounds."""
    above = _build_upper_curve(runs, run)
    return replace(run, delta=above, above=above, largest=INF, largest_back=INF)


def _is_on_hull(runs: Repetitions, run: KnownRun, epsilon: float, upper: float) -> bool:
    """Tells whether the upper end at ``epsilon`` is on the convex hull of all upper ends, so that the hull cannot
    improve it.

    That is so if a line through it, below all upper ends, would be below the curve at 0. The upper ends are convex in
    e^epsilon where they are below 1, so no such line is steeper than the chord.
    """
    before = _build_upper_curve(runs, run)(_CHORD * epsilon).upper if 0 < epsilon <= _FAR else 1.0
    if not before < 1:
        return False
    steepest = (before - upper) / (math.exp(epsilon) - math.exp(_CHORD * epsilon))
    return upper + steepest * math.expm1(epsilon) < run.delta(0.0).lower


def _build_upper_curve(runs: Repetitions, run: KnownRun) -> Callable[[float], Bound]:
    """Returns the function that bounds delta from above at any epsilon."""

    @cache
    def prepare_forward() -> tuple[KnownRun, float]:
        return run, _compute_gain(runs, run)

    @cache
    def prepare_backward() -> tuple[KnownRun, float]:
        return _reverse_run(run), _compute_gain(runs, _reverse_run(run))

    def bound_from_above(epsilon: float) -> Bound:
        if epsilon >= 0:
            return Bound(0.0, min(_bound_selected_delta(runs, *prepare_forward(), epsilon), 1.0), "derived")
        return Bound(
            0.0,
            min(_mirror_delta(_bound_selected_delta(runs, *prepare_backward(), -epsilon), epsilon).hi, 1.0),
            "derived",
        )

    return bound_from_above


def _compute_gain(runs: Repetitions, run: KnownRun) -> float:
    """Returns the gain of selecting: how much larger the loss becomes than that of one run."""
    return runs.bound_gain(lambda eps: run.back(eps).upper)


def _bound_from_below(runs: Repetitions, run: KnownRun, epsilon: float) -> float:
    """Returns the best lower bound of delta over several thresholds."""
    gain = _compute_gain(runs, run)
    return max(_bound_smallest_gain(runs, run, epsilon, epsilon + min(share * gain, _FARTHEST)) for share in _SHARES)


def _reverse_run(run: KnownRun) -> KnownRun:
    """Returns the same run in the other direction."""
    return replace(run, delta=run.back, back=run.delta, largest=run.largest_back, largest_back=run.largest)


def _mirror_delta(delta: float, epsilon: float) -> Range:
    """Returns 1 - e^eps + e^eps delta'(-eps), where ``delta`` is delta'(-eps), that of the reversed pair."""
    return exp(epsilon) * delta - expm1(epsilon)


def _bound_selected_delta(runs: Repetitions, run: KnownRun, gain: float, epsilon: float) -> float:
    """Returns mean * delta(eps - gain), an upper bound."""
    if not gain < _LARGEST:
        return 1.0
    return (runs.mean * run.delta((Range(epsilon) - gain).lo).upper).hi


def _bound_smallest_gain(runs: Repetitions, run: KnownRun, epsilon: float, threshold: float) -> float:
    """Returns a lower bound of the delta that a test attains whose set of outputs is preferred to all others.

    Some set has r - e^t s >= d, where r and s are its probabilities under P and Q, t is the ``threshold`` and s is at
    most ``most``. The selected output is in the set with the probabilities h(r) and h(s), where h is ``reached``. So
    h(d + e^t s) - e^eps h(s) is bounded from below over all s. As h is concave, a chord bounds the first term and a
    tangent the second.
    """
    d = run.delta(threshold).lower
    x, y = exp(threshold), exp(epsilon)
    if not (0 < d < 1 and runs.is_computable and x.hi < INF):
        return 0.0
    most = ((1 - Range(d)) / x).hi
    for part in _BESIDE if threshold > 0 else ():  # r - e^e s <= delta(e)
        below = Range(part * threshold)
        room = exp(below) * expm1(threshold - below)
        if room.lo > 0:
            most = min(most, ((Range(run.delta(below.lo).upper) - d) / room).hi)
    most = min(max(most, 0.0), 1.0)
    edges = [0.0] + [most * 2.0 ** (k - _CELLS) for k in range(_CELLS + 1)]
    ahead = [runs.selection_probability(min((d + x * s).lo, 1.0)).lo for s in edges]
    least = math.inf
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        behind = runs.selection_probability(a)
        later = behind + runs.selection_slope(a) * (Range(b) - a)
        least = min(least, (ahead[i] - y * behind).lo, (ahead[i + 1] - y * later).lo)
    return min(max(least, 0.0), 1.0)
