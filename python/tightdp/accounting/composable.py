"""What a mechanism and a composition share: the arithmetic of composing, and the questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _check
from .options import DELTA_ERROR, EPS_ERROR, WIDTH, Neighbors, options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .bound import Bound
    from .composition import Composition
    from .curves import Curve


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

    def profile(
        self,
        epsilons: ArrayLike,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Curve:
        """The privacy profile: bounds on delta at each of ``epsilons``, any finite reals of any shape."""
        from . import curves

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return curves.profile(self._composition(), epsilons, asked)

    def tradeoff(
        self,
        alphas: ArrayLike,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Curve:
        """The trade-off curve of f-DP: bounds on the least type II error beta at each type I error in ``alphas``.

        For the worst neighbours and the best test of whether the record is there. ``width`` is the absolute width of
        beta that is aimed at.
        """
        from .tradeoff import tradeoff

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return tradeoff(self._composition(), alphas, asked, width)

    def advantage(
        self,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Bound:
        """Bounds on the membership advantage: the largest true positive minus false positive rate, delta(0)."""
        from . import curves

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return curves.advantage(self._composition(), asked)

    def bayes_risk(
        self,
        prior: ArrayLike,
        *,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Curve:
        """Bounds on the least probability of guessing wrongly which of two neighbours was used, at each ``prior``.

        ``prior``, in [0, 1], is the probability of the neighbour that a test accuses; at most min(prior, 1 - prior).
        """
        from . import curves

        asked = options(neighbors, engine, width, eps_error, delta_error)
        return curves.bayes_risk(self._composition(), prior, asked)
