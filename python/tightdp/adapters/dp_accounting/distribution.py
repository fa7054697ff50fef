"""Builds dp_accounting's privacy loss distributions of our privacy curves (docs/theory/conversions.md section 13).

Upper bounds of delta at points of a grid are joined by chords: the curve is convex in e^epsilon, so that the lower
convex hull of the points is above it. The hull is the curve of a distribution on those points.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from ... import _check
from ..._core import work_spent
from ...accounting.engines.contour import ENGINE as contour
from ...accounting.pairs import neighbors as relations
from ...accounting.questions.question import Question
from ...composition import Composable
from ...options import Neighbors
from .hull import build_convex_hull

INTERVAL = 1e-4
"""Interval of the default grid, which is dp_accounting's."""
TAIL = 1e-15
"""Losses with less of delta above them become infinite ones, as in dp_accounting."""
TOLERANCE, COARSE, COARSEST = 1e-4, 2e-3, 2e-2
"""Relative amounts by which a chord may exceed delta, roughly. The first two are multiplied by the number of distinct
mechanisms, because answers about many take longer: the first holds where an answer takes microseconds, the second where
it takes milliseconds. The third is the most, and holds where one answer takes longer still."""
SLOW_WORK = 10**7
"""Units of work of an answer that takes about ten milliseconds. Noise multipliers below 0.25 take that much."""
BOTH_ORDERS = "add_or_remove", "replace", "replace_special"
"""Relations that cover both orders of two neighbours."""
MOST_POINTS = 1 << 26
"""Largest number of points from the lowest to the highest loss. dp_accounting keeps all points between them: 512 MiB
for a direction. Its own distribution has 2.2e7 at the least noise multiplier that calibrations of riskcal try, 0.1."""
LONG = 1 << 20
"""Number of points from which masses are put into an array here, since dp_accounting does it point by point in
Python."""
_COARSER = 10.0
"""Largest factor on the tolerance. The factor is the interval divided by the default one, because users of a coarse
grid want speed more than accuracy."""
_FIRST, _FIRST_SLOW = 256, 32
"""Number of intervals to begin with; an interval with too high a chord is halved. There are many where one question
about many epsilons costs less than many questions about few, and few where each epsilon takes long."""
_INFLATED = 1 + 1e-6
"""Factor on each delta. It exceeds 1 by the default width of a bound. So the distribution's delta is not below other
upper bounds on the same privacy curve, and dp_accounting's roundings do not take it below the curve."""


def privacy_loss_distribution(
    run: Composable, neighbors: Neighbors = "add_or_remove", value_discretization_interval: float = INTERVAL
) -> Any:
    """Returns a ``PrivacyLossDistribution`` whose delta is above that of ``run`` at every epsilon.

    ``neighbors`` is "add_or_remove", "replace" or "replace_special". If adding and removing differ, the result has a
    distribution for each of them. It may be composed with other distributions of dp_accounting.

    Between points of the default grid it exceeds delta by about one part in 10,000, or one part in 500 if the grid
    engine answers, times the number of distinct mechanisms. The excess is one part in 50 at most, and is that much if
    an answer takes more than about ten milliseconds. On coarser grids it is up to ten times as large. Everywhere delta
    is also larger by 1e-15. Repeated samples of a fixed size under "replace" have the distribution of the joined pair
    (docs/theory/grid.md, section 6.2), whose delta is up to twice theirs.

    It takes about a second, and more for many distinct mechanisms. Repeated samples of a fixed size, and
    repeat-and-select, take about twenty seconds.

    Raises ValueError if the losses span more than 2^26 intervals.
    """
    if not isinstance(run, Composable):
        raise TypeError(f"run must be a Mechanism or a Composition, got {run!r}")
    interval = _check.positive("value_discretization_interval", value_discretization_interval)
    _check.choice("neighbors", neighbors, BOTH_ORDERS)
    if (
        neighbors == "replace_special"
        and relations.translate_parts_to_zeroing(run._to_composition().parts) == run._to_composition().parts
    ):
        neighbors = "add_or_remove"  # is the same relation here, and asks each order on its own
    if neighbors != "add_or_remove" or run._to_composition().symmetric:
        # The curve bounds both orders of the neighbours, so that a distribution and its reverse may share it.
        points = _bound_delta_at_points(run, neighbors, interval)
        return PrivacyLossDistribution(_build_masses(points, points, interval))
    removed, added = _bound_delta_at_points(run, "remove", interval), _bound_delta_at_points(run, "add", interval)
    return PrivacyLossDistribution(_build_masses(removed, added, interval), _build_masses(added, removed, interval))


