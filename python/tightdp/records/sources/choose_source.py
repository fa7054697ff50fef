"""Decides which inputs of estimators are read in blocks, and returns their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._support import _check
from ..blocks import Blocks, choose_block_float_type, count_block_rows
from ..views import WeightedBlocks
from .arrays import ArrayBlocks
from .dask import DaskBlocks

# Text of the error for targets that are given in addition to blocks.
TWICE = "y must be left out where X is Blocks, which hold the targets"


def as_source_blocks(
    X: Any, y: Any, in_memory: bool = False, sample_weight: Any = None, *, texts: bool = False
) -> Blocks | None:
    """Returns X as ``Blocks`` if X is blocks, a Dask collection, a memory map or a sparse matrix, and None for an
    array.

    A memory map or a sparse matrix also gives None if the algorithm needs an array (``in_memory``), or if ``y`` is
    None. ``texts`` says that columns may hold text. The returned blocks include the weights.
    """
    for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
        _check.refuse_masked_array(name, values)
    if hasattr(X, "__dask_graph__"):
        X, y, sample_weight = DaskBlocks(X, y, sample_weight), None, None
    if isinstance(X, Blocks):
        if y is not None:
            raise ValueError(TWICE)
        _check.check_count_argument("width", X.width)
        if np.dtype(X.dtype) not in (np.float32, np.float64) and not X.texts:
            raise ValueError(f"dtype must be float32 or float64, got {X.dtype!r}")
        if not texts:
            check_source_blocks_of_numbers(X)
        return X if sample_weight is None else WeightedBlocks(X, sample_weight)
    if y is None or in_memory or not (isinstance(X, np.memmap) or is_sparse_matrix(X)):
        return None
    return ArrayBlocks(X, y, sample_weight=sample_weight)


def check_source_blocks_of_numbers(X: Blocks) -> None:
    """Raises ValueError if columns hold text. The message names these columns."""
    if X.texts:
        raise ValueError(
            f"X must hold numbers, and these columns hold text: {', '.join(map(str, X.texts.values()))}. A "
            "OneHotEncoder in a PrivatePipeline takes text; or leave them out"
        )


def refuse_weighted_blocks(blocks: Blocks | None, estimator: str) -> None:
    """Raises ValueError for blocks with weights. ``estimator`` names an estimator that uses no weights."""
    if blocks is not None and blocks.weighted:
        raise ValueError(f"sample_weight must be left out with {estimator}: X must be blocks without weights")


def as_source_blocks_without_targets(X: Any) -> Blocks | None:
    """Returns blocks or None, as ``as_source_blocks`` does, for an estimator that uses no targets."""
    if isinstance(X, Blocks) or not (isinstance(X, np.memmap) or is_sparse_matrix(X)):
        return as_source_blocks(X, None)
    return ArrayBlocks(X, np.zeros(X.shape[0]))


def is_sparse_matrix(X: Any) -> bool:
    """Returns whether X is a sparse matrix of SciPy."""
    return hasattr(X, "tocsr")


def split_sparse_source_rows(X: Any) -> Iterator[NDArray[Any]]:
    """Yields a sparse matrix as dense arrays, some rows at a time."""
    X = X.tocsr()
    rows = count_block_rows(X.shape[1], choose_block_float_type(X.dtype), None)
    for start in range(0, max(1, X.shape[0]), rows):
        yield X[start : start + rows].toarray()
