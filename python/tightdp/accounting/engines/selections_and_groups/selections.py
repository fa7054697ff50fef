"""Bounds for releasing the best output of a random number of runs (docs/theory/derived.md section 1).

P and Q are the distributions of an output on two neighbouring data sets. The loss of the selection exceeds the loss of
one run by at most a number called the gain. A test with a threshold t is a set S of outputs for which P(S) - e^t Q(S)
is the delta of one run at the epsilon t. From the probabilities that the selected output is in S, a lower bound of the
selection's delta follows. "Upper ends" are upper bounds of the selection's delta at several epsilons.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ....mechanisms import RepeatAndSelect
from ...numerics.outward import INF, Range, exp, expm1
from ...pairs.selection_repetitions import Repetitions, build_selection_repetitions
from ..closed_form.privacy_curve import mirror_privacy_curve
from ..engine_interface import Bound
from . import group_chains
from .inner_run import KnownRun

_CELLS = 16
"""Number of cells into which the range of s is divided, where s is the probability of a test's set under Q. In each
cell, a line is a lower bound of the test's delta after the selection."""
_WIDE = 1e-3
"""Relative width of an answer above which the convex hull of all upper ends is computed too, because the hull may be
lower than an upper end."""
_LARGEST = 1e300
"""Smallest gain for which only the trivial upper bound is returned."""
_FAR = 700.0
"""Largest epsilon in the search for a lower end."""
_BISECTIONS = 10
_STARTS = 0.98, 0.9, 0.7
"""Fractions of the largest possible lower end. The search for a lower end starts from one fraction after the other,
until a search succeeds."""
_SHARES = 0.0, 0.25, 0.6
"""Fractions of the gain by which the thresholds of tests exceed epsilon."""
_CHORD = 0.95
"""Fraction of epsilon at which the chord of ``_is_selection_bound_final`` begins."""
_FARTHEST = 1.0
"""Largest distance of a test's threshold from epsilon."""
_BESIDE = 0.0, 0.5, 0.9, 0.98
"""Fractions of a test's threshold at which upper bounds of delta are computed. These bounds limit the probability of
the test's set of outputs."""


def bound_delta_of_selection(
    mechanism: RepeatAndSelect, run: KnownRun, epsilon: float, known: group_chains.DerivedLimits, above: bool = False
) -> tuple[float, float]:
    """Returns lower and upper bounds of delta. With ``above`` only the upper bound is computed, and the lower bound is
    0.

    The caller takes the maximum with the trivial lower bound.
    """
    runs = build_selection_repetitions(mechanism)
    upper = _build_upper_selection_curve(runs, run)(epsilon).upper
    if above:
        return 0.0, upper
    forward = run if epsilon >= 0 else _reverse_run_of_selection(run)
    lower = _bound_selection_from_below(runs, forward, _compute_gain_of_selection(runs, forward), abs(epsilon))
    if epsilon < 0:
        lower = mirror_privacy_curve(epsilon, lower).lo
    if lower < upper * (1 - _WIDE) and not _is_selection_bound_final(runs, run, epsilon, upper):
        upper = min(upper, group_chains.bound_group_delta([as_group_chain_link(runs, run)], epsilon, known))
    return lower, upper


def bound_epsilon_of_selection(
    mechanism: RepeatAndSelect, run: KnownRun, delta: float, known: group_chains.DerivedLimits
) -> tuple[float, float]:
    """Returns lower and upper bounds of epsilon.

    The upper bound is the gain plus the epsilon of one run, at ``delta`` divided by the mean number of runs.
    """
    runs = build_selection_repetitions(mechanism)
    gain = _compute_gain_of_selection(runs, run)
    share = (delta / runs.mean).lo
    once = run.epsilon(share) if 0 < share < 1 else Bound(0.0, 0.0 if share >= 1 else INF, "trivial")
    upper = (Range(once.upper) + gain).hi if share < 1 else 0.0
    if once.upper == 0 and 0 < upper < INF:  # the run's exact epsilon may be negative, so ``upper`` may be too large
        upper = _bisect_selection_epsilon(
            lambda eps: _bound_selection_by_gain(runs, run, gain, eps) > delta, 0.0, upper
        )[1]
    if 0 < upper < INF and not _is_selection_bound_final(runs, run, upper, delta):
        upper = min(upper, group_chains.bound_group_epsilon([as_group_chain_link(runs, run)], delta, known))
    # The lower bound comes from a test whose outputs the selection prefers to all other outputs.
    high = min(upper, once.lower, _FAR)
    for start in _STARTS if high > 0 else ():
        low, _ = _bisect_selection_epsilon(
            lambda eps: _bound_selection_from_below(runs, run, gain, eps) > delta, start * high, high
        )
        if low > start * high:
            return low, upper
    return 0.0, upper


