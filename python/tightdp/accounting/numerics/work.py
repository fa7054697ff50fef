"""The budget of work of a question, for searches in Python, and the results that parts of a question share."""

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
    """Charges the next piece of work, of so many units of about a nanosecond, and returns True.

    Returns False and charges nothing once the budget is spent: the caller then leaves that piece out.
    """
    return work_charge(0) and work_charge(units)


class KeptResults(Generic[T]):
    """Results of long computations, kept from one question to the next.

    No answer depends on what is kept: a result that is found is charged with the work that it took to make, and what
    the budget of a question cut short is not kept.
    """

    def __init__(self, most: int) -> None:
        """``most`` is the largest number of results; the oldest one is dropped first."""
        self._most, self._lock = most, threading.Lock()
        self._kept: dict[Hashable, tuple[T, int]] = {}

    def find_or_compute(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns the result for ``key``, which ``compute`` makes if it is not kept."""
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
def share_work() -> Iterator[dict[Hashable, Any]]:
    """Gives all parts of one question the same dictionary of results, which is dropped when the question ends.

    An answer depends on no other question. A context inside of another one yields the outer one's dictionary.
    """
    outer = _SHARED.get()
    if outer is not None:
        yield outer
        return
    with share_work_apart({}) as kept:
        yield kept


@contextmanager
def share_work_apart(kept: dict[Hashable, Any]) -> Iterator[dict[Hashable, Any]]:
    """Gives what is computed in the context the dictionary ``kept``, whatever contexts are around it."""
    token = _SHARED.set(kept)
    try:
        yield kept
    finally:
        _SHARED.reset(token)
