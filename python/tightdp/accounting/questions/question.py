"""A question about a composition: every direction of the relation is asked on its own, and the worst one counts.

The maximum comes last: each direction is one dominating pair composed with itself through all steps, and only the
finished curves are compared (docs/theory/conversions.md section 1). The trade-off curve is in ``tradeoff.py``; the
other curves and risks are read off delta (conversions.md sections 8 and 9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import _check, _core
from ...bound import Bound, Curve
from ...composition import Composition, Parts
from ...derived import group_composition as group_composition
from ...options import DELTA_ERROR, EPS_ERROR, NEIGHBORS, WIDTH, Direction, Neighbors
from ..engines import auto
from ..engines.base import DEFAULT, Engine, Request
from ..engines.grid import ENGINE as grid
from ..engines.renyi.engine import bound_divergence
from ..numerics.outward import down, up
from ..numerics.work import affords, one_question
from ..pairs import neighbors as relations
from ..pairs.largest import attained_loss, is_unbounded, largest_added, largest_of
from ..pairs.members import members, revealing
from . import gaussian_dp
from .tradeoff import tradeoff

_ROUGH = Request(width=1e-5)
"""For deltas from which mu is found to a thousandth."""
_NEXT_TO_NOTHING = 1e-300
"""A delta above 0, whose epsilon is at most that of delta 0."""
_UNITS = 6 * 10**9
"""Of work, for one question: eight seconds at the most. Answers that take more are wider, and the same every time."""


class Question(NamedTuple):
    """A composition, and how it is asked about; what is asked is the method."""

    composition: Composition
    neighbors: Neighbors = "add_or_remove"
    engine: str | Engine = "auto"
    request: Request = DEFAULT

    @classmethod
    def of(
        cls,
        composition: Composition,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Question:
        """With checked options: ValueError or TypeError names the one that is wrong."""
        request = DEFAULT
        if not (width is WIDTH and eps_error is EPS_ERROR and delta_error is DELTA_ERROR):
            request = Request(
                width=_check.positive("width", width),
                eps_error=_check.positive("eps_error", eps_error),
                delta_error=_check.open_unit("delta_error", delta_error),
            )
        _check.choice("neighbors", neighbors, NEIGHBORS)
        _check.choice("engine", engine, ("auto", *auto.NAMES))
        return cls(composition, neighbors, engine, request)

    def about(self, composition: Composition) -> Question:
        """The same question about another composition."""
        return Question(composition, self.neighbors, self.engine, self.request)

    def epsilon(self, delta: float) -> Bound:
        """Bounds on inf{eps >= 0 : delta(eps) <= delta}, delta in [0, 1). At 0 it is the largest privacy loss."""
        at = _check.one_number("delta", delta, "epsilon_batch answers many settings of DP-SGD at once")
        at = _check.below_one("delta", at)
        if at == 0:
            return self._largest_loss()
        return self._worst(
            lambda parts, direction: auto.epsilon(self.engine, parts, direction, at, self.request),
            lambda parts, direction: largest_added(parts) if direction == "add" else math.inf,
        )

    def _largest_loss(self) -> Bound:
        """Bounds on epsilon at delta 0 (docs/theory/conversions.md section 12)."""
        if self.engine != "auto":
            raise ValueError(
                f"delta must be a number in (0, 1) for engine={self.engine!r}, got 0.0: 'auto' answers there"
            )
        pairs = self.pairs()
        upper = max(largest_of(*pair) for pair in pairs)
        if any(is_unbounded(*pair) for pair in pairs):
            return Bound(math.inf, math.inf, "closed_form")
        lower = max(attained_loss(parts) for parts, _ in pairs)
        if lower == 0 < upper:
            lower = self.epsilon(_NEXT_TO_NOTHING).lower
        return Bound(lower, upper, "closed_form")

    def delta(self, epsilon: float) -> Bound:
        """Bounds on delta(epsilon), any finite real epsilon."""
        at = _check.real("epsilon", _check.one_number("epsilon", epsilon, "profile answers an array of epsilons"))
        return self._worst(lambda parts, direction: auto.delta(self.engine, parts, direction, at, self.request))

    def profile(self, epsilons: ArrayLike) -> Curve:
        """delta at each epsilon. As delta never increases, a neighbour's bound may improve one's own, and stands for it
        once a budget around the whole is spent."""
        at = _check.reals_in("epsilons", epsilons)
        order = np.argsort(at, axis=None)
        with one_question():
            bounds = [
                self.delta(float(eps)) if affords(0) else auto.bound_any_delta(float(eps)) for eps in at.ravel()[order]
            ]
        lower, upper = np.empty(at.size), np.empty(at.size)
        lower[order] = np.maximum.accumulate([b.lower for b in bounds][::-1])[::-1] if bounds else []
        upper[order] = np.minimum.accumulate([b.upper for b in bounds]) if bounds else []
        return Curve(lower.reshape(at.shape), upper.reshape(at.shape))

    def above(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper bounds of delta at epsilons that ascend: many for little more than one where the grid engine serves."""
        pairs = self.pairs()
        if any(grid.explain_refusal(*pair) is not None for pair in pairs):
            return np.array([self.delta(float(epsilon)).upper for epsilon in epsilons])
        with _core.Budget(_UNITS):
            found: NDArray[np.float64] = np.max(
                [grid.bound_deltas_from_above(*pair, epsilons, self.request) for pair in pairs], axis=0
            )
        return found

    def bayes_risk(self, prior: ArrayLike) -> Curve:
        """prior * (1 - delta(log((1 - prior) / prior))), the least error of guessing whether the record is there."""
        at = _check.reals_in("prior", prior, 0.0, 1.0)
        lower, upper = np.zeros(at.size), np.zeros(at.size)
        inside = [i for i, p in enumerate(at.ravel()) if 0 < p < 1]
        with one_question():
            for i in inside:
                p = at.ravel()[i]
                b = self.delta(math.log1p(-p) - math.log(p))
                slack = 4e-15  # of the logarithm (delta has slope at most 1 in eps) and of the product
                most = min(p, 1 - p)
                lower[i] = min(max(down(p * (1 - b.upper - slack)), 0.0), most)
                upper[i] = min(up(p * (1 - b.lower + slack)), most)
        return Curve(lower.reshape(at.shape), upper.reshape(at.shape))

    def renyi(self, orders: ArrayLike) -> Curve:
        """Renyi divergences of the worst pair. They grow with the order: a neighbour's may improve one's own."""
        at = _check.reals_in("orders", orders, math.nextafter(1.0, 2.0))
        ascending = np.argsort(at, axis=None)
        pairs = self.pairs()
        ends = np.zeros((at.size, 2))
        for i in ascending:
            each = [bound_divergence(*pair, float(at.ravel()[i])) for pair in pairs]
            ends[i] = max(lower for lower, _ in each), max(upper for _, upper in each)
        ends[ascending, 0] = np.maximum.accumulate(ends[ascending, 0])
        ends[ascending, 1] = np.minimum.accumulate(ends[ascending[::-1], 1])[::-1]
        return Curve(ends[:, 0].reshape(at.shape), ends[:, 1].reshape(at.shape))

    def gdp(self, delta: float) -> Bound:
        """The least mu of Gaussian differential privacy up to ``delta``, in both directions."""
        floor = _check.below_one("delta", delta)
        if self.neighbors in ("add", "remove"):  # a test of the one accuses the other
            return Question(self.composition).gdp(floor)
        pairs = self.pairs()
        noise, rest = gaussian_dp.noise(pairs[0][0])
        parts = rest if floor == 0 else pairs[0][0]

        def curve(epsilon: float) -> Bound:
            found = [auto.delta("auto", parts, direction, epsilon, _ROUGH) for _, direction in pairs]
            return Bound(max(b.lower for b in found), max(b.upper for b in found), gaussian_dp.NAME)

        with one_question(), _core.Budget(_UNITS):
            end = largest_of(parts, pairs[0][1])
            if floor > 0:
                end = min(end, self.epsilon(floor).upper)
            found = gaussian_dp.smallest(curve, end, floor)
        if floor == 0:
            return gaussian_dp.joined(noise, found)
        return found if rest else gaussian_dp.at_most(found, noise)

    def tradeoff(self, alphas: ArrayLike) -> Curve:
        """The least type II error at each type I error, for the worst pair."""
        at = _check.reals_in("alphas", alphas, 0.0, 1.0)
        return tradeoff(self.pairs(), at, self.engine, self.request)

    def _worst(
        self, ask: Callable[[Parts, Direction], Bound], most: Callable[[Parts, Direction], float] | None = None
    ) -> Bound:
        """Of all pairs; ``most`` bounds an answer from above, and one that cannot count is not asked for."""
        asked = self.pairs()
        answers: list[Bound] = []
        with _core.Budget(_UNITS):
            for left, pair in zip(range(len(asked), 0, -1), asked, strict=True):
                if not (most and answers and answers[0].lower > 0 and most(*pair) <= answers[0].lower):
                    with _core.Budget(_UNITS // left):  # or the next one would have nothing left
                        answers.append(ask(*pair))
        worst = max(answers, key=lambda answer: answer.upper)
        lower, upper = max(answer.lower for answer in answers) + 0.0, worst.upper  # + 0.0: -0.0 is 0
        if not worst.error_budget:
            rest = "unknown"
        else:
            rest = "pair" if all(members(run) == (run,) for run, _ in asked) else "class"
        return Bound(lower, upper, worst.engine, shares(upper - lower, worst.error_budget, rest))

    def pairs(self) -> list[tuple[Parts, Direction]]:
        """The dominating pairs that the relation asks for, equal ones once; ValueError where there is none.

        Every question comes by here, in the thread that computes its answer: RuntimeError where its arithmetic is not
        what bounds rest on.
        """
        _core.check_arithmetic()
        parts = self.composition.latest_last
        reason = relations.refuse(parts, self.neighbors)
        if reason:
            raise ValueError(reason)
        # What reveals nothing changes no answer, not even its last digit or the engine that gives it.
        rest = revealing(parts)
        if rest or self.engine == "auto":
            parts = rest
        if self.neighbors == "replace":
            parts = relations.translate(parts)
        if self.neighbors == "replace_special":
            parts = relations.zeroed(parts)
        if all(mechanism.symmetric for mechanism, _ in parts):
            return [(parts, "remove")]
        both: tuple[Direction, ...] = ("remove", "add")
        return [(parts, one) for one in ((self.neighbors,) if self.neighbors in ("add", "remove") else both)]


_NEARLY = 1.1
"""A width that exceeds its terms by no more is theirs: the ends were rounded outward."""


def shares(width: float, terms: Mapping[str, float], rest: str) -> dict[str, float]:
    """An engine's terms as shares of ``width``; what they do not explain is called ``rest``.

    They may exceed it, where the ends are of several engines or directions, and fall short of it, where both ends are
    bounds of different laws.
    """
    if not width < math.inf:
        return dict(terms)
    found = {name: min(term, width) for name, term in terms.items()}
    total = math.fsum(found.values())
    if total * _NEARLY < width:
        return {**found, rest: width - total}
    return {name: term * (width / total) for name, term in found.items()} if total > 0 else found
