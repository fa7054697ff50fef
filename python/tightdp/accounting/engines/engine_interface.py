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
    """The accuracy that an answer should have, and the memory that an engine may use."""

    width: float = WIDTH
    """Relative width of a bound that the engine ``auto`` tries to meet."""
    eps_error: float = EPS_ERROR
    delta_error: float = DELTA_ERROR
    """Errors in epsilon and delta that the ``prv`` engine may make (docs/theory/prv.md)."""
    above: bool = False
    """True if only the upper end of the bound counts. The bound of any dominating pair then suffices."""
    max_bytes: int = 1 << 30
    """Largest number of bytes of memory that an engine may take. An engine refuses a question that needs more, and its
    message says how much is needed."""


DEFAULT = Request()
REVERSED: dict[Direction, Direction] = {"add": "remove", "remove": "add"}
"""The direction of the reversed pair, for each direction."""


def measure_width_of_engine_bound(lower: float, upper: float) -> float:
    """Returns the width of an interval for an error budget: 0 if both ends are infinite, or if they cross."""
    return upper - lower if lower < upper else 0.0


def build_bound_with_one_term(lower: float, upper: float, engine: str, term: str) -> Bound:
    """Returns a bound of the named engine. Its error budget has one term, the width of the bound."""
    return Bound(lower, upper, engine, {term: measure_width_of_engine_bound(lower, upper)})


class Engine(Protocol):
    """The interface of an engine, which bounds epsilon and delta of a composition in one direction.

    All methods are pure functions. Each engine's module has one instance, ``ENGINE``. The error budget of a bound maps
    the name of each error term to its size in epsilon or delta.
    """

    name: str

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        """Returns the reason why this engine cannot serve the parts, or None if it can."""

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Returns bounds on inf{eps >= 0 : delta(eps) <= delta} for delta in (0, 1)."""

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Returns bounds on delta(epsilon) at any finite epsilon."""
