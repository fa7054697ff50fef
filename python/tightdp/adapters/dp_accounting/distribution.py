"""Builds privacy loss distributions of dp_accounting from tightdp's bounds (docs/theory/conversions.md section 13).

Upper bounds of delta at the points of a grid are joined by chords over e^epsilon. The privacy profile is convex in
e^epsilon, so no chord is below it, nor is the lower convex hull of the points. The hull is the privacy profile of a
loss distribution on the grid.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from ..._core import Budget, work_charge, work_spent
from ..._support import _check
from ...accounting.engines.contour import ENGINE as contour
from ...accounting.pairs import neighbors as relations
from ...accounting.questions.question import Question
from ...bound import Bound
from ...composition import Composable
from ...options import Neighbors
from .exported_curve import build_exported_pld_hull

INTERVAL = 1e-4
"""Interval of the default grid, which is also dp_accounting's default."""
TAIL = 1e-15
"""Bound on the part of delta that the largest losses contribute together. These losses are made infinite, as in
dp_accounting."""
TOLERANCE, COARSE, COARSEST = 1e-4, 2e-3, 2e-2
"""Three rough limits of the amount by which a chord may exceed delta, relative to delta. ``TOLERANCE`` is for bounds
that take microseconds to compute, ``COARSE`` for bounds that take milliseconds, and ``COARSEST`` for slower bounds.
More mechanisms take longer, so the first two tolerances are multiplied by the number of distinct mechanisms, up to
``COARSEST``."""
SLOW_WORK = 10**7
"""Units of work, as counted by ``work_spent``, that take about ten milliseconds. Bounds that need more work count as
slow, such as bounds for noise multipliers below 0.25."""
MOST_WORK = 3 * 10**10
"""Budget of work for all bounds of one direction, such as adding a record: about a quarter of a minute. A
single bound may take eight seconds."""
_PROBES = 0.0, 0.25, 0.5, 0.75
"""Losses, relative to the largest one, at which the work of a bound is measured. The work differs along the curve. With
little noise, the ends of the curve need only a sum over few participations of a record, and the middle needs the grid
engine."""
BOTH_ORDERS = "add_or_remove", "replace", "replace_special"
"""Relations under which a bound covers both orders of a pair of neighbours."""
MOST_POINTS = 1 << 26
"""Largest number of grid points from the lowest to the highest loss. dp_accounting keeps a double for each point, 512
MiB for each direction. Its own distribution has 2.2e7 points at a noise multiplier of 0.1."""
LONG = 1 << 20
"""Number of points from which this module fills the array of masses itself, because dp_accounting fills the array point
by point in Python."""
_COARSER = 10.0
"""Largest factor by which the tolerance is multiplied on a coarse grid, whose users want speed more than accuracy. The
factor is the interval divided by the default interval."""
_FIRST, _FIRST_SLOW = 256, 32
"""Numbers of intervals between points at the start. Later, each interval whose chord is too far above delta is halved.
``_FIRST`` is for the grid engine, which bounds delta at many epsilons in one pass. ``_FIRST_SLOW`` is for mechanisms
whose bounds are slow."""
_INFLATED = 1 + 1e-6
"""Factor by which each delta is multiplied: 1 plus the default relative width of a bound. So the result is at least as
large as any upper bound of the default width, and roundings in dp_accounting do not move it below the profile."""


