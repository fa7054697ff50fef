"""Records in blocks, which can be read block after block as often as a run needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _check
from .cells import as_targets
from .numbers import as_numbers

T = TypeVar("T")
Block = tuple[NDArray[Any], NDArray[Any]]
"""Features (n, width) in float32 or float64, and n targets."""
Rows = NDArray[np.intp]
"""Numbers of rows."""
Lengths = NDArray[np.int64]
"""The number of records of each block."""
BYTES = 2**25
"""Size of a block's features in bytes. It keeps all threads busy, and is a small part of any machine's memory."""
# Errors that several modules raise.
WEIGHTS = "sample_weight must be finite numbers >= 0, and not all zero"
CHANGED = "X must have the same records in the same blocks at each pass, and they have changed"


class Blocks(ABC):
    """Records that are read in blocks, in the same order at each pass. Estimators take them in place of X.

    A subclass defines ``width``, the number of features, ``dtype`` (float32 or float64), and ``__iter__``, which yields
    each block as a pair: features ``(n, width)`` and n targets. It is called again for each pass. With ``weighted =
    True`` it yields triples whose third parts are weights: one number >= 0 for each record, public or a function of
    that record alone. The split into blocks does not change a bit of the trained model (docs/theory/blocks.md, section
    1). The records must not change during a fit.
    """

    width: int
    dtype: Any = np.float64
    columns: Sequence[Any] | None = None
    """Names of the features, or None."""
    texts: Mapping[int, Any] = MappingProxyType({})
    """Numbers and names of the columns of text. If there are any, ``dtype`` is object, and only estimators that encode
    text accept the blocks."""
    ahead = True
    """True if the batches of several steps are gathered in one pass. If False, chosen rows can be read without a
    pass."""
    weighted = False
    """Whether records have weights, which multiply their losses."""
    typed = True
    """Whether the type of the targets is known without a look at them."""
    remote = False
    """Whether sums over batches are computed where the blocks are."""
    copied = False
    """Whether a fit copies the blocks to a temporary file at its first pass, because they take long to make."""

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields the blocks, from the first one on."""

    def map_each_block(
        self,
        function: Callable[[NDArray[Any], NDArray[Any]], T],
        rows: Sequence[Rows] | None = None,
        lengths: Lengths | None = None,
    ) -> Iterator[T]:
        """Yields the result of ``function`` for each block, in order; with ``rows`` for those rows of each.

        Raises RuntimeError if the blocks have other ``lengths``.
        """
        many = 0
        for i, given in enumerate(self):
            x, y = self.block_form(*given)
            if lengths is not None:
                check_block_unchanged(len(y), int(lengths[i]) if i < len(lengths) else None)
            yield function(x, y) if rows is None else function(x[rows[i]], y[rows[i]])
            many = i + 1
        if lengths is not None:
            check_block_unchanged(many, len(lengths))

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        """Yields the records of each batch, which is given by the ascending numbers of its rows among all records. One
        pass serves all batches. RuntimeError if the blocks have other ``lengths``."""
        rows = np.concatenate(batches)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        features, targets, begin, first = [], [], 0, 0
        for block in self.map_each_block(keep_block, None, lengths):
            end = int(np.searchsorted(ascending, first + len(block[1])))
            here = ascending[begin:end] - first
            features.append(block[0][here])
            targets.append(block[1][here])
            begin, first = end, first + len(block[1])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        x, y = np.concatenate(features), np.concatenate(targets)
        for batch in np.split(back, np.cumsum([len(batch) for batch in batches])[:-1]):
            yield x[batch], y[batch]

    @property
    def block_form(self) -> BlockForm:
        """The check of a block, which says what shape and type all blocks have."""
        return BlockForm(self.width, np.dtype(self.dtype), bool(self.weighted))


@dataclass(frozen=True)
class BlockForm:
    """The shape and type of all blocks of a data set. It is called to check a block."""

    width: int
    dtype: np.dtype[Any]
    weighted: bool = False

    def __call__(self, features: Any, targets: Any, weights: Any = None) -> Block:
        """Returns one block as arrays, with the weights beside their targets. ValueError for another number of columns,
        of targets or of weights."""
        x, y = convert_to_dense(features, self.dtype), as_targets(targets)
        if x.ndim != 2 or x.shape[1] != self.width:
            raise ValueError(f"X must be blocks of shape (records, {self.width}), got one of shape {x.shape}")
        if y.shape != (len(x),):
            raise ValueError(f"y must have one target for each record: got shape {y.shape} for {len(x)} records")
        if self.weighted != (weights is not None or y.dtype.names is not None):
            raise ValueError("X must be blocks of features, targets and weights where weighted = True, and only there")
        return x, y if weights is None else join_weights(y, validate_weights(weights, len(x), some=False))


