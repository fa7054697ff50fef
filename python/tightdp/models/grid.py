"""The public grid of a release: every record's contribution is a vector of multiples of one power of two.

Multiples add up exactly in any order, so one record moves a sum by what it contributes and by nothing else
(docs/theory/exact.md). A grid is a function of bounds that are public or released, and does not depend on the records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..release.clipping import clip_factors
from ..release.clipping import exact_bound as exact_bound

FINE = 20
"""Binary digits of the largest contribution. Each coordinate of each record loses less than a grid step toward zero.
Over a million records of 20 features that is .03 to .18 of one record's weight in all, where 16 digits lose up to 4."""
COARSE = 12
"""Digits of sums of norms, which steer settings: an error of 1 in 4,096 does not matter there, and the noise may be
larger."""
MOST = 2.0**39
"""Largest deviation of the noise in units of the grid: the range of the proof (docs/theory/noise.md, section 5.2)."""
FAST = 2.0**32
"""Deviation, in units of the grid, up to which the sampler is fast: beyond it more and more normals take its slow path
(docs/theory/exact.md, section 2)."""


def grid_below(bound: float, bits: int = FINE) -> float:
    """The largest power of two that is at most ``bound`` 2^-bits."""
    return math.ldexp(1.0, math.frexp(bound)[1] - 1 - bits)


def truncate_to_grid(values: npt.NDArray[np.float64], grid: float) -> npt.NDArray[np.int64]:
    """Multiples of ``grid``, toward zero, so that no vector gets longer."""
    with np.errstate(invalid="ignore"):
        return np.trunc(values / grid).astype(np.int64)


def clip_to_grid(
    values: npt.NDArray[np.floating[Any]], bound: float, grid: float, weights: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.int64]:
    """Values confined to [0, bound], NaN as 0, times ``weights`` in [0, 1], in multiples of ``grid`` toward zero."""
    scaled: npt.NDArray[np.float64] = np.fmax(values, 0.0, dtype=np.float64)
    np.minimum(scaled, bound, out=scaled)
    if weights is not None:
        scaled *= weights  # a product with a number of at most 1 is never rounded up beyond the other factor
    scaled *= 1 / grid
    return scaled.astype(np.int64)


def norms_above(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns an upper bound on each row's norm in exact arithmetic, larger by a few parts in 10^5 at most.

    A row's bits are a function of that row alone: its entries are rounded away from zero to so few digits that their
    squares add up without rounding, in whatever order NumPy adds them. Infinite where the norm is past the doubles.
    """
    top = np.abs(rows).max(axis=1, initial=0.0)
    bits = (53 - rows.shape[1].bit_length()) // 2
    exponent = np.maximum(np.frexp(top)[1], -900)
    integers = np.ceil(np.abs(rows) * np.ldexp(1.0, bits - exponent)[:, None])
    squares = np.einsum("ij,ij->i", integers, integers)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.sqrt(squares) * (1 + 2.0**-50), exponent - bits))


def row_factors(rows: npt.NDArray[np.float64], max_norm: float) -> npt.NDArray[np.float64]:
    """min(1, max_norm / |x|) of each row as a column, so small that the product is no longer than ``max_norm``."""
    return clip_factors(norms_above(rows), max_norm * (1 - 2.0**-50))[:, None]


def clip_rows(
    rows: npt.NDArray[np.float64], max_norm: float, grid: float, weights: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float64]:
    """Each row scaled down to ``max_norm``, times its weight in [0, 1], and truncated: integers, in units of the grid,
    as float64.

    The norm of a row times the grid is at most ``max_norm`` exactly, and the row is a function of its own entries
    alone (docs/theory/exact.md). A row whose norm is past the doubles becomes 0.
    """
    clipped = rows * row_factors(rows, max_norm)
    if weights is not None:
        clipped *= weights[:, None]
    return np.trunc(clipped * (1 / grid))
