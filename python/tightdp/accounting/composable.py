"""What a mechanism and a composition share: the arithmetic of composing, and the questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _check
from .options import DELTA_ERROR, EPS_ERROR, WIDTH, Neighbors, options

if TYPE_CHECKING:
    from .bound import Bound
    from .composition import Composition


class Composable:
    """One mechanism or many.

    Every question takes ``neighbors``: "add_or_remove" one record (the default: the worse of both), "add", "remove" or
    "replace"; ``engine``: "auto" or a name (docs/accounting.md lists them); and ``width``, the relative width that
    "auto" tries to meet. The "prv" engine reads ``eps_error`` and ``delta_error`` in its place.
    """

    __slots__ = ()

    def _composition(self) -> Composition:
        raise NotImplementedError

    def __add__(self, other: Composable) -> Composition:
        if not isinstance(other, Composable):
            return NotImplemented
        return self._composition()._plus(other._composition())

    def __radd__(self, other: object) -> Composition:
        if other == 0 and type(other) is int:  # the start of sum()
            return self._composition()
        return NotImplemented

    def __mul__(self, count: int) -> Composition:
        return self._composition()._times(_check.count("count", count))

    __rmul__ = __mul__

    def epsilon(
        self,
        delta: float,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Bound:
        """Bounds on the smallest epsilon >= 0, in nats, such that (epsilon, ``delta``)-DP holds; delta in (0, 1)."""
        from . import queries

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return queries.epsilon(self._composition(), _check.open_unit("delta", delta), asked)

    def delta(
        self,
        epsilon: float,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Bound:
        """Bounds on the smallest delta such that (``epsilon``, delta)-DP holds; any finite real epsilon."""
        from . import queries

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return queries.delta(self._composition(), _check.real("epsilon", epsilon), asked)
