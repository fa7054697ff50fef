"""Divides two numbers, and rounds the quotient down."""

from __future__ import annotations

import math
from fractions import Fraction

from ._check import LARGEST


def divide_rounding_down(noise: float, sensitivity: float) -> float:
    """Returns ``noise / sensitivity``, rounded down, so that an account never assumes too much noise.

    Both numbers are positive. The result is a finite double above 0. A quotient below the smallest positive double is
    replaced by that double, for which every upper bound on epsilon is infinite.
    """
    found = min(noise / sensitivity, LARGEST)
    if Fraction(found) * Fraction(sensitivity) > Fraction(noise):
        found = math.nextafter(found, 0.0)
    return max(found, math.ulp(0.0))
