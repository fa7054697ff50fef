"""Sums of integer products over positions in Python's integers (docs/theory/exact-products.md, section 9)."""

from __future__ import annotations

import numpy as np

from . import dense

LARGEST_WEIGHT = (1 << 17) - 1


def product_sum(left, right, factor, inverse_grid, digits):
    """m = sum_t w_t q_t^T of one record, as rows of Python integers: w_t is nearest to F l_t / (2^e h)."""
    m = [[0] * right.shape[1] for _ in range(left.shape[1])]
    for l, r in zip(left, right, strict=True):
        step, q = dense.integers(r, False, digits)
        q = np.clip(q, -dense.LARGEST_ENTRY, dense.LARGEST_ENTRY)
        w = np.rint(l.astype(float) * (factor * inverse_grid / step)) if factor else np.zeros(len(l))
        w = np.clip(w, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        for row, a in zip(m, w, strict=True):
            for j, b in enumerate(q):
                row[j] += int(a) * int(b)
    return m


def squared_norm(m):
    return sum(x * x for row in m for x in row)
