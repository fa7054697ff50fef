"""Bounds on epsilon of a growing run of Gaussians, which reuse the work of earlier questions."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from ..._core import GrowingRun, check_arithmetic
from ..._support import _check
from ...bound import Bound
from ...mechanisms import Gaussian, Mechanism, PoissonSampled
from ...options import WIDTH, Direction, Neighbors
from ..engines import contour
from ..questions.question import split_width_of_question
from .shared_state import Entries

_DIRECTIONS: dict[Neighbors, tuple[Direction, ...]] = {
    "add_or_remove": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}
_GROWN = 1.25
"""Factor by which the number of sampled steps must grow after a failed inversion (a computation of epsilon by the
contour engine) before the next inversion is tried."""
_OUTWARD = 1 + 1e-9
"""Factor that covers the roundings of a sum. The factor exceeds 1 by more than the relative rounding of a million
additions of terms with the same sign."""
_Step = tuple[float, float]
"""Noise multiplier and sampling probability."""


class GrowingAccount:
    """The results of earlier questions about epsilon, from which later questions continue.

    The method (docs/theory/contour.md section 9) serves plain and Poisson-subsampled Gaussians, if the account has
    grown between two questions. Otherwise the account answers like any composition. Bounds are certified all the same,
    but their last digits may depend on earlier questions. Only one thread at a time is served. Other threads ask the
    composition.
    """

    __slots__ = ("_first", "_lock", "_most_added", "_resume", "_runs", "_sampled", "_seen", "_steps")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Entries = None
        self._reset_runs()

    def _reset_runs(self) -> None:
        """Forgets all releases, so that the next question reads the whole history."""
        self._seen: Entries = None
        self._runs = {direction: GrowingRun(direction) for direction in ("remove", "add")}
        self._steps = self._sampled = 0
        self._most_added = 0.0
        self._resume = 2.0  # sampled steps needed to try an inversion; a single step has a formula

    def epsilon(self, entries: Entries, neighbors: Neighbors, delta: float) -> Bound | None:
        """Returns bounds on epsilon at ``delta`` of ``entries``; None if the composition must be asked instead."""
        directions = _DIRECTIONS.get(neighbors)
        if directions is None or self._resume == float("inf") or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._first is None or entries is self._first:
                self._first = entries
                return None
            at = _check.below_one("delta", delta)
            if at == 0:
                return None
            check_arithmetic()
            return (
                self._bound_growing_account_epsilon(directions, at) if self._follow_growing_account(entries) else None
            )
        except BaseException:
            self._reset_runs()
            raise
        finally:
            self._lock.release()

    def _follow_growing_account(self, entries: Entries) -> bool:
        """Adds the releases since the last question to the runs, and tells whether to try an inversion.

        Returns False if ``entries`` do not continue the entries of the last question, or if a mechanism is not served.
        Also returns False until the run has grown enough after a failed inversion.
        """
        new = _list_growing_account_releases(self._seen, entries)
        if new is None:
            return False
        for mechanism, times in new:
            simple, inner = mechanism._to_canonical_mechanism()
            step, count = _read_step_of_growing_account(simple), inner * times
            if step is None or self._steps + count > _check.MAX_COUNT:
                self._resume = float("inf")
                return False
            self._steps += count
            sigma, q = step
            self._sampled += count if q < 1 else 0
            self._most_added -= count * math.log1p(-q) * _OUTWARD if q < 1 else -math.inf
            for run in self._runs.values():
                if q < 1:
                    run.add(sigma, q, float(count))
                else:
                    run.add_plain(count / sigma**2)
        self._seen = entries
        return self._sampled >= self._resume

    def _bound_growing_account_epsilon(self, directions: tuple[Direction, ...], delta: float) -> Bound | None:
        """Returns bounds from inversions in all directions; None if these bounds are not narrow."""
        found: list[tuple[str, float, float, Sequence[float], int, int]] = []
        for direction in directions:
            if direction == "add" and found and 0 < self._most_added <= found[0][1]:
                continue  # epsilon of "add" is at most ``_most_added``, and the lower bound of "remove" is no smaller
            found.append(self._runs[direction].epsilon(delta, contour.TOLERANCE))
        lower, upper = max(one[1] for one in found), max(one[2] for one in found)
        narrow = all(one[0] == "certified" and one[1] > 0 for one in found) and upper - lower <= WIDTH * upper
        if not narrow:
            self._resume = _GROWN * self._sampled
            return None
        terms = contour.name_contour_errors(max(found, key=lambda one: one[2])[3])
        return Bound(lower, upper, contour.ENGINE.name, split_width_of_question(upper - lower, terms, "pair"))


def _read_step_of_growing_account(mechanism: Mechanism) -> _Step | None:
    """Returns the noise multiplier and the sampling probability of a Gaussian; None for other mechanisms."""
    base, q = mechanism, 1.0
    if isinstance(mechanism, PoissonSampled):
        base, q = mechanism.mechanism, mechanism.sampling_probability
    if not isinstance(base, Gaussian) or not contour.LEAST <= base.noise_multiplier <= contour.MOST:
        return None
    return base.noise_multiplier, q


def _list_growing_account_releases(seen: Entries, entries: Entries) -> list[tuple[Mechanism, int]] | None:
    """Returns the releases of ``entries`` after those of ``seen``; None if ``entries`` do not begin with ``seen``."""
    new: list[tuple[Mechanism, int]] = []
    while entries is not seen:
        if entries is None:
            return None
        before, mechanism, count = entries
        # If the last entry of ``seen`` was followed by equal releases, its count has grown.
        if seen is not None and before is seen[0] and mechanism == seen[1] and count > seen[2]:
            new.append((mechanism, count - seen[2]))
            break
        new.append((mechanism, count))
        entries = before
    new.reverse()
    return new
