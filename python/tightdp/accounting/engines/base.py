"""The seam between a composition and the engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...bound import Bound as Bound
from ...composition import Parts as Parts
from ...options import DELTA_ERROR, EPS_ERROR, WIDTH
from ...options import Direction as Direction


@dataclass(frozen=True, slots=True)
class Request:
    """How exact an answer is asked for."""

    width: float = WIDTH
    """Relative width that ``auto`` tries to meet."""
    eps_error: float = EPS_ERROR
    delta_error: float = DELTA_ERROR
    """What the ``prv`` engine's theorem takes."""
    above: bool = False
    """Whether the upper end alone is asked for: the interval may then be that of a dominating pair."""
    max_bytes: int = 1 << 30
    """Memory an engine may take; it refuses, with the figure, what needs more."""


DEFAULT = Request()


class Engine(Protocol):
    """One way to account. All methods are pure; each module of this package has one instance, ``ENGINE``.

    The error budget of a bound names each error term, absolute and in the unit asked. Here a bound is of one direction.
    """

    name: str

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        """Why this engine cannot serve, or None."""

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Bounds on inf{eps >= 0 : delta(eps) <= delta}, delta in (0, 1)."""

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Bounds on delta(epsilon), any finite epsilon."""
