"""A transformer that encodes texts, with one feature for each category."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..composition import Composition
from ..mechanisms import ApproximateDP, Gaussian
from ..records.blocks import Blocks
from ..records.column_encodings import CategoryColumn
from ..records.stream import RecordStream
from ..records.text import NO_VALUE, write_record_cell_as_text
from ..release_gate.count_threshold import count_values_for_threshold
from ..release_gate.gate import Gate
from ..release_gate.shares import NoiseShare
from ..statement.column_words import state_fact_of_categories
from .transformer import PrivateTransformer
from .transformer_input import check_width_to_preprocess, count_categories_of_columns, read_texts_for_encoder


@dataclass(eq=False, repr=False, kw_only=True)
class OneHotEncoder(PrivateTransformer):
    """Encodes each category of each column as one feature, which is 1 if a record has that category and 0 otherwise. If
    a text is not a category, all features of its column are 0.

    Cells are compared as texts, without blanks at their ends. None, NaN and pandas' NA become "". Whole floats are
    written as integers, so 1 and 1.0 are the same category.

    Further parameters
    ------------------
    categories : a list of lists of values, one for each column. Declared categories are free of charge. If None, the
        categories are the values whose noisy counts reach a threshold (``tightdp.frequent_values``)
    missing : texts that stand for no value

    Further attributes: ``categories_``, a list with one tuple of texts for each column.

    Guarantee: the privacy of Gaussian(noise_multiplier) + ApproximateDP(0, delta/10), add/remove one record; proof in
    docs/theory/frequent.md, section 2. The running time of ``fit`` depends on the number of different values, and is
    not protected.

    >>> from tightdp.preprocessing import OneHotEncoder
    >>> clinics = [["north"]] * 600 + [["south"]] * 400 + [["Clinic of Jane Doe"]]

    Only one record has the third category, so this category is not released.

    >>> encoder = OneHotEncoder(epsilon=0.5, delta=1e-6).fit(clinics)
    >>> encoder.categories_, encoder.transform([["south"], ["Clinic of Jane Doe"]]).tolist()
    ([('north', 'south')], [[0.0, 1.0], [0.0, 0.0]])
    """

    __doc__ += PrivateTransformer.__doc__.partition("\n")[2] if PrivateTransformer.__doc__ else ""

    categories: Any = None
    missing: Sequence[str] = NO_VALUE

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _charge(self, spent: NoiseShare) -> Composition:
        if isinstance(self.missing, str) or not all(isinstance(text, str) for text in self.missing):
            raise TypeError(f"missing must be a sequence of texts, got {self.missing!r}")
        if self.categories is not None:
            _read_encoder_categories(self.categories)
            return Composition()
        return Gaussian(spent.noise_multiplier) + ApproximateDP(0.0, spent.failure)

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Blocks):
            check_width_to_preprocess(self, X, None, reset=reset)
            return X
        return read_texts_for_encoder(self, X, reset=reset)

    def _check_columns(self, columns: int) -> None:
        if self.categories is not None and len(self.categories) != columns:
            raise ValueError(f"categories must be one list for each of {columns} columns")

    def _release_and_learn(self, values: list[list[str]] | RecordStream, gate: Gate, spent: NoiseShare) -> None:
        if self.categories is not None:
            self.categories_: list[tuple[str, ...]] = _read_encoder_categories(self.categories)
            return
        self.categories_ = gate.release_frequent_values(
            self.n_features_in_, partial(self._count_texts_to_encode, values), spent
        ).value

    def _count_texts_to_encode(self, values: list[list[str]] | RecordStream) -> list[Counter[str]]:
        """Counts, for each column, the records that have each text."""
        if not isinstance(values, RecordStream):
            return [count_values_for_threshold(column, self.missing) for column in values]
        counts: list[Counter[str]] = [Counter() for _ in range(self.n_features_in_)]
        for found in values.map_blocks(partial(count_categories_of_columns, missing=tuple(self.missing))):
            for column, more in zip(counts, found, strict=True):
                column.update(more)
        return counts

    def _transform_values(self, values: list[list[str]]) -> NDArray[np.float64]:
        columns = [CategoryColumn("", known) for known in self.categories_]
        blocks = [column.encode_record_values(cells) for column, cells in zip(columns, values, strict=True)]
        return np.column_stack(blocks)

    def _count_outputs(self, given: int) -> int:
        return 0 if self.categories is None else sum(map(len, _read_encoder_categories(self.categories)))

    def _has_text_outputs(self) -> bool:
        return self.categories is None

    def _name_transformer_outputs(self, given: list[str]) -> list[str]:
        return [f"{name}={one}" for name, known in zip(given, self.categories_, strict=True) for one in known]

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        facts = [state_fact_of_categories(f"column {j}", known) for j, known in enumerate(self.categories_)]
        if self.categories is not None:
            return (), {fact.name: fact.declared_text for fact in facts}
        return tuple(fact.describe_release() for fact in facts), {}


def _read_encoder_categories(categories: Any) -> list[tuple[str, ...]]:
    try:
        found = [tuple(write_record_cell_as_text(value).strip() for value in values) for values in categories]
        texts = any(isinstance(values, str) for values in categories)
    except TypeError:
        raise TypeError("categories must be None or a list of lists of values, one for each column") from None
    if texts or not all(known and len(set(known)) == len(known) and "" not in known for known in found):
        raise ValueError("categories must be one or more different values for each column, none of them empty")
    return found
