"""Formats numbers as text, rounded up or down in decimal arithmetic, so that printed bounds still hold."""

from __future__ import annotations

import locale
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

_SPEC = re.compile(r"(?:(.)?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([eEfFgGn%])?", re.DOTALL)
"""Pattern of a format specification of a float: fill, align, sign, alternate form, zeros, width, groups, precision and
letter."""
_PRECISION = 6
"""Number of digits that ``format`` prints if the specification gives no precision."""
_DIGITS = 18
"""Number of significant digits to which a double can be rounded, up or down, and still read back as the same double. A
unit of the last digit is less than half the distance to the next double."""
_BEFORE_POINT = 400
"""Bound on the number of digits before the point. A double has at most 309, and the format % adds two."""


def format_up(x: float, spec: str = "") -> str:
    """Returns ``format(x, spec)``, rounded up: the number in the text is at least ``x``, exactly.

    Use it for numbers that must not be understated, such as the upper end of a bound. ``spec`` is a format
    specification of a float. An empty specification gives the shortest text that is rounded up and reads back as ``x``.
    Raises ValueError if ``format`` refuses ``spec`` for a float.

    >>> dp.format_up(0.12341, ".4f"), dp.format_up(0.5, ".4f"), dp.format_up(0.1)
    ('0.1235', '0.5000', '0.10000000000000001')
    """
    return format_rounded_number_text(x, spec, ROUND_CEILING)


def format_down(x: float, spec: str = "") -> str:
    """Returns ``format(x, spec)``, rounded down. Use it for numbers that must not be overstated, such as a lower end.

    Raises ValueError if ``format`` refuses ``spec`` for a float.

    >>> dp.format_down(0.12349, ".4f")
    '0.1234'
    """
    return format_rounded_number_text(x, spec, ROUND_FLOOR)


def round_number_up(x: float, digits: int) -> float:
    """Returns ``x`` with ``digits`` digits after the point, rounded up."""
    return float(_round_decimal_to_places(Decimal(x), digits, ROUND_CEILING)) if math.isfinite(x) else x


def format_rounded_number_text(x: float, spec: str, rounding: str) -> str:
    """Returns ``format(x, spec)``, rounded in the direction ``rounding`` of the module ``decimal``.

    ROUND_HALF_EVEN gives the same text as ``format``.
    """
    x = float(x)
    parts = _SPEC.fullmatch(spec)
    if parts is None or not math.isfinite(x):
        return format(x, spec)  # raises Python's error if this is no specification for a float
    fill, align, sign, alternate, zeros, width, groups, precision, letter = parts.groups(default="")
    kind, size = letter.lower(), int(width or 0)
    fill, align = fill or ("0" if zeros else " "), align or ("=" if zeros else ">")
    if kind in ("f", "%"):
        whole, fraction = _format_fixed_number_text(Decimal(x), int(precision or _PRECISION), kind == "%", rounding)
        after = "%" if kind == "%" else ""
    else:
        d = _round_number_text_to_digits(x, kind, precision, rounding)
        whole, fraction, after = _place_decimal_point(d, kind, precision, keep=kind == "e" or bool(alternate))
    after = ("." if fraction or alternate else "") + fraction + after
    if letter in ("E", "G"):
        after = after.upper()
    before = "-" if math.copysign(1.0, x) < 0 else sign.replace("-", "")
    inside = size - len(before + after) if (fill, align) == ("0", "=") else 0
    if groups:
        whole = format(int(whole), f"0{max(inside, 0)}{groups}")  # the zeros are grouped as well
    text = locale.localize(whole + after, grouping=True) if kind == "n" else whole + after
    if align == "=":
        return before + text.rjust(size - len(before), fill)
    return format(before + text, f"{fill}{align}{size}")


def _round_decimal_to_places(exact: Decimal, places: int, rounding: str) -> Decimal:
    return exact.quantize(Decimal((0, (1,), -places)), rounding, Context(prec=max(places, 0) + _BEFORE_POINT))


def _format_fixed_number_text(exact: Decimal, places: int, percent: bool, rounding: str) -> tuple[str, str]:
    """Returns the digits before and after the point, for the formats f and %."""
    _, digits, exponent = _round_decimal_to_places(exact, places + 2 * percent, rounding).as_tuple()
    whole, _, fraction = f"{Decimal((0, digits, int(exponent) + 2 * percent)):f}".partition(".")
    return whole, fraction


def _round_number_text_to_digits(x: float, kind: str, precision: str, rounding: str) -> Decimal:
    """Returns ``x``, rounded to the number of significant digits that the format prints."""
    exact = Decimal(x)
    if precision or kind:
        digits = max(int(precision or _PRECISION) + (kind == "e"), 1)
        return Context(prec=digits, rounding=rounding).create_decimal(exact)
    tried = (Context(prec=digits, rounding=rounding).create_decimal(exact) for digits in range(1, _DIGITS + 1))
    return next(short for short in tried if float(short) == x)


def _place_decimal_point(d: Decimal, kind: str, precision: str, keep: bool) -> tuple[str, str, str]:
    """Returns the digits of ``d`` before and after the point, and the exponent, for all formats but f and %.

    If ``keep`` is True, zeros at the end are kept. If the specification has no format letter and the text has no
    exponent, at least one digit follows the point. An empty specification uses an exponent from 10^16 on.
    """
    digits = max(int(precision or _PRECISION) + (kind == "e"), 1) if precision or kind else 17
    shown, power = "".join(map(str, d.as_tuple().digits)).ljust(digits, "0"), d.adjusted()
    if kind == "e" or power < -4 or power >= digits - (not kind):
        whole, fraction, exponent = shown[0], shown[1:], f"e{power:+03d}"
    elif power < 0:
        whole, fraction, exponent = "0", "0" * (-power - 1) + shown, ""
    else:
        whole, fraction, exponent = shown[: power + 1], shown[power + 1 :], ""
    if not keep:
        fraction = fraction.rstrip("0")
    return whole, fraction or ("0" if not (kind or exponent) else ""), exponent
