"""What is known of the run that a mechanism is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base import Bound


@dataclass(frozen=True, slots=True)
class KnownRun:
    """Bounds of its curve in one direction; ``back`` are those in the other. Of ``above`` only upper ends count.

    ``largest`` and ``largest_back`` bound its privacy loss in both directions.
    """

    delta: Callable[[float], Bound]
    back: Callable[[float], Bound]
    above: Callable[[float], Bound]
    epsilon: Callable[[float], Bound]
    largest: float
    largest_back: float