def keep_block(features: NDArray[Any], targets: NDArray[Any]) -> Block:
    """Returns a block as it is."""
    return features, targets


def check_block_unchanged(found: int, wanted: int | None) -> None:
    """Raises RuntimeError if there are not as many records, or blocks, as the first pass found."""
    if found != wanted:
        raise RuntimeError(CHANGED)


def join_weights(targets: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[Any]:
    """Returns targets and weights as one array."""
    both = np.empty(len(targets), [("target", targets.dtype), ("weight", np.float64)])
    both["target"], both["weight"] = targets, weights
    return both


def split_weights(targets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Returns targets and weights, which ``join_weights`` joined; None in place of weights that are missing."""
    return (targets, None) if targets.dtype.names is None else (targets["target"], targets["weight"])


@dataclass(frozen=True)
class Unweighted:
    """A function of features and targets alone."""

    function: Callable[[NDArray[Any], NDArray[Any]], Any]

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Any:
        return self.function(features, split_weights(targets)[0])


def validate_weights(given: Any, records: int, *, some: bool = True) -> NDArray[np.float64]:
    """Returns sample weights: one finite number >= 0 for each record, ``some`` of them above 0. Errors quote no
    weight."""
    try:
        weights = np.asarray(given)
        if weights.dtype.kind == "O" and not any(isinstance(x, (str, bytes)) for x in weights.flat):
            weights = weights.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.array("")
    if weights.dtype.kind not in "biuf":
        raise ValueError("sample_weight must be numbers >= 0, one for each record")
    with np.errstate(over="ignore"):  # a longer float may become infinite
        weights = weights.astype(np.float64)
    weights = np.broadcast_to(weights, (records,)) if weights.ndim == 0 else weights
    if weights.shape != (records,):
        raise ValueError(f"sample_weight must have shape ({records},), one for each record, got {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0)).all() or (some and not weights.any()):
        raise ValueError(WEIGHTS)
    return weights


def resolve_largest_weight(declared: Any, weighted: bool) -> float:
    """Returns the declared largest weight of a record, or 1 if records have no weights. Raises ValueError if it is
    missing or not a positive number."""
    if declared is not None:
        return _check.positive("max_sample_weight", declared)
    if weighted:
        raise ValueError(
            "max_sample_weight must be given where records have weights: a public number in (0, inf), not computed "
            "from them. Weights count relative to it, and larger ones count as it"
        )
    return 1.0


def scale_weights(weights: NDArray[np.float64], largest: float) -> NDArray[np.float64]:
    """Returns weights over the largest, confined to [0, 1]: a quotient of a number by a larger one never rounds above
    1."""
    return np.minimum(weights, largest) / largest


def convert_to_dense(features: Any, dtype: Any) -> NDArray[Any]:
    """Returns rows of X as an array of numbers, or of objects if ``dtype`` says so. Sparse rows get their zeros, and
    missing cells of a data frame become NaN."""
    if hasattr(features, "iloc"):
        features = features.to_numpy(dtype=dtype, na_value=np.nan)
    if dtype.kind == "O":
        return np.asarray(features, dtype=object)
    plain = features.toarray() if hasattr(features, "toarray") else as_numbers(features)
    return np.ascontiguousarray(plain, dtype=dtype)


def count_block_rows(width: int, dtype: np.dtype[Any], rows: int | None) -> int:
    """Returns the number of rows of a block: ``rows``, or as many as have ``BYTES``."""
    each = 32 if dtype.kind == "O" else dtype.itemsize  # a float as an object, and its place
    return rows or max(1, BYTES // (max(1, width) * each))


def choose_float_type(kind: Any) -> np.dtype[Any]:
    """Returns float32 for a type of numbers that it holds, else float64."""
    return np.dtype(np.float32 if np.dtype(kind) in (np.float16, np.float32) else np.float64)
