"""The work that a question may still take, and results that the computations of one question share.

A question is the computation of an epsilon, a delta or a similar quantity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from ..._core import work_charge, work_left, work_spent

T = TypeVar("T")
_SHARED: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared", default=None)


def try_to_spend_work(units: int) -> bool:
    """Charges ``units`` of work, about a nanosecond each, for the next piece of work. Returns True if the budget allows
    this piece.

    If fewer than ``units`` are left, this function returns False, and the budget then counts as spent. The caller
    leaves this piece of work out.
    """
    return work_charge(0) and work_charge(units)


class WorkCache(Generic[T]):
    """A cache of the results of long computations, from one question to the next.

    No answer depends on what is in the cache. A question that uses a cached result is charged with the work of
    computing that result. If the budget runs out during a computation, its result is not kept.
    """

    def __init__(self, most: int) -> None:
        """``most`` is the largest number of results. If there are more, the oldest one is dropped."""
        self._most, self._lock = most, threading.Lock()
        self._kept: dict[Hashable, tuple[T, int]] = {}

    def find_or_compute_work(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result for ``key``, from the cache or by ``compute``."""
        entry = self._kept.get(key)
        if entry is not None and entry[1] <= work_left():
            work_charge(entry[1])
            return entry[0]
        before = work_spent()
        found = compute()
        if work_left() > 0:
            with self._lock:
                self._kept[key] = found, work_spent() - before
                while len(self._kept) > self._most:
                    del self._kept[next(iter(self._kept))]
        return found


@contextmanager
def share_work_results() -> Iterator[dict[Hashable, Any]]:
    """Gives all computations of one question the same dictionary of results.

    The dictionary is dropped when the question ends, so no answer depends on another question. Inside of another such
    context, the function yields the dictionary of the outer context.
    """
    outer = _SHARED.get()
    if outer is not None:
        yield outer
        return
    with share_work_in_new_context({}) as kept:
        yield kept


@contextmanager
def share_work_in_new_context(kept: dict[Hashable, Any]) -> Iterator[dict[Hashable, Any]]:
    """Makes ``kept`` the dictionary of results inside of this context, whatever contexts are around it."""
    token = _SHARED.set(kept)
    try:
        yield kept
    finally:
        _SHARED.reset(token)
