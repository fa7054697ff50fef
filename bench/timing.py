"""Timing calls side by side: they take turns, so that whatever else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

LEAST_SECONDS = 0.01
"""A turn repeats its call for this long, so that microseconds are not timed on the caches of the call before."""


def timed(call: Callable[[], object], warm: float = 0.0, rest: float = 0.0) -> float:
    """Seconds a call, over one turn after a ``rest``. Calls in the first ``warm`` seconds do not count."""
    time.sleep(rest)
    until = time.perf_counter() + warm
    while time.perf_counter() < until:
        call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= LEAST_SECONDS:
            return elapsed / calls


def interleaved(
    calls: Sequence[Callable[[], object]], rounds: int, warm: float = 0.0, rest: float = 0.0
) -> list[float]:
    """Median seconds of each call. Every round runs all of them, each time from another one on."""
    times: list[list[float]] = [[] for _ in calls]
    for r in range(rounds):
        for i in range(len(calls)):
            slot = (i + r) % len(calls)
            times[slot].append(timed(calls[slot], warm, rest))
    return [statistics.median(t) for t in times]
