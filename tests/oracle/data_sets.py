"""Neighbours: pairs of small data sets under each relation, by what their records contribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

ROLES = {
    "add": ("add",),
    "remove": ("remove",),
    "add_or_remove": ("add", "remove"),
    "replace": ("replace",),
    "replace_special": ("emptied", "filled"),
}
"""The ordered pairs of neighbours that a relation holds. Under "replace" each order is that of other records."""


class Neighbours(NamedTuple):
    """The contributions of the others, and of those that differ, in the first data set and in the second."""

    others: tuple[int, ...]
    here: tuple[int, ...]
    there: tuple[int, ...]


def neighbours(role: str, group: int, sizes: Sequence[int], values: Sequence[int] = (-1, 0, 1)) -> Iterator[Neighbours]:
    """All of them, but for a change of sign of all contributions. ``sizes`` are the numbers of other records. The first
    data set holds the record that is removed, and the second the one that is added; a record that contributes nothing
    stands for none at all where nobody counts it."""
    for size in sizes:
        for others in combinations_with_replacement(values, size):
            for here, there in _exchanged(role, group, values):
                yield Neighbours(others, here, there)


def _exchanged(role: str, group: int, values: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    one, none = (1,) * group, (0,) * group
    if role == "remove":
        yield one, ()
    elif role == "add":
        yield (), one
    elif role == "emptied":
        yield one, none
    elif role == "filled":
        yield none, one
    else:
        for other in values:
            if other != 1:
                yield one, (other,) * group
            if other == 0:
                yield none, one
