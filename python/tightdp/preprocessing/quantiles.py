"""Private quantiles of columns, found by a binary search over a public grid with noisy counts
(docs/theory/quantiles.md).

The method is from section 3 of Huang, Liang and Yi (NeurIPS 2021), but in integers and for all columns at once. The
level of a quantile is the share of the values at or below it. Each round of the search releases one noisy count for
each level and column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..composition import Composition
from ..mechanisms import Gaussian
from ..release_gate.gate import Gate
from ..release_gate.oracle import Integers, Query
from .passes import Array, Values, count_columns_to_preprocess, sum_rows_to_preprocess

DIGITS = 20
"""Number of binary digits of a level. Levels are rounded to multiples of 2^-20, so that sums are integers in units of
2^-20."""
OCTAVES = range(-20, 43)
"""Exponents of the powers of two at which the octaves of the full grid begin. The full grid is searched if no
range is declared. An octave is the interval from a number to its double."""
STEPS = 32
"""Number of grid points in an octave. Successive points differ by 2 to 3 %, fine enough for clipping and imputing.
The full grid has 4,033 points: 0, and 63 octaves of either sign from 10^-6 to 9 10^12. A search on the full grid takes
12 rounds."""
MARGIN = 3.0
"""Number of standard deviations of the noise by which levels are moved toward the median. Without this margin, the
noise of a count could look like a few values in an empty region, and the search would end far from the data. With this
margin, the probability that at least one of ten noisy counts in such a region misleads the search is 1.3 %."""
LEFT_OUT = 0.1
"""Largest share of the records that may lie below the lower bound, or above the upper bound. With a larger share, the
bounds would enclose only the middle of a column's values."""
POINTS = 1024
"""Number of grid points of a declared range, both ends included. A search on so many points takes 10 rounds."""


def build_quantile_grid(domain: Any, columns: int) -> Array:
    """Returns the values that a quantile may take, ascending, of shape (points, columns).

    If ``domain`` is None, the values are the full grid of ``OCTAVES``. If ``domain`` is (low, high), the values are
    equally spaced between ``low`` and ``high``, which are numbers or arrays with one number for each column.
    """
    if domain is None:
        line = _build_full_quantile_grid()
        return np.broadcast_to(line[:, None], (len(line), columns))
    try:
        low, high = (np.broadcast_to(_check.check_array_argument("domain", end), (columns,)) for end in domain)
    except (TypeError, ValueError):
        raise ValueError("domain must be None or (low, high), each a number or one number for each column") from None
    _check.check_bounds_argument("domain", domain, columns)
    if not ((np.abs([low, high]) <= 1e150).all() and (low < high).all()):
        raise ValueError("domain must lie in [-1e150, 1e150], with low < high in every column")
    made = np.linspace(low, high, POINTS)
    if not (np.diff(made, axis=0) > 0).all():
        raise ValueError(f"domain must be so wide that it has {POINTS:,} different points in every column")
    return made


@cache
def _build_full_quantile_grid() -> Array:
    above = [math.ldexp(1 + step / STEPS, octave) for octave in OCTAVES for step in range(STEPS)]
    return np.array([*(-x for x in reversed(above)), 0.0, *above])


def count_quantile_rounds(domain: Any) -> int:
    """Returns the number of rounds of a search, which does not depend on the columns."""
    return math.ceil(math.log2(2 * STEPS * len(OCTAVES) + 1 if domain is None else POINTS))


def compute_quantile_charge(domain: Any, noise_multiplier: float) -> Composition:
    """Returns the charge of a search. All rounds together are as private as one ``Gaussian(noise_multiplier)``."""
    return Gaussian(_compute_quantile_noise(domain, noise_multiplier)) * count_quantile_rounds(domain)


def round_quantile_level(name: str, value: Any) -> float:
    """Checks a level in (0, 1), and returns the nearest multiple of 2^-20 other than 0 and 1."""
    unit: int = 2**DIGITS
    return min(max(round(_check.open_unit(name, value) * unit), 1), unit - 1) / unit


