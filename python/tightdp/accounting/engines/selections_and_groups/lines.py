"""Upper bounds on the probability of an event under one of two neighbours (docs/theory/derived.md section 2).

The bounds are e^eps p + delta(eps), where p is the probability of the event under the other neighbour. Each eps gives a
line in p, and epsilons are added as they are needed. Which epsilons may occur depends on the curve delta(eps) alone.
These epsilons are the powers of two, the largest losses of both directions, and middles of intervals. The gain of a
line in an interval between two epsilons is its relative distance below the point where the lines of both ends cross. An
interval is halved until the gain of its middle's line is at most a tolerance.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise

from .inner_run import KnownRun

MOST = 700.0
"""The largest epsilon. e^700 is a finite double."""
_FIRST = 0.5
"""Distance between the first epsilons."""
_WIDEST = 1.0
"""Largest width of an interval that is no longer halved if the line of its middle gains little. In such an interval,
this line has at least a third of the gain of any other line."""
_NARROWEST = 2.0**-24
"""Relative width up to which an interval is never halved."""


class LinesOfInnerRun:
    """Lines of one link, each of which is the lowest at some p. A link is a step from a data set to a neighbour of it.

    At p = ``turns[i]``, line i + 1 becomes lower than line i.

    The steepest line is the first one. The last line is the constant 1, which bounds every probability.
    """

    def __init__(self, run: KnownRun, tolerance: float) -> None:
        self._run = run
        self._tolerance = tolerance
        self._top = min(run.largest, MOST)
        self._bottom = max(-run.largest_back, math.log(tolerance))  # at smaller epsilons, delta is above 1 - tolerance
        self._delta: dict[float, float] = {}
        self._nodes: list[float] = []
        self._done: set[float] = set()
        """Left ends of the intervals in which no further line gains more than the tolerance."""
        for e in -_FIRST, 0.0, _FIRST, 2 * _FIRST:
            self._add_line_at(min(max(e, self._bottom), self._top))
        self._keep_lowest_lines()

    def refine_lines(self, used: Iterable[int]) -> bool:
        """Adds lines next to the ``used`` lines, which are given by their indices. Tells whether any line was added."""
        lowest = [math.inf, *self.log_slopes]
        around = [-math.inf, *self._nodes, math.inf]
        beside = set()
        for i in used:
            for high, low in pairwise(lowest[i : i + 3]):
                k, j = bisect_left(around, low), bisect_left(around, high)
                beside |= {(low, around[k + 1]), (around[j - 1], high)}
        # The results are in a list, because ``any`` of a generator would stop at the first interval with a new line.
        found = [self._insert_line_between(a, b) for a, b in sorted(beside)]
        if any(found):
            self._keep_lowest_lines()
        return any(found)

    def _add_line_at(self, e: float) -> bool:
        """Adds the line of the epsilon ``e``. Returns False if this line is there already."""
        if e in self._delta:
            return False
        self._delta[e] = self._run.above(e).upper
        insort(self._nodes, e)
        return True

    def _insert_line_between(self, a: float, b: float) -> bool:
        """Adds a line between the epsilons ``a`` and ``b`` if a line there may gain enough. Tells whether a line was
        added."""
        if a == -math.inf:
            return self._add_line_at(max(min(2 * b, -_FIRST), self._bottom))
        if b == math.inf:
            return self._add_line_at(min(max(2 * a, _FIRST), self._top))
        if a in self._done or b - a <= _NARROWEST * max(abs(a), abs(b), _FIRST):
            return False
        middle = 0.5 * (a + b)
        self._add_line_at(middle)
        # If ``b`` is the largest loss, delta is 0 there. The bounds of delta below ``b`` may then lie on a chord, and
        # lines close to ``b`` may gain much although the line of the middle gains nothing.
        is_chord = self._delta[b] == 0 and b - a > self._tolerance
        if b - a <= _WIDEST and not is_chord and self._measure_gain_of_line(a, middle, b) <= self._tolerance:
            self._done |= {a, middle}
        return True

    def _measure_gain_of_line(self, a: float, middle: float, b: float) -> float:
        """Returns the gain of the line of ``middle`` in the interval from ``a`` to ``b``."""
        at = max(self._delta[a] - self._delta[b], 0.0) / (math.exp(b) - math.exp(a))
        before = math.exp(a) * at + self._delta[a]
        return 1 - (math.exp(middle) * at + self._delta[middle]) / before if before > 0 else 0.0

    def _keep_lowest_lines(self) -> None:
        """Removes the lines that are not lowest at any p."""
        kept: list[tuple[float, float, float]] = []
        for e, d in reversed([(-math.inf, 1.0), *((e, self._delta[e]) for e in self._nodes)]):
            line = e, math.exp(e) * (1 + 1e-15), d
            if kept and not line[1] < kept[-1][1] * (1 - 1e-12):
                continue  # the slope equals that of the line before, up to rounding
            while kept and kept[-1][2] >= d:
                kept.pop()
            while len(kept) > 1 and _intersect_lines_of_inner_run(kept[-1], line) <= _intersect_lines_of_inner_run(
                kept[-2], kept[-1]
            ):
                kept.pop()
            kept.append(line)
        self.log_slopes, self.slopes, self.heights = ([line[i] for line in kept] for i in range(3))
        self.turns = [_intersect_lines_of_inner_run(steep, flat) for steep, flat in pairwise(kept)]


def _intersect_lines_of_inner_run(steep: tuple[float, float, float], flat: tuple[float, float, float]) -> float:
    """Returns the p at which two lines cross."""
    return (flat[2] - steep[2]) / (steep[1] - flat[1])
