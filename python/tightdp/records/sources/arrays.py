"""Blocks of memory maps and of sparse matrices. Only one block of a sparse matrix is made dense at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._support import _check
from ..blocks import (
    Block,
    Blocks,
    Lengths,
    Rows,
    choose_block_float_type,
    count_block_rows,
    join_record_block_weights,
    validate_record_block_weights,
)
from ..numbers import as_table_of_numbers
from ..record_cells import as_targets_of_record_cells


class ArrayBlocks(Blocks):
    """Blocks of rows of an array: a memory map, a sparse matrix, or any object with slices, a shape and a dtype.

    Parameters
    ----------
    X : features, shape (n, d). float16 and float32 are read as float32, and other types as float64.
    y : targets, shape (n,).
    rows : the number of rows of a block. None takes as many rows as fill 32 MB.
    sample_weight : numbers >= 0 that multiply losses, shape (n,). Each weight must be public, or follow from its own
        record alone.

    Estimators that get a memory map or a sparse matrix of SciPy as X make an ``ArrayBlocks`` of it.

    Raises ValueError or TypeError, which names the argument, for an argument of another shape or out of its range.

    >>> import numpy as np
    >>> from tightdp.train import ArrayBlocks, LogisticRegression

    The coefficients do not depend on how the records are cut into blocks.

    >>> x = np.linspace(-1, 1, 2000)[:, None]  # or np.load("x.npy", mmap_mode="r")
    >>> settings = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    >>> in_blocks = LogisticRegression(**settings).fit(ArrayBlocks(x, x[:, 0] > 0, rows=300))
    >>> at_once = LogisticRegression(**settings).fit(x, x[:, 0] > 0)
    >>> bool((in_blocks.coef_ == at_once.coef_).all())
    True
    """

    ahead = False

    def __init__(self, X: Any, y: Any, rows: int | None = None, sample_weight: Any = None) -> None:
        if hasattr(X, "tocsr"):
            X = X.tocsr()
        elif not isinstance(X, np.ndarray):
            X = as_table_of_numbers(X)
        y = as_targets_of_record_cells(y)
        if len(X.shape) != 2 or 0 in X.shape:
            raise ValueError(f"X must be a non-empty 2-D array, got shape {X.shape}")
        if X.dtype.kind not in "bfiu":
            X = as_table_of_numbers(X)
        if y.shape != (X.shape[0],):
            raise ValueError(f"y must have one target for each record: got shape {y.shape} for {X.shape[0]} records")
        self._x, self._y, self.width, self.dtype = X, y, X.shape[1], choose_block_float_type(X.dtype)
        self.weighted = sample_weight is not None
        if self.weighted:
            self._y = join_record_block_weights(y, validate_record_block_weights(sample_weight, len(y)))
        given = None if rows is None else _check.check_count_argument("rows", rows)
        self._rows = count_block_rows(self.width, self.dtype, given)

    def __iter__(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        for start in range(0, len(self._y), self._rows):
            end = start + self._rows
            yield self._x[start:end], self._y[start:end]

    def gather_batches(self, batches: Sequence[Rows], lengths: Lengths | None = None) -> Iterator[Block]:
        """Returns an iterator that yields one block for each batch. Only the records of the batches are read.

        ``batches`` holds the ascending numbers of the records of each batch, and ``lengths`` is not used.
        """
        for rows in batches:
            yield self.block_form(self._x[rows], self._y[rows])
