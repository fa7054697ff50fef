"""Parses numbers on the command line, fractions such as 256/60000, and lists and ranges of numbers."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from decimal import Decimal, InvalidOperation

MOST_IN_RANGE = 100_000
"""Largest number of values in a range. Each value makes a row of a table. For longer tables, use the library in a
program."""


def parse_real_argument(text: str) -> float:
    """Returns a decimal number, or a fraction ``a/b`` rounded to the nearest double."""
    top, slash, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom) if slash else float(top)
        if not value and re.search("[1-9]", re.split("[eE]", top)[0]):
            raise ValueError("too small for a double")
        return value
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"expected a number or a fraction such as 256/60000, got {text!r}") from None


def parse_integer_argument(text: str) -> int:
    """Returns an integer, which may be written as ``1e4`` or ``20/2``."""
    try:
        return int(text)
    except ValueError:
        value = parse_real_argument(text)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"expected an integer, got {text!r}")
    return int(value)


def parse_numbers_argument(text: str) -> list[float]:
    """Returns the values of numbers and ranges that commas separate.

    Examples are ``1,2,4``, the range ``.6:2:.1`` with steps of .1 and both ends included, and the range
    ``10:1000:x10`` with factors of 10.

    >>> parse_numbers_argument(".6:.9:.1"), parse_numbers_argument("1,256/60000"), parse_numbers_argument("10:1000:x10")
    ([0.6, 0.7, 0.8, 0.9], [1.0, 0.004266666666666667], [10.0, 100.0, 1000.0])
    """
    return [
        value
        for item in text.split(",")
        for value in (_parse_range_argument(item) if ":" in item else [parse_real_argument(item)])
    ]


def _parse_range_argument(text: str) -> list[float]:
    """Returns the values of a range. Decimal arithmetic makes 0.6 + 4 * 0.1 exactly 1."""
    expected = argparse.ArgumentTypeError(
        f"expected start:stop:step or start:stop:xfactor, upwards and with at most {MOST_IN_RANGE} values, got {text!r}"
    )
    start, _, rest = text.partition(":")
    stop, _, step = rest.partition(":")
    try:
        first, last, by = Decimal(start), Decimal(stop), Decimal(step.removeprefix("x"))
        if not (all(x.is_finite() for x in (first, last, by)) and first <= last):
            raise expected
        if step.startswith("x"):
            grows = by > 1 and first > 0 and math.log(float(last) / float(first)) < MOST_IN_RANGE * math.log(float(by))
        else:
            grows = by > 0 and (last - first) / by < MOST_IN_RANGE
    except (InvalidOperation, ValueError, OverflowError, ZeroDivisionError):
        raise expected from None
    if not grows:
        raise expected
    values = (first * by**i if step.startswith("x") else first + i * by for i in itertools.count())
    return [float(value) for value in itertools.takewhile(lambda value: value <= last, values)]
