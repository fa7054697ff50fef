"""Epsilon where there is so little noise that it is over a hundred: in milliseconds, and hardly too large."""

from __future__ import annotations

import math

from ...accounting.engines import closed_form, contour, grid, participations
from ...accounting.engines.base import DEFAULT, Engine, Request
from ...accounting.questions import Question
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled

_LITTLE = 0.25
"""Noise multipliers below: one step with the record in it costs 8."""
_LEAST = 0.015
"""Below, losses may be too far apart for a lattice, and to take each step with the record for seen costs little."""
_LARGE = 100.0
_QUICK = Request(max_bytes=1 << 26)
"""Lattices of 2^18 points: a bound is up to 1e-5 of itself above that of the largest."""


def epsilon(composition: Composition, delta: float) -> float | None:
    """An upper bound; None where the noise is not so little, epsilon not so large, or no engine quick.

    Engines are asked about "remove" alone, since a loss of "add" is at most -ln(1 - q) for each sample
    (docs/theory/closed-forms.md, section 5).
    """
    parts, noise, added = composition.parts, math.inf, 0.0
    for mechanism, count in parts:
        match mechanism:
            case PoissonSampled(Gaussian(sigma), q) if q < 1:
                noise, added = min(noise, sigma), added - count * math.log1p(-q) * _OUTWARD
            case _:
                return None
    if not noise < _LITTLE:
        return None

    def upper(engine: Engine, request: Request = DEFAULT) -> float:
        if engine.refuse(parts, "remove") is not None:
            return math.inf
        return Question(composition, "remove", engine, request).epsilon(delta).upper

    found = min(upper(closed_form.ENGINE), upper(contour.ENGINE))
    if math.isinf(found):
        found = upper(grid.ENGINE, _QUICK)
        if noise < _LEAST:
            found = min(found, upper(participations.ENGINE))
    return found if math.isfinite(found) and found > max(_LARGE, added) else None


_OUTWARD = 1 + 1e-12
"""More than what rounding takes."""
