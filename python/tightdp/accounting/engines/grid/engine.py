"""The grid engine: any composition of laws with atoms, densities or both, certified (docs/theory/grid.md).

Each privacy loss is put on a lattice twice, by a law that dominates it and by one that it dominates. Both are tilted
towards the point of the curve that is asked for, composed by fast Fourier transforms, many steps in several rounds of
ever coarser lattices, and read off with every error bounded. The lattice is refined until the asked width is met, or
until it has as many points as ``max_bytes`` and a limit on time allow: then the answer is sound and wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .... import _core
from ...pairs.members import reveals_nothing
from ..base import DEFAULT, Bound, Direction, Parts, Request
from . import laws as grid_laws

BYTES_PER_POINT = 256
"""Two sides of masses, weights, spectra and curves, and the transform's own tables."""
MOST_POINTS = 1 << 20
"""Of the largest lattice. All lattices of all attempts together have about five times as many: half a second."""
MOST_STEPS = float(2**53)

_Laws = list[tuple[_core.GridLaw, float]]
_Answer = tuple[float, float, dict[str, float], int, int]


class Grid:
    name = "grid"

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        if not parts:
            return "nothing was composed"
        for mechanism, count in parts:
            reason = grid_laws.refuse(mechanism, direction)
            if reason:
                return reason
            if count >= MOST_STEPS:
                return f"it composes fewer than 2^53 steps, not {count}"
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        def ask(laws: _Laws, points: int) -> _Answer:
            return _core.grid_epsilon(laws, delta, request.width, points)

        return _best(parts, direction, ask, request, Bound(0.0, 0.0, self.name))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        def ask(laws: _Laws, points: int) -> _Answer:
            return _core.grid_delta(laws, epsilon, request.width, points)

        bare = -math.expm1(min(epsilon, 0.0))
        return _best(
            parts, direction, ask, request, Bound(bare * (1 - 2**-51), min(1.0, bare * (1 + 2**-51)), self.name)
        )


ENGINE = Grid()


def _best(
    parts: Parts,
    direction: Direction,
    ask: Callable[[_Laws, int], _Answer],
    request: Request,
    nothing: Bound,
) -> Bound:
    """One composition where all laws are exact; else one for the upper bound, and the best of others for the lower."""
    pairs = [
        (grid_laws.law(mechanism, direction), float(count))
        for mechanism, count in parts
        if not reveals_nothing(mechanism)
    ]
    if not pairs:
        return nothing
    points = min(MOST_POINTS, max(64, request.max_bytes // BYTES_PER_POINT))
    lower, upper, budget, _, _ = ask([(pair.upper, count) for pair, count in pairs], points)
    if any(pair.lowers != (pair.upper,) for pair, _ in pairs):
        choices = range(max(len(pair.lowers) for pair, _ in pairs))
        lower = max(
            ask([(pair.lowers[i % len(pair.lowers)], count) for pair, count in pairs], points)[0] for i in choices
        )
    return Bound(lower, upper, ENGINE.name, budget)
