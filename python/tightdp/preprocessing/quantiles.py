"""Private quantiles of columns: noisy counts steer a binary search over a public grid (docs/theory/quantiles.md).

Source: Huang, Liang and Yi (NeurIPS 2021), section 3, in integers and for all columns at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _check
from ..composition import Composition
from ..gate.gate import Gate
from ..gate.oracle import Integers, Query
from ..mechanisms import Gaussian
from ..release.noise import RandomSource
from .passes import Array, Values, sum_over_rows, width_of

DIGITS = 20
"""Binary digits of a level: levels are rounded to multiples of 2^-20, so that sums are integers."""
OCTAVES = range(-20, 43)
STEPS = 32
"""Grid points in an octave. Neighbouring ones are within 3 %, which is fine enough for clipping and imputing. The 63
octaves of either sign, from 10^-6 to 9 10^12, are then 4,033 points, which 12 questions search."""
MARGIN = 3.0
"""Standard deviations of the noise by which outer levels are taken further inside. Otherwise noise alone could pass for
a few values in a region that holds none, and the search would end far from the data. Of ten such answers 1.3 % are
wrong."""
LEFT_OUT = 0.1
"""Largest share of the records that bounds may leave out on either side. With more, they would be bounds of the middle
and not of the column."""
POINTS = 1024
"""Grid points of a declared range, both ends included: 10 questions find one of them."""


def build_grid(domain: Any, columns: int) -> Array:
    """The values that a quantile may take, ascending, shape (points, columns).

    None is a grid for every number, (low, high) one of equally spaced points, the same or one for each column.
    """
    if domain is None:
        line = _build_full_grid()
        return np.broadcast_to(line[:, None], (len(line), columns))
    try:
        low, high = (np.broadcast_to(_check.reals("domain", end), (columns,)) for end in domain)
    except (TypeError, ValueError):
        raise ValueError("domain must be None or (low, high), each a number or one number for each column") from None
    _check.refuse_pairs("domain", domain, columns)
    if not ((np.abs([low, high]) <= 1e150).all() and (low < high).all()):
        raise ValueError("domain must lie in [-1e150, 1e150], with low < high in every column")
    made = np.linspace(low, high, POINTS)
    if not (np.diff(made, axis=0) > 0).all():
        raise ValueError(f"domain must be so wide that it has {POINTS:,} different points in every column")
    return made


@cache
def _build_full_grid() -> Array:
    above = [math.ldexp(1 + step / STEPS, octave) for octave in OCTAVES for step in range(STEPS)]
    return np.array([*(-x for x in reversed(above)), 0.0, *above])


def count_rounds(domain: Any) -> int:
    """Returns the number of questions that a search asks. It does not depend on the columns."""
    return math.ceil(math.log2(2 * STEPS * len(OCTAVES) + 1 if domain is None else POINTS))


def compute_search_charge(domain: Any, noise_multiplier: float) -> Composition:
    """Returns the charge of a search: its questions together are as private as one ``Gaussian(noise_multiplier)``."""
    return Gaussian(_compute_question_noise(domain, noise_multiplier)) * count_rounds(domain)


def round_level(name: str, value: Any) -> float:
    """A level in (0, 1), as a multiple of 2^-20 other than 0 and 1."""
    unit: int = 2**DIGITS
    return min(max(round(_check.open_unit(name, value) * unit), 1), unit - 1) / unit


def search_quantiles(
    gate: Gate, columns: Values, levels: Sequence[float], domain: Any, noise_multiplier: float
) -> NDArray[np.intp]:
    """About the least grid point that has the share ``levels[i]`` of a column's values at or below it, as its place on
    the grid: shape (levels, columns). One level, or two that ascend, of which outer ones are taken further inside, by
    ``MARGIN``. Values that are NaN are left out; infinities count.

    A question depends on the answers before it, and its noise does not.
    """
    grid, noise = build_grid(domain, width_of(columns)), _compute_question_noise(domain, noise_multiplier)
    low = np.zeros((len(levels), width_of(columns)), np.intp)
    high = np.full_like(low, len(grid) - 1)
    for _ in range(count_rounds(domain)):
        middle = (low + high) // 2
        middle[0] = np.minimum(middle[0], middle[-1])  # what one record can add rests on this order
        at = np.take_along_axis(grid, middle, axis=0)
        query = excess_query(columns, at, levels)
        excess = gate.release_gaussian(query, noise).value.reshape(low.shape)
        inside = MARGIN * noise * query.sensitivity * np.sign(0.5 - np.asarray(levels))
        enough = excess >= inside[:, None]
        high = np.where(enough, np.maximum(middle, low), high)
        low = np.where(enough, low, np.maximum(low, np.minimum(middle + 1, high)))
    return low


def enough_records(columns: int, levels: Sequence[float], domain: Any, noise_multiplier: float) -> int:
    """Returns the number of records with which a search finds bounds that leave out ``LEFT_OUT`` at most on each side.

    ``MARGIN`` deviations of the noise are then a small enough share of the records (docs/theory/quantiles.md, section
    1). The number is public.
    """
    noise = _compute_question_noise(domain, noise_multiplier) * _bound_sensitivity(
        [round(q * 2**DIGITS) for q in levels], columns
    )
    room = LEFT_OUT - min(levels[0], 1 - levels[-1])
    return math.ceil(MARGIN * noise / room) if room > 0 else 0


def excess_query(columns: Values, at: Array, levels: Sequence[float]) -> Query:
    """Query for the number of values at or below ``at``, less q times their number, for each level q and column.

    Thresholds are raised to ascend. A value adds 1 - q or -q to each, so that one record adds at most the sensitivity.
    """
    units = [round(q * 2**DIGITS) for q in levels]
    at = np.maximum.accumulate(at, axis=0)

    def evaluate(source: RandomSource) -> Integers:
        return sum_over_rows(columns, partial(_count_excess, at, units), at.size, source)

    return Query((at.size,), _bound_sensitivity(units, at.shape[1]), 1.0, 2.0**-DIGITS, evaluate)


def _count_excess(at: Array, units: Sequence[int], columns: Array) -> Integers:
    whole = (~np.isnan(columns)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        below = np.array([(columns <= row).sum(axis=0) for row in at], np.int64)
    excess = below * 2**DIGITS - np.outer(units, whole)
    return np.asarray(excess.astype(np.int64).reshape(-1))


def _bound_sensitivity(units: Sequence[int], columns: int) -> float:
    """The norm of the longest vector that one record adds, rounded up: values below the first k thresholds lack 1."""
    one: int = 2**DIGITS
    square = max(sum((one - q if i >= k else q) ** 2 for i, q in enumerate(units)) for k in range(len(units) + 1))
    return math.sqrt(columns * square) * (1 + 2.0**-50) / one


def _compute_question_noise(domain: Any, noise_multiplier: float) -> float:
    """Returns the noise multiplier of one question, rounded up: all questions together cost no more than was asked."""
    return noise_multiplier * math.sqrt(count_rounds(domain)) * (1 + 2.0**-50)
