"""The set of the types of a composition's mechanisms. Code that treats one type of mechanism specially
checks first whether the set contains this type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ...composition import Mechanism, Parts

T = TypeVar("T")


class cache_fact_of_parts(Generic[T]):
    """Decorator that keeps the result of the last call of a pure function of a composition's parts.

    The computation of one bound calls such a function several times with the same tuple of parts: once for each
    direction and each engine.
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
    """Returns the types of the parts' mechanisms and of the mechanisms inside them, with all base classes of the types.

    A mechanism that contains another mechanism, such as a sampler, has the other mechanism as its attribute
    ``mechanism``.
    """
    found: set[type] = set()
    layer = [mechanism for mechanism, _ in parts]
    while layer:
        found.update(*(type(mechanism).__mro__ for mechanism in layer))
        layer = [inner for outer in layer if (inner := getattr(outer, "mechanism", None)) is not None]
    return frozenset(found)


def has_kind_of_mechanism(parts: Parts, *some: type[Mechanism]) -> bool:
    """Tells whether the mechanism of a part, or a mechanism inside it, is an instance of one of these types."""
    return not list_kinds_of_mechanisms(parts).isdisjoint(some)
