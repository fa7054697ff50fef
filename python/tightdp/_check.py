"""Checks of arguments: each error names the argument and the accepted range."""

from __future__ import annotations

import math
import operator
from typing import Any


def real(name: str, value: Any, accepted: str = "a real number") -> float:
    """``value`` as a finite float; booleans, strings and NaN are refused."""
    if isinstance(value, (bool, str, bytes)):
        raise TypeError(f"{name} must be {accepted}, got {value!r}")
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {accepted}, got {value!r}") from None
    if not math.isfinite(x):
        raise ValueError(f"{name} must be {accepted} and finite, got {value!r}")
    return x


def positive(name: str, value: Any) -> float:
    """A finite float in (0, inf)."""
    x = real(name, value, "a number in (0, inf)")
    if not x > 0:
        raise ValueError(f"{name} must be a number in (0, inf), got {value!r}")
    return x


def nonnegative(name: str, value: Any) -> float:
    """A finite float in [0, inf)."""
    x = real(name, value, "a number in [0, inf)")
    if not x >= 0:
        raise ValueError(f"{name} must be a number in [0, inf), got {value!r}")
    return x


def probability(name: str, value: Any) -> float:
    """A float in (0, 1]."""
    x = real(name, value, "a number in (0, 1]")
    if not 0 < x <= 1:
        raise ValueError(f"{name} must be a number in (0, 1], got {value!r}")
    return x


def open_unit(name: str, value: Any) -> float:
    """A float in (0, 1)."""
    x = real(name, value, "a number in (0, 1)")
    if not 0 < x < 1:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}")
    return x


def count(name: str, value: Any) -> int:
    """An integer >= 1."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer >= 1, got {value!r}")
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer >= 1, got {value!r}") from None
    if n < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    return n
