"""Questions about a growing run of Gaussians, which reuse the work of earlier ones and the last inversion's line."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from ... import _check
from ..._core import GrowingRun, check_arithmetic
from ...bound import Bound
from ...mechanisms import Gaussian, Mechanism, PoissonSampled
from ...options import WIDTH, Direction, Neighbors
from ..engines import contour
from ..questions.question import split_width
from .shared_state import Entries

_DIRECTIONS: dict[Neighbors, tuple[Direction, ...]] = {
    "add_or_remove": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}
_GROWN = 1.25
"""Factor by which the number of sampled steps must grow after a failed inversion before the next one is tried."""
_OUTWARD = 1 + 1e-9
"""Factor on a sum of one sign, larger than the relative rounding of a million additions."""
_Step = tuple[float, float]
"""Noise multiplier and sampling probability."""


class GrowingAccount:
    """Answers questions about epsilon from what it computed for earlier ones (docs/theory/contour.md section 9).

    It serves plain and Poisson-subsampled Gaussians, once an account has grown between two questions; until then the
    account is asked as any composition is. Bounds are certified as ever, but their last digits may depend on earlier
    questions. One thread at a time is served.
    """

    __slots__ = ("_first", "_lock", "_most_added", "_resume", "_runs", "_sampled", "_seen", "_steps")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Entries = None
        self._reset_runs()

    def _reset_runs(self) -> None:
        """Forgets everything recorded, so that the next question reads the whole history."""
        self._seen: Entries = None
        self._runs = {direction: GrowingRun(direction) for direction in ("remove", "add")}
        self._steps = self._sampled = 0
        self._most_added = 0.0
        self._resume = 2.0  # a single step has a formula

    def epsilon(self, entries: Entries, neighbors: Neighbors, delta: float) -> Bound | None:
        """Returns bounds on epsilon at ``delta`` of these releases; None if the composition is to be asked instead."""
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
            return self._bound_epsilon(directions, at) if self._follow_entries(entries) else None
        except BaseException:
            self._reset_runs()
            raise
        finally:
            self._lock.release()

    def _follow_entries(self, entries: Entries) -> bool:
        """Adds the releases since the last question to the runs, and tells whether an inversion is worth a try.

        It is not for a question about an earlier moment, nor soon after an inversion that failed.
        """
        new = _list_releases_since(self._seen, entries)
        if new is None:
            return False
        for mechanism, times in new:
            simple, inner = mechanism._to_canonical()
            step, count = _parse_step(simple), inner * times
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

    def _bound_epsilon(self, directions: tuple[Direction, ...], delta: float) -> Bound | None:
        """Returns bounds from inversions of all directions; None if they are not narrow."""
        found: list[tuple[str, float, float, Sequence[float], int, int]] = []
        for direction in directions:
            if direction == "add" and found and 0 < self._most_added <= found[0][1]:
                continue  # an epsilon of adding is at most this, so the other direction decides
            found.append(self._runs[direction].epsilon(delta, contour.TOLERANCE))
        lower, upper = max(one[1] for one in found), max(one[2] for one in found)
        narrow = all(one[0] == "certified" and one[1] > 0 for one in found) and upper - lower <= WIDTH * upper
        if not narrow:
            self._resume = _GROWN * self._sampled
            return None
        terms = contour.build_error_budget(max(found, key=lambda one: one[2])[3])
        return Bound(lower, upper, contour.ENGINE.name, split_width(upper - lower, terms, "pair"))


def _parse_step(mechanism: Mechanism) -> _Step | None:
    """Returns the step that is this Gaussian, sampled or not; None for other mechanisms."""
    base, q = mechanism, 1.0
    if isinstance(mechanism, PoissonSampled):
        base, q = mechanism.mechanism, mechanism.sampling_probability
    if not isinstance(base, Gaussian) or not contour.LEAST <= base.noise_multiplier <= contour.MOST:
        return None
    return base.noise_multiplier, q


def _list_releases_since(seen: Entries, entries: Entries) -> list[tuple[Mechanism, int]] | None:
    """Returns the releases of ``entries`` beyond those of ``seen``; None unless ``seen`` is the beginning of them."""
    new: list[tuple[Mechanism, int]] = []
    while entries is not seen:
        if entries is None:
            return None
        before, mechanism, count = entries
        # The last entry of a history grows with equal releases.
        if seen is not None and before is seen[0] and mechanism == seen[1] and count > seen[2]:
            new.append((mechanism, count - seen[2]))
            break
        new.append((mechanism, count))
        entries = before
    new.reverse()
    return new
