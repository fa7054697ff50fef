"""Defines the interface of data sets that are read block by block. A pass reads every block once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from .numbers import as_table_of_numbers
from .record_cells import as_targets_of_record_cells

T = TypeVar("T")
Block = tuple[NDArray[Any], NDArray[Any]]
"""A block as arrays: features of shape (n, width) in float32 or float64, and n targets."""
BlockFunction = Callable[[NDArray[Any], NDArray[Any]], T]
"""A function of a block's features and targets."""
Rows = NDArray[np.intp]
"""Array of row numbers."""
Lengths = NDArray[np.int64]
"""Array with the number of records of each block."""
BYTES = 2**25
"""Default size of the features of a block, in bytes. A block of this size keeps all threads busy, and is a small part
of any machine's memory."""
# Messages of errors that several modules raise.
WEIGHTS = "sample_weight must be finite numbers >= 0, and not all zero"
CHANGED = "X must have the same records in the same blocks at each pass, and they have changed"


class Blocks(ABC):
    """A data set that is read in blocks, in the same order in each pass. Estimators take it in place of X and y.

    A subclass defines ``__iter__``, ``width`` (the number of features), and ``dtype`` unless it is float64.
    ``__iter__`` is called for each pass, and yields each block as a pair: features of shape ``(n, width)`` and n
    targets. With ``weighted = True``, it yields triples of features, targets and weights. A weight is a number >= 0 for
    each record, and must be public or a function of that record alone. The trained model has the same bits, however the
    records are divided into blocks (docs/theory/blocks.md, section 1). The records must not change during a fit.

    >>> import numpy as np
    >>> from tightdp.train import Blocks, LogisticRegression
    >>> class Halves(Blocks):
    ...     width = 1
    ...     def __iter__(self):
    ...         for end in (-1.0, 1.0):
    ...             yield np.linspace(0, end, 1000)[:, None], np.full(1000, end > 0)
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, random_state=0).fit(Halves())
    >>> model.predict([[-0.5], [0.5]]).tolist(), [x.shape for x, _ in Halves()]
    ([False, True], [(1000, 1), (1000, 1)])
    """

    width: int
    dtype: Any = np.float64
    columns: Sequence[Any] | None = None
    """Names of the features, or None."""
    texts: Mapping[int, Any] = MappingProxyType({})
    """Names of the columns of text, by their column numbers. If there are such columns, ``dtype`` is object, and only
    estimators that encode text accept the blocks."""
    ahead = True
    """True if chosen rows can only be read in a pass over all blocks. Then one pass gathers the batches of several
    steps."""
    weighted = False
    """True if records have weights, which multiply their losses."""
    typed = True
    """True if the type of the targets is known before they are read."""
    remote = False
    """True if sums over batches are computed on the machines that hold the blocks."""
    copied = False
    """True if a fit copies the blocks to a temporary file in its first pass, because they take long to decode."""

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields the blocks in order, starting with the first one."""

    def map_each_block(
        self, function: BlockFunction[T], rows: Sequence[Rows] | None = None, lengths: Lengths | None = None
    ) -> Iterator[T]:
        """Yields the result of ``function`` for each block, in order.

        With ``rows``, ``function`` gets only the rows ``rows[i]`` of block i. Raises RuntimeError if the blocks do not
        have the given ``lengths``.

        Returns an iterator.
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
        """Yields the records of each batch. One pass gathers all batches.

        A batch is given by the ascending numbers of its records among all records. Raises RuntimeError if the blocks do
        not have the given ``lengths``.

        Returns an iterator.
        """
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
        """The shape and type of all blocks, as a function that checks a block."""
        return BlockForm(self.width, np.dtype(self.dtype), bool(self.weighted))


@dataclass(frozen=True)
class BlockForm:
    """The shape and type of all blocks of a data set. Calling a ``BlockForm`` checks a block."""

    width: int
    dtype: np.dtype[Any]
    weighted: bool = False

    def __call__(self, features: Any, targets: Any, weights: Any = None) -> Block:
        """Returns one block as arrays. The weights, if any, are joined with the targets.

        Raises ValueError for a wrong number of columns, targets or weights.
        """
        x, y = convert_block_to_dense(features, self.dtype), as_targets_of_record_cells(targets)
        if x.ndim != 2 or x.shape[1] != self.width:
            raise ValueError(f"X must be blocks of shape (records, {self.width}), got one of shape {x.shape}")
        if y.shape != (len(x),):
            raise ValueError(f"y must have one target for each record: got shape {y.shape} for {len(x)} records")
        if self.weighted != (weights is not None or y.dtype.names is not None):
            raise ValueError("X must be blocks of features, targets and weights where weighted = True, and only there")
        return x, y if weights is None else join_record_block_weights(
            y, validate_record_block_weights(weights, len(x), some=False)
        )


