"""Answers a question by the engine that is named, or by "auto", which asks engines in the order of their predicted cost
(docs/accounting.md).

A question asks for epsilon or delta of a composition in one direction. The interval of every engine contains the truth,
and so does the intersection of several intervals. "auto" stops at the first engine that meets the requested width. If
no engine does, the answer is the intersection of all intervals.

A repeated run (``RepeatAndSelect``) and a group of records (``Group``) contain an inner run. Their bounds come from the
curve of the inner run, that is its delta as a function of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..._core import Budget, work_spent
from ...bound import Bound, ContradictionError
from ...composition import FEW_PARTS, Parts, sort_composition_parts
from ...mechanisms import ZCDP, Group, PrivacyLoss
from ...mechanisms.selections_and_groups import SelectionOrGroup
from ...options import Direction
from ..numerics.outward import INF, TINY, expm1
from ..numerics.shared_work import WorkCache, share_work_in_new_context, share_work_results, try_to_spend_work
from ..pairs import known_curve
from ..pairs.class_members import has_pair_without_loss, list_class_members
from ..pairs.hull import build_dominating_pair
from ..pairs.inclusion_probability import inclusion_probability
from ..pairs.kinds import has_kind_of_mechanism
from ..pairs.known_curve import Ask, KnownCurve, narrow_by_known_curve
from ..pairs.largest_loss import bound_largest_loss, largest_loss_within_delta
from ..pairs.neighbors import translate_parts_to_fewer_records
from ..pairs.substitutes import list_dominating_compositions, list_mechanisms_without_mixture
from . import (
    closed_form,
    contour,
    fallback,
    fixed_size,
    grid,
    participations,
    prv,
    random_allocation,
    renyi,
    selections_and_groups,
)
from .engine_interface import REVERSED, Engine, Request

ENGINES: dict[str, Engine] = {
    module.ENGINE.name: module.ENGINE for module in (closed_form, contour, random_allocation, grid, renyi, prv)
}
"""The engines that a user can ask for by name."""
NAMES = tuple(ENGINES)
_AUTO: tuple[Engine, ...] = (
    *(module.ENGINE for module in (closed_form, participations, contour, random_allocation, grid, fixed_size, renyi)),
    fallback.Fallback((closed_form.ENGINE, participations.ENGINE, contour.ENGINE)),
)
"""The engines that "auto" asks, in the order of their cost. The first engines take microseconds, and later engines take
milliseconds. The last engines answer every question."""
ANSWERED = frozenset((*NAMES, *(engine.name for engine in _AUTO), "derived", known_curve.NAME, "trivial"))
"""The names that may occur in ``Bound.engine``, which joins the names of several engines by "+"."""


_SEARCHED, _NESTED, _NESTED_ABOVE, _IN_PYTHON = 10**6, 2 * 10**7, 2 * 10**6, 2 * 10**6
"""Work units, of which a million take about a millisecond. ``_SEARCHED`` is charged for one bound on the curve of an
inner run. If the inner run is itself a repeated run or a group, ``_NESTED`` is charged for both ends of the bound, and
``_NESTED_ABOVE`` for the upper end alone. ``_IN_PYTHON`` is the work of one answer of the engine "renyi"."""
_WHOLE_CURVE, _DEEPER = 10**9, 8
"""``_WHOLE_CURVE`` is the number of work units for the whole curves of all repeated runs and groups of one composition,
about a second. This number is divided by ``_DEEPER`` for each level of runs inside of runs."""
_NOTHING = Bound(0.0, INF, "trivial", {})
"""The trivial bound on epsilon, which always holds."""


class _EngineQuestion(NamedTuple):
    """A question about the ``curve`` "epsilon" or "delta" at the argument ``at``, in one direction."""

    parts: Parts
    direction: Direction
    curve: str
    at: float
    request: Request

    @property
    def trivial_bound(self) -> Bound:
        """Bound that always holds."""
        return _NOTHING if self.curve == "epsilon" else bound_delta_without_engines(self.at)


def run_engines_for_epsilon(
    engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request
) -> Bound:
    """Returns bounds on epsilon(delta) for one direction.

    "auto" also uses two limits that need no engine: the inclusion probability and the largest privacy loss.
    """
    return _ask_engine_or_auto(engine, _EngineQuestion(parts, direction, "epsilon", delta, request))


def run_engines_for_delta(
    engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request
) -> Bound:
    """Returns bounds on delta(epsilon) for one direction.

    "auto" also uses two limits that need no engine: the inclusion probability and the largest privacy loss.
    """
    return _ask_engine_or_auto(engine, _EngineQuestion(parts, direction, "delta", epsilon, request))


def _ask_engine_or_auto(engine: str | Engine, question: _EngineQuestion) -> Bound:
    """Returns the answer to a question. All computations for this answer share results about inner runs."""
    if not has_kind_of_mechanism(question.parts, SelectionOrGroup):
        return _run_engine_or_narrowed_auto(engine, question)
    with share_work_results():
        return _run_engine_or_narrowed_auto(engine, question)


def _run_engine_or_narrowed_auto(engine: str | Engine, question: _EngineQuestion) -> Bound:
    """Returns the answer to a question. An answer of "auto" is narrowed by known limits and other points of the curve.

    Delta is positive at every epsilon below the largest privacy loss. If the upper end at such an epsilon was rounded
    to 0, the smallest positive double replaces this end.
    """
    parts, direction, curve, at, request = question
    before = work_spent()
    found = _ask_engines_without_known_points(engine, question)
    if engine == "auto":
        if curve == "epsilon" and found.upper == INF and found.lower < INF:
            most = largest_loss_within_delta(parts, at)
            found = replace(found, upper=max(most, found.lower), error_budget={}) if most < INF else found
        if not _is_engine_answer_narrow(found, request.width):
            found = _narrow_answer_of_engines(found, question, work_spent() - before)
        elif curve == "delta" and at >= 0 and (most := inclusion_probability(parts)) < found.upper:
            found = _intersect_engine_bounds(found, replace(found, lower=0.0, upper=most), question)
    if curve == "delta" and found.upper == 0 and at < bound_largest_loss(parts, direction):
        return replace(found, upper=TINY)  # delta is positive, but smaller than every positive double
    return found


def _narrow_answer_of_engines(found: Bound, question: _EngineQuestion, work: int) -> Bound:
    """Returns ``found``, narrowed by the limits that need no engine and by other points of the curve.

    If the composition is one group, other points would not help and are not computed. The answers at all points are
    computed from the same lines, which bound the group's curve (docs/theory/derived.md section 2).
    """
    parts, direction, curve, at, request = question
    asks: dict[str, Ask] = {}
    if not isinstance(_get_single_derived_for_engines(parts), Group):
        asks = {other: _build_ask_of_engines(parts, direction, other, request) for other in ("delta", "epsilon")}
    return narrow_by_known_curve(
        found, curve, at, KnownCurve(*_get_limits_without_engines(parts, direction)), asks, work
    )


def _build_ask_of_engines(parts: Parts, direction: Direction, curve: str, request: Request) -> Ask:
    """Returns a function that bounds points of a curve from the engines alone, without other points of the curve."""
    return lambda at: _ask_engines_without_known_points("auto", _EngineQuestion(parts, direction, curve, at, request))


def _ask_engines_without_known_points(engine: str | Engine, question: _EngineQuestion) -> Bound:
    """Returns the answer of the engines.

    "auto" also bounds one repeated run, or one group, by the curves of its inner run.
    """
    parts, direction, curve, at, request = question
    found = _ask_engines_with_members(engine, question)
    if engine == "auto" and (alone := _get_single_derived_for_engines(parts)):
        links = _ask_auto_engine_about_links(alone, direction, request)
        known = _get_limits_without_engines(parts, direction)
        if curve == "epsilon":
            other = selections_and_groups.bound_selection_or_group_epsilon(alone, links, at, known)
        else:
            other = selections_and_groups.bound_selection_or_group_delta(alone, links, at, known, request.above)
        found = _intersect_engine_bounds(found, other, question)
    return found


def _ask_engine(engine: Engine, question: _EngineQuestion) -> Bound:
    """Returns the answer of an engine that serves the parts."""
    ask = engine.epsilon if question.curve == "epsilon" else engine.delta
    return ask(_sort_parts_for_engine(engine, question.parts), question.direction, question.at, question.request)


def _get_limits_without_engines(parts: Parts, direction: Direction) -> selections_and_groups.DerivedLimits:
    return selections_and_groups.DerivedLimits(inclusion_probability(parts), bound_largest_loss(parts, direction))


def _ask_auto_engine_about_links(
    mechanism: SelectionOrGroup, direction: Direction, request: Request
) -> list[selections_and_groups.KnownRun]:
    """Returns the known curves of the run that is repeated, or of each link of a group.

    A group of n records joins two data sets by a chain of n links, each of which changes one record.
    """
    if not isinstance(mechanism, Group):
        return [_ask_auto_engine_about_run(mechanism.parts, direction, request)]
    if mechanism.any_size:  # one pair dominates every link
        return [_ask_auto_engine_about_run(mechanism.parts, direction, request)] * mechanism.size
    # The data sets of each link have one record fewer than those of the link before. The bound of a group goes through
    # the chain link by link. It begins at the smallest data set for removals, and at the largest data set for
    # additions.
    links = [
        _ask_auto_engine_about_run(translate_parts_to_fewer_records(mechanism.parts, gone), direction, request)
        for gone in range(mechanism.size)
    ]
    return links if direction == "add" else links[::-1]


def _ask_auto_engine_about_run(run: Parts, direction: Direction, request: Request) -> selections_and_groups.KnownRun:
    """Returns the known curves of ``run``, which are computed once for all parts of a question."""
    with share_work_results() as kept:
        key = run, direction, request
        if key not in kept:
            kept[key] = _build_run_for_auto_engine(*key)
        found: selections_and_groups.KnownRun = kept[key]
        return found


def _list_compositions_for_engines(parts: Parts, direction: Direction, request: Request) -> Iterator[Parts]:
    """Yields compositions that dominate ``parts``, beginning with those that take little work."""
    yield from list_dominating_compositions(parts)
    if _get_single_derived_for_engines(parts) is None and (mechanisms := list_mechanisms_without_mixture(parts)):
        losses = _ask_engines_for_dominating_losses(mechanisms, direction, request)
        yield from list_dominating_compositions(parts, losses.__getitem__)


_CURVES: WorkCache[list[list[tuple[float, float]]]] = WorkCache(16)
"""Whole curves of the repeated runs and groups of a composition, kept for accounts that grow and are asked again."""


def _ask_engines_for_dominating_losses(
    mechanisms: tuple[SelectionOrGroup, ...], direction: Direction, request: Request
) -> dict[SelectionOrGroup, PrivacyLoss]:
    """Returns, for each repeated run and each group of a composition, a privacy loss whose pair dominates that
    mechanism."""
    with share_work_results() as shared:
        depth = shared.get("depth", 0) + 1  # an inner curve has a smaller budget than the outer one
        side: Direction = "remove" if all(mechanism.symmetric for mechanism in mechanisms) else direction
        key = "curves", mechanisms, side, request
        if key not in shared:  # computed once for each question, even if the budget cut it short
            units = _WHOLE_CURVE // len(mechanisms) // _DEEPER ** (depth - 1)

            def ask_engines_for_curves() -> list[list[tuple[float, float]]]:
                with share_work_in_new_context({"depth": depth}):
                    return [_run_engines_for_points(mechanism, side, request, units) for mechanism in mechanisms]

            shared[key] = _CURVES.find_or_compute_work((*key, depth), ask_engines_for_curves)
    return {
        mechanism: build_dominating_pair(points, bound_largest_loss(((mechanism, 1),), direction), direction)
        for mechanism, points in zip(mechanisms, shared[key], strict=True)
    }


def _run_engines_for_points(
    mechanism: SelectionOrGroup, direction: Direction, request: Request, units: int
) -> list[tuple[float, float]]:
    """Returns points above the curve of a repeated run or a group, within a budget of ``units`` of work."""
    with Budget(units):
        links = _ask_auto_engine_about_links(mechanism, direction, replace(request, above=True))
        return selections_and_groups.list_selection_or_group_points(
            mechanism, links, _get_limits_without_engines(((mechanism, 1),), direction)
        )


def _build_run_for_auto_engine(run: Parts, direction: Direction, request: Request) -> selections_and_groups.KnownRun:
    """Returns functions that bound the curve of ``run`` in both directions, each within a budget of work."""
    parts = tuple(part for part in run if not has_pair_without_loss(part[0]))
    rough = replace(request, width=max(request.width, _ROUGH))
    back = direction if all(part.symmetric for part, _ in parts) else REVERSED[direction]
    units = _SEARCHED if _get_single_derived_for_engines(parts) is None else _NESTED

    def ask_engines_for_deltas(direction: Direction, request: Request) -> Ask:
        work = _NESTED_ABOVE if request.above and units == _NESTED else units
        return _BudgetedEngineAnswers(
            _build_ask_of_engines(parts, direction, "delta", request), bound_delta_without_engines, work
        )

    forth = ask_engines_for_deltas(direction, rough)
    return selections_and_groups.KnownRun(
        delta=forth,
        back=forth if back == direction else ask_engines_for_deltas(back, rough),
        above=ask_engines_for_deltas(direction, replace(rough, above=True)),
        epsilon=_BudgetedEngineAnswers(
            _build_ask_of_engines(parts, direction, "epsilon", request), lambda _: _NOTHING, units
        ),
        largest=bound_largest_loss(parts, direction),
        largest_back=bound_largest_loss(parts, back),
    )


class _BudgetedEngineAnswers:
    """A function that answers the questions of a search, with a cache.

    Once the budget of work is spent, every new answer is the trivial bound.
    """

    def __init__(self, ask: Ask, nothing: Ask, units: int) -> None:
        self._ask, self._nothing, self._units = ask, nothing, units
        self._known: dict[float, Bound] = {}

    def __call__(self, at: float) -> Bound:
        if at in self._known:
            return self._known[at]
        if not try_to_spend_work(self._units):
            return self._nothing(at)
        found = self._ask(at)
        if try_to_spend_work(0):  # an answer that the budget cut short is not cached
            self._known[at] = found
        return found


def bound_delta_without_engines(epsilon: float) -> Bound:
    """Returns the trivial bound on delta at ``epsilon``, which holds for every mechanism."""
    return Bound(0.0 if epsilon >= 0 else max((-expm1(epsilon)).lo, 0.0), 1.0, "trivial", {})


_ROUGH = 1e-4
"""Relative width of an inner run's deltas. With a smaller width, bounds that follow from these deltas would hardly
change."""


def _intersect_engine_bounds(one: Bound, other: Bound, question: _EngineQuestion) -> Bound:
    """Returns the intersection of two bounds. Raises ContradictionError if it is empty."""
    tighter = other if other.upper < one.upper else one
    lower = max(one.lower, other.lower)
    if not lower <= tighter.upper:
        raise ContradictionError(
            f"{_describe_engine_question(question)}: {one.engine} and {other.engine} have {one!r} and {other!r}"
        )
    return Bound(lower, tighter.upper, tighter.engine, tighter.error_budget)


def _sort_parts_for_engine(engine: Engine, parts: Parts) -> Parts:
    """Returns the parts of a long composition in sorted order, so that roundings do not depend on the given order.

    The grid engine and the contour engine get the parts as they are. The grid engine extends its result for a shorter
    composition, and the contour engine sorts the parts itself.
    """
    return (
        parts if len(parts) <= FEW_PARTS or engine in (grid.ENGINE, contour.ENGINE) else sort_composition_parts(parts)
    )


def _get_single_derived_for_engines(parts: Parts) -> SelectionOrGroup | None:
    """Returns the repeated run or group that a composition consists of, or None."""
    mechanism = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None
    return mechanism if isinstance(mechanism, SelectionOrGroup) else None


def _ask_engines_with_members(engine: str | Engine, question: _EngineQuestion) -> Bound:
    """Returns the answer for mechanisms or classes of mechanisms, from one engine or from all engines in turn.

    With "auto", the engines bound the parts and also several compositions that dominate the parts. The smallest of the
    upper ends is the upper end of the answer. A part such as ``ZCDP`` stands for a class of mechanisms, which are its
    members. The lower end is then the largest lower end of the members that are tried.
    """
    parts, direction = question.parts, question.direction
    known = list_class_members(parts)
    loose = known != (parts,)
    if engine == "auto":
        found = _ask_engines_in_order(question, loose or question.request.above)
        for other in _list_compositions_for_engines(parts, direction, question.request):
            upper = _ask_engines_in_order(question._replace(parts=other), loose=True)
            if upper.upper < found.upper:
                found = Bound(min(found.lower, upper.upper), upper.upper, upper.engine, upper.error_budget)
        if not loose or question.request.above:
            return found
        each = [_ask_engines_in_order(question._replace(parts=member), loose=False).lower for member in known]
        return _raise_engine_bound_to_member(found, max(each), question)
    chosen = ENGINES[engine] if isinstance(engine, str) else engine
    reason = chosen.explain_refusal(parts, direction)
    if reason:
        raise ValueError(f"engine {chosen.name!r} cannot serve: {reason}")
    found = _ask_engine(chosen, question)
    if loose:
        served = [member for member in known if chosen.explain_refusal(member, direction) is None]
        lower = max(
            (_ask_engine(chosen, question._replace(parts=member)).lower for member in served),
            default=question.trivial_bound.lower,
        )
        found = _raise_engine_bound_to_member(found, lower, question)
    return found


def _raise_engine_bound_to_member(bound: Bound, lower: float, question: _EngineQuestion) -> Bound:
    """Returns the bound of a class, with its lower end replaced by ``lower``, the lower end of a member."""
    if not lower <= bound.upper:
        raise ContradictionError(
            f"{_describe_engine_question(question)}: a member of the class has {lower!r}, above {bound.upper!r}"
        )
    return Bound(lower, bound.upper, bound.engine, bound.error_budget)


def _describe_engine_question(question: _EngineQuestion) -> str:
    """Returns a description of a question for the message of an error."""
    run = " + ".join(f"{mechanism!r} * {count}" for mechanism, count in question.parts)
    return f"{question.curve}({question.at!r}) of {run or 'nothing'}, direction {question.direction!r}"


def _ask_engines_in_order(question: _EngineQuestion, loose: bool) -> Bound:
    """Returns the intersection of the engines' answers. Engines are asked until the interval is narrow, or all are
    asked.

    With ``loose``, the lower ends of the answers are not used. A caller sets ``loose`` if only the upper end counts, or
    if the parts stand for a class. The engines' lower ends hold for the dominating pair of the class, and the curve of
    a member may lie below them.
    """
    names: list[str] = []
    best = question.trivial_bound
    for engine in _AUTO:
        if engine.explain_refusal(question.parts, question.direction) is not None:
            continue
        if engine is renyi.ENGINE:
            # The engine "renyi" is asked even if the budget is spent, because it always has an upper end. For one zCDP
            # mechanism, "renyi" also searches for the best member of the class, which takes more work.
            try_to_spend_work(
                _IN_PYTHON * (3 if isinstance(question.parts[0][0], ZCDP) and not question.request.above else 1)
            )
        found = _ask_engine(engine, question)
        below = best.lower if loose else found.lower  # the curve of a member may lie below the class's pair
        if below > best.lower or found.upper < best.upper:
            lower, upper = max(below, best.lower), min(found.upper, best.upper)
            if not lower <= upper:
                raise ContradictionError(
                    f"{_describe_engine_question(question)}: engine {engine.name} has {(below, found.upper)} "
                    f"where {names} have {(best.lower, best.upper)}"
                )
            names.append(engine.name)
            tighter = found.upper < best.upper or not best.error_budget
            if (lower, upper) == (found.lower, found.upper) and len(names) == 1:
                best = found
            else:
                best = Bound(lower, upper, "+".join(names), found.error_budget if tighter else best.error_budget)
        if engine is closed_form.ENGINE or (not loose and _is_engine_answer_narrow(best, question.request.width)):
            break
        if (
            question.request.above
            and _is_engine_answer_narrow(found, question.request.width)
            and _has_one_pair_for_engines(question)
        ):
            break
    return best


def _has_one_pair_for_engines(question: _EngineQuestion) -> bool:
    """Tells whether all engines that serve the question bound the same dominating pair.

    The engine "fixed_size" bounds the best adaptive adversary instead. The curve of this adversary may lie below that
    of the composed dominating pair of a step.
    """
    return fixed_size.ENGINE.explain_refusal(question.parts, question.direction) is not None


def _is_engine_answer_narrow(bound: Bound, width: float) -> bool:
    """Tells whether a bound meets the relative ``width``."""
    if bound.lower == bound.upper:
        return True
    return math.isfinite(bound.upper) and bound.upper - bound.lower <= width * bound.upper
