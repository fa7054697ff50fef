"""The state of a running account, which changes in one step and only in the process that made it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ..._core import check_arithmetic
from ..._support.process_owner import ProcessOwner
from ...mechanisms import Mechanism

State = TypeVar("State")

Entries = tuple["Entries", Mechanism, int] | None
"""Releases with their counts, as nested tuples with the last release outermost. A new release wraps the tuples of the
earlier ones, which are not copied."""


def list_running_account_entries(entries: Entries) -> tuple[tuple[Mechanism, int], ...]:
    """Returns the releases with their counts, from the first to the last."""
    found = []
    while entries is not None:
        entries, mechanism, count = entries
        found.append((mechanism, count))
    return tuple(reversed(found))


class SharedAccountState(Generic[State]):
    """A holder of an immutable state, which only ``update_state`` replaces.

    ``update_state(step)`` replaces ``state`` by ``step(state)``. Other threads see the old state or the new one, and
    nothing between. Nothing changes if ``step`` raises or a signal interrupts it. Reading ``state`` takes no lock.
    Everything that is derived from one reading is consistent.

    A forked child process has only a copy of the state. Releases that the child recorded would be missing in the
    parent. So ``update_state`` raises ``RuntimeError`` in the child. The error comes before the lock is taken, because
    another thread of the parent may have held the lock at the fork. The child can read what was recorded up to the
    fork.
    """

    __slots__ = ("_advice", "_lock", "_owner", "state")

    def __init__(self, state: State, advice: str) -> None:
        check_arithmetic()
        self.state = state
        self._advice = advice
        self._owner = ProcessOwner()
        self._lock = threading.RLock()

    def update_state(self, step: Callable[[State], State]) -> None:
        """Replaces ``state`` by ``step(state)``, in one step."""
        self.require_own_process_of_account()
        with self._lock:
            while True:
                before = self.state
                after = step(before)
                # The lock excludes other threads, but not a signal handler or a finaliser of this thread, because the
                # thread holds the lock already. If one of them changed the state, the step is repeated from the new
                # state.
                if self.state is before:
                    self.state = after
                    return

    def require_own_process_of_account(self) -> None:
        """Raises RuntimeError in a forked child, or if the thread's rounding mode is not the one that sums assume."""
        check_arithmetic()
        self._owner.check_process("this account", self._advice)
