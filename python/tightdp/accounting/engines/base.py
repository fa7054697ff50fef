"""The seam between a composition and the engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from ...mechanisms import Mechanism

Direction = Literal["add", "remove", "replace"]
Parts: TypeAlias = "tuple[tuple[Mechanism, int], ...]"
"""Distinct mechanisms with their counts, in a canonical order."""


class Interval(NamedTuple):
    """``lower <= truth <= upper`` for one direction; ``budget`` names each error term (absolute, in the unit asked)."""

    lower: float
    upper: float
    budget: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Request:
    """How exact an answer is asked for."""

    width: float = 1e-6
    """Relative width that ``auto`` tries to meet."""
    eps_error: float = 0.01
    delta_error: float = 1e-10
    """What the ``prv`` engine's theorem takes."""
    max_bytes: int = 1 << 30
    """Memory an engine may take; it refuses, with the figure, what needs more."""


DEFAULT = Request()


class Engine(Protocol):
    """One way to account. All methods are pure; each module of this package has one instance, ``ENGINE``."""

    name: str

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        """Why this engine cannot serve, or None."""

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Interval:
        """Bounds on inf{eps >= 0 : delta(eps) <= delta}, delta in (0, 1)."""

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Interval:
        """Bounds on delta(epsilon), any finite epsilon."""
