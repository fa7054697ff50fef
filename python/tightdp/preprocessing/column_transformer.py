"""A transformer that applies different transformers to different columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators.shared.sklearn_interface import copy_unfitted_estimator
from ..records.blocks import Blocks
from ..records.sources.choose_source import check_source_blocks_of_numbers
from ..records.views import MappedBlocks
from ..release_gate.gate import Gate
from ..release_gate.shares import NoiseShare
from .passes import count_records_to_preprocess
from .steps import CompositeTransformer
from .transformer import PrivateTransformer
from .transformer_input import (
    check_shape_to_preprocess,
    check_width_to_preprocess,
    get_columns_for_transformer,
    list_columns_to_preprocess,
    split_columns_to_preprocess,
)


@dataclass(eq=False, repr=False)
class ColumnTransformer(CompositeTransformer):
    """Applies each private transformer to some of the columns, and joins the resulting features. Other columns are left
    out.

    Further parameters
    ------------------
    transformers : a list of (name, transformer, columns). Columns are numbers, or names if X is a data frame or a
        mapping of columns. Masks and slices are not accepted. The word "passthrough" in place of a transformer leaves
        columns of numbers as they are.

    Leave out the transformers' epsilon, noise_multiplier, ledger and random_state. The budget is divided equally among
    the transformers that release something.

    Further attributes: ``transformers_``, the fitted transformers with their names and columns.

    >>> from tightdp.preprocessing import ColumnTransformer, MinMaxScaler, OneHotEncoder
    >>> people = {"age": [30, 50, 70], "sex": ["f", "m", "f"]}
    >>> ages, sexes = MinMaxScaler(bounds=(20, 70)), OneHotEncoder(categories=[["f", "m"]])

    Declared bounds and categories cost nothing.

    >>> ColumnTransformer([("numbers", ages, ["age"]), ("texts", sexes, ["sex"])]).fit_transform(people).tolist()
    [[0.2, 1.0, 0.0], [0.6, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    transformers: Sequence[tuple[str, Any, Any]]
    _length = 3

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Blocks):
            check_width_to_preprocess(self, X, X.width, reset=reset)
            return X, range(X.width)
        columns = split_columns_to_preprocess(X)
        check_shape_to_preprocess(self, X, columns, reset=reset)
        return X, columns

    def _prepare_input(self, X: Any) -> list[tuple[str, Any, Any, Any]]:
        """Prepares the input of each entry of ``transformers``.

        Returns tuples (name, unfitted transformer, columns, prepared input). For "passthrough" the transformer is None.
        """
        table, each = self._read_table(X, reset=True)
        given_parts = self._list_transformer_parts()
        for _, _, columns in given_parts:
            # Wrong columns are refused before a pass over the table.
            _find_columns_to_transform(columns, get_columns_for_transformer(table), len(each))
        whole, found = (count_records_to_preprocess(table), each), []
        for name, given, columns in given_parts:
            member, part = copy_unfitted_estimator(given), _take_table_columns_to_transform(whole, columns)
            found.append(
                (
                    name,
                    member,
                    columns,
                    _convert_passthrough_to_numbers(part) if member is None else member._prepare_input(part),
                )
            )
        return found

    def _release_and_learn(self, values: list[tuple[str, Any, Any, Any]], gate: Gate, spent: NoiseShare) -> None:
        each = self._divide_share(spent)
        for _, member, _, part in values:
            if member is not None:
                self._fit_member_transformer(member, part, gate, each)
        self.transformers_ = [(name, member, columns) for name, member, columns, _ in values]

    def _transform_values(self, values: Any) -> NDArray[np.float64]:
        blocks = []
        for _, member, columns in self.transformers_:
            part = _take_table_columns_to_transform(values, columns)
            blocks.append(_convert_passthrough_to_numbers(part) if member is None else member.transform(part))
        return np.column_stack(blocks)

    def _transform_block(self, rows: Any) -> NDArray[np.float64]:
        names, found = getattr(self, "feature_names_in_", None), []
        for _, member, columns in self.transformers_:
            part = _take_block_columns_to_transform(
                _find_columns_to_transform(columns, None if names is None else list(names), rows.shape[1]), rows
            )
            found.append(_convert_passthrough_to_numbers(part) if member is None else member._transform_block(part))
        return np.column_stack(found)

    def _check_columns(self, columns: int) -> None:
        for _, member, chosen in self._list_transformer_parts():
            places = _find_columns_to_transform(chosen, None, columns)
            if member is not None:
                member._check_columns(len(places))

    def _count_outputs(self, given: int) -> int:
        parts = [
            (member, len(list_columns_to_preprocess(columns))) for _, member, columns in self._list_transformer_parts()
        ]
        found = [many if member is None else member._count_outputs(many) for member, many in parts]
        return sum(found) if all(found) else 0

    def _name_transformer_outputs(self, given: list[str]) -> list[str]:
        found = []
        for name, member, columns in self.transformers_:
            known = [str(c) if isinstance(c, str) else given[c] for c in list_columns_to_preprocess(columns)]
            found += [
                f"{name}__{one}" for one in (known if member is None else member._name_transformer_outputs(known))
            ]
        return found


def _take_table_columns_to_transform(whole: Any, columns: Any) -> Any:
    """Returns some columns of a table as an array, or some columns of blocks as blocks."""
    X, found = whole
    places = _find_columns_to_transform(columns, get_columns_for_transformer(X), len(found))
    if isinstance(X, Blocks):
        texts = {i: X.texts[place] for i, place in enumerate(places) if place in X.texts}
        return MappedBlocks(X, partial(_take_block_columns_to_transform, places), texts)
    rows = np.empty((len(found[0]), len(places)), dtype=object)
    for j, place in enumerate(places):
        rows[:, j] = found[place]
    return rows


def _find_columns_to_transform(columns: Any, names: list[Any] | None, many: int) -> list[int]:
    """Returns the numbers of columns that are given by name or number. ``many`` is the number of all columns."""
    keys, places = list_columns_to_preprocess(columns), []
    if not keys:
        raise ValueError("columns must be one or more")
    for key in keys:
        if isinstance(key, str):
            if names is None or key not in names:
                raise ValueError(f"columns must be among those of X: there is no {key!r}")
            places.append(names.index(key))
        elif -many <= key < many:
            places.append(int(key))
        else:
            raise ValueError(f"columns must be from {-many} to {many - 1} for the {many} columns of X, got {key!r}")
    return places


def _take_block_columns_to_transform(places: list[int], rows: Any) -> NDArray[Any]:
    found = rows[:, places]
    return np.asarray(found, dtype=object if found.dtype == object else np.float64)


def _convert_passthrough_to_numbers(part: Any) -> Any:
    if isinstance(part, Blocks):
        check_source_blocks_of_numbers(part)
        return part
    try:
        return np.asarray(part.astype(np.float64))
    except (TypeError, ValueError, OverflowError):
        raise ValueError("X must hold numbers in the columns that are passed through: a cell is not a number") from None
