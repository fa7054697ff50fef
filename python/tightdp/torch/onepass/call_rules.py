"""Types that the rules about calls share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .factors import Factors

Parts = list[tuple[Any, Factors]]
"""Parameters, each with the gradients of records by it."""


@dataclass
class Use:
    """A call of one of PyTorch's functions, for all records at once."""

    output: Any
    """Output that PyTorch computed. It is not a view, because the gradient is taken here."""
    shape: tuple[int, ...]
    """Shape of one record's output."""
    parts: Callable[[Any], Parts]
    """The gradients of records by the parameters in the call, given the gradient of ``output``."""


Rule = Callable[..., Use]
"""Gets an array of the inputs of all records, shape (records, ...), and the other arguments of a function, and computes
the function; or raises ``Unsupported``."""


class Unsupported(Exception):
    """Why a use of a parameter cannot be clipped in one pass."""
