"""Which engine answers: by name, or "auto", which asks them in the order of predicted cost (docs/accounting.md).

Every engine is sound, so two of them bound the same truth and the intersection of their intervals does as well. "auto"
stops at the first that meets the asked width. Where none does, the answer is what all of them know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ... import _core
from ...bound import Bound, ContradictionError
from ...composition import FEW_PARTS, Parts, sort_parts
from ...derived import Derived, Group
from ...losses import PrivacyLoss
from ...mechanisms import ZCDP
from ...options import Direction
from ..numerics.outward import INF, TINY, expm1
from ..numerics.work import share_work, try_to_spend_work
from ..pairs import known_curve
from ..pairs.dominating import list_dominating_compositions
from ..pairs.inclusion_probability import inclusion_probability
from ..pairs.kinds import has_any_type
from ..pairs.known_curve import Ask, KnownCurve, narrow_by_known_curve
from ..pairs.largest import bound_largest_loss, largest_loss_within_delta
from ..pairs.members import has_no_privacy_loss, list_class_members
from ..pairs.neighbors import remove_records
from . import allocation, closed_form, contour, derived, fallback, fixed_size, grid, participations, prv, renyi
from .base import Engine, Request

ENGINES: dict[str, Engine] = {
    module.ENGINE.name: module.ENGINE for module in (closed_form, contour, allocation, grid, renyi, prv)
}
"""Those that can be asked for, by their names."""
NAMES = tuple(ENGINES)
_AUTO: tuple[Engine, ...] = tuple(
    module.ENGINE for module in (closed_form, participations, contour, allocation, grid, fixed_size, renyi, fallback)
)
"""What "auto" asks, in the order of cost: microseconds, then milliseconds, then what always answers."""
ANSWERED = frozenset((*NAMES, *(engine.name for engine in _AUTO), "derived", known_curve.NAME, "trivial"))
"""Names that ``Bound.engine`` joins by "+"."""


_SEARCHED, _NESTED, _NESTED_ABOVE, _IN_PYTHON = 10**6, 2 * 10**7, 2 * 10**6, 2 * 10**6
"""Units of work of one step of a search that Python does, of one whose run is made of another one (both ends, and the
upper one alone), and of one answer of the engine "renyi": about a millisecond each million, as measured."""
_WHOLE_CURVE, _DEEPER = 10**9, 8
"""Units of work of all curves that are looked at everywhere for one composition: a second. Where it is within a run
that another curve is made of, they are divided by so much."""
_NOTHING = Bound(0.0, INF, "trivial", {})
"""What is known of any epsilon."""


def epsilon(engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request) -> Bound:
    """Bounds on epsilon(delta) for one direction; of "auto" with all that is known of the curve."""
    if not has_any_type(parts, Derived):
        return _known_epsilon(engine, parts, direction, delta, request)
    with share_work():
        return _known_epsilon(engine, parts, direction, delta, request)


def _known_epsilon(engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request) -> Bound:
    before = _core.work_spent()
    found = _epsilon(engine, parts, direction, delta, request)
    if found.upper == INF and found.lower < INF and engine == "auto":
        most = largest_loss_within_delta(parts, delta)
        found = replace(found, upper=max(most, found.lower), error_budget={}) if most < INF else found
    if engine != "auto" or _narrow(found, request.width):
        return found
    work = _core.work_spent() - before
    return _cut(found, "epsilon", delta, parts, direction, request, work)


def delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Bound:
    """Bounds on delta(epsilon) for one direction; of "auto" with all that is known of the curve."""
    if not has_any_type(parts, Derived):
        return _known_delta(engine, parts, direction, epsilon, request)
    with share_work():
        return _known_delta(engine, parts, direction, epsilon, request)


def _known_delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Bound:
    before = _core.work_spent()
    found = _delta(engine, parts, direction, epsilon, request)
    if engine == "auto" and not _narrow(found, request.width):
        work = _core.work_spent() - before
        found = _cut(found, "delta", epsilon, parts, direction, request, work)
    elif engine == "auto" and epsilon >= 0 and (most := inclusion_probability(parts)) < found.upper:
        found = _both(found, replace(found, lower=0.0, upper=most), _about_delta(parts, direction, epsilon, request))
    if found.upper == 0 and epsilon < bound_largest_loss(parts, direction):
        return replace(found, upper=TINY)  # positive, and less than any double
    return found


def _cut(
    found: Bound,
    curve: str,
    at: float,
    parts: Parts,
    direction: Direction,
    request: Request,
    work: int,
) -> Bound:
    """An answer with what is known of its curve without asking, and what others are about it: nothing where all
    answers are of the same lines."""
    asks: dict[str, Ask] = {}
    if not isinstance(derived.single(parts), Group):
        asks["delta"] = lambda at: _delta("auto", parts, direction, at, request)
        asks["epsilon"] = lambda at: _epsilon("auto", parts, direction, at, request)
    return narrow_by_known_curve(
        found, curve, at, KnownCurve(inclusion_probability(parts), bound_largest_loss(parts, direction)), asks, work
    )


def _epsilon(engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request) -> Bound:

    def ask(candidate: Engine, parts: Parts) -> Bound:
        return candidate.epsilon(_ordered(candidate, parts), direction, delta, request)

    question = _Question(parts, direction, "epsilon", delta, _NOTHING, request)
    found = _answer(engine, question, ask)
    if engine == "auto" and (alone := derived.single(parts)):
        found = _both(
            found, derived.epsilon(alone, _links(alone, direction, request), delta, _known(parts, direction)), question
        )
    return found


def _delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Bound:

    def ask(candidate: Engine, parts: Parts) -> Bound:
        return candidate.delta(_ordered(candidate, parts), direction, epsilon, request)

    question = _about_delta(parts, direction, epsilon, request)
    found = _answer(engine, question, ask)
    if engine == "auto" and (alone := derived.single(parts)):
        links = _links(alone, direction, request)
        known = _known(parts, direction)
        found = _both(found, derived.delta(alone, links, epsilon, known, request.above), question)
    return found


def _about_delta(parts: Parts, direction: Direction, epsilon: float, request: Request) -> _Question:
    return _Question(parts, direction, "delta", epsilon, any_delta(epsilon), request)


def _known(parts: Parts, direction: Direction) -> derived.Known:
    return derived.Known(inclusion_probability(parts), bound_largest_loss(parts, direction))


def _links(mechanism: Derived, direction: Direction, request: Request) -> list[derived.Run]:
    """What the runs are known to be that a mechanism repeats, or that link the data sets of a group."""
    if not isinstance(mechanism, Group):
        return [_run(mechanism.parts, direction, request)]
    if mechanism.any_size:  # one pair at every link
        return [_run(mechanism.parts, direction, request)] * mechanism.size
    # A record fewer at every link: a probability with none of the group comes first to the smallest of them.
    links = [_run(remove_records(mechanism.parts, gone), direction, request) for gone in range(mechanism.size)]
    return links if direction == "add" else links[::-1]


def _run(run: Parts, direction: Direction, request: Request) -> derived.Run:
    """One and the same for all parts of a question."""
    with share_work() as kept:
        key = run, direction, request
        if key not in kept:
            kept[key] = _unseen_run(*key)
        found: derived.Run = kept[key]
        return found


def _list_dominating(parts: Parts, direction: Direction, request: Request) -> Iterator[Parts]:
    """Compositions that dominate ``parts``, cheap ones first."""
    yield from list_dominating_compositions(parts)
    if has_any_type(parts, Derived) and derived.single(parts) is None:
        units = _WHOLE_CURVE // sum(isinstance(mechanism, Derived) for mechanism, _ in parts)
        yield from list_dominating_compositions(
            parts, lambda mechanism: _dominating_loss(mechanism, direction, request, units)
        )


def _dominating_loss(mechanism: Derived, direction: Direction, request: Request, units: int) -> PrivacyLoss:
    """A loss that stands for a repeated run or a group beside others, once for all parts of a question."""
    with share_work() as kept:
        key = "loss", mechanism, direction, request
        if key not in kept:
            depth = kept["depth"] = kept.get("depth", 0) + 1  # a curve within a curve leaves most of the work to it
            with _core.Budget(units // _DEEPER ** (depth - 1)):
                links = _links(mechanism, direction, replace(request, above=True))
                known = _known(((mechanism, 1),), direction)
                kept[key] = derived.build_dominating_loss(mechanism, links, known, direction)
            kept["depth"] = depth - 1
        found: PrivacyLoss = kept[key]
        return found


def _unseen_run(run: Parts, direction: Direction, request: Request) -> derived.Run:
    parts = tuple(part for part in run if not has_no_privacy_loss(part[0]))
    rough = replace(request, width=max(request.width, _ROUGH))
    back = direction if all(part.symmetric for part, _ in parts) else _BACK[direction]
    units = _SEARCHED if derived.single(parts) is None else _NESTED

    def deltas(direction: Direction, request: Request) -> Ask:
        work = _NESTED_ABOVE if request.above and units == _NESTED else units
        return _Kept(lambda at: _delta("auto", parts, direction, at, request), any_delta, work)

    forth = deltas(direction, rough)
    return derived.Run(
        delta=forth,
        back=forth if back == direction else deltas(back, rough),
        above=deltas(direction, replace(rough, above=True)),
        epsilon=_Kept(lambda at: _epsilon("auto", parts, direction, at, request), lambda _: _NOTHING, units),
        largest=bound_largest_loss(parts, direction),
        largest_back=bound_largest_loss(parts, back),
    )


class _Kept:
    """Answers that searches ask for, within their budget: once that is spent, what is known of anything."""

    def __init__(self, ask: Ask, nothing: Ask, units: int) -> None:
        self._ask, self._nothing, self._units = ask, nothing, units
        self._known: dict[float, Bound] = {}

    def __call__(self, at: float) -> Bound:
        if at in self._known:
            return self._known[at]
        if not try_to_spend_work(self._units):
            return self._nothing(at)
        found = self._ask(at)
        if try_to_spend_work(0):  # and it is all that the engines know
            self._known[at] = found
        return found


def any_delta(epsilon: float) -> Bound:
    """What is known of any delta."""
    return Bound(0.0 if epsilon >= 0 else max((-expm1(epsilon)).lo, 0.0), 1.0, "trivial", {})


_BACK: dict[Direction, Direction] = {"add": "remove", "remove": "add"}
_ROUGH = 1e-4
"""Relative width of deltas from which another bound is made, in which more digits could not be seen."""


def _both(one: Bound, other: Bound, question: _Question) -> Bound:
    """What two sound bounds know together."""
    tighter = other if other.upper < one.upper else one
    lower = max(one.lower, other.lower)
    if not lower <= tighter.upper:
        raise ContradictionError(f"{_named(question)}: {one.engine} and {other.engine} have {one!r} and {other!r}")
    return Bound(lower, tighter.upper, tighter.engine, tighter.error_budget)


def _ordered(engine: Engine, parts: Parts) -> Parts:
    """The grid engine goes on from what it kept of a shorter run; to all others order means nothing but roundings, and
    the contour engine has an order of its own."""
    return parts if len(parts) <= FEW_PARTS or engine in (grid.ENGINE, contour.ENGINE) else sort_parts(parts)


class _Question(NamedTuple):
    parts: Parts
    direction: Direction
    curve: str
    at: float
    trivial: Bound
    request: Request


def _answer(engine: str | Engine, question: _Question, ask: Callable[[Engine, Parts], Bound]) -> Bound:
    parts, direction = question.parts, question.direction
    known = list_class_members(parts)
    loose = known != (parts,)
    if engine == "auto":
        found = _auto(question, ask, loose or question.request.above)
        for other in _list_dominating(parts, direction, question.request):
            upper = _auto(question._replace(parts=other), ask, loose=True)
            if upper.upper < found.upper:
                found = Bound(min(found.lower, upper.upper), upper.upper, upper.engine, upper.error_budget)
        if not loose or question.request.above:
            return found
        each = [_auto(question._replace(parts=member), ask, loose=False).lower for member in known]
        return _raised(found, max(each), question)
    chosen = ENGINES[engine] if isinstance(engine, str) else engine
    reason = chosen.refuse(parts, direction)
    if reason:
        raise ValueError(f"engine {chosen.name!r} cannot serve: {reason}")
    found = ask(chosen, parts)
    if loose:
        served = [member for member in known if chosen.refuse(member, direction) is None]
        lower = max((ask(chosen, member).lower for member in served), default=question.trivial.lower)
        found = _raised(found, lower, question)
    return found


def _raised(bound: Bound, lower: float, question: _Question) -> Bound:
    """The bound of a class with the lower end that a member attains."""
    if not lower <= bound.upper:
        raise ContradictionError(f"{_named(question)}: a member of the class has {lower!r}, above {bound.upper!r}")
    return Bound(lower, bound.upper, bound.engine, bound.error_budget)


def _named(question: _Question) -> str:
    run = " + ".join(f"{mechanism!r} * {count}" for mechanism, count in question.parts)
    return f"{question.curve}({question.at!r}) of {run or 'nothing'}, direction {question.direction!r}"


def _auto(question: _Question, ask: Callable[[Engine, Parts], Bound], loose: bool) -> Bound:
    names: list[str] = []
    best = question.trivial
    for engine in _AUTO:
        if engine.refuse(question.parts, question.direction) is not None:
            continue
        if engine is renyi.ENGINE:
            # Asked for whatever is left, as it has an upper end. For one zCDP mechanism it searches the best member.
            try_to_spend_work(
                _IN_PYTHON * (3 if isinstance(question.parts[0][0], ZCDP) and not question.request.above else 1)
            )
        found = ask(engine, question.parts)
        below = best.lower if loose else found.lower  # a lower bound of the pair is none of the class
        if below > best.lower or found.upper < best.upper:
            lower, upper = max(below, best.lower), min(found.upper, best.upper)
            if not lower <= upper:
                raise ContradictionError(
                    f"{_named(question)}: engine {engine.name} has {(below, found.upper)} where {names} have "
                    f"{(best.lower, best.upper)}"
                )
            names.append(engine.name)
            tighter = found.upper < best.upper or not best.error_budget
            if (lower, upper) == (found.lower, found.upper) and len(names) == 1:
                best = found
            else:
                best = Bound(lower, upper, "+".join(names), found.error_budget if tighter else best.error_budget)
        if engine is closed_form.ENGINE or (not loose and _narrow(best, question.request.width)):
            break
        if question.request.above and _narrow(found, question.request.width) and _has_one_pair(question):
            break
    return best


def _has_one_pair(question: _Question) -> bool:
    """Whether all engines bound the same pair of laws: of a sample of a fixed size one of them knows more."""
    return fixed_size.ENGINE.refuse(question.parts, question.direction) is not None


def _narrow(bound: Bound, width: float) -> bool:
    if bound.lower == bound.upper:
        return True
    return math.isfinite(bound.upper) and bound.upper - bound.lower <= width * bound.upper
