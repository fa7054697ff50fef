"""Closed forms (docs/theory/closed-forms.md): Gaussians."""

from __future__ import annotations

import math

from ...mechanisms import Gaussian
from .base import DEFAULT, Direction, Interval, Parts, Request


class ClosedForm:
    name = "closed_form"

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        if direction != "replace" and all(isinstance(mechanism, Gaussian) for mechanism, _ in parts):
            return None
        return "it has formulas for Gaussians alone"

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Interval:
        if not parts:
            return Interval(0.0, 0.0, {})
        low, high = 0.0, 1.0
        while _gaussian(_mu(parts), high)[1] > delta:
            high *= 2.0
            if math.isinf(high):
                return Interval(0.0, high, {})
        lower, upper = low, high
        for _ in range(200):
            mid = 0.5 * (low + high)
            if not low < mid < high:
                break
            down, up = _gaussian(_mu(parts), mid)
            if up <= delta:
                high = upper = mid
            else:
                low = mid
                if down > delta:
                    lower = mid
        return Interval(lower, upper, {"rounding": upper - lower})

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Interval:
        lower, upper = _gaussian(_mu(parts), epsilon)
        return Interval(lower, upper, {"rounding": upper - lower})


ENGINE = ClosedForm()


def _mu(parts: Parts) -> float:
    return math.sqrt(sum(count / mechanism.noise_multiplier**2 for mechanism, count in parts))  # type: ignore[attr-defined]


def _gaussian(mu: float, epsilon: float) -> tuple[float, float]:
    if mu == 0:
        return (max(0.0, -math.expm1(epsilon)),) * 2
    a = 0.5 * math.erfc((epsilon / mu - mu / 2) / math.sqrt(2))
    b = 0.5 * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2))
    b = math.exp(min(epsilon, 700) + math.log(b)) if b > 0 else 0.0
    slop = (a + b) * 1e-13 + 1e-300
    return max(a - b - slop, -math.expm1(epsilon), 0.0), min(a - b + slop, 1.0)
