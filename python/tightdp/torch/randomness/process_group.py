"""The process that trains, as one that trains with others is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Fact = Callable[[], object]


class World:
    """One process by itself: it agrees with whatever it says."""

    rank, size = 0, 1
    shares = False
    """Whether it is one of several that draw by one key, or could be."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @contextmanager
    def run_together(self, what: str, **facts: Fact) -> Iterator[None]:
        """The body runs on every rank; all leave it, or all raise.

        What the facts return after the body is the same on all ranks, or ``ValueError`` on every one. An error of the
        body is raised where it happened, and ``RuntimeError`` elsewhere. The body calls no method of this object.
        """
        yield

    def add_up(self, integers: Any) -> None:
        """The sum over ranks, modulo 2^64, in the place of an int64 tensor in host memory."""

    def run_on_first(self, what: str, function: Callable[[], Any]) -> Any:
        """Calls a function on the first rank and returns its result, made of values that JSON has, on every rank.

        Raises as ``run_together`` does.
        """
        return function()
