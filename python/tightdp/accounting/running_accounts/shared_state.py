"""State of a running account, which changes in one step and only in the process that made it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ..._core import check_arithmetic
from ..._owner import Owner
from ...mechanisms import Mechanism

State = TypeVar("State")

Entries = tuple["Entries", Mechanism, int] | None
"""Releases with their counts, the last one outermost, so that longer histories share the shorter ones."""


def list_entries(entries: Entries) -> tuple[tuple[Mechanism, int], ...]:
    """Returns the releases with their counts, from the first to the last."""
    found = []
    while entries is not None:
        entries, mechanism, count = entries
        found.append((mechanism, count))
    return tuple(reversed(found))


class SharedState(Generic[State]):
    """An immutable state, and the only way to change it.

    ``update_state(step)`` puts ``step(state)`` in the place of ``state``. It is one step to other threads, and nothing
    changes where ``step`` raises or a signal interrupts it. Reading ``state`` takes no lock: whatever is derived from
    one reading is consistent.

    A forked child has a copy of the state and not the account: what it recorded would be missing in its parent. So
    changing raises ``RuntimeError`` there, before it looks at the lock, which another thread of the parent may have
    held at the fork. What was recorded up to the fork can be read.
    """

    __slots__ = ("_advice", "_lock", "_owner", "state")

    def __init__(self, state: State, advice: str) -> None:
        check_arithmetic()
        self.state = state
        self._advice = advice
        self._owner = Owner()
        self._lock = threading.RLock()

    def update_state(self, step: Callable[[State], State]) -> None:
        """Replaces ``state`` by ``step(state)``, in one step."""
        self.require_own_process()
        with self._lock:
            while True:
                before = self.state
                after = step(before)
                # Another thread cannot have come in between. A signal handler or a finaliser of this thread can, for
                # it holds the lock already: then the step is taken again from what it left.
                if self.state is before:
                    self.state = after
                    return

    def require_own_process(self) -> None:
        """Raises RuntimeError in a forked child, and in a thread that does not round as outward sums assume."""
        check_arithmetic()
        self._owner.check_process("this account", self._advice)
