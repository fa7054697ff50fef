"""Which engine answers: by name, or "auto", which tries them in the order of predicted cost."""

from __future__ import annotations

from typing import NamedTuple

from . import closed_form
from .base import Direction, Engine, Interval, Parts, Request

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (closed_form.ENGINE,)}
"""Every engine by its name, in the order in which "auto" tries those that it uses."""
NAMES = tuple(ENGINES)


class Answer(NamedTuple):
    """An interval and who vouches for it."""

    interval: Interval
    engine: str


def epsilon(engine: str, parts: Parts, direction: Direction, delta: float, request: Request) -> Answer:
    """Bounds on epsilon(delta) for one direction."""
    if engine != "auto":
        return Answer(_named(engine, parts, direction).epsilon(parts, direction, delta, request), engine)
    for name, candidate in ENGINES.items():
        if candidate.refuse(parts, direction) is None:
            return Answer(candidate.epsilon(parts, direction, delta, request), name)
    return Answer(Interval(0.0, float("inf"), {}), "none")


def delta(engine: str, parts: Parts, direction: Direction, epsilon: float, request: Request) -> Answer:
    """Bounds on delta(epsilon) for one direction."""
    if engine != "auto":
        return Answer(_named(engine, parts, direction).delta(parts, direction, epsilon, request), engine)
    for name, candidate in ENGINES.items():
        if candidate.refuse(parts, direction) is None:
            return Answer(candidate.delta(parts, direction, epsilon, request), name)
    return Answer(Interval(0.0, 1.0, {}), "none")


def _named(name: str, parts: Parts, direction: Direction) -> Engine:
    engine = ENGINES[name]
    reason = engine.refuse(parts, direction)
    if reason:
        raise ValueError(f"engine {name!r} cannot serve: {reason}")
    return engine
