"""The interface between a composition and the engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...bound import Bound as Bound
from ...composition import Parts as Parts
from ...options import DELTA_ERROR, EPS_ERROR, WIDTH
from ...options import Direction as Direction


@dataclass(frozen=True, slots=True)
class Request:
    """The wanted exactness of an answer, and the memory that it may take."""

    width: float = WIDTH
    """Relative width that ``auto`` tries to meet."""
    eps_error: float = EPS_ERROR
    delta_error: float = DELTA_ERROR
    """Errors in epsilon and delta that the ``prv`` engine may make (docs/theory/prv.md)."""
    above: bool = False
    """Whether only the upper end counts. The interval may then be that of a dominating pair."""
    max_bytes: int = 1 << 30
    """Memory in bytes that an engine may take. It refuses a question that needs more, and names the figure."""


DEFAULT = Request()


class Engine(Protocol):
    """One way to account. All methods are pure; each module of this package has one instance, ``ENGINE``.

    The error budget of a bound names each error term, absolute and in the unit of the answer. A bound is of one
    direction.
    """

    name: str

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        """Returns the reason why this engine cannot serve the parts, or None if it can."""

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Returns bounds on inf{eps >= 0 : delta(eps) <= delta}, delta in (0, 1)."""

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Returns bounds on delta(epsilon) at any finite epsilon."""
