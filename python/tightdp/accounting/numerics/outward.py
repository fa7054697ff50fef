"""Arithmetic on ranges of numbers. Each result is rounded outward, so a formula needs no separate error analysis.

The four operations are rounded correctly, so their results are widened by one ulp on each side. The results of exp,
expm1, log, log1p and sqrt of the C library are widened by four ulps. The C libraries in use state errors of at most two
ulps (docs/theory/closed-forms.md section 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Union

INF = math.inf
TINY = math.ulp(0.0)
LARGEST = math.nextafter(INF, 0.0)
ULP = 2.0**-52
LIBM = 4.0 * ULP
"""Largest relative error that a function of the C library is assumed to have."""

Number = Union["Range", float]


def widen_down(x: float, relative: float = 0.0) -> float:
    """Returns a float below every real whose distance from ``x`` is at most ``relative * abs(x)`` plus one rounding.

    If ``relative`` is positive, 4 times the smallest double is subtracted as well, in case of underflow.
    """
    if x in (INF, -INF):
        return LARGEST * (1 - 2 * relative) if x > 0 else x
    return math.nextafter(x - relative * abs(x) - (4 * TINY if relative else 0.0), -INF)


def widen_up(x: float, relative: float = 0.0) -> float:
    """Returns a float above every real whose distance from ``x`` is at most ``relative * abs(x)`` plus one rounding."""
    return -widen_down(-x, relative)


class Range:
    """The reals from ``lo`` to ``hi``."""

    __slots__ = ("hi", "lo")

    def __init__(self, lo: float, hi: float | None = None) -> None:
        self.lo = lo
        self.hi = lo if hi is None else hi

    def __repr__(self) -> str:
        return f"Range({self.lo!r}, {self.hi!r})"

    def __neg__(self) -> Range:
        return Range(-self.hi, -self.lo)

    def __add__(self, other: Number) -> Range:
        other = as_range(other)
        return Range(
            _add_with_outward_rounding_down(self.lo, other.lo), -_add_with_outward_rounding_down(-self.hi, -other.hi)
        )

    __radd__ = __add__

    def __sub__(self, other: Number) -> Range:
        return self + -as_range(other)

    def __rsub__(self, other: Number) -> Range:
        return as_range(other) + -self

    def __mul__(self, other: Number) -> Range:
        other = as_range(other)
        corners = [_multiply_ends_of_ranges(x, y) for x in (self.lo, self.hi) for y in (other.lo, other.hi)]
        return _widen_by_one_rounding(min(corners), max(corners))

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Range:
        """Returns the quotient by a range of positive numbers."""
        other = as_range(other)
        if self.lo == self.hi and 0 < other.lo == other.hi < INF and self.lo / other.lo:
            return _widen_by_one_rounding(self.lo / other.lo, self.lo / other.lo)
        least = 0.0 if other.hi == INF else max(widen_down(1 / other.hi), 0.0)
        return self * Range(least, widen_up(1 / other.lo) if other.lo > 0 else INF)

    def __rtruediv__(self, other: Number) -> Range:
        return as_range(other) / self

    def limit_range_to(self, least: float, most: float) -> Range:
        """Returns the range cut to [least, most], for a value that is known to lie in this interval."""
        return Range(min(max(self.lo, least), most), max(min(self.hi, most), least))


def as_range(x: Number) -> Range:
    return x if isinstance(x, Range) else Range(x)


def _widen_by_one_rounding(lo: float, hi: float) -> Range:
    """Returns the range from ``lo`` to ``hi``, moved outward by one float on each side.

    An end that is 0 stays 0. Such an end is exact, because the callers let no product or quotient underflow to 0.
    """
    return Range(widen_down(lo) if lo else 0.0, widen_up(hi) if hi else 0.0)


def _multiply_ends_of_ranges(x: float, y: float) -> float:
    if not (x and y):
        return 0.0
    return x * y or math.copysign(TINY, x) * math.copysign(1.0, y)


def _add_with_outward_rounding_down(x: float, y: float) -> float:
    total = x + y
    if math.isnan(total):
        return -INF
    if (total - x == y and total - y == x) or total == -INF:  # exact
        return total
    return widen_down(total)


def _build_outward_range_function(function: Callable[[float], float], least: float = -INF) -> Callable[[Number], Range]:
    """Returns a function that maps a range to a range that contains all values of ``function`` on it.

    ``function`` is increasing, exact at 0, and never below ``least``.
    """

    def apply_to_range(x: Number) -> Range:
        x = as_range(x)
        lo, hi = function(x.lo), function(x.hi)
        return Range(max(widen_down(lo, LIBM), least) if x.lo else lo, widen_up(hi, LIBM) if x.hi else hi)

    return apply_to_range


def _compute_exp_of_end(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return INF


def _compute_expm1_of_end(x: float) -> float:
    try:
        return math.expm1(x)
    except OverflowError:
        return INF


exp = _build_outward_range_function(_compute_exp_of_end, 0.0)
expm1 = _build_outward_range_function(_compute_expm1_of_end, -1.0)
log = _build_outward_range_function(lambda x: math.log(x) if x > 0 else -INF)
log1p = _build_outward_range_function(lambda x: math.log1p(x) if x > -1 else -INF)
sqrt = _build_outward_range_function(lambda x: math.sqrt(x) if x > 0 else 0.0, 0.0)