def privacy_loss_distribution(
    run: Composable, neighbors: Neighbors = "add_or_remove", value_discretization_interval: float = INTERVAL
) -> Any:
    """Returns a ``PrivacyLossDistribution`` whose delta is above the delta of ``run`` at every epsilon.

    ``neighbors`` is "add_or_remove", "replace" or "replace_special". If adding and removing a record have different
    profiles, the result has one distribution for adding and one for removing. The result may be composed with other
    distributions of dp_accounting.

    Between points of the default grid, the result's delta exceeds the delta of ``run``. The excess is about one part in
    10,000, or one part in 500 if the grid engine is used. The excess is multiplied by the number of distinct
    mechanisms, up to one part in 50. If a bound takes more than about ten milliseconds, the excess is one part in 50.
    On coarser grids the excess is up to ten times as large. At every epsilon, 1e-15 is added to the result's delta.
    Repeated samples of a fixed size under "replace" get the distribution of the joined pair (docs/theory/grid.md,
    section 6.2). The delta of the joined pair may be twice as large as the delta of ``run``.

    This function takes about a second, and longer for many distinct mechanisms. For repeated samples of a fixed size,
    and for repeat-and-select, it takes about twenty seconds. With noise multipliers near 0.1 it takes as long, and the
    excess may be larger, because the work is limited.

    Raises ValueError if the losses span more than 2^26 intervals.

    ``value_discretization_interval`` is the interval of the grid, in nats, > 0.

    >>> from tightdp.adapters.dp_accounting import privacy_loss_distribution
    >>> found = privacy_loss_distribution(dp.Gaussian(2.0), value_discretization_interval=1e-2)
    >>> bool(found.get_delta_for_epsilon(1.0) > dp.Gaussian(2.0).delta(1.0).upper)
    True
    """
    if not isinstance(run, Composable):
        raise TypeError(f"run must be a Mechanism or a Composition, got {run!r}")
    interval = _check.positive("value_discretization_interval", value_discretization_interval)
    _check.check_choice_argument("neighbors", neighbors, BOTH_ORDERS)
    if (
        neighbors == "replace_special"
        and relations.translate_parts_to_zeroing(run._to_composition().parts) == run._to_composition().parts
    ):
        neighbors = (
            "add_or_remove"  # both relations give the same bounds, and add_or_remove bounds each order separately
        )
    if neighbors != "add_or_remove" or run._to_composition().symmetric:
        # This profile bounds both orders of the neighbours, so one distribution serves both.
        points = _bound_exported_pld_delta(run, neighbors, interval)
        return PrivacyLossDistribution(_build_pld_pmf(points, points, interval))
    removed, added = _bound_exported_pld_delta(run, "remove", interval), _bound_exported_pld_delta(run, "add", interval)
    return PrivacyLossDistribution(_build_pld_pmf(removed, added, interval), _build_pld_pmf(added, removed, interval))


def _build_pld_pmf(above: dict[int, float], below: dict[int, float], interval: float) -> Any:
    """Returns probability masses of dp_accounting for the direction whose upper bounds of delta are ``above``."""
    masses = build_exported_pld_hull(above, below, interval)
    lowest, highest = min(masses.at), max(masses.at)
    if highest - lowest <= LONG:
        return pld_pmf.create_pmf(masses.at, interval, masses.infinity, True)
    dense = np.zeros(highest - lowest + 1)
    dense[np.fromiter(masses.at, np.int64) - lowest] = np.fromiter(masses.at.values(), np.float64)
    return pld_pmf.DensePLDPmf(interval, lowest, dense, masses.infinity, True)


def _bound_exported_pld_delta(run: Composable, neighbors: Neighbors, interval: float) -> dict[int, float]:
    """Returns upper bounds of delta at multiples of ``interval`` that are dense enough to be joined by chords.

    The work has a budget. Once it is spent, chords are longer than the tolerance asks for, and still above the curve.
    """
    with Budget(MOST_WORK):
        return _bound_exported_pld_delta_within_budget(run, neighbors, interval)


