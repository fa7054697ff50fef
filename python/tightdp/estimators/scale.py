"""Public bounds of numbers, and the map from the interval between the bounds to [-1, 1]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support import _check

FARTHEST, NARROWEST = 1e60, 1e-60
"""Largest absolute value of a bound, and smallest distance of two bounds. A regression multiplies a weight by the width
of the target's bounds and by a bound of a feature, and divides by the width of that feature's bounds. With these
limits, the result is far below the largest double."""


class EstimatorScale(NamedTuple):
    """Public bounds, to which values are clipped, and the map from the interval between them to [-1, 1]."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    middle: NDArray[np.float64]
    """Middles of the intervals from ``low`` to ``high``."""
    half: NDArray[np.float64]
    """Half of the intervals' widths."""

    @classmethod
    def build_estimator_scale(cls, name: str, bounds: Any, size: int) -> EstimatorScale:
        """Checks bounds and returns their scale for ``size`` columns.

        If ``bounds`` is None, the scale changes no value.
        """
        if bounds is None:
            return cls(*(np.full(size, each) for each in (-np.inf, np.inf, 0.0, 1.0)))
        try:
            low, high = (np.broadcast_to(_check.check_array_argument(name, each), (size,)) for each in bounds)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be (low, high), each a number or one number for each column") from None
        _check.check_bounds_argument(name, bounds, size)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ValueError(f"{name} must be finite and low < high in every column")
        if not (np.abs([low, high]) <= FARTHEST).all():
            raise ValueError(f"{name} must lie in [-{FARTHEST:g}, {FARTHEST:g}] in every column")
        if not (high - low >= NARROWEST).all():
            raise ValueError(f"{name} must have a width high - low of at least {NARROWEST:g} in every column")
        return cls(low, high, (low + high) / 2, (high - low) / 2)

    def clip_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values clipped to the bounds."""
        return np.asarray(np.clip(values, self.low, self.high))

    def map_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values clipped and mapped to [-1, 1]. NaN stays NaN."""
        return np.asarray((self.clip_values(values) - self.middle) / self.half)
