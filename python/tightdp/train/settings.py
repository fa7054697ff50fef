"""Checks of an algorithm's settings: one line in each ``__post_init__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _check

Check = Callable[[str, Any], Any]


def checked(settings: object, **checks: Check) -> None:
    """Replaces each named field of a frozen dataclass by what its check returns."""
    for name, check in checks.items():
        object.__setattr__(settings, name, check(name, getattr(settings, name)))


def optional(check: Check) -> Check:
    """None passes; anything else is checked."""
    return lambda name, value: None if value is None else check(name, value)


def below_one(name: str, value: Any) -> float:
    """A float in [0, 1)."""
    x = _check.nonnegative(name, value)
    if x >= 1:
        raise ValueError(f"{name} must be a number in [0, 1), got {value!r}")
    return x
