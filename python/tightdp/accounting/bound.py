"""The answer of every query: a certified interval and what made it as wide as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bound:
    """``lower <= truth <= upper``. ``float(bound)`` is the safe side, the upper bound."""

    lower: float
    upper: float
    engine: str
    error_budget: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def width(self) -> float:
        return self.upper - self.lower

    def __float__(self) -> float:
        return self.upper
