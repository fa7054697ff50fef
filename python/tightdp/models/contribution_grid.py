"""Rounding of contributions to the public grid of a release. The points of the grid are the multiples of a power of
two.

Grid points add up without rounding, so one record moves a sum by exactly its own contribution (docs/theory/exact.md). A
grid depends on public or released bounds alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..clipping_and_noise.clipping import compute_clip_factors
from ..clipping_and_noise.clipping import exact_bound as exact_bound

FINE = 20
"""Number of binary digits of the largest contribution, in units of the grid. Truncation toward zero changes each
coordinate of each record by less than a grid step. For a million records of 20 features, the changes of all records add
up to between .03 and .18 of the largest contribution of one record."""
COARSE = 12
"""Number of binary digits of the largest contribution to a sum of norms. Such a sum only determines later settings, for
which a relative error of 2^-12 does not matter. A coarser grid allows larger noise."""
MOST = 2.0**39
"""Largest deviation of the noise, in units of the grid. Up to this deviation the proof of docs/theory/noise.md, section
5.2, holds."""
FAST = 2.0**32
"""Largest deviation of the noise, in units of the grid, for which the sampler is fast. With larger deviations, more and
more normals take the slow path of the sampler (docs/theory/exact.md, section 2)."""


def choose_contribution_grid(bound: float, bits: int = FINE) -> float:
    """Returns the largest power of two that is at most ``bound * 2^-bits``."""
    return math.ldexp(1.0, math.frexp(bound)[1] - 1 - bits)


def truncate_contributions_to_grid(values: npt.NDArray[np.float64], grid: float) -> npt.NDArray[np.int64]:
    """Returns the values in units of ``grid``, truncated toward zero, so that no vector gets longer."""
    with np.errstate(invalid="ignore"):
        return np.trunc(values / grid).astype(np.int64)


def clip_model_contributions_to_grid(
    values: npt.NDArray[np.floating[Any]], bound: float, grid: float, weights: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.int64]:
    """Returns the values, confined to [0, bound] and multiplied by ``weights`` in [0, 1], in units of ``grid``.

    NaN becomes 0. The results are truncated toward zero."""
    scaled: npt.NDArray[np.float64] = np.fmax(values, 0.0, dtype=np.float64)
    np.minimum(scaled, bound, out=scaled)
    if weights is not None:
        scaled *= weights  # a product with a weight of at most 1 is never rounded above the other factor
    scaled *= 1 / grid
    return scaled.astype(np.int64)


def bound_model_contribution_norms(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns an upper bound on the norm of each row. The bound exceeds the exact norm by at most a few parts in 10^5.

    The bits of each bound depend on its row alone. Entries are rounded away from zero to so few digits that NumPy adds
    their squares without rounding, in any order. The bound is infinite if the norm overflows.
    """
    top = np.abs(rows).max(axis=1, initial=0.0)
    bits = (53 - rows.shape[1].bit_length()) // 2
    exponent = np.maximum(np.frexp(top)[1], -900)
    integers = np.ceil(np.abs(rows) * np.ldexp(1.0, bits - exponent)[:, None])
    squares = np.einsum("ij,ij->i", integers, integers)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.sqrt(squares) * (1 + 2.0**-50), exponent - bits))


def compute_model_contribution_clip_factors(rows: npt.NDArray[np.float64], max_norm: float) -> npt.NDArray[np.float64]:
    """Returns factors of about min(1, max_norm / |x|) for the rows x, as a column.

    The factors are rounded so that the norm of each product is at most ``max_norm``.
    """
    return compute_clip_factors(bound_model_contribution_norms(rows), max_norm * (1 - 2.0**-50))[:, None]


def clip_model_contribution_rows_to_grid(
    rows: npt.NDArray[np.float64], max_norm: float, grid: float, weights: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float64]:
    """Returns the rows, each scaled down to ``max_norm``, multiplied by its weight in [0, 1] and truncated to the grid.
    The entries are integers, in units of the grid, as float64.

    The norm of a returned row times the grid is at most ``max_norm`` in exact arithmetic. A returned row does not
    depend on other rows (docs/theory/exact.md). A row whose norm overflows becomes 0.
    """
    clipped = rows * compute_model_contribution_clip_factors(rows, max_norm)
    if weights is not None:
        clipped *= weights[:, None]
    return np.trunc(clipped * (1 / grid))
