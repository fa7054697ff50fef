"""The budget of work of a question, for searches in Python, and the results that parts of a question share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..._core import work_charge

_SHARED: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared", default=None)


def try_to_spend_work(units: int) -> bool:
    """Charges the next piece of work, of so many units of about a nanosecond, and returns True.

    Returns False and charges nothing once the budget is spent: the caller then leaves that piece out.
    """
    return work_charge(0) and work_charge(units)


@contextmanager
def share_work() -> Iterator[dict[Hashable, Any]]:
    """Gives all parts of one question the same dictionary of results, which is dropped when the question ends.

    An answer depends on no other question. A context inside of another one yields the outer one's dictionary.
    """
    outer = _SHARED.get()
    if outer is not None:
        yield outer
        return
    kept: dict[Hashable, Any] = {}
    token = _SHARED.set(kept)
    try:
        yield kept
    finally:
        _SHARED.reset(token)
