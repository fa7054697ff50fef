"""Locks by which processes take turns at a file or a folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ._owner import Owner

fcntl: Any = None
with suppress(ImportError):  # Windows has none
    fcntl = import_module("fcntl")

LOCKS_FOLDERS = fcntl is not None
"""True if a folder can be locked, as on every system but Windows."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02
"""Seconds between two tries: the first pause, and the longest, up to which they double."""


class FileLock:
    """The lock of a folder or of a file, up to ``release_lock``. A missing file is made.

    It is a lock of the open file (``flock``). A POSIX record lock (``fcntl.lockf``) belongs to the process, which loses
    it as soon as it closes any descriptor of the file: whoever copied the file would give the lock away. It belongs to
    the process that made it, and a forked child closes its copy of the descriptor, so the lock is free when the parent
    ends. On Windows it is a lock of the first byte of a file, which belongs to a handle there.

    Raises BlockingIOError if another process, or another object of this one, holds it for longer than ``seconds``.
    Any other OSError says that the file cannot be opened, or that its file system has no locks.
    """

    __slots__ = ("__weakref__", "_file", "_owner", "_path")

    def __init__(self, path: Path, seconds: float = 0.0) -> None:
        self._path, self._file, self._owner = path, -1, Owner()
        # NFS locks only files that are open for writing.
        flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
        self._file = os.open(path, flags, 0o600)
        _held.add(self)
        end, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while not _try_to_lock(self._file):
            if time.monotonic() >= end:
                self.release_lock()
                raise BlockingIOError(f"another process holds the lock of {path}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @property
    def is_held(self) -> bool:
        """True if this process holds the lock, and the path still leads to the file that was locked.

        A file that was removed or replaced has another lock, which others may hold.
        """
        with suppress(OSError):  # the path may lead nowhere
            if self._owner.is_here and self._file >= 0:
                return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        return False

    def release_lock(self) -> None:
        """Gives the lock back; in a forked child, it closes the descriptor and leaves the lock to the parent."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.release_lock()


def _try_to_lock(file: int) -> bool:
    """Takes the lock of the open file if it is free, and tells whether it was."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            windows = import_module("msvcrt")
            windows.locking(file, windows.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # Windows raises the second
        return False
    return True


_held: WeakSet[FileLock] = WeakSet()
"""Locks of this process, whose copies a forked child closes."""


def _leave_locks_to_the_parent() -> None:
    for lock in list(_held):
        lock.release_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks_to_the_parent)
