"""The curve of the run that a mechanism is made of, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..engine_interface import Bound


@dataclass(frozen=True, slots=True)
class KnownRun:
    """Bounds of the curve of a run in one direction, and in the other one (``back``). Only upper ends of ``above``
    count.

    ``largest`` and ``largest_back`` bound the privacy loss in the two directions.
    """

    delta: Callable[[float], Bound]
    back: Callable[[float], Bound]
    above: Callable[[float], Bound]
    epsilon: Callable[[float], Bound]
    largest: float
    largest_back: float
