"""The curve of a group of records, from the curves of one record (docs/theory/derived.md section 2).

Two data sets that differ in the n records of a group are joined by n links. A link is a step from one data set to the
next one, and changes one record. If an event has probability p on one side of a link, its probability on the other side
is at most e^eps p + delta(eps), for every eps. Here delta is the curve of this link. The curves of the links may
differ, as the data sets shrink from link to link. Each eps gives a line in p. Applying one line for each link, in turn,
gives a line X p + D again. The code calls this line a chain. D is an upper bound of the group's delta(log X). The set
of lines depends on the curves alone, and not on the epsilon or delta that is asked about. So the bounds for all
epsilons and deltas come from one convex function of e^epsilon.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...numerics.outward import Range
from ...numerics.shared_work import try_to_spend_work
from .inner_run import KnownRun
from .lines import MOST, LinesOfInnerRun

MARGIN = 1e-11
"""Relative margin, larger than the error of a chain of 1000 products and sums of positive numbers."""
_LOOSE = 1e-4
"""Largest distance of the lines from the curve, relative to the curve's value and added up over all links. A bound is
as loose as if epsilon were larger by this number."""
_SAME = 1e-13
"""Relative difference below which two chains count as equally low."""
_NARROW = 1e-9
"""Width of an interval of log p, where p is a probability, at which the search of ``_bracket_group_by_chains`` ends."""
_STEPS = 120
"""Largest number of steps of this search."""
_UNITS = 2 * 10**4
"""Measured work units for one link in one round, which builds about twenty chains."""
_LEAST = -745.0
"""Logarithm of the smallest probability that is searched."""


Line = tuple[float, float, float]
"""A line as (logarithm of its slope, slope, height at 0)."""


class ChainOfLines(NamedTuple):
    """A line that results from applying one line for each link in turn."""

    log_slope: float
    slope: float
    height: float
    used: tuple[int, ...]
    """Indices of the lines that the links use, one for each link, among the lines of its ``LinesOfInnerRun``."""


class DerivedLimits(NamedTuple):
    """Limits of the curve of a group or a repeated run. The limits are known without the curves of the links.

    ``looked_at`` is the inclusion probability of the group or of a record, and ``largest`` is the largest privacy loss.
    """

    looked_at: float
    largest: float

    @property
    def group_chain_limit_lines(self) -> list[Line]:
        """The lines of the two limits.

        The line of the inclusion probability has slope 1. The line of the largest loss has height 0 at p = 0.
        """
        found: list[Line] = [(0.0, 1 + MARGIN, self.looked_at)] if self.looked_at < 1 else []
        if self.largest <= MOST:
            found.append((self.largest, math.exp(self.largest) * (1 + MARGIN), 0.0))
        return found


ANY = DerivedLimits(1.0, math.inf)
"""No limits."""


def bound_group_delta(links: Sequence[KnownRun], epsilon: float, known: DerivedLimits = ANY) -> float:
    """Returns an upper bound of delta(epsilon) of the group with these ``links``.

    The links must be in the order in which a probability is carried from one data set to the other.
    """
    if min(known.largest, _find_largest_loss_of_group_chain(links)) <= epsilon < math.inf:
        return 0.0
    at = min(epsilon, MOST)  # delta never increases
    return _search_group_chains(
        links,
        known,
        lambda chain: chain.log_slope <= at - 4 * MARGIN,
        lambda steep, flat: _average_height_of_group_chains(steep, flat, at),
        nothing=1.0,
    )


def bound_group_epsilon(links: Sequence[KnownRun], delta: float, known: DerivedLimits = ANY) -> float:
    """Returns an upper bound of epsilon(delta) of the group with these ``links``; infinite if none is found."""
    return _search_group_chains(
        links,
        known,
        lambda chain: chain.height > delta,
        lambda steep, flat: _solve_group_epsilon(steep, flat, delta),
        nothing=min(known.largest, _find_largest_loss_of_group_chain(links)),
    )


def _find_largest_loss_of_group_chain(links: Sequence[KnownRun]) -> float:
    """Returns the sum of the links' largest losses."""
    return sum((Range(run.largest) for run in links), Range(0.0)).hi  # math.fsum raises an error if the sum overflows


def _search_group_chains(
    links: Sequence[KnownRun],
    known: DerivedLimits,
    flat: Callable[[ChainOfLines], bool],
    answer: Callable[[ChainOfLines, ChainOfLines], float],
    nothing: float,
) -> float:
    """Searches for two neighbouring chains of which only the second one is ``flat``, and returns the least ``answer``.

    Each round asks for the ``answer`` of the two chains, and adds lines next to those that the chains use. The search
    ends when no further line could be lower, or when the work is spent.
    """
    distinct = {id(run): LinesOfInnerRun(run, _LOOSE / len(links)) for run in links}
    chain = [distinct[id(run)] for run in links]
    best = nothing
    while try_to_spend_work(_UNITS * len(links)):
        steep, gentle = _bracket_group_by_chains(chain, known.group_chain_limit_lines, flat)
        best = min(best, answer(steep, gentle))
        used = {(id(lines), i) for each in (steep, gentle) for lines, i in zip(chain, each.used, strict=True)}
        found = [lines.refine_lines([i for owner, i in used if owner == id(lines)]) for lines in distinct.values()]
        if not any(found):
            break
    return best


