"""The integers of an exact clipped sum, one example at a time, in plain Python: docs/theory/clipping.md, section 7.

Only the norm comes from the kernel, whose order of adding squares is its own; tests hold the sensitivity to rational
arithmetic besides.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

LIMIT = 2**28
"""Integers from here on are added one by one, from products in double."""


def longest_chain(columns: int) -> int:
    """``ClipPlan::longest_chain`` for one array of at most 3 tiles of 1024 columns."""
    tiles = -(-columns // 1024)
    assert tiles <= 3
    return 64 + 4 + tiles + 1


def rounded_down(x: float) -> float:
    """To 24 binary digits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**24), exponent - 24)


def factor(norm, max_norm, weight, single, columns, normalize=False, stability=0.01) -> float:
    """F, rounded as the kernel does."""
    if not norm <= np.finfo(float).max:
        return 0.0
    slack = 2.0**-24 + 2.0**-36 if single else (longest_chain(columns) + 8) * 2.0**-53
    safe = max_norm * (1.0 - slack)
    clipped = safe / norm if norm > safe else 1.0
    return (safe / (norm + stability) if normalize else clipped) * weight


def example(row, norm, max_norm, grid, weight=1.0, center=None, scale=None, **rule) -> list[int]:
    """trunc(F t_j / grid), as Python integers."""
    transformed = center is not None or scale is not None
    single = row.dtype != np.float64 and not transformed
    f = factor(norm, max_norm, weight, single, row.size, **rule)
    if f == 0.0:
        return [0] * row.size
    t = row.astype(np.float64)
    if transformed:
        t = t - (0.0 if center is None else center)
        t = t if scale is None else t * (1.0 / scale)
    heavy = weight * Fraction(max_norm) / Fraction(grid) > LIMIT
    in_single = single and not heavy
    products = t.astype(np.float32) * np.float32(rounded_down(f / grid)) if in_single else t * (f / grid)
    return [int(p) for p in products]  # toward zero


def total(g, norms, max_norm, grid, weights=None, center=None, scale=None, **options) -> list[int]:
    """The sum, in Python's unbounded integers."""
    sums = [0] * g.shape[1]
    for k, (row, norm) in enumerate(zip(g, norms, strict=True)):
        weight = 1.0 if weights is None else float(weights[k])
        for j, m in enumerate(example(row, norm, max_norm, grid, weight, center, scale, **options)):
            sums[j] += m
    return sums