def keep_block(features: NDArray[Any], targets: NDArray[Any]) -> Block:
    """Returns a block unchanged."""
    return features, targets


def check_block_unchanged(found: int, wanted: int | None) -> None:
    """Raises RuntimeError if the number ``found`` of records or blocks differs from ``wanted``, the number in the first
    pass."""
    if found != wanted:
        raise RuntimeError(CHANGED)


def join_record_block_weights(targets: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[Any]:
    """Returns targets and weights as one array with the fields "target" and "weight"."""
    both = np.empty(len(targets), [("target", targets.dtype), ("weight", np.float64)])
    both["target"], both["weight"] = targets, weights
    return both


def split_record_block_weights(targets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Returns the targets and the weights that ``join_record_block_weights`` joined.

    The weights are None if the records have no weights.
    """
    return (targets, None) if targets.dtype.names is None else (targets["target"], targets["weight"])


@dataclass(frozen=True)
class UnweightedBlockFunction:
    """A function of a block, which gets the features and the targets, but not the weights."""

    function: BlockFunction[Any]

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Any:
        return self.function(features, split_record_block_weights(targets)[0])


def validate_record_block_weights(given: Any, records: int, *, some: bool = True) -> NDArray[np.float64]:
    """Returns sample weights as an array with one number for each record.

    Raises ValueError unless all weights are finite and >= 0. If ``some`` is True, at least one must be above 0. The
    message quotes no weight.
    """
    try:
        weights = np.asarray(given)
        if weights.dtype.kind == "O" and not any(isinstance(x, (str, bytes)) for x in weights.flat):
            weights = weights.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.array("")
    if weights.dtype.kind not in "biuf":
        raise ValueError("sample_weight must be numbers >= 0, one for each record")
    with np.errstate(over="ignore"):  # a float of more than 64 bits may become infinite
        weights = weights.astype(np.float64)
    weights = np.broadcast_to(weights, (records,)) if weights.ndim == 0 else weights
    if weights.shape != (records,):
        raise ValueError(f"sample_weight must have shape ({records},), one for each record, got {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0)).all() or (some and not weights.any()):
        raise ValueError(WEIGHTS)
    return weights


def resolve_largest_weight_of_records(declared: Any, weighted: bool) -> float:
    """Returns the declared largest weight of a record, or 1 if none is declared and records have no weights.

    Raises ValueError if records have weights and no largest weight is declared, or if the declared weight is not a
    positive number.
    """
    if declared is not None:
        return _check.positive("max_sample_weight", declared)
    if weighted:
        raise ValueError(
            "max_sample_weight must be given where records have weights: a public number in (0, inf), not computed "
            "from them. Weights count relative to it, and larger ones count as it"
        )
    return 1.0


def scale_weights_of_records(weights: NDArray[np.float64], largest: float) -> NDArray[np.float64]:
    """Returns min(weight, ``largest``) / ``largest`` for each weight. The result is in [0, 1] even after rounding."""
    return np.minimum(weights, largest) / largest


def convert_block_to_dense(features: Any, dtype: Any) -> NDArray[Any]:
    """Returns rows of X as a dense array of type ``dtype``, which is a float type or object.

    Missing cells of a data frame become NaN.
    """
    if hasattr(features, "iloc"):
        features = features.to_numpy(dtype=dtype, na_value=np.nan)
    if dtype.kind == "O":
        return np.asarray(features, dtype=object)
    plain = features.toarray() if hasattr(features, "toarray") else as_table_of_numbers(features)
    return np.ascontiguousarray(plain, dtype=dtype)


def count_block_rows(width: int, dtype: np.dtype[Any], rows: int | None) -> int:
    """Returns the number of rows of a block: ``rows`` if given, or the number that fills ``BYTES`` bytes."""
    each = 32 if dtype.kind == "O" else dtype.itemsize  # a float object and the pointer to it take 32 bytes
    return rows or max(1, BYTES // (max(1, width) * each))


def choose_block_float_type(kind: Any) -> np.dtype[Any]:
    """Returns float32 if ``kind`` is float16 or float32, and float64 otherwise."""
    return np.dtype(np.float32 if np.dtype(kind) in (np.float16, np.float32) else np.float64)
