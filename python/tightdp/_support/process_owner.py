"""Remembers which process made an object."""

from __future__ import annotations

import os


class ProcessOwner:
    """The process that made an object. A forked child, which has a copy of the object, is another process.

    >>> ProcessOwner().is_here
    True
    """

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """True if this process is the owner."""
        return os.getpid() == self._process

    def check_process(self, name: str, advice: str) -> None:
        """Raises RuntimeError if this process is not the owner.

        The message calls the owned object ``name``, and ends with ``advice``.
        """
        if not self.is_here:
            raise RuntimeError(f"{name} belongs to process {self._process}, of which {os.getpid()} is a fork: {advice}")
