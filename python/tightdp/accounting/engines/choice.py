"""Which engine answers: by name, or "auto", which asks them in the order of predicted cost (docs/accounting.md).

Every engine but "gdp" is sound, so two of them bound the same truth and the intersection of their intervals does as
well. "auto" stops at the first that meets the asked width; where none does, the answer is what all of them know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..attained import attained
from ..composition import FEW, canonical
from ..outward import INF, expm1
from . import allocation, closed_form, contour, fallback, gdp, grid, prv, renyi
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

    return _answer(engine, parts, direction, ask, Interval(0.0, INF, {}), request.width)


def delta(engine: str | Engine, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Answer:
    """Bounds on delta(epsilon) for one direction."""

    def ask(candidate: Engine, parts: Parts) -> Interval:
        return candidate.delta(_ordered(candidate, parts), direction, epsilon, request)

    trivial = Interval(max((-expm1(epsilon)).lo, 0.0), 1.0, {})
    return _answer(engine, parts, direction, ask, trivial, request.width)


def _ordered(engine: Engine, parts: Parts) -> Parts:
    """The grid engine goes on from what it kept of a shorter run; to all others order means nothing but roundings."""
    return parts if engine is grid.ENGINE or len(parts) <= FEW else canonical(parts)


def _answer(
    engine: str | Engine,
    parts: Parts,
    direction: Direction,
    ask: Callable[[Engine, Parts], Interval],
    trivial: Interval,
    width: float,
) -> Answer:
    member = attained(parts)
    if engine == "auto":
        found = _auto(parts, direction, ask, trivial, width, loose=member != parts)
        if member == parts:
            return found
        lower = _auto(member, direction, ask, trivial, width, loose=False).interval.lower
        return Answer(found.interval._replace(lower=min(lower, found.interval.upper)), found.engine)
    chosen = ENGINES[engine] if isinstance(engine, str) else engine
    reason = chosen.refuse(parts, direction)
    if reason:
        raise ValueError(f"engine {chosen.name!r} cannot serve: {reason}")
    interval = ask(chosen, parts)
    if member != parts:
        known = chosen.refuse(member, direction) is None
        lower = ask(chosen, member).lower if known else trivial.lower
        interval = interval._replace(lower=min(lower, interval.upper))
    return Answer(interval, chosen.name)


def _auto(
    parts: Parts,
    direction: Direction,
    ask: Callable[[Engine, Parts], Interval],
    best: Interval,
    width: float,
    loose: bool,
) -> Answer:
    names: list[str] = []
    for engine in _AUTO:
        if engine.refuse(parts, direction) is not None:
            continue
        found = ask(engine, parts)
        if loose:  # a lower bound of the pair is none of the class
            found = found._replace(lower=best.lower)
        if found.lower > best.lower or found.upper < best.upper:
            tighter = found.upper < best.upper
            lower, upper = max(found.lower, best.lower), min(found.upper, best.upper)
            assert lower <= upper, f"engines {names} and {engine.name} contradict each other: {best}, {found}"
            best = Interval(lower, upper, found.budget if tighter or not best.budget else best.budget)
            names.append(engine.name)
        if engine is closed_form.ENGINE or (not loose and _narrow(best, width)):
            break
    return Answer(best, "+".join(names) or "trivial")


def _narrow(interval: Interval, width: float) -> bool:
    if interval.lower == interval.upper:
        return True
    return math.isfinite(interval.upper) and interval.upper - interval.lower <= width * interval.upper
