"""A transformer that applies several transformers one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..composition import Composition
from ..estimators.shared.ownership import mark_as_estimator_part
from ..estimators.shared.sklearn_interface import copy_unfitted_estimator
from ..gate.gate import Gate
from ..gate.shares import NoiseShare
from ..records.blocks import Blocks
from .cells import check_shape_to_preprocess, check_width_to_preprocess, split_columns_to_preprocess
from .passes import count_records_to_preprocess
from .steps import NamedTransformers, list_named_transformers
from .transformer import PrivateTransformer


@dataclass(eq=False, repr=False)
class Chain(NamedTransformers, PrivateTransformer):
    """A chain of private transformers for some columns of a ``ColumnTransformer``. Each transformer is applied to the
    result of the previous one.

    Further parameters
    ------------------
    transformers : a list of (name, transformer). Leave out the transformers' epsilon, noise_multiplier, ledger and
        random_state. The chain's budget is divided equally among the transformers that release something

    Further attributes: ``transformers_``, the fitted transformers with their names.

    >>> from tightdp.preprocessing import Chain, MinMaxScaler, SimpleImputer
    >>> fill = SimpleImputer(strategy="constant", fill_value=45)
    >>> Chain([("fill", fill), ("scale", MinMaxScaler(bounds=(20, 70)))]).fit_transform([[70], [None]]).tolist()
    [[1.0], [0.5]]
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    transformers: Sequence[tuple[str, Any]]
    _steps = "transformers"

    def _charge(self, spent: NoiseShare) -> Composition:
        each = self._divide_share(spent)
        return sum((member._charge(each) for _, member in list_named_transformers(self.transformers, 2)), Composition())

    def _divide_share(self, spent: NoiseShare) -> NoiseShare:
        paying = sum(bool(member._charge(spent)) for _, member in list_named_transformers(self.transformers, 2))
        return spent.divide_equally(max(1, paying))

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Blocks):
            check_width_to_preprocess(self, X, X.width, reset=reset)
        else:
            check_shape_to_preprocess(self, X, split_columns_to_preprocess(X), reset=reset)
        return X

    def _prepare_input(self, X: Any) -> Any:
        """Checks X as the first transformer would, before anything is released."""
        values = count_records_to_preprocess(self._read_table(X, reset=True))
        copy_unfitted_estimator(list_named_transformers(self.transformers, 2)[0][1])._prepare_input(values)
        return values

    def _transform_block(self, rows: Any) -> NDArray[np.float64]:
        for _, member in self.transformers_:
            rows = member._transform_block(rows)
        return np.asarray(rows)

    def _release_and_learn(self, values: Any, gate: Gate, spent: NoiseShare) -> None:
        """Fits the transformers in order. Each transformer learns from the output of the previous one."""
        each = self._divide_share(spent)
        self.transformers_: list[tuple[str, Any]] = []
        for name, given in list_named_transformers(self.transformers, 2):
            member = copy_unfitted_estimator(given)
            member._release_and_learn(member._prepare_input(values), gate, each)
            member.charged_ = member._charge(each)
            mark_as_estimator_part(member, self)
            values = member.transform(values)
            self.transformers_.append((name, member))

    def _transform_values(self, values: Any) -> NDArray[np.float64]:
        for _, member in self.transformers_:
            values = member.transform(values)
        return np.asarray(values)

    def _name_outputs(self, given: list[str]) -> list[str]:
        for _, member in self.transformers_:
            given = member._name_outputs(given)
        return given

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        released: list[str] = []
        public: dict[str, str] = {}
        for name, member in self.transformers_:
            shown, taken = member._list_facts()
            released += [f"{name}: {one}" for one in shown]
            public |= {f"{name}: {key}": value for key, value in taken.items()}
        return tuple(released), public

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = self.transformers[0][1].__sklearn_tags__().input_tags
        return tags