def _bound_exported_pld_delta_within_budget(run: Composable, neighbors: Neighbors, interval: float) -> dict[int, float]:
    """Does the work of ``_bound_exported_pld_delta`` within the current budget."""
    top = _find_highest_exported_pld_loss(run, neighbors, interval)
    probes: list[Bound] = []
    most_work = 0
    for part in _PROBES:
        before = work_spent()
        probes.append(run.delta(part * top * interval, neighbors=neighbors, width=COARSE))
        most_work = max(most_work, work_spent() - before)
    slow = most_work > SLOW_WORK
    cheap = not slow and all(
        one.upper == 0 or one.engine in ("closed_form", "contour", "participations") for one in probes
    )
    distinct = len(run._to_composition().parts)
    tolerance = COARSEST if slow else min((TOLERANCE if cheap else COARSE) * max(distinct, 1), COARSEST)
    tolerance *= min(max(interval / INTERVAL, 1.0), _COARSER)
    question = Question.from_question_options(run._to_composition(), neighbors, width=tolerance / 4)
    pairs = question.list_question_directions()
    fast = cheap and probes[0].engine == "contour" and all(contour.explain_refusal(*pair) is None for pair in pairs)

    def bound_exported_pld_deltas(multiples: list[int]) -> dict[int, float]:
        """Returns upper bounds of delta at the given multiples of the interval."""
        if fast:
            found = [
                max(contour.bound_contour_delta_from_above(*pair, k * interval) for pair in pairs) for k in multiples
            ]
            found = [question.delta(k * interval).upper if v == 1 else v for k, v in zip(multiples, found, strict=True)]
        elif cheap:  # a bound takes microseconds
            found = [question.delta(k * interval).upper for k in multiples]
        else:
            found = question.bound_profile_of_question(np.array(multiples, dtype=np.float64) * interval).tolist()
        return {k: min(upper * _INFLATED, 1.0) for k, upper in zip(multiples, found, strict=True)}

    pieces = 1 if cheap else _FIRST_SLOW if slow else _FIRST
    nodes = sorted({top * i // pieces for i in range(pieces + 1)})
    found = bound_exported_pld_deltas(nodes)
    gaps = list(pairwise(nodes))
    # A spent budget makes bounds so loose that halving the intervals beside them would not end.
    while work_charge(0) and (
        gaps := [(low, high) for low, high in gaps if high - low > 1 and found[low] > found[high] * (1 + tolerance)]
    ):
        middles = [(low + high) // 2 for low, high in gaps]
        found |= bound_exported_pld_deltas(middles)
        halved = []
        for (low, high), middle in zip(gaps, middles, strict=True):
            width = (high - low) * interval
            chord = found[low] + _compute_exported_pld_chord_share((middle - low) * interval, width) * (
                found[high] - found[low]
            )
            # The curve is convex in e^epsilon. So a small gap between chord and curve at the middle bounds the gap
            # elsewhere, unless most of the interval in e^epsilon is after the middle. The middle becomes a point, and
            # the chords to it have about a quarter of the gap.
            if width > 1 or chord > found[middle] * (1 + 4 * tolerance):
                halved += [(low, middle), (middle, high)]
        gaps = halved
    return found


def _compute_exported_pld_chord_share(part: float, whole: float) -> float:
    """Returns (e^part - 1) / (e^whole - 1). Here ``whole`` is an interval's width in epsilon, and ``part`` the distance
    of a point from its start. The result is the point's relative position on a chord over e^epsilon."""
    return math.expm1(part) / math.expm1(whole) if whole < 700 else math.exp(part - whole)


def _find_highest_exported_pld_loss(run: Composable, neighbors: Neighbors, interval: float) -> int:
    """Returns an integer k such that delta hardly decreases beyond k * ``interval``, or 0 if none is known."""
    rest = run.delta(_check.LARGEST, neighbors=neighbors, width=COARSE).upper * (1 + COARSE) + TAIL
    most = run.epsilon(rest, neighbors=neighbors, width=COARSE).upper if rest < 1 else 0.0
    if math.isinf(most):
        return 0
    if most / interval > MOST_POINTS:
        raise ValueError(
            f"value_discretization_interval must be at least {most / MOST_POINTS:.1g} for losses up to {most:.3g}, "
            f"got {interval!r}"
        )
    return math.ceil(most / interval)
