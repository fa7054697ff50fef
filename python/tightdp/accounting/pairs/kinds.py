"""The set of the types of a composition's mechanisms. The special case of a type that is not in this set can be
skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...composition import Mechanism, Parts

T = TypeVar("T")


class cache_fact_of_parts(Generic[T]):
    """Decorator of a pure function of a composition's parts, which keeps the result of the last call.

    A question calls such a function several times with the same tuple: once for each direction and each engine.
    """

    def __init__(self, function: Callable[[Parts], T]) -> None:
        self._function = function
        self._last: tuple[Parts, T] | None = None  # argument and result in one tuple, since threads share this object
        self.__doc__ = function.__doc__

    def __call__(self, parts: Parts) -> T:
        last = self._last
        if last is None or last[0] is not parts:
            self._last = last = parts, self._function(parts)
        return last[1]


@cache_fact_of_parts
def list_kinds_of_mechanisms(parts: Parts) -> frozenset[type]:
    """Returns the types, with all base classes, of the parts' mechanisms and of mechanisms inside of these.

    A mechanism that samples or allocates another mechanism has the other mechanism as its attribute ``mechanism``.
    """
    found: set[type] = set()
    layer = [mechanism for mechanism, _ in parts]
    while layer:
        found.update(*(type(mechanism).__mro__ for mechanism in layer))
        layer = [inner for outer in layer if (inner := getattr(outer, "mechanism", None)) is not None]
    return frozenset(found)


def has_kind_of_mechanism(parts: Parts, *some: type[Mechanism]) -> bool:
    """Tells whether a part, or a mechanism that a part samples or allocates, is an instance of one of these types."""
    return not list_kinds_of_mechanisms(parts).isdisjoint(some)
