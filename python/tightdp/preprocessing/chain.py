"""A transformer that applies several transformers one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators.shared.sklearn_interface import copy_unfitted_estimator
from ..records.blocks import Blocks
from ..release_gate.gate import Gate
from ..release_gate.shares import NoiseShare
from .passes import count_records_to_preprocess
from .steps import CompositeTransformer, check_columns_of_steps
from .transformer import PrivateTransformer
from .transformer_input import check_shape_to_preprocess, check_width_to_preprocess, split_columns_to_preprocess


@dataclass(eq=False, repr=False)
class Chain(CompositeTransformer):
    """A chain of private transformers for some columns of a ``ColumnTransformer``. Each transformer is applied to the
    result of the previous one.

    Further parameters
    ------------------
    transformers : a list of (name, transformer). Leave out the transformers' epsilon, noise_multiplier, ledger and
        random_state. The chain's budget is divided equally among the transformers that release something.

    Further attributes: ``transformers_``, the fitted transformers with their names.

    >>> from tightdp.preprocessing import Chain, MinMaxScaler, SimpleImputer
    >>> fill = SimpleImputer(strategy="constant", fill_value=45)
    >>> Chain([("fill", fill), ("scale", MinMaxScaler(bounds=(20, 70)))]).fit_transform([[70], [None]]).tolist()
    [[1.0], [0.5]]
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    transformers: Sequence[tuple[str, Any]]
    _length = 2

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Blocks):
            check_width_to_preprocess(self, X, X.width, reset=reset)
        else:
            check_shape_to_preprocess(self, X, split_columns_to_preprocess(X), reset=reset)
        return X

    def _prepare_input(self, X: Any) -> Any:
        """Checks X as the first transformer would, before anything is released.

        Lists with an entry for each column, which were given to the other transformers, are checked too."""
        values = count_records_to_preprocess(self._read_table(X, reset=True))
        first, *others = self._list_members()
        copy_unfitted_estimator(first)._prepare_input(values)
        check_columns_of_steps(others, first._count_outputs(self.n_features_in_))
        return values

    def _check_columns(self, columns: int) -> None:
        check_columns_of_steps(self._list_members(), columns)

    def _count_outputs(self, given: int) -> int:
        for member in self._list_members():
            given = member._count_outputs(given)
        return given

    def _transform_block(self, rows: Any) -> NDArray[np.float64]:
        for _, member in self.transformers_:
            rows = member._transform_block(rows)
        return np.asarray(rows)

    def _release_and_learn(self, values: Any, gate: Gate, spent: NoiseShare) -> None:
        """Fits the transformers in order. Each transformer learns from the output of the previous one."""
        each = self._divide_share(spent)
        self.transformers_ = []
        for name, given in self._list_transformer_parts():
            member = copy_unfitted_estimator(given)
            self._fit_member_transformer(member, member._prepare_input(values), gate, each)
            values = member.transform(values)
            self.transformers_.append((name, member))

    def _transform_values(self, values: Any) -> NDArray[np.float64]:
        for _, member in self.transformers_:
            values = member.transform(values)
        return np.asarray(values)

    def _name_transformer_outputs(self, given: list[str]) -> list[str]:
        for _, member in self.transformers_:
            given = member._name_transformer_outputs(given)
        return given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = self.transformers[0][1].__sklearn_tags__().input_tags
        return tags
