"""A transformer that replaces missing numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..composition import Composition
from ..estimators.shared.public_facts import describe_public_fact_of_bounds
from ..release_gate.gate import Gate
from ..release_gate.shares import NoiseShare
from ..statement.wording import format_stated_exactly, list_stated_values
from . import quantiles
from .passes import Values, count_columns_to_preprocess
from .scalers import _count_columns_of_scaler_domain
from .transformer import PrivateTransformer


@dataclass(eq=False, repr=False, kw_only=True)
class SimpleImputer(PrivateTransformer):
    """Replaces each missing number (NaN) by a private median of its column, or by a declared number.

    Further parameters
    ------------------
    strategy : "median" or "constant". A constant is free of charge
    fill_value : the constant, one number or one for each column
    domain : the range that is searched for medians, as for ``MinMaxScaler``

    Further attributes: ``statistics_``, the numbers that replace missing numbers, of shape (d,).

    Guarantee: the privacy of one Gaussian(noise_multiplier) under adding or removing one record. The proof is in
    docs/theory/quantiles.md.
    Without an imputer, a record with a missing number contributes nothing to a fit.

    >>> import numpy as np
    >>> from tightdp.preprocessing import SimpleImputer
    >>> SimpleImputer(strategy="constant", fill_value=40).fit_transform([[30.0], [np.nan]]).tolist()
    [[30.0], [40.0]]
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    strategy: Literal["median", "constant"] = "median"
    fill_value: Any = 0.0
    domain: Any = None

    def _charge(self, spent: NoiseShare) -> Composition:
        _check.check_choice_argument("strategy", self.strategy, ("median", "constant"))
        if self.strategy == "constant":
            return Composition()
        quantiles.build_quantile_grid(self.domain, _count_columns_of_scaler_domain(self.domain))
        return quantiles.compute_quantile_charge(self.domain, spent.noise_multiplier)

    def _prepare_input(self, X: Any) -> Values:
        values: Values = super()._prepare_input(X)
        if self.strategy == "constant":
            self._broadcast_imputer_constants(count_columns_to_preprocess(values))
        else:
            quantiles.build_quantile_grid(self.domain, count_columns_to_preprocess(values))
        return values

    def _broadcast_imputer_constants(self, columns: int) -> NDArray[np.float64]:
        try:
            return np.array(
                np.broadcast_to(_check.check_bounded_array_argument("fill_value", self.fill_value), (columns,))
            )
        except (TypeError, ValueError):
            raise ValueError("fill_value must be a finite number or one for each column") from None

    def _release_and_learn(self, values: Values, gate: Gate, spent: NoiseShare) -> None:
        size = count_columns_to_preprocess(values)
        if self.strategy == "constant":
            self.statistics_: NDArray[np.float64] = self._broadcast_imputer_constants(size)
        else:
            (found,) = quantiles.search_quantiles(gate, values, (0.5,), self.domain, spent.noise_multiplier)
            self.statistics_ = quantiles.build_quantile_grid(self.domain, size)[found, np.arange(size)]

    def _transform_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(np.isnan(values), self.statistics_, values)

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        shown = list_stated_values([format_stated_exactly(value) for value in self.statistics_])
        if self.strategy == "constant":
            return (), {"numbers in the place of missing ones": f"declared: {shown}"}
        domain = "any number" if self.domain is None else f"declared: {describe_public_fact_of_bounds(self.domain)}"
        return (f"noisy medians of {self.n_features_in_} columns: {shown}",), {"where medians were looked for": domain}
