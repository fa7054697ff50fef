"""Bounds on the privacy curve (delta as a function of epsilon) of the run inside of a repeated run or a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..engine_interface import Bound


@dataclass(frozen=True, slots=True)
class KnownRun:
    """Functions that bound the privacy curve of a run, which is known by these functions alone.

    ``delta`` and ``epsilon`` bound the curve in one direction, and ``back`` bounds delta in the opposite direction.
    ``above`` bounds delta in the first direction too, but only the upper ends of its bounds may be used. ``largest``
    and ``largest_back`` bound the privacy loss in the first and in the opposite direction.
    """

    delta: Callable[[float], Bound]
    back: Callable[[float], Bound]
    above: Callable[[float], Bound]
    epsilon: Callable[[float], Bound]
    largest: float
    largest_back: float
