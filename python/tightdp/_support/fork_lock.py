"""A lock that is free in a forked child, even if a thread held the lock when the process forked."""

from __future__ import annotations

import os
import threading


class RenewedLock:
    """A lock for short operations. A forked child has a new lock. Use ``with lock.now:`` to hold the lock.

    A forked child has no copy of the other threads. If one of these threads held the lock when the process forked, the
    old lock would never be released in the child.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self._make_new_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._make_new_lock)

    def _make_new_lock(self) -> None:
        self.now = threading.RLock()
