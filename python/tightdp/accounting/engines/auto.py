"""Which engine answers: by name, or "auto", which asks them in the order of predicted cost (docs/accounting.md).

Every engine but "gdp" is sound, so two of them bound the same truth and the intersection of their intervals does as
well. "auto" stops at the first that meets the asked width; where none does, the answer is what all of them know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from ...bound import Bound, ContradictionError
from ...composition import FEW, Parts, canonical
from ...derived import Derived
from ...options import Direction
from ..numerics.outward import INF, expm1
from ..pairs.dominating import dominating
from ..pairs.largest import largest_of
from ..pairs.members import members, reveals_nothing
from . import allocation, closed_form, contour, derived, fallback, fixed_size, gdp, grid, participations, prv, renyi
from .base import Engine, Request

ENGINES: dict[str, Engine] = {
    module.ENGINE.name: module.ENGINE for module in (closed_form, contour, allocation, grid, renyi, gdp, prv)
}
"""Those that can be asked for, by their names."""
NAMES = tuple(ENGINES)
_AUTO: tuple[Engine, ...] = tuple(
    module.ENGINE for module in (closed_form, participations, contour, allocation, grid, fixed_size, renyi, fallback)
)
"""What "auto" asks, in the order of cost: microseconds, then milliseconds, then what always answers."""


_NOTHING = Bound(0.0, INF, "trivial", {})
"""What is known of any epsilon."""


def epsilon(engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request) -> Bound:
    """Bounds on epsilon(delta) for one direction."""

    def ask(candidate: Engine, parts: Parts) -> Bound:
        return candidate.epsilon(_ordered(candidate, parts), direction, delta, request)

    question = _Question(parts, direction, "epsilon", delta, _NOTHING, request.width)
    found = _answer(engine, question, ask)
    if engine == "auto" and (alone := derived.single(parts)):
        found = _both(found, derived.epsilon(alone, _run(alone, direction, request), delta), question)
    return found


def delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Bound:
    """Bounds on delta(epsilon) for one direction."""

    def ask(candidate: Engine, parts: Parts) -> Bound:
        return candidate.delta(_ordered(candidate, parts), direction, epsilon, request)

    trivial = Bound(max((-expm1(epsilon)).lo, 0.0), 1.0, "trivial", {})
    question = _Question(parts, direction, "delta", epsilon, trivial, request.width)
    found = _answer(engine, question, ask)
    if engine == "auto" and (alone := derived.single(parts)):
        found = _both(found, derived.delta(alone, _run(alone, direction, request), epsilon), question)
    return found


def _run(mechanism: Derived, direction: Direction, request: Request) -> derived.Run:
    """What the run is known to be that a mechanism repeats, or that a group takes part in."""
    parts = tuple(part for part in mechanism.parts if not reveals_nothing(part[0]))
    rough = replace(request, width=max(request.width, _ROUGH))
    back = direction if all(part.symmetric for part, _ in parts) else _BACK[direction]
    return derived.Run(
        cache(lambda at: delta("auto", parts, direction, at, rough)),
        cache(lambda at: delta("auto", parts, back, at, rough)),
        lambda at: epsilon("auto", parts, direction, at, request),
        largest_of(parts, direction),
    )


_BACK: dict[Direction, Direction] = {"add": "remove", "remove": "add", "replace": "replace"}
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
    return parts if len(parts) <= FEW or engine in (grid.ENGINE, contour.ENGINE) else canonical(parts)


class _Question(NamedTuple):
    parts: Parts
    direction: Direction
    curve: str
    at: float
    trivial: Bound
    width: float


def _answer(engine: str | Engine, question: _Question, ask: Callable[[Engine, Parts], Bound]) -> Bound:
    parts, direction = question.parts, question.direction
    known = members(parts, direction)
    loose = known != (parts,)
    if engine == "auto":
        found = _auto(question, ask, loose)
        for other in dominating(parts):
            upper = _auto(question._replace(parts=other), ask, loose=True)
            if upper.upper < found.upper:
                found = Bound(min(found.lower, upper.upper), upper.upper, upper.engine, upper.error_budget)
        if not loose:
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
        if engine is closed_form.ENGINE or (not loose and _narrow(best, question.width)):
            break
    return best


def _narrow(bound: Bound, width: float) -> bool:
    if bound.lower == bound.upper:
        return True
    return math.isfinite(bound.upper) and bound.upper - bound.lower <= width * bound.upper
