"""A lazily merged multiset of mechanisms and the questions one asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .. import _check
from .composable import Composable

if TYPE_CHECKING:
    from ..mechanisms import Mechanism
    from .engines.base import Parts


FEW = 8
"""Up to so many distinct mechanisms an engine sees them in canonical order, however they were composed."""


def canonical(parts: Parts) -> Parts:
    """In the order that equal compositions share."""
    return tuple(sorted(parts, key=lambda part: part[0]._key()))


class Composition(Composable):
    """Mechanisms with their counts, run on the same data, each choice of one fixed before the first runs.

    A value: equal whenever the multisets are, in whatever order and grouping they were composed; hashable; and its
    repr builds it again. Sums and multiples are merged when first looked at, so composing takes constant time. Bounds
    of equal compositions are the same; of more than eight distinct mechanisms, composed in different orders, they may
    differ in the last digits, each of them valid.
    For mechanisms chosen in the light of earlier outputs see ``PrivacyFilter``.
    """

    __slots__ = ("_latest", "_merged", "_pending")

    def __init__(self, parts: Iterable[tuple[Mechanism, int]] = ()) -> None:
        from ..mechanisms import Mechanism

        checked = []
        for mechanism, count in parts:
            if not isinstance(mechanism, Mechanism):
                raise TypeError(f"parts must be pairs (Mechanism, count), got {mechanism!r}")
            checked.append((mechanism, _check.count("count", count)))
        self._pending: tuple[tuple[Any, int], ...] = tuple(checked)
        self._latest: Parts = ()
        self._merged: Parts | None = None

    @classmethod
    def _lazy(cls, pending: tuple[tuple[Any, int], ...]) -> Composition:
        made = cls.__new__(cls)
        made._pending, made._latest, made._merged = pending, (), None
        return made

    def _composition(self) -> Composition:
        return self

    def _plus(self, other: Composition) -> Composition:
        return self._lazy(((self, 1), (other, 1)))

    def _times(self, count: int) -> Composition:
        return self._lazy(((self, count),))

    @property
    def parts(self) -> Parts:
        """Distinct mechanisms, each in its simplest form, with their counts, in a canonical order."""
        if self._merged is None:
            self._merge()
        assert self._merged is not None
        return self._merged

    @property
    def latest_last(self) -> Parts:
        """The same parts; of more than ``FEW`` each stands where it was composed for the last time. What a longer run
        has in common with a shorter one then comes first, so that an engine may go on from there."""
        parts = self.parts
        return parts if len(parts) <= FEW else self._latest

    def _merge(self) -> None:
        latest = _flat(self._pieces())
        for _, total in latest:
            _check.count("count", total)
        self._latest = latest
        self._merged = canonical(latest)
        self._pending = ()

    def _pieces(self) -> tuple[tuple[Any, int], ...]:
        """What is still to be merged, or where that is done the parts; safe beside a thread that merges.

        The parts are set before what they were merged from is dropped, so that reading in the other order never
        finds both missing.
        """
        pending = self._pending
        return pending if self._merged is None else self._latest

    @property
    def symmetric(self) -> bool:
        """Whether "add" and "remove" have the same privacy curve."""
        return all(mechanism.symmetric for mechanism, _ in self.parts)

    def __len__(self) -> int:
        """How many mechanisms are composed, repetitions included."""
        return sum(count for _, count in self.parts)

    def __iter__(self) -> Iterator[tuple[Mechanism, int]]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Composition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return " + ".join(f"{mechanism!r} * {count}" for mechanism, count in self.parts) or "Composition()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.latest_last,)


def _flat(pieces: tuple[tuple[Any, int], ...]) -> Parts:
    """Flattens the tree of sums and multiples without recursion, for it may be as deep as the run is long."""
    counts: dict[Mechanism, int] = {}
    stack = list(pieces)
    while stack:  # from the last to the first
        node, times = stack.pop()
        if isinstance(node, Composition):
            stack.extend((child, times * count) for child, count in node._pieces())
        else:
            simple, count = node._canonical()
            counts[simple] = counts.get(simple, 0) + times * count
    return tuple(reversed(counts.items()))
