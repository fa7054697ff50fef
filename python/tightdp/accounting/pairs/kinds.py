"""Which types of mechanisms a composition holds: what a question about each of very many need not look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...composition import Mechanism, Parts

T = TypeVar("T")


class cache_by_composition(Generic[T]):
    """A pure function of a composition's parts that remembers what it said of the tuple it was asked about last.

    A question comes by several times with one and the same tuple: once for each direction and each engine.
    """

    def __init__(self, function: Callable[[Parts], T]) -> None:
        self._function = function
        self._last: tuple[Parts, T] | None = None  # both at a time, as threads share it
        self.__doc__ = function.__doc__

    def __call__(self, parts: Parts) -> T:
        last = self._last
        if last is None or last[0] is not parts:
            self._last = last = parts, self._function(parts)
        return last[1]


@cache_by_composition
def list_mechanism_types(parts: Parts) -> frozenset[type]:
    """The types of these mechanisms, and of those that they sample or allocate, with all their bases."""
    found: set[type] = set()
    layer = [mechanism for mechanism, _ in parts]
    while layer:
        found.update(*(type(mechanism).__mro__ for mechanism in layer))
        layer = [inner for outer in layer if (inner := getattr(outer, "mechanism", None)) is not None]
    return frozenset(found)


def has_any_type(parts: Parts, *some: type[Mechanism]) -> bool:
    """Whether any mechanism of these types is among them, or within one of them."""
    return not list_mechanism_types(parts).isdisjoint(some)
