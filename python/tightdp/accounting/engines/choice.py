"""Which engine answers: by name, or "auto", which asks them in the order of predicted cost (docs/accounting.md).

Every engine but "gdp" is sound, so two of them bound the same truth and the intersection of their intervals does as
well. "auto" stops at the first that meets the asked width; where none does, the answer is what all of them know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..attained import members
from ..bound import ContradictionError
from ..composition import FEW, canonical
from ..outward import INF, expm1
from . import allocation, closed_form, contour, fallback, gdp, grid, participations, prv, renyi
from .base import Direction, Engine, Interval, Parts, Request

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        closed_form.ENGINE,
        contour.ENGINE,
        allocation.ENGINE,
        grid.ENGINE,
        renyi.ENGINE,
        gdp.ENGINE,
        prv.ENGINE,
    )
}
"""Every engine by its name."""
NAMES = tuple(ENGINES)
_AUTO: tuple[Engine, ...] = (
    closed_form.ENGINE,
    contour.ENGINE,
    participations.ENGINE,
    allocation.ENGINE,
    grid.ENGINE,
    renyi.ENGINE,
    fallback.ENGINE,
)
"""What "auto" asks, in the order of cost: microseconds, then milliseconds, then what always answers."""


class Answer(NamedTuple):
    """An interval and who vouches for it."""

    interval: Interval
    engine: str


def epsilon(engine: str | Engine, parts: Parts, direction: Direction, delta: float, request: Request) -> Answer:
    """Bounds on epsilon(delta) for one direction."""

    def ask(candidate: Engine, parts: Parts) -> Interval:
        return candidate.epsilon(_ordered(candidate, parts), direction, delta, request)

    question = _Question(parts, direction, f"epsilon({delta!r})", Interval(0.0, INF, {}), request.width)
    return _answer(engine, question, ask)


def delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Answer:
    """Bounds on delta(epsilon) for one direction."""

    def ask(candidate: Engine, parts: Parts) -> Interval:
        return candidate.delta(_ordered(candidate, parts), direction, epsilon, request)

    trivial = Interval(max((-expm1(epsilon)).lo, 0.0), 1.0, {})
    return _answer(engine, _Question(parts, direction, f"delta({epsilon!r})", trivial, request.width), ask)


def _ordered(engine: Engine, parts: Parts) -> Parts:
    """The grid engine goes on from what it kept of a shorter run; to all others order means nothing but roundings."""
    return parts if engine is grid.ENGINE or len(parts) <= FEW else canonical(parts)


class _Question(NamedTuple):
    parts: Parts
    direction: Direction
    asked: str
    trivial: Interval
    width: float


def _answer(engine: str | Engine, question: _Question, ask: Callable[[Engine, Parts], Interval]) -> Answer:
    parts, direction = question.parts, question.direction
    known = members(parts, direction)
    loose = known != (parts,)
    if engine == "auto":
        found = _auto(question, ask, loose)
        if not loose:
            return found
        each = [_auto(question._replace(parts=member), ask, loose=False).interval.lower for member in known]
        return Answer(_raised(found.interval, max(each), question), found.engine)
    chosen = ENGINES[engine] if isinstance(engine, str) else engine
    reason = chosen.refuse(parts, direction)
    if reason:
        raise ValueError(f"engine {chosen.name!r} cannot serve: {reason}")
    interval = ask(chosen, parts)
    if loose:
        served = [member for member in known if chosen.refuse(member, direction) is None]
        lower = max((ask(chosen, member).lower for member in served), default=question.trivial.lower)
        interval = _raised(interval, lower, question)
    return Answer(interval, chosen.name)


def _raised(interval: Interval, lower: float, question: _Question) -> Interval:
    """The bound of a class with the lower end that a member attains."""
    if not lower <= interval.upper:
        raise ContradictionError(f"{_named(question)}: a member of the class has {lower!r}, above {interval.upper!r}")
    return interval._replace(lower=lower)


def _named(question: _Question) -> str:
    run = " + ".join(f"{mechanism!r} * {count}" for mechanism, count in question.parts)
    return f"{question.asked} of {run or 'nothing'}, direction {question.direction!r}"


def _auto(question: _Question, ask: Callable[[Engine, Parts], Interval], loose: bool) -> Answer:
    names: list[str] = []
    best = question.trivial
    for engine in _AUTO:
        if engine.refuse(question.parts, question.direction) is not None:
            continue
        found = ask(engine, question.parts)
        if loose:  # a lower bound of the pair is none of the class
            found = found._replace(lower=best.lower)
        if found.lower > best.lower or found.upper < best.upper:
            tighter = found.upper < best.upper
            lower, upper = max(found.lower, best.lower), min(found.upper, best.upper)
            if not lower <= upper:
                raise ContradictionError(
                    f"{_named(question)}: engine {engine.name} has {tuple(found)} where {names} have {tuple(best)}"
                )
            best = Interval(lower, upper, found.budget if tighter or not best.budget else best.budget)
            names.append(engine.name)
        if engine is closed_form.ENGINE or (not loose and _narrow(best, question.width)):
            break
    return Answer(best, "+".join(names) or "trivial")


def _narrow(interval: Interval, width: float) -> bool:
    if interval.lower == interval.upper:
        return True
    return math.isfinite(interval.upper) and interval.upper - interval.lower <= width * interval.upper
