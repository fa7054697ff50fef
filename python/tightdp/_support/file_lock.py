"""Locks that let one process at a time use a file or a folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakSet

from .process_owner import ProcessOwner

fcntl: Any = None
with suppress(ImportError):  # Windows has no such module
    fcntl = import_module("fcntl")

LOCKS_FOLDERS = fcntl is not None
"""True if a folder can be locked, as on every system but Windows."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
"""Shortest and longest pause between two attempts to take a lock, in seconds. Each pause is twice the previous one,
until the longest is reached."""


class FileLock:
    """A lock of a folder or a file. The lock is held until ``release_lock`` is called. A missing file is created.

    The lock belongs to the open file (``flock``). A POSIX record lock (``fcntl.lockf``) would not do. A process loses
    such a lock as soon as it closes any descriptor of the file, for example after copying the file.

    A ``FileLock`` belongs to the process that created it. A forked child closes its copy of the descriptor, because the
    copy would keep the lock after the parent's end. On Windows, the first byte of the file is locked, and the lock
    belongs to the open handle.

    Raises BlockingIOError if another process, or another ``FileLock`` of this process, holds the lock for longer than
    ``seconds``. Raises another OSError if the file cannot be opened, or if its file system has no locks.
    """

    __slots__ = ("__weakref__", "_file", "_owner", "_path")

    def __init__(self, path: Path, seconds: float = 0.0) -> None:
        self._path, self._file, self._owner = path, -1, ProcessOwner()
        # NFS locks only files that are open for writing.
        flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
        self._file = os.open(path, flags, 0o600)
        _held.add(self)
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while not _try_to_lock_file(self._file):
            if time.monotonic() >= end:
                self.release_lock()
                raise BlockingIOError(f"another process holds the lock of {path}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @property
    def is_held(self) -> bool:
        """True if this process holds the lock, and the path still leads to the file that was locked.

        If the file was removed or replaced, another process may hold the lock of the file that is now at the path.
        """
        with suppress(OSError):  # the path may lead nowhere
            if self._owner.is_here and self._file >= 0:
                return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        return False

    def release_lock(self) -> None:
        """Releases the lock. In a forked child, only its descriptor is closed, and the parent keeps the lock."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.release_lock()


def _try_to_lock_file(file: int) -> bool:
    """Takes the lock of the open file if the lock is free. Returns whether it was free."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            windows = import_module("msvcrt")
            windows.locking(file, windows.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # Windows raises PermissionError
        return False
    return True


_held: WeakSet[FileLock] = WeakSet()
"""The locks of this process. A forked child closes its copies of these locks."""


def _leave_file_locks_to_parent() -> None:
    for lock in list(_held):
        lock.release_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_file_locks_to_parent)
