"""Timing calls side by side: they take turns, so that whatever else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median seconds of each call. Every round runs all of them, each time from another one on."""
    times: list[list[float]] = [[] for _ in calls]
    for r in range(rounds):
        for i in range(len(calls)):
            slot = (i + r) % len(calls)
            times[slot].append(timed(calls[slot]))
    return [statistics.median(t) for t in times]
