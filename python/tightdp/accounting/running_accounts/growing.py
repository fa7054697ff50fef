"""What an account keeps between questions: a run of Gaussians that grows, and the line of its last inversion."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from ... import _check, _core
from ...bound import Bound
from ...mechanisms import Gaussian, Mechanism, PoissonSampled
from ...options import WIDTH, Direction, Neighbors
from ..engines import contour
from ..questions.question import shares
from .shared_state import Entries

_DIRECTIONS: dict[Neighbors, tuple[Direction, ...]] = {
    "add_or_remove": ("remove", "add"),
    "remove": ("remove",),
    "add": ("add",),
}
_GROWN = 1.25
"""Where no line can be had, one is tried again when there are so many times as many steps."""
_OUTWARD = 1 + 1e-9
"""More than what sums over a million steps lose."""
_Step = tuple[float, float]
"""Noise multiplier and sampling probability."""


class Growing:
    """Answers questions about epsilon from what it computed for earlier ones (docs/theory/contour.md section 9).

    Of plain and Poisson-subsampled Gaussians, once an account has grown between two questions: until then it is asked
    as any composition is. Bounds are certified as ever; their last digits may depend on what was asked before. One
    thread at a time is served.
    """

    __slots__ = ("_first", "_lock", "_most_added", "_resume", "_runs", "_sampled", "_seen", "_steps")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: Entries = None
        self._start()

    def _start(self) -> None:
        """As if nothing had been recorded."""
        self._seen: Entries = None
        self._runs = {direction: _core.GrowingRun(direction) for direction in ("remove", "add")}
        self._steps = self._sampled = 0
        self._most_added = 0.0
        self._resume = 2.0  # a single step has a formula

    def epsilon(self, entries: Entries, neighbors: Neighbors, delta: float) -> Bound | None:
        """Bounds on epsilon at ``delta`` of these releases, or None where it is to be asked without this."""
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
            _core.check_arithmetic()
            return self._answer(directions, at) if self._follow(entries) else None
        except BaseException:
            self._start()
            raise
        finally:
            self._lock.release()

    def _follow(self, entries: Entries) -> bool:
        """Takes in what was recorded since the last question. False for one about an earlier moment, or too soon."""
        new = _since(self._seen, entries)
        if new is None:
            return False
        for mechanism, times in new:
            simple, inner = mechanism._to_canonical()
            step, count = _step(simple), inner * times
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

    def _answer(self, directions: tuple[Direction, ...], delta: float) -> Bound | None:
        found: list[tuple[str, float, float, Sequence[float], int, int]] = []
        for direction in directions:
            if direction == "add" and found and 0 < self._most_added <= found[0][1]:
                continue  # it cannot count
            found.append(self._runs[direction].epsilon(delta, contour.TOLERANCE))
        lower, upper = max(one[1] for one in found), max(one[2] for one in found)
        narrow = all(one[0] == "certified" and one[1] > 0 for one in found) and upper - lower <= WIDTH * upper
        if not narrow:
            self._resume = _GROWN * self._sampled
            return None
        terms = contour.build_error_budget(max(found, key=lambda one: one[2])[3])
        return Bound(lower, upper, contour.ENGINE.name, shares(upper - lower, terms, "pair"))


def _step(mechanism: Mechanism) -> _Step | None:
    base, q = mechanism, 1.0
    if isinstance(mechanism, PoissonSampled):
        base, q = mechanism.mechanism, mechanism.sampling_probability
    if not isinstance(base, Gaussian) or not contour.LEAST <= base.noise_multiplier <= contour.MOST:
        return None
    return base.noise_multiplier, q


def _since(seen: Entries, entries: Entries) -> list[tuple[Mechanism, int]] | None:
    """Releases of ``entries`` beyond those of ``seen``, or None where ``seen`` is no part of them."""
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
