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


def formed_gradient(left, right):
    """sum_t l_t r_t^T of one record in float32: blocks of 64 positions are added one after another."""
    total = np.zeros((left.shape[1], right.shape[1]), np.float32)
    for first in range(0, len(left), 64):
        block = np.zeros_like(total)
        for l, r in zip(left[first : first + 64], right[first : first + 64], strict=True):
            block = block + np.multiply.outer(l, r)
        total = block if first == 0 else total + block
    return total


def list_patches(image, output, kernel, stride, padding, dilation):
    """The patch of one image at each position of the output, as a row. The image is (channels, ...)."""
    image = np.pad(image, [(0, 0), *((p, p) for p in padding)])
    rows = []
    for corner in np.ndindex(*output):
        starts = [c * s for c, s in zip(corner, stride, strict=True)]
        taken = [slice(b, b + (k - 1) * d + 1, d) for b, k, d in zip(starts, kernel, dilation, strict=True)]
        rows.append(image[(slice(None), *taken)].ravel())
    return np.array(rows, np.float32).reshape(len(rows), image.shape[0] * int(np.prod(kernel)))