def _bracket_group_by_chains(
    links: Sequence[LinesOfInnerRun], known: Sequence[Line], flat: Callable[[ChainOfLines], bool]
) -> tuple[ChainOfLines, ChainOfLines]:
    """Returns, in the order of growing p, the last chain that is not ``flat`` and the first chain that is.

    For each p, the lowest chain at p is a tangent of a concave curve. With growing p this tangent becomes flatter, and
    its height at 0 grows.
    """
    steep, gentle = build_group_chain(links, known, 0.0), build_group_chain(links, known, 1.0)
    if flat(steep):
        return steep, steep
    if not flat(gentle):
        return gentle, ChainOfLines(-math.inf, 0.0, 1.0, gentle.used)
    low, high = _LEAST, 0.0
    for step in range(_STEPS):
        if high - low <= _NARROW:
            break
        at = find_crossing_of_group_chains(steep, gentle)
        crossed = step % 2 == 0 and 0 < at < 1 and low < math.log(at) < high
        middle = math.log(at) if crossed else 0.5 * (low + high)
        between = build_group_chain(links, known, at if crossed else math.exp(middle))
        if crossed and between.slope * at + between.height >= (gentle.slope * at + gentle.height) * (1 - _SAME):
            break  # no chain is lower at the crossing
        if flat(between):
            gentle, high = between, middle
        else:
            steep, low = between, middle
    return steep, gentle


def find_crossing_of_group_chains(steep: ChainOfLines, gentle: ChainOfLines) -> float:
    """Returns the probability p at which two chains are equally high."""
    return (gentle.height - steep.height) / (steep.slope - gentle.slope) if gentle.slope < steep.slope else 0.0


def build_group_chain(links: Sequence[LinesOfInnerRun], known: Sequence[Line], p: float) -> ChainOfLines:
    """Returns the lowest chain at ``p``, or one of the ``known`` lines if that is lower there.

    Each link uses the line that is lowest at the image of ``p`` under the lines of the links before.
    """
    start = p
    log_slope, slope, height = 0.0, 1.0, 0.0
    used = []
    for lines in links:
        i = bisect_right(lines.turns, p)
        used.append(i)
        x, d = lines.slopes[i], lines.heights[i]
        p = min(x * p + d, 1.0)
        log_slope += lines.log_slopes[i]
        slope = x * slope if x else 0.0  # avoids 0 * inf
        height = x * height + d if x else d
    found = ChainOfLines(log_slope, slope, height, tuple(used))
    for line in known:
        if line[1] * start + line[2] < found.slope * start + found.height:
            found = ChainOfLines(*line, found.used)
    return found


def _average_height_of_group_chains(steep: ChainOfLines, flat: ChainOfLines, epsilon: float) -> float:
    """Returns the height of a weighted mean of two chains. The weights give the mean the slope e^epsilon.

    If a chain with a slope of at most e^epsilon is lower than this mean, returns the height of the chain.
    """
    target = math.exp(epsilon) * (1 - MARGIN)
    if not flat.slope <= target:
        return 1.0
    best = flat.height
    if target < steep.slope < math.inf:
        share = (target - flat.slope) / (steep.slope - flat.slope)
        best = min(best, share * steep.height + (1 - share) * flat.height)
    elif steep.slope <= target:
        best = min(best, steep.height)
    return min(best * (1 + MARGIN), 1.0)


def _solve_group_epsilon(steep: ChainOfLines, flat: ChainOfLines, delta: float) -> float:
    """Returns an epsilon at which ``_average_height_of_group_chains`` is at most ``delta``.

    Returns infinity if none is found.
    """
    log_slope = steep.log_slope
    if steep.height < delta < flat.height and steep.slope < math.inf:
        share = (flat.height - delta) / (flat.height - steep.height)
        log_slope = math.log(share * steep.slope + (1 - share) * flat.slope)
    elif flat.height <= delta:
        log_slope = flat.log_slope
    for wider in (1e-10, 1e-8, 1e-6):  # epsilon is increased until the bound holds despite roundings
        epsilon = max(log_slope, 0.0) + wider * (1 + abs(log_slope))
        if epsilon <= MOST and _average_height_of_group_chains(steep, flat, epsilon) <= delta:
            return 0.0 if _average_height_of_group_chains(steep, flat, 0.0) <= delta else epsilon
    return math.inf
