"""A question about a composition. Each direction of the neighbouring relation has an answer, and the worst one counts.

Each direction is one dominating pair, composed over all steps. The maximum over the directions is taken after
composition (docs/theory/conversions.md section 1). The trade-off curve is computed in ``tradeoff.py``. The other curves
and risks follow from delta (conversions.md sections 8 and 9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core import Budget, check_arithmetic
from ..._support import _check
from ...bound import Bound, Curve
from ...composition import Composition, Parts
from ...mechanisms.selections_and_groups import build_group_of_mechanisms as build_group_of_mechanisms
from ...options import DELTA_ERROR, EPS_ERROR, NEIGHBORS, WIDTH, Direction, Neighbors
from ..engines import auto
from ..engines.engine_interface import DEFAULT, Engine, Request
from ..engines.grid import ENGINE as grid
from ..engines.renyi.engine import bound_renyi_divergence
from ..numerics.outward import widen_down, widen_up
from ..numerics.shared_work import share_work_results, try_to_spend_work
from ..pairs import neighbors as relations
from ..pairs.class_members import discard_pairs_without_loss, list_class_members
from ..pairs.largest_loss import (
    attained_largest_loss,
    bound_largest_loss,
    bound_largest_loss_of_adding,
    is_largest_loss_unbounded,
)
from . import gaussian_dp
from .tradeoff import bound_tradeoff_curve

_ROUGH = Request(width=1e-5)
"""Width of the bounds of delta that ``Question.gdp`` asks for. A width above the default suffices, since ``gdp`` finds
mu only to a thousandth."""
_NEXT_TO_NOTHING = 1e-300
"""A delta just above 0. The epsilon at this delta is a lower bound of the largest loss."""
_UNITS = 6 * 10**9
"""Work units for one question, which take eight seconds at most. An answer that would take more units is a wider
interval instead. Work is counted and not timed, so answers are reproducible."""


class Question(NamedTuple):
    """A composition with the relation, the engine and the accuracy that its methods use."""

    composition: Composition
    neighbors: Neighbors = "add_or_remove"
    engine: str | Engine = "auto"
    request: Request = DEFAULT

    @classmethod
    def from_question_options(
        cls,
        composition: Composition,
        neighbors: Neighbors = "add_or_remove",
        engine: str = "auto",
        width: float = WIDTH,
        eps_error: float = EPS_ERROR,
        delta_error: float = DELTA_ERROR,
    ) -> Question:
        """Returns a question with checked options. Raises ValueError or TypeError that names a wrong option."""
        request = DEFAULT
        if not (width is WIDTH and eps_error is EPS_ERROR and delta_error is DELTA_ERROR):
            request = Request(
                width=_check.positive("width", width),
                eps_error=_check.positive("eps_error", eps_error),
                delta_error=_check.open_unit("delta_error", delta_error),
            )
        _check.check_choice_argument("neighbors", neighbors, NEIGHBORS)
        _check.check_choice_argument("engine", engine, ("auto", *auto.NAMES))
        return cls(composition, neighbors, engine, request)

    def replace_composition_of_question(self, composition: Composition) -> Question:
        """Returns the same question about another composition."""
        return Question(composition, self.neighbors, self.engine, self.request)

    def epsilon(self, delta: float) -> Bound:
        """Returns bounds on inf{eps >= 0 : delta(eps) <= delta} for delta in [0, 1). At delta 0 this is the largest
        loss."""
        at = _check.check_single_argument("delta", delta, "epsilon_batch answers many settings of DP-SGD at once")
        at = _check.below_one("delta", at)
        if at == 0:
            return self._bound_question_at_delta_zero()
        return self._ask_question_in_worst_direction(
            lambda parts, direction: auto.run_engines_for_epsilon(self.engine, parts, direction, at, self.request),
            lambda parts, direction: bound_largest_loss_of_adding(parts) if direction == "add" else math.inf,
        )

    def _bound_question_at_delta_zero(self) -> Bound:
        """Returns bounds on epsilon at delta 0 (docs/theory/conversions.md section 12)."""
        if self.engine != "auto":
            raise ValueError(
                f"delta must be a number in (0, 1) for engine={self.engine!r}, got 0.0: 'auto' answers there"
            )
        pairs = self.list_question_directions()
        upper = max(bound_largest_loss(*pair) for pair in pairs)
        if any(is_largest_loss_unbounded(*pair) for pair in pairs):
            return Bound(math.inf, math.inf, "closed_form")
        lower = max(attained_largest_loss(parts) for parts, _ in pairs)
        if lower == 0 < upper:
            lower = self.epsilon(_NEXT_TO_NOTHING).lower
        return Bound(lower, upper, "closed_form")

    def delta(self, epsilon: float) -> Bound:
        """Returns bounds on delta(epsilon), for any finite real epsilon."""
        at = _check.check_real_argument(
            "epsilon", _check.check_single_argument("epsilon", epsilon, "profile answers an array of epsilons")
        )
        return self._ask_question_in_worst_direction(
            lambda parts, direction: auto.run_engines_for_delta(self.engine, parts, direction, at, self.request)
        )

    def profile(self, epsilons: ArrayLike) -> Curve:
        """Returns bounds of delta at each epsilon.

        Delta never increases with epsilon, so a bound at one epsilon may improve the bounds at other epsilons. Once the
        budget of work for the whole profile is spent, the remaining epsilons are not asked about. Their bounds follow
        from those at other epsilons.
        """
        at = _check.check_bounded_array_argument("epsilons", epsilons)
        order = np.argsort(at, axis=None)
        with share_work_results():
            bounds = [
                self.delta(float(eps)) if try_to_spend_work(0) else auto.bound_delta_without_engines(float(eps))
                for eps in at.ravel()[order]
            ]
        lower, upper = np.empty(at.size), np.empty(at.size)
        lower[order] = np.maximum.accumulate([b.lower for b in bounds][::-1])[::-1] if bounds else []
        upper[order] = np.minimum.accumulate([b.upper for b in bounds]) if bounds else []
        return Curve(lower.reshape(at.shape), upper.reshape(at.shape))

    def bound_profile_of_question(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns upper bounds of delta at ascending epsilons.

        If the grid engine serves all pairs, many epsilons take little more time than one.
        """
        pairs = self.list_question_directions()
        if any(grid.explain_refusal(*pair) is not None for pair in pairs):
            return np.array([self.delta(float(epsilon)).upper for epsilon in epsilons])
        with Budget(_UNITS):
            found: NDArray[np.float64] = np.max(
                [grid.bound_grid_deltas_from_above(*pair, epsilons, self.request) for pair in pairs], axis=0
            )
        return found

    def bayes_risk(self, prior: ArrayLike) -> Curve:
        """Returns bounds on prior * (1 - delta(log((1 - prior) / prior))) at each prior.

        This number is the least probability of an error in guessing whether the record is in the data.
        """
        at = _check.check_bounded_array_argument("prior", prior, 0.0, 1.0)
        lower, upper = np.zeros(at.size), np.zeros(at.size)
        inside = [i for i, p in enumerate(at.ravel()) if 0 < p < 1]
        with share_work_results():
            for i in inside:
                p = at.ravel()[i]
                b = self.delta(math.log1p(-p) - math.log(p))
                slack = 4e-15  # covers the roundings of the product and of the logarithm, as delta's slope is at most 1
                most = min(p, 1 - p)
                lower[i] = min(max(widen_down(p * (1 - b.upper - slack)), 0.0), most)
                upper[i] = min(widen_up(p * (1 - b.lower + slack)), most)
        return Curve(lower.reshape(at.shape), upper.reshape(at.shape))

    def renyi(self, orders: ArrayLike) -> Curve:
        """Returns bounds on the Renyi divergences of the worst pair at each order.

        Divergences grow with the order, so a bound at one order may improve the bounds at other orders.
        """
        at = _check.check_bounded_array_argument("orders", orders, math.nextafter(1.0, 2.0))
        ascending = np.argsort(at, axis=None)
        pairs = self.list_question_directions()
        ends = np.zeros((at.size, 2))
        for i in ascending:
            each = [bound_renyi_divergence(*pair, float(at.ravel()[i])) for pair in pairs]
            ends[i] = max(lower for lower, _ in each), max(upper for _, upper in each)
        ends[ascending, 0] = np.maximum.accumulate(ends[ascending, 0])
        ends[ascending, 1] = np.minimum.accumulate(ends[ascending[::-1], 1])[::-1]
        return Curve(ends[:, 0].reshape(at.shape), ends[:, 1].reshape(at.shape))

    def gdp(self, delta: float) -> Bound:
        """Returns bounds on the mu of Gaussian differential privacy up to ``delta``, as in ``Composable.gdp``."""
        floor = _check.below_one("delta", delta)
        if self.neighbors in ("add", "remove"):  # the trade-off curve of a pair determines that of the reversed pair
            return Question(self.composition).gdp(floor)
        pairs = self.list_question_directions()
        noise, rest = gaussian_dp.split_noise_of_gaussian_dp(pairs[0][0])
        parts = rest if floor == 0 else pairs[0][0]

        def bound_worst_delta_for_gdp(epsilon: float) -> Bound:
            found = [auto.run_engines_for_delta("auto", parts, direction, epsilon, _ROUGH) for _, direction in pairs]
            return Bound(max(b.lower for b in found), max(b.upper for b in found), gaussian_dp.NAME)

        with share_work_results(), Budget(_UNITS):
            end = bound_largest_loss(parts, pairs[0][1])
            if floor > 0:
                end = min(end, self.epsilon(floor).upper)
            found = gaussian_dp.bound_smallest_gaussian_mu(bound_worst_delta_for_gdp, end, floor)
        if floor == 0:
            return gaussian_dp.combine_gaussian_dp_with_noise(noise, found)
        return found if rest else gaussian_dp.limit_gaussian_mu_by_noise(found, noise)

    def tradeoff(self, alphas: ArrayLike) -> Curve:
        """Returns bounds on the least type II error at each type I error, for the worst pair."""
        at = _check.check_bounded_array_argument("alphas", alphas, 0.0, 1.0)
        return bound_tradeoff_curve(self.list_question_directions(), at, self.engine, self.request)

    def _ask_question_in_worst_direction(
        self, ask: Callable[[Parts, Direction], Bound], most: Callable[[Parts, Direction], float] | None = None
    ) -> Bound:
        """Returns the largest of the answers of all pairs.

        ``most`` returns an upper bound of a pair's answer without asking an engine. If this bound is at most the
        lower end of the first answer, the pair is left out.
        """
        asked = self.list_question_directions()
        answers: list[Bound] = []
        with Budget(_UNITS):
            for left, pair in zip(range(len(asked), 0, -1), asked, strict=True):
                if not (most and answers and answers[0].lower > 0 and most(*pair) <= answers[0].lower):
                    with Budget(_UNITS // left):  # each pair has an equal share of the work that is left
                        answers.append(ask(*pair))
        worst = max(answers, key=lambda answer: answer.upper)
        lower, upper = max(answer.lower for answer in answers) + 0.0, worst.upper  # + 0.0 turns -0.0 into 0.0
        if not worst.error_budget:
            rest = "unknown"
        else:
            rest = "pair" if all(list_class_members(run) == (run,) for run, _ in asked) else "class"
        return Bound(lower, upper, worst.engine, split_width_of_question(upper - lower, worst.error_budget, rest))

    def list_question_directions(self) -> list[tuple[Parts, Direction]]:
        """Returns the dominating pairs of the relation, without duplicates. Raises ValueError if none is proved.

        Every question calls this method in the thread that computes its answer. Raises RuntimeError if that thread's
        floating-point arithmetic does not round as the bounds assume.
        """
        check_arithmetic()
        parts = self.composition.parts_in_composition_order
        reason = relations.explain_unproved_neighbors(parts, self.neighbors)
        if reason:
            raise ValueError(reason)
        # Parts that reveal nothing must not change an answer, not even its last digit or the engine that gives it.
        rest = discard_pairs_without_loss(parts)
        if rest or self.engine == "auto":
            parts = rest
        if self.neighbors == "replace":
            parts = relations.translate_parts_to_replacement(parts)
        if self.neighbors == "replace_special":
            parts = relations.translate_parts_to_zeroing(parts)
        if all(mechanism.symmetric for mechanism, _ in parts):
            return [(parts, "remove")]
        both: tuple[Direction, ...] = ("remove", "add")
        return [(parts, one) for one in ((self.neighbors,) if self.neighbors in ("add", "remove") else both)]


_NEARLY = 1.1
"""Largest ratio of a bound's width to the sum of its error terms at which these terms are taken to explain the whole
width. An engine names an error term for each source of width. The ratio may exceed 1, since both ends are rounded
outward."""


def split_width_of_question(width: float, terms: Mapping[str, float], rest: str) -> dict[str, float]:
    """Returns an engine's error terms scaled to add up to ``width``. Width that the terms do not explain is named
    ``rest``.

    The sum of the terms may exceed the width if the two ends come from different engines or directions. The sum may
    fall short of the width if the two ends are bounds of different distributions.
    """
    if not width < math.inf:
        return dict(terms)
    found = {name: min(term, width) for name, term in terms.items()}
    total = math.fsum(found.values())
    if total * _NEARLY < width:
        return {**found, rest: width - total}
    return {name: term * (width / total) for name, term in found.items()} if total > 0 else found
