"""The contour engine: Poisson-subsampled and plain Gaussians, any mixture, certified (docs/theory/contour.md).

The moment generating function of the privacy loss is inverted along a vertical line through its saddle point. The
cost does not depend on the number of steps nor on the size of delta. It serves laws whose loss is an analytic function
of a Gaussian variable and has no atom. For few steps with a small sampling probability the characteristic function
decays slowly: removals are then inverted along two rays (docs/theory/rays.md). What neither contour serves gets the
trivial interval, and the grid engine answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from ... import _core
from ...composition import FEW_PARTS
from ...mechanisms import Gaussian, PoissonSampled
from ..pairs.kinds import cache_by_composition, has_any_type
from ..pairs.replaced import ReplacedGaussian
from .base import DEFAULT, Bound, Direction, Parts, Request

_TERMS = ("aliasing", "truncation", "quadrature", "rounding")
TOLERANCE = 1e-11
"""Relative error of delta aimed at: rounding alone costs about this at a million steps, and less buys no speed."""


LEAST, MOST = 1e-6, 1e12
"""Noise multipliers far beyond use, where squares of them or of their inverses still do not over- or underflow."""


class Contour:
    name = "contour"

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        losses = _losses(parts)
        return losses if isinstance(losses, str) else None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        status, lower, upper, terms, _, _ = _core.contour_epsilon(*_asked(parts, direction), delta, TOLERANCE)
        if status != "certified":
            return Bound(0.0, math.inf, self.name)
        return Bound(lower, upper, self.name, both_sides(terms))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        status, lower, upper, terms, _, _ = _core.contour_delta(*_asked(parts, direction), epsilon, TOLERANCE)
        if status != "certified":
            return Bound(0.0, 1.0, self.name)
        return Bound(lower, upper, self.name, both_sides(terms))

    def above(self, parts: Parts, direction: Direction, epsilon: float) -> float:
        """The upper end of ``delta`` alone, in half the time: for callers with thousands of epsilons."""
        status, _, upper, _, _, _ = _core.contour_delta(*_asked(parts, direction), epsilon, TOLERANCE)
        return upper if status == "certified" else 1.0


ENGINE = Contour()


def beside(
    parts: Parts, direction: Direction, delta: float, mu_squared: float, tolerance: float
) -> tuple[float, float]:
    """An upper bound on epsilon(delta) that a further Gaussian of ``mu_squared`` takes part in, and its work: how many
    products of nodes and abscissae. Infinity where there is none.

    Who sees more learns no less, and with the Gaussian the characteristic function decays, whatever the steps are
    (docs/theory/contour.md section 12).
    """
    sampled, plain, of = _asked(parts, direction)
    status, _, upper, _, nodes, abscissae = _core.contour_epsilon(sampled, plain + mu_squared, of, delta, tolerance)
    return (upper if status == "certified" else math.inf), float(nodes) * abscissae


def both_sides(terms: Sequence[float]) -> dict[str, float]:
    """Errors in either direction are as much to both ends of the interval."""
    return {name: 2 * term for name, term in zip(_TERMS, terms, strict=True)}


_Losses: TypeAlias = tuple[list[tuple[float, float, float]], float, bool]
"""(sigma, q, count) of the sampled; sum of count / sigma^2 of the plain, within 4u (contour.md 5.3); whether the pairs
are those of replacing a record."""


@cache_by_composition
def _losses(parts: Parts) -> _Losses | str:
    """What the engine is asked about, or why it cannot serve."""
    sampled: list[tuple[float, float, float]] = []
    plain: list[float] = []
    for mechanism, count in parts:
        if isinstance(mechanism, PoissonSampled) and isinstance(mechanism.mechanism, Gaussian):
            sigma = mechanism.mechanism.noise_multiplier
            sampled.append((sigma, mechanism.sampling_probability, float(count)))
        elif isinstance(mechanism, Gaussian):
            sigma = mechanism.noise_multiplier
            plain.append(count / sigma**2 if LEAST <= sigma <= MOST else 0.0)
        elif isinstance(mechanism, ReplacedGaussian):
            sigma = mechanism.noise_multiplier
            sampled.append((sigma, mechanism.sampling_probability, float(count)))
        else:
            return f"it serves Gaussian and PoissonSampled(Gaussian), not {mechanism!r}"
        if not LEAST <= sigma <= MOST:
            return f"it serves noise multipliers in [{LEAST:g}, {MOST:g}], not {mechanism!r}"
    replaced = has_any_type(parts, ReplacedGaussian)
    if replaced and has_any_type(parts, PoissonSampled):
        return "its pairs are all of one relation"
    if len(parts) > FEW_PARTS:
        sampled.sort()
    return (sampled, math.fsum(plain), replaced) if parts else "nothing was composed"


def _asked(parts: Parts, direction: Direction) -> tuple[list[tuple[float, float, float]], float, str]:
    losses = _losses(parts)
    assert not isinstance(losses, str), losses
    sampled, plain, replaced = losses
    return sampled, plain, "replace" if replaced else direction
