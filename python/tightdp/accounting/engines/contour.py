"""The contour engine, for any composition of plain and Poisson-subsampled Gaussians (docs/theory/contour.md).

The Laplace transform of delta is inverted along a vertical line through its saddle point. The moment generating
function of the privacy loss is a factor of this transform. The cost depends neither on the number of steps nor on the
size of delta. The engine serves losses that are analytic functions of a Gaussian variable and have no atoms. For few
steps with a small sampling probability, the characteristic function of the loss decays slowly along this line. In the
direction "remove" the inversion then uses two rays instead of the line (docs/theory/rays.md). If neither contour
serves, the answer is the trivial interval, and "auto" asks the grid engine next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from ..._core import contour_delta, contour_epsilon
from ...composition import FEW_PARTS
from ...mechanisms import Gaussian, PoissonSampled
from ..pairs.kinds import cache_fact_of_parts, has_kind_of_mechanism
from ..pairs.replacement import ReplacedGaussian
from .engine_interface import DEFAULT, Bound, Direction, Parts, Request

_TERMS = ("aliasing", "truncation", "quadrature", "rounding")
TOLERANCE = 1e-11
"""Relative error of delta that the engine aims at. With a million steps, rounding alone causes an error of about this
size. A larger tolerance would not save time."""


LEAST, MOST = 1e-6, 1e12
"""Smallest and largest noise multiplier that are served. Their squares, and the inverses of these squares, are normal
doubles."""


class Contour:
    """Inverts the Laplace transform of delta along a contour."""

    name = "contour"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        losses = _collect_contour_losses(parts)
        return losses if isinstance(losses, str) else None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        status, lower, upper, terms, _, _ = contour_epsilon(
            *_prepare_contour_arguments(parts, direction), delta, TOLERANCE
        )
        if status != "certified":
            return Bound(0.0, math.inf, self.name)
        return Bound(lower, upper, self.name, name_contour_errors(terms))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        status, lower, upper, terms, _, _ = contour_delta(
            *_prepare_contour_arguments(parts, direction), epsilon, TOLERANCE
        )
        if status != "certified":
            return Bound(0.0, 1.0, self.name)
        return Bound(lower, upper, self.name, name_contour_errors(terms))

    def bound_contour_delta_from_above(self, parts: Parts, direction: Direction, epsilon: float) -> float:
        """Returns only the upper end of ``delta``, in half the time, for callers with thousands of epsilons."""
        status, _, upper, _, _, _ = contour_delta(*_prepare_contour_arguments(parts, direction), epsilon, TOLERANCE)
        return upper if status == "certified" else 1.0


ENGINE = Contour()


def run_contour_engine_with_gaussian(
    parts: Parts, direction: Direction, delta: float, mu_squared: float, tolerance: float
) -> tuple[float, float]:
    """Returns an upper bound on epsilon(delta) of the parts composed with a further Gaussian, and the work that
    computing this bound took.

    The Gaussian has mu^2 = ``mu_squared``. The bound also holds for the parts alone, because releasing more reveals no
    less. With this Gaussian the characteristic function decays fast for all parts (docs/theory/contour.md section 12).
    The result is infinite if no bound is certified. The work is the number of nodes times the number of abscissae.
    """
    sampled, plain, of = _prepare_contour_arguments(parts, direction)
    status, _, upper, _, nodes, abscissae = contour_epsilon(sampled, plain + mu_squared, of, delta, tolerance)
    return (upper if status == "certified" else math.inf), float(nodes) * abscissae


def name_contour_errors(terms: Sequence[float]) -> dict[str, float]:
    """Returns the error terms with their names. Each term counts twice, because it moves both ends of the interval."""
    return {name: 2 * term for name, term in zip(_TERMS, terms, strict=True)}


_Losses: TypeAlias = tuple[list[tuple[float, float, float]], float, bool]
"""Three arguments of the compiled core. The first is the list of (sigma, q, count) of the sampled Gaussians, where
sigma is the noise multiplier and q the sampling probability. The second is the sum of count / sigma^2 over the plain
Gaussians, with a relative error of at most 2^-51 (contour.md section 5.3). The third is True if the dominating pairs
are those of replacing a record."""


@cache_fact_of_parts
def _collect_contour_losses(parts: Parts) -> _Losses | str:
    """Returns the losses of a composition as the core takes them, or the reason why the engine cannot serve it."""
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
    replaced = has_kind_of_mechanism(parts, ReplacedGaussian)
    if replaced and has_kind_of_mechanism(parts, PoissonSampled):
        return "its pairs are all of one relation"
    if len(parts) > FEW_PARTS:
        sampled.sort()
    return (sampled, math.fsum(plain), replaced) if parts else "nothing was composed"


def _prepare_contour_arguments(
    parts: Parts, direction: Direction
) -> tuple[list[tuple[float, float, float]], float, str]:
    """Returns the core's arguments for parts that were not refused, with the direction in the core's terms."""
    losses = _collect_contour_losses(parts)
    assert not isinstance(losses, str), losses
    sampled, plain, replaced = losses
    return sampled, plain, "replace" if replaced else direction
