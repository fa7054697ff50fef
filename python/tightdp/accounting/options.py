"""How a question is asked: the neighbouring relation, the engine, and how exact the answer should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .. import _check
from .engines.base import DEFAULT, Direction, Engine, Request

Neighbors = Literal["add_or_remove", "add", "remove", "replace"]
NEIGHBORS: tuple[Neighbors, ...] = get_args(Neighbors)

WIDTH, EPS_ERROR, DELTA_ERROR = DEFAULT.width, DEFAULT.eps_error, DEFAULT.delta_error


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options of a query."""

    neighbors: Neighbors = "add_or_remove"
    engine: str | Engine = "auto"
    request: Request = DEFAULT

    @property
    def directions(self) -> tuple[Direction, ...]:
        return ("remove", "add") if self.neighbors == "add_or_remove" else (self.neighbors,)


_DEFAULT = Options()


def options(
    neighbors: Neighbors = "add_or_remove",
    engine: str = "auto",
    width: float = WIDTH,
    eps_error: float = EPS_ERROR,
    delta_error: float = DELTA_ERROR,
) -> Options:
    """The options, or ValueError/TypeError naming the one that is wrong."""
    if width is WIDTH and eps_error is EPS_ERROR and delta_error is DELTA_ERROR:
        request = DEFAULT
        if neighbors == "add_or_remove" and isinstance(engine, str) and engine == "auto":
            return _DEFAULT
    else:
        request = Request(
            width=_check.positive("width", width),
            eps_error=_check.positive("eps_error", eps_error),
            delta_error=_check.open_unit("delta_error", delta_error),
        )
    _check.choice("neighbors", neighbors, NEIGHBORS)
    if not (isinstance(engine, str) and engine == "auto"):
        from .engines.choice import NAMES

        _check.choice("engine", engine, ("auto", *NAMES))
    return Options(neighbors, engine, request)
