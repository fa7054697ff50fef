"""Gaussian differential privacy by the central limit theorem: an APPROXIMATION that bounds nothing.

Bu, Dong, Long and Su (2020), Theorem 5: k Poisson-subsampled Gaussians tend to mu-GDP with mu^2 = k q^2 (e^{1/sigma^2}
- 1), in both directions. The sign and size of its error are unknown, so ``lower == upper`` is one estimate and the
budget says so. It is here because papers quote it.
"""

from __future__ import annotations

from ... import mechanisms as m
from ..numerics.outward import INF, Range, expm1
from .base import DEFAULT, Bound, Direction, Parts, Request
from .closed_form.gaussian import GaussianCurve

_BUDGET = {"central limit theorem (no bound)": INF}


class GaussianApproximation:
    """The approximation of papers, for comparison."""

    name = "gdp"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        if any(_compute_mu_squared(mechanism) is None for mechanism, _ in parts):
            return "the central limit theorem is stated for Gaussians and Poisson-subsampled Gaussians alone"
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        return _as_estimate(_build_limit_curve(parts).epsilon(delta))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        return _as_estimate(_build_limit_curve(parts).delta(epsilon))


ENGINE = GaussianApproximation()


def _compute_mu_squared(mechanism: m.Mechanism) -> Range | None:
    """Returns mu^2 of the limit for one step, or None if the theorem does not cover the mechanism."""
    match mechanism:
        case m.Gaussian(sigma):
            return 1 / (Range(sigma) * sigma)
        case m.PoissonSampled(m.Gaussian(sigma), q):
            return Range(q) * q * expm1(1 / (Range(sigma) * sigma))
    return None


def _build_limit_curve(parts: Parts) -> GaussianCurve:
    """Returns the Gaussian curve that a composition tends to."""
    total = Range(0.0)
    for mechanism, count in parts:
        one = _compute_mu_squared(mechanism)
        assert one is not None, "refused parts were asked"
        total += count * one
    return GaussianCurve(total)


def _as_estimate(found: Range) -> Bound:
    """Reports an estimate as an interval of width 0, and an infinite error."""
    return Bound(found.hi, found.hi, ENGINE.name, _BUDGET)
