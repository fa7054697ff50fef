"""Checks of an algorithm's settings, in its ``__post_init__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def checked(settings: object, **checks: Callable[[str, Any], Any]) -> None:
    """Replaces each named field of a frozen dataclass by what its check returns. None passes where it is a default."""
    for name, check in checks.items():
        value = getattr(settings, name)
        if value is not None or getattr(type(settings), name, ...) is not None:
            object.__setattr__(settings, name, check(name, value))
