"""The budget of a question, for searches that Python does, and what its parts share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ... import _core

_SHARED: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared", default=None)


def try_to_spend_work(units: int) -> bool:
    """Charges the next piece of work of so many units, about a nanosecond each; False once the budget is spent, and
    then nothing is charged for what is not done."""
    return _core.work_charge(0) and _core.work_charge(units)


@contextmanager
def share_work() -> Iterator[dict[Hashable, Any]]:
    """What is found within it is kept until it ends: parts of one question share their work, and an answer depends on
    no other question."""
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
