"""Transformers that scale columns of numbers, by declared bounds, private quantiles or private moments (the count, the
sum and the sum of squares of a column)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..composition import Composition
from ..estimators.scale import EstimatorScale
from ..estimators.shared.public_facts import describe_public_fact_of_bounds
from ..mechanisms import Gaussian
from ..release_gate.gate import Gate
from ..release_gate.oracle import Integers, Query
from ..release_gate.shares import NoiseShare
from . import quantiles
from .passes import Array, Values, count_columns_to_preprocess, sum_rows_to_preprocess
from .transformer import PrivateTransformer


@dataclass(eq=False, repr=False, kw_only=True)
class BoundedTransformer(PrivateTransformer):
    """A transformer that clips each column to bounds, which are declared or learned."""

    bounds: Any = None
    quantiles: tuple[float, float] = (0.01, 0.99)
    domain: Any = None

    def _check_quantile_levels(self) -> tuple[float, float]:
        try:
            low, high = (quantiles.round_quantile_level("quantiles", q) for q in self.quantiles)
        except (TypeError, ValueError):
            low, high = 1.0, 0.0
        if not low < high:
            raise ValueError(f"quantiles must be two numbers in (0, 1) that ascend, got {self.quantiles!r}")
        return low, high

    def _charge_for_bounds(self, noise_multiplier: float) -> Composition:
        if self.bounds is not None:
            return Composition()
        (
            self._check_quantile_levels(),
            quantiles.build_quantile_grid(self.domain, _count_columns_of_scaler_domain(self.domain)),
        )
        return quantiles.compute_quantile_charge(self.domain, noise_multiplier)

    def _prepare_input(self, X: Any) -> Values:
        values: Values = super()._prepare_input(X)
        if self.bounds is not None:
            EstimatorScale.build_estimator_scale("bounds", self.bounds, count_columns_to_preprocess(values))
        else:
            quantiles.build_quantile_grid(self.domain, count_columns_to_preprocess(values))
        return values

    def _find_bounds(self, values: Values, gate: Gate, noise_multiplier: float) -> tuple[Array, Array]:
        """Returns the lower and upper bound of each column. The lower bound is always below the upper bound."""
        size = count_columns_to_preprocess(values)
        if self.bounds is not None:
            scale = EstimatorScale.build_estimator_scale("bounds", self.bounds, size)
            return scale.low.copy(), scale.high.copy()
        found = quantiles.search_quantiles(gate, values, self._check_quantile_levels(), self.domain, noise_multiplier)
        grid = quantiles.build_quantile_grid(self.domain, size)
        low, high = np.sort(found, axis=0)  # with few values, the searches may end in the wrong order
        low = np.minimum(low, len(grid) - 2)
        high = np.maximum(high, low + 1)  # bounds must differ even if a column has only one value
        return grid[low, np.arange(size)], grid[high, np.arange(size)]

    def _list_scaler_bounds_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        if self.bounds is not None:
            return (), {"bounds of the features": f"declared: {describe_public_fact_of_bounds(self.bounds)}"}
        shown = f"bounds of {self.n_features_in_} columns, by noisy quantiles: {describe_public_fact_of_bounds(self.bounds_)}"
        domain = "any number" if self.domain is None else f"declared: {describe_public_fact_of_bounds(self.domain)}"
        return (shown,), {"where bounds were looked for": domain}


def _count_columns_of_scaler_domain(domain: Any) -> int:
    """Returns the number of columns that ``domain`` has ranges for, or 1 if one range serves for all columns."""
    try:
        return max(np.size(end) for end in domain) if domain is not None else 1
    except TypeError:
        return 1


class MinMaxScaler(BoundedTransformer):
    """Clips each column to bounds and maps the bounds to 0 and 1; NaN stays.

    Further parameters
    ------------------
    bounds : (low, high), each a number or one number for each column. Declared bounds are free of charge. If None, the
        bounds are the two ``quantiles`` of each column, found by a binary search with noisy counts
    quantiles : two levels in (0, 1). Missing values are left out
    domain : declared range (low, high). Quantiles are searched on 1,024 equally spaced points of this range. If None,
        quantiles are searched on a grid of 0 and of numbers from 1e-6 to 9e12 of either sign, in steps of 3 %

    Further attributes: ``bounds_``, low and high of shape (d,).

    Guarantee: the privacy of one Gaussian(noise_multiplier), add/remove one record; proof in docs/theory/quantiles.md.

    >>> import numpy as np
    >>> from tightdp.preprocessing import MinMaxScaler
    >>> incomes = np.random.default_rng(0).lognormal(10, 1, size=(20000, 1))

    The bounds are quantiles, found with noise.

    >>> scaler = MinMaxScaler(epsilon=0.5, delta=1e-6, random_state=0).fit(incomes)
    >>> low, high = scaler.bounds_
    >>> bool(1500 < low[0] < 3500 and 150_000 < high[0] < 400_000), scaler.privacy_.upper <= 0.5
    (True, True)
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    def _charge(self, spent: NoiseShare) -> Composition:
        return self._charge_for_bounds(spent.noise_multiplier)

    def _release_and_learn(self, values: Values, gate: Gate, spent: NoiseShare) -> None:
        self.bounds_ = self._find_bounds(values, gate, spent.noise_multiplier)

    def _transform_values(self, values: Array) -> Array:
        low, high = self.bounds_
        return np.asarray((np.clip(values, low, high) - low) / (high - low))

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        return self._list_scaler_bounds_facts()


