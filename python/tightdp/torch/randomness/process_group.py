"""A process that trains alone, with the interface of one that trains with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Fact = Callable[[], object]
"""Returns a value that must be the same on all processes of a run."""


class World:
    """A single process, whose messages to itself need no exchange."""

    rank, size = 0, 1
    shares = False
    """Whether the process draws by a key that other processes may hold too."""

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which holds files and releases numbers for all."""
        return self.rank == 0

    @contextmanager
    def run_together(self, what: str, **facts: Fact) -> Iterator[None]:
        """Runs the body on every rank so that all ranks leave it or all raise.

        The facts, which are computed after the body, must be the same on all ranks: otherwise every rank raises
        ``ValueError``. An error of the body is raised on its rank, and ``RuntimeError`` on the others. The body calls
        no method of this object.
        """
        yield

    def add_up(self, integers: Any) -> None:
        """Replaces an int64 tensor in host memory by its sum over ranks, modulo 2^64. One rank has nothing to add."""

    def run_on_first(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls a function on the first rank and returns its result, made of values that JSON has, on every rank.

        Raises as ``run_together`` does.
        """
        return function()