def _bisect_selection_epsilon(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Returns a subinterval of [low, high] in which ``above`` turns from True to False, by bisection.

    Returns (low, low) if ``above(low)`` is False. ``above(high)`` is assumed to be False and not evaluated.
    """
    if not above(low):
        return low, low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    return low, high


def as_group_chain_link(runs: Repetitions, run: KnownRun) -> KnownRun:
    """Returns the selection as the only link of a chain.

    The bounds of this chain are the convex hull of the bounds of the selection.
    """
    above = _build_upper_selection_curve(runs, run)
    return replace(run, delta=above, above=above, largest=INF, largest_back=INF)


def _is_selection_bound_final(runs: Repetitions, run: KnownRun, epsilon: float, upper: float) -> bool:
    """Tells whether the upper end at ``epsilon`` is surely on the convex hull of all upper ends.

    The upper ends are convex in e^epsilon where they are below 1. So a chord of the upper ends that ends at ``epsilon``
    is at least as steep as any line that touches the upper ends from below at ``epsilon``. Extend this chord to epsilon
    0. If the extended chord is below the curve of delta there, the upper end at ``epsilon`` is on the hull.
    """
    if not 0 < epsilon <= _FAR:
        return False
    before = _build_upper_selection_curve(runs, run)(_CHORD * epsilon).upper
    width = math.expm1(epsilon) - math.expm1(_CHORD * epsilon)
    if not before < 1 or not width > 0:  # an epsilon may be too small for a chord in doubles
        return False
    steepest = (before - upper) / width
    return upper + steepest * math.expm1(epsilon) < run.delta(0.0).lower


def _build_upper_selection_curve(runs: Repetitions, run: KnownRun) -> Callable[[float], Bound]:
    """Returns the function that bounds delta from above at any epsilon."""

    @cache
    def prepare_selection_forward() -> tuple[KnownRun, float]:
        return run, _compute_gain_of_selection(runs, run)

    @cache
    def prepare_selection_backward() -> tuple[KnownRun, float]:
        return _reverse_run_of_selection(run), _compute_gain_of_selection(runs, _reverse_run_of_selection(run))

    def bound_selection_from_above(epsilon: float) -> Bound:
        if epsilon >= 0:
            return Bound(
                0.0, min(_bound_selection_by_gain(runs, *prepare_selection_forward(), epsilon), 1.0), "derived"
            )
        there = _bound_selection_by_gain(runs, *prepare_selection_backward(), -epsilon)
        return Bound(0.0, min(mirror_privacy_curve(epsilon, there).hi, 1.0), "derived")

    return bound_selection_from_above


def _compute_gain_of_selection(runs: Repetitions, run: KnownRun) -> float:
    """Returns an upper bound of the gain, by which the loss of the selection may exceed the loss of one run."""
    return runs.bound_gain_of_repetitions(lambda eps: run.back(eps).upper)


def _bound_selection_from_below(runs: Repetitions, run: KnownRun, gain: float, epsilon: float) -> float:
    """Returns the largest lower bound of delta from tests with the thresholds of ``_SHARES``."""
    return max(
        _bound_selection_by_preferred_set(runs, run, epsilon, epsilon + min(share * min(gain, _LARGEST), _FARTHEST))
        for share in _SHARES
    )


def _reverse_run_of_selection(run: KnownRun) -> KnownRun:
    """Returns the same run in the other direction."""
    return replace(run, delta=run.back, back=run.delta, largest=run.largest_back, largest_back=run.largest)


def _bound_selection_by_gain(runs: Repetitions, run: KnownRun, gain: float, epsilon: float) -> float:
    """Returns the upper bound mean * delta(eps - gain), where ``mean`` is the mean number of runs."""
    if not gain < _LARGEST:
        return 1.0
    return (runs.mean * run.delta((Range(epsilon) - gain).lo).upper).hi


def _bound_selection_by_preferred_set(runs: Repetitions, run: KnownRun, epsilon: float, threshold: float) -> float:
    """Returns a lower bound of the delta of a test whose outputs the selection prefers to all other outputs.

    Let t be the ``threshold``, and let d be a lower bound of the delta of one run at t. Then some set of outputs, with
    the probabilities r under P and s under Q, has r >= d + e^t s. Here s is at most ``most``. The selected output is in
    the set with probability h(r) under P and h(s) under Q, where h is ``runs.repetition_selection_probability``. So delta of the
    selection is at least the minimum over all s of h(d + e^t s) - e^eps h(s). Since h is concave, a chord bounds the
    first term from below, and a tangent bounds h(s) from above.
    """
    d = run.delta(threshold).lower
    x, y = exp(threshold), exp(epsilon)
    if not (0 < d < 1 and runs.has_computable_repetitions and x.hi < INF):
        return 0.0
    most = ((1 - Range(d)) / x).hi
    for part in _BESIDE if threshold > 0 else ():  # r - e^eps s <= delta(eps)
        below = Range(part * threshold)
        room = exp(below) * expm1(threshold - below)
        if room.lo > 0:
            most = min(most, ((Range(run.delta(below.lo).upper) - d) / room).hi)
    most = min(max(most, 0.0), 1.0)
    edges = [0.0] + [most * 2.0 ** (k - _CELLS) for k in range(_CELLS + 1)]
    ahead = [runs.repetition_selection_probability(min((d + x * s).lo, 1.0)).lo for s in edges]
    least = math.inf
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        behind = runs.repetition_selection_probability(a)
        later = behind + runs.differentiate_selection_probability(a) * (Range(b) - a)
        least = min(least, (ahead[i] - y * behind).lo, (ahead[i + 1] - y * later).lo)
    return min(max(least, 0.0), 1.0)
