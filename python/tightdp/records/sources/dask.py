"""Blocks of Dask's arrays and data frames. Each worker processes the blocks that it holds.

The module needs the extra ``dask``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..blocks import Block, BlockForm, Blocks, Lengths, Rows, check_block_unchanged, choose_block_float_type

T = TypeVar("T")


class DaskBlocks(Blocks):
    """Blocks that are the chunks of a Dask array or the partitions of a data frame, on a cluster or on this machine.

    Parameters
    ----------
    X : a Dask array (n, d), or a data frame whose columns hold numbers, or text for a ``PrivatePipeline`` to encode.
    y : a Dask array (n,) or a series with the chunks or partitions of X. If X is a data frame, y may be the name of one
        of its columns, which is then not a feature.
    sample_weight : numbers >= 0 that multiply losses, given in the same way as y.

    Estimators that get Dask's collections as X and y make a ``DaskBlocks`` of them. A pass is one computation on the
    active client, or on Dask's default scheduler if there is no client. Workers return one integer sum for each block.
    Batches and noise are drawn only in this process. The trained model has the same bits for any number of workers and
    blocks. If a worker dies, its tasks are computed again. The second computation charges nothing, and gives the same
    sums.

    Call ``persist`` on the collections first if they fit into the workers' memory. Otherwise each pass computes the
    collections again. Every computation must give the same records: use no random numbers, and no shuffle without a
    seed. tightdp must be installed on the workers.

    Raises ImportError without Dask, and TypeError or ValueError, which names the argument, for other collections.

    >>> from tightdp.train import LogisticRegression
    >>> X, y = dask_array.persist(), dask_labels.persist()  # doctest: +SKIP
    >>> LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, y)  # doctest: +SKIP
    """

    ahead = False
    remote = True

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        try:
            self._dask: Any = import_module("dask")
        except ImportError as error:
            raise ImportError(f"DaskBlocks needs pip install 'dask[array,dataframe,distributed]': {error}") from None
        if not hasattr(X, "__dask_graph__") or not (isinstance(y, str) or hasattr(y, "__dask_graph__")):
            raise TypeError("X and y must be collections of Dask, or y the name of a column of X")
        framed, weight = hasattr(X, "partitions") and hasattr(X, "columns"), sample_weight
        if weight is not None and not (hasattr(weight, "__dask_graph__") or (framed and isinstance(weight, str))):
            raise TypeError("sample_weight must be a collection of Dask, or the name of a column of X")
        parts, targets, weights = _split_dask_frame(X, y, weight) if framed else _split_dask_array(X, y, weight)
        self.width, self.dtype, self.columns = parts.width, parts.dtype, parts.columns
        self.texts = parts.texts
        self._parts = list(parts.delayed)
        none = [None] * len(self._parts)
        self._targets, self._weights = (none if each is None else list(each) for each in (targets, weights))
        self._named = tuple(name if isinstance(name, str) else None for name in (y, weight))
        self.weighted = weight is not None
        for name, of in (("y", self._targets), ("sample_weight", self._weights)):
            if len(self._parts) != len(of):
                raise ValueError(
                    f"{name} must have chunks or partitions, as many as X: got {len(of)} for {len(self._parts)}"
                )

    def map_each_block(
        self,
        function: Callable[[NDArray[Any], NDArray[Any]], T],
        rows: Sequence[Rows] | None = None,
        lengths: Lengths | None = None,
    ) -> Iterator[T]:
        """Yields the result of ``function`` for each block. Workers that hold the blocks compute the results.

        ``rows`` and ``lengths`` are as for ``Blocks.map_each_block``, whose errors this method raises. Returns an
        iterator.
        """
        work = self._dask.delayed(_BlockTask(self.block_form, function, *self._named), traverse=False)
        tasks = [
            work(x, y, w, None if rows is None else rows[i], None if lengths is None else int(lengths[i]))
            for i, (x, y, w) in enumerate(zip(self._parts, self._targets, self._weights, strict=True))
            if rows is None or len(rows[i])
        ]
        yield from self._dask.compute(*tasks)

    def __iter__(self) -> Iterator[Block]:
        raise TypeError("DaskBlocks cannot be read in this process: map_each_block computes on the workers")


@dataclass(frozen=True)
class _BlockTask:
    """A function of a block, which runs on the worker that holds the block."""

    form: BlockForm
    function: Callable[[NDArray[Any], NDArray[Any]], Any]
    label: str | None
    weight: str | None

    def __call__(self, features: Any, targets: Any, weights: Any, rows: Rows | None, length: int | None) -> Any:
        if self.label is not None:
            targets = features[self.label]
        if self.weight is not None:
            weights = features[self.weight]
        named = [name for name in (self.label, self.weight) if name is not None]
        x, y = self.form(features.drop(columns=named) if named else features, targets, weights)
        if length is not None:
            check_block_unchanged(len(y), length)
        return self.function(x, y) if rows is None else self.function(x[rows], y[rows])


@dataclass(frozen=True)
class _DaskParts:
    """The chunks or partitions of a Dask collection, with the shape and type of its blocks."""

    delayed: Any
    width: int
    dtype: np.dtype[Any]
    columns: tuple[Any, ...] | None = None
    texts: Mapping[int, Any] = field(default_factory=dict)


def _split_dask_array(X: Any, y: Any, weights: Any) -> tuple[_DaskParts, Any, Any]:
    """Splits Dask arrays into parts. Part i of each array has the same rows, and part i of X has all columns."""
    if getattr(X, "ndim", 0) != 2 or getattr(y, "ndim", 0) != 1:
        raise ValueError("X must be a 2-D array of Dask or a data frame of Dask, and y a 1-D array of Dask")
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    known = not any(np.isnan(length) for length in (*X.chunks[0], *y.chunks[0]))
    if known and X.shape[0] != y.shape[0]:
        raise ValueError(f"y must have one target for each record: got {y.shape[0]} for {X.shape[0]} records")
    beside = [
        each.rechunk((X.chunks[0],)) if known and each.chunks[0] != X.chunks[0] else each
        for each in (y, weights)
        if each is not None
    ]
    targets, *others = (each.to_delayed().ravel() for each in beside)
    return (
        _DaskParts(whole.to_delayed().ravel(), X.shape[1], choose_block_float_type(X.dtype)),
        targets,
        others[0] if others else None,
    )


def _split_dask_frame(X: Any, y: Any, weights: Any) -> tuple[_DaskParts, Any, Any]:
    """Splits a Dask data frame, targets and weights into partitions.

    Targets or weights that are columns of the data frame become None.
    """
    given = [(what, name) for what, name in (("y", y), ("sample_weight", weights)) if isinstance(name, str)]
    for what, name in given:
        if name not in X.columns:
            raise ValueError(f"{what} must be the name of a column of X, got {name!r}")
    kinds = {name: kind for name, kind in X.dtypes.items() if name not in [name for _, name in given]}
    of = [getattr(kind, "kind", "O") for kind in kinds.values()]
    others = [str(name) for name, kind in zip(kinds, of, strict=True) if kind not in "bfiuOUT"]
    if others or not kinds:
        raise ValueError(f"X must have columns of numbers or text, and these columns hold neither: {', '.join(others)}")
    narrow = all(kind in (np.float32, np.float16, np.bool_) for kind in kinds.values())
    texts = {i: name for i, name in enumerate(kinds) if of[i] in "OUT"}
    dtype = np.dtype(object if texts else np.float32 if narrow else np.float64)
    targets, beside = (None if each is None or isinstance(each, str) else each.to_delayed() for each in (y, weights))
    return _DaskParts(X.to_delayed(), len(kinds), dtype, tuple(kinds), texts), targets, beside
