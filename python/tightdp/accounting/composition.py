"""A lazily merged multiset of mechanisms and the questions one asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .. import _check
from .composable import Composable

if TYPE_CHECKING:
    from ..mechanisms import Mechanism
    from .engines.base import Parts


class Composition(Composable):
    """Mechanisms with their counts, run on the same data, each choice of one fixed before the first runs.

    A value: equal whenever the multisets are, in whatever order and grouping they were composed; hashable; and its
    repr builds it again. Sums and multiples are merged when first looked at, so composing takes constant time.
    For mechanisms chosen in the light of earlier outputs see ``PrivacyFilter``.
    """

    __slots__ = ("_merged", "_pending")

    def __init__(self, parts: Iterable[tuple[Mechanism, int]] = ()) -> None:
        from ..mechanisms import Mechanism

        checked = []
        for mechanism, count in parts:
            if not isinstance(mechanism, Mechanism):
                raise TypeError(f"parts must be pairs (Mechanism, count), got {mechanism!r}")
            checked.append((mechanism, _check.count("count", count)))
        self._pending: tuple[tuple[Any, int], ...] = tuple(checked)
        self._merged: Parts | None = None

    @classmethod
    def _lazy(cls, pending: tuple[tuple[Any, int], ...]) -> Composition:
        made = cls.__new__(cls)
        made._pending, made._merged = pending, None
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
        pending, merged = self._pieces()
        if merged is None:
            self._merged = merged = _merge(pending)
            self._pending = ()
        return merged

    def _pieces(self) -> tuple[tuple[tuple[Any, int], ...], Parts | None]:
        """What is still to be merged, and the merged parts where they are known; safe beside a thread that merges.

        The parts are set before what they were merged from is dropped, so that reading in the other order never
        finds both missing.
        """
        pending = self._pending
        return pending, self._merged

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
        return type(self), (self.parts,)


def _merge(pending: tuple[tuple[Any, int], ...]) -> Parts:
    """Flattens the tree of sums and multiples without recursion, for it may be as deep as the run is long."""
    counts: dict[Mechanism, int] = {}
    stack = list(pending)
    while stack:
        node, times = stack.pop()
        if isinstance(node, Composition):
            unmerged, merged = node._pieces()
            stack.extend((child, times * count) for child, count in (unmerged if merged is None else merged))
        else:
            simple, count = node._canonical()
            counts[simple] = counts.get(simple, 0) + times * count
    for total in counts.values():
        _check.count("count", total)
    return tuple(sorted(counts.items(), key=lambda part: part[0]._key()))
