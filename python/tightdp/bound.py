"""The answers of questions: certified intervals, and what made each as wide as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class ContradictionError(RuntimeError):
    """Two certified bounds of one quantity exclude each other, so that at least one is wrong.

    Either this library has an error, which its authors want to hear of, or the machine's arithmetic is not what the
    proofs assume (docs/theory/closed-forms.md section 1). No bound from the same question is to be relied on.
    """


@dataclass(frozen=True, slots=True)
class Bound:
    """``lower <= truth <= upper``. ``float(bound)`` is the safe side, the upper bound.

    ``engine`` says what computed it ("gdp" alone is an approximation and bounds nothing), ``error_budget`` how much
    each named term, in the unit that was asked for, adds to the width: they add up to it where it is finite. An
    infinite upper bound says that no finite one is known, or affordable.
    """

    lower: float
    upper: float
    engine: str
    error_budget: Mapping[str, float] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:  # also false for NaN
            raise ContradictionError(f"engine {self.engine} crossed its bounds: {self.lower!r} > {self.upper!r}")

    @property
    def width(self) -> float:
        return self.upper - self.lower if math.isfinite(self.upper) else math.inf

    def __float__(self) -> float:
        return self.upper

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no infinity: an infinite upper bound is None."""
        return {
            "lower": _finite(self.lower),
            "upper": _finite(self.upper),
            "width": _finite(self.width),
            "engine": self.engine,
            "error_budget": {name: _finite(term) for name, term in self.error_budget.items()},
        }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


class Curve(NamedTuple):
    """Arrays ``lower <= truth <= upper``, element by element, of the shape that was asked for."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def width(self) -> NDArray[np.float64]:
        """upper - lower"""
        return self.upper - self.lower
