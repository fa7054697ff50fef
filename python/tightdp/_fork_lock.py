"""A lock for short work that a forked child finds free."""

from __future__ import annotations

import os
import threading


class RenewedLock:
    """A lock that ``with lock.now:`` holds.

    A thread that held it when the process forked does not exist in the child, which therefore gets a new lock.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self._make_new_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._make_new_lock)

    def _make_new_lock(self) -> None:
        self.now = threading.RLock()
