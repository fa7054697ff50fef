"""What is known of the run that a mechanism is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base import Bound


@dataclass(frozen=True, slots=True)
class Run:
    """Bounds of its curve in one direction; ``back`` are those in the other. ``largest`` bounds its privacy loss."""

    delta: Callable[[float], Bound]
    back: Callable[[float], Bound]
    epsilon: Callable[[float], Bound]
    largest: float
