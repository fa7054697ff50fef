"""A question to a composition: every direction of the relation is asked on its own, and the worst one counts.

The maximum comes last: each direction is one dominating pair composed with itself through all steps, and only the
finished curves are compared (docs/theory/conversions.md section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _core
from . import neighbors
from .attained import members, reveals_nothing
from .bound import Bound, shares
from .engines import choice

if TYPE_CHECKING:
    from .composition import Composition
    from .engines.base import Direction, Parts
    from .engines.choice import Answer
    from .options import Options


_UNITS = 6 * 10**9
"""Of work, for one question: eight seconds at the most. Answers that take more are wider, and the same every time."""


def epsilon(composition: Composition, delta: float, options: Options) -> Bound:
    """Bounds on inf{eps >= 0 : delta(eps) <= delta}, for checked arguments."""
    return _worst(
        composition,
        options,
        lambda parts, direction: choice.epsilon(options.engine, parts, direction, delta, options.request),
    )


def delta(composition: Composition, epsilon: float, options: Options) -> Bound:
    """Bounds on delta(epsilon), for checked arguments."""
    return _worst(
        composition,
        options,
        lambda parts, direction: choice.delta(options.engine, parts, direction, epsilon, options.request),
    )


def _worst(composition: Composition, options: Options, ask: Callable[[Parts, Direction], Answer]) -> Bound:
    asked = pairs(composition, options)
    with _core.Budget(_UNITS):
        answers = [ask(parts, direction) for parts, direction in asked]
    worst = max(answers, key=lambda answer: answer.interval.upper)
    lower, upper = max(answer.interval.lower for answer in answers) + 0.0, worst.interval.upper  # + 0.0: -0.0 is 0
    if worst.engine == "gdp":  # its term is infinite, whatever the width
        return Bound(lower, upper, worst.engine, dict(worst.interval.budget))
    rest = "pair" if all(members(*pair) == (pair[0],) for pair in asked) else "class"
    if not worst.interval.budget:
        rest = "unknown"
    return Bound(lower, upper, worst.engine, shares(upper - lower, worst.interval.budget, rest))


def pairs(composition: Composition, options: Options) -> list[tuple[Parts, Direction]]:
    """The dominating pairs that the relation asks for, equal ones once; ValueError where there is none.

    Every question comes by here, in the thread that computes its answer: RuntimeError where its arithmetic is not what
    bounds rest on.
    """
    _core.check_arithmetic()
    parts = composition.latest_last
    reason = neighbors.refuse(parts, options.neighbors)
    if reason:
        raise ValueError(reason)
    # What reveals nothing changes no answer, not even its last digit or the engine that gives it.
    revealing = tuple(part for part in parts if not reveals_nothing(part[0]))
    if revealing or options.engine == "auto":
        parts = revealing
    if options.neighbors == "replace":
        translated = neighbors.translate(parts)
        return [(parts, "replace")] if translated is None else [(translated, "remove")]
    if all(mechanism.symmetric for mechanism, _ in parts):
        return [(parts, "remove")]
    return [(parts, direction) for direction in options.directions]
