"""Results of accounting: certified intervals, with the sources of their width."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from ._support import number_texts


class ContradictionError(RuntimeError):
    """Error that is raised if two certified bounds of one quantity exclude each other, so that at least one is wrong.

    Either this library has an error, which you should report to its authors, or the machine's arithmetic violates the
    assumptions of the proofs (docs/theory/closed-forms.md section 1). Do not rely on any bound of this quantity.
    """


@dataclass(frozen=True, slots=True)
class Bound:
    """An interval with ``lower <= truth <= upper``.

    ``float``, ``str``, ``format`` and ``round`` use the upper end, which is the safe end. All but ``float`` round this
    end up, so that the printed number is still a bound. ``interval`` prints both ends, and repr shows all fields.

    A comparison is true only if it is certain. ``bound <= x`` is true if the upper end is <= x, and ``bound >= x`` if
    the lower end is >= x. So both comparisons may be false. A comparison of two bounds is true if it holds for all
    pairs of values in the two intervals. ``==`` compares the ends and the engine.

    Parameters
    ----------
    lower, upper : the ends, in nats for an epsilon and as a probability for a delta.
    engine : the name of the engine that computed the bound.
    error_budget : how much each named source of error adds to the width, in the unit of the bound. The terms add up to
        the width if it is finite.

    Raises ``ContradictionError`` if ``lower`` exceeds ``upper``.

    >>> bound = dp.Bound(0.25, 0.5, "grid")
    >>> f"{bound:.3f}", bound <= 0.5, bound <= 0.4, bound > 0.4
    ('0.500', True, False, False)

    An infinite upper end means that no finite upper bound is known, or that finding one would take too long.
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
        """Upper end minus lower end; infinite if the upper end is infinite."""
        return self.upper - self.lower if math.isfinite(self.upper) else math.inf

    def __float__(self) -> float:
        return self.upper

    def __str__(self) -> str:
        return number_texts.format_up(self.upper)

    def __format__(self, spec: str) -> str:
        return number_texts.format_up(self.upper, spec)

    def interval(self, spec: str = ".6g") -> str:
        """Returns both ends as text, rounded outward.

        ``spec`` is the format specification of a float. Raises ValueError for any other text.

        >>> dp.Bound(0.12345, 0.12346, "grid").interval(".4f")
        '[0.1234, 0.1235]'
        """
        return f"[{number_texts.format_down(self.lower, spec)}, {number_texts.format_up(self.upper, spec)}]"

    @overload
    def __round__(self, digits: None = None) -> int: ...
    @overload
    def __round__(self, digits: SupportsIndex) -> float: ...
    def __round__(self, digits: SupportsIndex | None = None) -> float:
        """Returns the least number with ``digits`` digits after the point that is at least ``upper``."""
        return (
            math.ceil(self.upper)
            if digits is None
            else number_texts.round_number_up(self.upper, operator.index(digits))
        )

    def __lt__(self, other: Bound | float) -> bool:
        return self.upper < (other.lower if isinstance(other, Bound) else other)

    def __le__(self, other: Bound | float) -> bool:
        return self.upper <= (other.lower if isinstance(other, Bound) else other)

    def __gt__(self, other: Bound | float) -> bool:
        return self.lower > (other.upper if isinstance(other, Bound) else other)

    def __ge__(self, other: Bound | float) -> bool:
        return self.lower >= (other.upper if isinstance(other, Bound) else other)

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary for JSON. An infinite number becomes None, because JSON has no infinities."""
        return {
            "lower": _to_json_bound_end(self.lower),
            "upper": _to_json_bound_end(self.upper),
            "width": _to_json_bound_end(self.width),
            "engine": self.engine,
            "error_budget": {name: _to_json_bound_end(term) for name, term in self.error_budget.items()},
        }


def _to_json_bound_end(x: float) -> float | None:
    """Returns a finite number as it is, and None for an infinite one."""
    return x if math.isfinite(x) else None


class Curve(NamedTuple):
    """Arrays with ``lower <= truth <= upper`` in each element, of the shape of the arguments that were given.

    Methods that take an array return a ``Curve``. A ``Curve`` is a pair, so that it can be unpacked.

    >>> lower, upper = dp.Gaussian(2.0).profile([0.0, 1.0])
    >>> [round(float(delta), 3) for delta in upper]
    [0.197, 0.007]

    Methods raise an error instead of returning a curve that may be wrong.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def width(self) -> NDArray[np.float64]:
        """Upper ends minus lower ends."""
        return self.upper - self.lower
