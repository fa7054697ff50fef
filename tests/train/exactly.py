"""Norms of integer vectors without rounding, for the sensitivity of a query."""

from __future__ import annotations

from fractions import Fraction


def within(moved, query, scale=None):
    """Whether |moved * grid / scale| <= sensitivity, in rational arithmetic."""
    scales = [1.0] * len(moved) if scale is None else scale
    squares = sum((int(m) * Fraction(query.grid) / Fraction(float(s))) ** 2 for m, s in zip(moved, scales, strict=True))
    return squares <= Fraction(query.sensitivity) ** 2
