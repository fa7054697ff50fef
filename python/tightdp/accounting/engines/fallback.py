"""The last resort of "auto": a lower bound from a part of the composition, since releasing less reveals no more."""

from __future__ import annotations

from ...mechanisms import Gaussian
from .closed_form import engine as closed_form
from .engine_interface import DEFAULT, Bound, Direction, Parts, Request


class Fallback:
    """An engine that serves every composition, with a trivial upper end."""

    name = "fallback"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        lowers = [
            closed_form.ENGINE.epsilon(part, direction, delta).lower for part in _list_served_parts(parts, direction)
        ]
        return Bound(max(lowers, default=0.0), float("inf"), self.name)

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        lowers = [
            closed_form.ENGINE.delta(part, direction, epsilon).lower for part in _list_served_parts(parts, direction)
        ]
        return Bound(max(lowers, default=0.0), 1.0, self.name)


ENGINE = Fallback()
_MOST_PARTS = 16
"""Largest number of parts that are asked about, each at the cost of a closed form."""


def _list_served_parts(parts: Parts, direction: Direction) -> list[Parts]:
    """Returns parts with a closed form: all Gaussians together, and each other mechanism with its count, or once."""
    gaussians = tuple(part for part in parts if isinstance(part[0], Gaussian))
    others = [part for part in parts if not isinstance(part[0], Gaussian)][:_MOST_PARTS]
    candidates: list[Parts] = [gaussians] if gaussians else []
    for mechanism, count in others:
        whole: Parts = ((mechanism, count),)
        candidates.append(whole if closed_form.ENGINE.explain_refusal(whole, direction) is None else ((mechanism, 1),))
    return [candidate for candidate in candidates if closed_form.ENGINE.explain_refusal(candidate, direction) is None]
