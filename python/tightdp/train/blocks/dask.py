"""Arrays and data frames of Dask: what is made of a block is computed where the block is; needs the extra ``dask``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks import Block, Blocks, Form, Rows, float_type

T = TypeVar("T")


class DaskBlocks(Blocks):
    """The chunks of a Dask array, or the partitions of a data frame, on a cluster or on this machine.

    Parameters
    ----------
    X : a Dask array (n, d), or a data frame whose columns hold numbers
    y : a Dask array (n,) or a series with chunks or partitions as X has; or for a data frame the name of one of its
        columns, which is then no feature

    Estimators take Dask's collections as X and y, which stands for this. A pass is one computation on the active
    client, or else on Dask's default scheduler. Workers return integer sums, one for each block; the batches and the
    noise are drawn here, and here alone. What is trained has the same bits for any number of workers and of blocks.
    A task whose worker died is computed again: that charges nothing, and gives the same sum.

    ``persist`` the collections first if they fit the workers' memory; else each pass makes them anew, and must make
    the same records each time (no random numbers, no shuffle without a seed). The workers need tightdp.

    >>> from tightdp.train import LogisticRegression
    >>> X, y = dask_array.persist(), dask_labels.persist()  # doctest: +SKIP
    >>> LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, y)  # doctest: +SKIP
    """

    ahead = False
    remote = True

    def __init__(self, X: Any, y: Any) -> None:
        try:
            self._dask: Any = import_module("dask")
        except ImportError as error:
            raise ImportError(f"DaskBlocks needs pip install 'tightdp[dask]': {error}") from None
        if not hasattr(X, "__dask_graph__") or not (isinstance(y, str) or hasattr(y, "__dask_graph__")):
            raise TypeError("X and y must be collections of Dask, or y the name of a column of X")
        parts, targets = _frame(X, y) if hasattr(X, "partitions") and hasattr(X, "columns") else _array(X, y)
        self.width, self.dtype = parts.width, parts.dtype
        if parts.columns is not None:
            self.columns = parts.columns
        self._parts = list(parts.delayed)
        self._targets = [None] * len(self._parts) if targets is None else list(targets)
        self._label = y if isinstance(y, str) else None
        if len(self._parts) != len(self._targets):
            raise ValueError(
                f"y must have chunks or partitions as X has: got {len(self._targets)} for {len(self._parts)}"
            )

    def map(
        self, function: Callable[[NDArray[Any], NDArray[Any]], T], rows: Sequence[Rows] | None = None
    ) -> Iterator[T]:
        work = self._dask.delayed(_Work(self.form, function, self._label), traverse=False)
        tasks = [
            work(x, y) if rows is None else work(x, y, rows[i])
            for i, (x, y) in enumerate(zip(self._parts, self._targets, strict=True))
            if rows is None or len(rows[i])
        ]
        yield from self._dask.compute(*tasks)

    def __iter__(self) -> Iterator[Block]:
        raise TypeError("DaskBlocks are not read here: map computes where they are")


@dataclass(frozen=True)
class _Work:
    """A function of a block, for the worker that has it."""

    form: Form
    function: Callable[[NDArray[Any], NDArray[Any]], Any]
    label: str | None

    def __call__(self, features: Any, targets: Any, rows: Rows | None = None) -> Any:
        if self.label is not None:
            features, targets = features.drop(columns=self.label), features[self.label]
        x, y = self.form(features, targets)
        return self.function(x, y) if rows is None else self.function(x[rows], y[rows])


@dataclass(frozen=True)
class _Parts:
    delayed: Any
    width: int
    dtype: np.dtype[Any]
    columns: tuple[Any, ...] | None = None


def _array(X: Any, y: Any) -> tuple[_Parts, Any]:
    if getattr(X, "ndim", 0) != 2 or getattr(y, "ndim", 0) != 1:
        raise ValueError("X must be a 2-D array of Dask, or a data frame, and y a 1-D one")
    whole = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    known = not any(np.isnan(length) for length in (*X.chunks[0], *y.chunks[0]))
    if known and X.shape[0] != y.shape[0]:
        raise ValueError(f"y must have one target for each record: got {y.shape[0]} for {X.shape[0]} records")
    targets = y.rechunk((X.chunks[0],)) if known and y.chunks[0] != X.chunks[0] else y
    return _Parts(whole.to_delayed().ravel(), X.shape[1], float_type(X.dtype)), targets.to_delayed().ravel()


def _frame(X: Any, y: Any) -> tuple[_Parts, Any]:
    if isinstance(y, str) and y not in X.columns:
        raise ValueError(f"y must be the name of a column of X, got {y!r}")
    kinds = {name: kind for name, kind in X.dtypes.items() if not isinstance(y, str) or name != y}
    text = [str(name) for name, kind in kinds.items() if getattr(kind, "kind", "O") not in "bfiu"]
    if text or not kinds:
        raise ValueError(f"X must have columns of numbers, and these hold none: {', '.join(text)}")
    narrow = all(kind in (np.float32, np.float16, np.bool_) for kind in kinds.values())
    dtype = np.dtype(np.float32 if narrow else np.float64)
    return _Parts(X.to_delayed(), len(kinds), dtype, tuple(kinds)), None if isinstance(y, str) else y.to_delayed()