def search_quantiles(
    gate: Gate, columns: Values, levels: Sequence[float], domain: Any, noise_multiplier: float
) -> NDArray[np.intp]:
    """Returns private quantiles as indices of grid points, of shape (levels, columns).

    Quantile i of a column is about the least grid point that has the share ``levels[i]`` of the column's values at or
    below it. There is one level, or there are two levels in ascending order. Levels other than 1/2 are moved
    toward 1/2 by ``MARGIN`` deviations of the noise. NaN values are left out, and infinite values count. The thresholds
    of a round depend on earlier releases, but the deviation of the noise does not.
    """
    grid, noise = (
        build_quantile_grid(domain, count_columns_to_preprocess(columns)),
        _compute_quantile_noise(domain, noise_multiplier),
    )
    low = np.zeros((len(levels), count_columns_to_preprocess(columns)), np.intp)
    high = np.full_like(low, len(grid) - 1)
    for _ in range(count_quantile_rounds(domain)):
        middle = (low + high) // 2
        middle[0] = np.minimum(middle[0], middle[-1])  # the sensitivity is only valid for ascending thresholds
        at = np.take_along_axis(grid, middle, axis=0)
        query = build_quantile_query(columns, at, levels)
        excess = gate.release_gaussian(query, noise).value.reshape(low.shape)
        inside = MARGIN * noise * query.sensitivity * np.sign(0.5 - np.asarray(levels))
        enough = excess >= inside[:, None]
        high = np.where(enough, np.maximum(middle, low), high)
        low = np.where(enough, low, np.maximum(low, np.minimum(middle + 1, high)))
    return low


def count_records_for_quantiles(columns: int, levels: Sequence[float], domain: Any, noise_multiplier: float) -> int:
    """Returns a public number of records with which a search finds good bounds. Such bounds leave out at most the share
    ``LEFT_OUT`` of the records on each side (docs/theory/quantiles.md, section 1)."""
    noise = _compute_quantile_noise(domain, noise_multiplier) * _bound_quantile_sensitivity(
        [round(q * 2**DIGITS) for q in levels], columns
    )
    room = LEFT_OUT - min(levels[0], 1 - levels[-1])
    return math.ceil(MARGIN * noise / room) if room > 0 else 0


def build_quantile_query(columns: Values, at: Array, levels: Sequence[float]) -> Query:
    """Returns the query of one number for each level q and column: the number of values at or below the threshold
    ``at``, minus q times the number of all values.

    Thresholds must ascend, so a threshold below the previous one is replaced by the previous one. A value adds 1 - q or
    -q for each level. The sensitivity is the largest norm of the vector that one record adds.
    """
    units = [round(q * 2**DIGITS) for q in levels]
    at = np.maximum.accumulate(at, axis=0)
    evaluate = partial(sum_rows_to_preprocess, columns, partial(_count_excess_for_quantile_search, at, units), at.size)
    return Query((at.size,), _bound_quantile_sensitivity(units, at.shape[1]), 1.0, 2.0**-DIGITS, evaluate)


def _count_excess_for_quantile_search(at: Array, units: Sequence[int], columns: Array) -> Integers:
    whole = (~np.isnan(columns)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        below = np.array([(columns <= row).sum(axis=0) for row in at], np.int64)
    excess = below * 2**DIGITS - np.outer(units, whole)
    return np.asarray(excess.astype(np.int64).reshape(-1))


def _bound_quantile_sensitivity(units: Sequence[int], columns: int) -> float:
    """Returns the norm of the longest vector that one record adds, rounded up.

    ``units`` has each level q in units of 2^-20. A value that is above exactly the first k thresholds adds -q for each
    of their levels, and 1 - q for each other level."""
    one: int = 2**DIGITS
    square = max(sum((one - q if i >= k else q) ** 2 for i, q in enumerate(units)) for k in range(len(units) + 1))
    return math.sqrt(columns * square) * (1 + 2.0**-50) / one


def _compute_quantile_noise(domain: Any, noise_multiplier: float) -> float:
    """Returns the noise multiplier of one round, rounded up, so that all rounds together are as private as one
    ``Gaussian(noise_multiplier)``."""
    return noise_multiplier * math.sqrt(count_quantile_rounds(domain)) * (1 + 2.0**-50)
