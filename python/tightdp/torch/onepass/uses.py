"""What the rules about calls share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .factors import Factors

Parts = list[tuple[Any, Factors]]
"""Parameters, each with the gradients of records by it."""
Rule = Callable[..., Callable[[Any], Parts]]
"""Gets the number of records and the arguments of a call. Returns the gradients of records by each parameter in it,
given the gradient of the output; or raises ``Unsupported``."""


class Unsupported(Exception):
    """Why a use of a parameter cannot be clipped in one pass."""
