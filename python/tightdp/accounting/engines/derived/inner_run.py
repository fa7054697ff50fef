"""Bounds of the curve (delta as a function of epsilon) of the run inside of a repeated run or a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..engine_interface import Bound


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run, known by functions that bound its curve.

    ``delta``, ``above`` and ``epsilon`` bound the curve in one direction, and ``back`` bounds delta in the opposite
    direction. Only the upper ends of ``above`` count. ``largest`` and ``largest_back`` bound the privacy loss in the
    two directions.
    """

    delta: Callable[[float], Bound]
    back: Callable[[float], Bound]
    above: Callable[[float], Bound]
    epsilon: Callable[[float], Bound]
    largest: float
    largest_back: float
