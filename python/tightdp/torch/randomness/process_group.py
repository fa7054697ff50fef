"""The interface for messages between processes that train together, implemented for a process that trains alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Fact = Callable[[], object]
"""Function that returns a value, which must be the same on all processes of a run."""


class World:
    """A group of a single process, which needs no messages. Each process of a group has a number, its rank."""

    rank, size = 0, 1
    shares = False
    """Whether the process draws random numbers by a key that it shares with other processes."""

    @property
    def is_first(self) -> bool:
        """Whether this process is rank 0, which writes files and releases numbers for all processes."""
        return self.rank == 0

    @contextmanager
    def run_ranks_together(self, what: str, **facts: Fact) -> Iterator[None]:
        """Runs the ``with`` body on every rank. Either all ranks leave it without an error, or all raise an error.

        The facts are computed after the body and must be the same on all ranks. Otherwise every rank raises
        ``ValueError``. If the body raises an error on one rank, the other ranks raise ``RuntimeError``. The body must
        not call methods of this object.
        """
        yield

    def add_over_ranks(self, integers: Any) -> None:
        """Replaces an int64 tensor in host memory by its sum over ranks, modulo 2^64. A single rank leaves the tensor
        unchanged."""

    def run_on_first_rank(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls a function on the first rank, and returns its result on every rank.

        The result must consist of values that JSON can hold. Raises as ``run_ranks_together`` does.
        """
        return function()