SHARE = 0.5
"""Share of the budget, in 1 / noise multiplier^2, for bounds that are not declared. The rest is for moments."""
NARROWEST = 1 / 64
"""Smallest ``scale_``, divided by half the distance between the bounds. A smaller deviation would be mostly noise."""
DIGITS = 20
"""Number of binary digits after the point of a value that was mapped to [-1, 1]."""


class StandardScaler(BoundedTransformer):
    """Clips each column to bounds, subtracts a private mean and divides by a private standard deviation; NaN stays.

    Further parameters
    ------------------
    bounds, quantiles, domain : as for ``MinMaxScaler``. If bounds are learned, they take half of the budget

    Further attributes: ``bounds_``, and ``mean_`` and ``scale_`` of the clipped values, of shape (d,). ``scale_`` is at
    least 1/64 of half the width of the bounds.

    One release contains the count, the sum and the sum of squares of each column's values. Guarantee: the privacy of
    one Gaussian(noise_multiplier), add/remove one record; proof in docs/theory/quantiles.md, section 2.

    >>> import numpy as np
    >>> from tightdp.preprocessing import StandardScaler
    >>> ages = np.random.default_rng(0).normal(40, 10, size=(20000, 1))

    Mean and deviation are close to those of the ages.

    >>> scaler = StandardScaler(epsilon=0.5, delta=1e-6, bounds=(0, 120), random_state=0).fit(ages)
    >>> bool(abs(scaler.mean_[0] - 40) < 1), bool(abs(scaler.scale_[0] - 10) < 1)
    (True, True)
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    def _charge(self, spent: NoiseShare) -> Composition:
        bounds, moments = self._split_scaler_noise(spent)
        return self._charge_for_bounds(bounds) + Gaussian(moments)

    def _split_scaler_noise(self, spent: NoiseShare) -> tuple[float, float]:
        """Returns the noise multiplier of the bounds, and the noise multiplier of the moments."""
        z = spent.noise_multiplier
        if self.bounds is not None:
            return z, z
        return z / math.sqrt(SHARE) * (1 + 2.0**-50), z / math.sqrt(1 - SHARE) * (1 + 2.0**-50)

    def _release_and_learn(self, values: Values, gate: Gate, spent: NoiseShare) -> None:
        """Learns bounds that are not declared, then releases the moments within them."""
        bounds, noise = self._split_scaler_noise(spent)
        self.bounds_ = low, high = self._find_bounds(values, gate, bounds)
        middle, half = low + (high - low) / 2, (high - low) / 2
        count, sums, squares = gate.release_gaussian(build_scaler_query(values, low, high), noise).value.reshape(3, -1)
        many = np.maximum(count, 1.0)
        mean = np.clip(sums / many, -1, 1)
        variance = np.clip(squares / many, 0, 1) - mean**2
        self.mean_: Array = middle + half * mean
        self.scale_: Array = half * np.sqrt(np.maximum(variance, NARROWEST**2))

    def _transform_values(self, values: Array) -> Array:
        return np.asarray((np.clip(values, *self.bounds_) - self.mean_) / self.scale_)

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        released, public = self._list_scaler_bounds_facts()
        return (*released, f"a noisy mean and standard deviation of {self.n_features_in_} columns"), public


def build_scaler_query(values: Values, low: Any, high: Any) -> Query:
    """Returns the query of the number, sum and sum of squares of each column's values. Values are clipped to
    [low, high] and mapped to [-1, 1].

    NaN does not count as a value. A mapped value u adds the vector (1, u, u^2), truncated toward zero to multiples of
    2^-20. The norm of this vector is at most sqrt(3).
    """
    columns = count_columns_to_preprocess(values)
    evaluate = partial(sum_rows_to_preprocess, values, partial(_sum_scaler_moments, low, high), 3 * columns)
    return Query((3 * columns,), math.sqrt(3 * columns) * (1 + 2.0**-50), 1.0, 2.0**-DIGITS, evaluate)


def _sum_scaler_moments(low: Any, high: Any, values: Array) -> Integers:
    one = 2**DIGITS
    units = (np.clip(values, low, high) - (low + (high - low) / 2)) / ((high - low) / 2)
    there = ~np.isnan(units)
    inside = np.clip(np.where(there, units, 0.0), -1, 1)  # rounding may move a quotient out of [-1, 1]
    parts = there * one, np.trunc(inside * one), np.trunc(inside**2 * one)
    return np.concatenate([part.astype(np.int64).sum(axis=0) for part in parts])