def _build_masses(above: dict[int, float], below: dict[int, float], interval: float) -> Any:
    """Returns dp_accounting's probability masses of the direction with the points ``above``."""
    masses = build_convex_hull(above, below, interval)
    lowest, highest = min(masses.at), max(masses.at)
    if highest - lowest <= LONG:
        return pld_pmf.create_pmf(masses.at, interval, masses.infinity, True)
    dense = np.zeros(highest - lowest + 1)
    dense[np.fromiter(masses.at, np.int64) - lowest] = np.fromiter(masses.at.values(), np.float64)
    return pld_pmf.DensePLDPmf(interval, lowest, dense, masses.infinity, True)


def _bound_delta_at_points(run: Composable, neighbors: Neighbors, interval: float) -> dict[int, float]:
    """Returns upper bounds of delta at multiples of ``interval`` from 0 on, as many as chords need."""
    before = work_spent()
    first = run.delta(0.0, neighbors=neighbors, width=COARSE)
    slow = work_spent() - before > SLOW_WORK
    cheap = (first.engine in ("closed_form", "contour", "participations") or first.upper == 0) and not slow
    distinct = len(run._to_composition().parts)
    tolerance = COARSEST if slow else min((TOLERANCE if cheap else COARSE) * max(distinct, 1), COARSEST)
    tolerance *= min(max(interval / INTERVAL, 1.0), _COARSER)
    question = Question.from_options(run._to_composition(), neighbors, width=tolerance / 4)
    pairs = question.dominating_pairs()
    fast = cheap and first.engine == "contour" and all(contour.explain_refusal(*pair) is None for pair in pairs)

    def bound_deltas(multiples: list[int]) -> dict[int, float]:
        if fast:
            found = [max(contour.bound_delta_from_above(*pair, k * interval) for pair in pairs) for k in multiples]
            found = [question.delta(k * interval).upper if v == 1 else v for k, v in zip(multiples, found, strict=True)]
        elif cheap:  # microseconds each
            found = [question.delta(k * interval).upper for k in multiples]
        else:
            found = question.upper_profile(np.array(multiples, dtype=np.float64) * interval).tolist()
        return {k: min(upper * _INFLATED, 1.0) for k, upper in zip(multiples, found, strict=True)}

    top = _find_highest_point(run, neighbors, interval)
    pieces = 1 if cheap else _FIRST_SLOW if slow else _FIRST
    nodes = sorted({top * i // pieces for i in range(pieces + 1)})
    found = bound_deltas(nodes)
    gaps = list(pairwise(nodes))
    while gaps := [(low, high) for low, high in gaps if high - low > 1 and found[low] > found[high] * (1 + tolerance)]:
        middles = [(low + high) // 2 for low, high in gaps]
        found |= bound_deltas(middles)
        halved = []
        for (low, high), middle in zip(gaps, middles, strict=True):
            width = (high - low) * interval
            chord = found[low] + _compute_chord_share((middle - low) * interval, width) * (found[high] - found[low])
            # The curve is convex: a small gap in the middle bounds the gap elsewhere, unless most of the interval lies
            # behind the middle. The middle is a point from now on, and the chords to it have a quarter of the gap.
            if width > 1 or chord > found[middle] * (1 + 4 * tolerance):
                halved += [(low, middle), (middle, high)]
        gaps = halved
    return found


def _compute_chord_share(part: float, whole: float) -> float:
    """Returns (e^part - 1) / (e^whole - 1): where the middle lies on a chord over e^epsilon."""
    return math.expm1(part) / math.expm1(whole) if whole < 700 else math.exp(part - whole)


def _find_highest_point(run: Composable, neighbors: Neighbors, interval: float) -> int:
    """Returns the first multiple of ``interval`` beyond which delta hardly falls; 0 if none is known."""
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
