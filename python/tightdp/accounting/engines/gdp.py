"""Gaussian differential privacy by the central limit theorem: an APPROXIMATION that bounds nothing.

Bu, Dong, Long and Su (2020), Theorem 5: k Poisson-subsampled Gaussians tend to mu-GDP with mu^2 = k q^2
(e^{1/sigma^2} - 1), in both directions. Its error is of no known sign or size, so ``lower == upper`` is one estimate
and the budget says so. It is here because papers quote it.
"""

from __future__ import annotations

from ... import mechanisms as m
from ..numerics.outward import INF, Range, expm1
from .base import DEFAULT, Bound, Direction, Parts, Request
from .closed_form.gaussian import Gaussian

_BUDGET = {"central limit theorem (no bound)": INF}


class GaussianApproximation:
    name = "gdp"

    def refuse(self, parts: Parts, direction: Direction) -> str | None:
        if any(_mu_squared(mechanism) is None for mechanism, _ in parts):
            return "the central limit theorem is stated for Gaussians and Poisson-subsampled Gaussians alone"
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        return _estimate(_limit(parts).epsilon(delta))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        return _estimate(_limit(parts).delta(epsilon))


ENGINE = GaussianApproximation()


def _mu_squared(mechanism: m.Mechanism) -> Range | None:
    match mechanism:
        case m.Gaussian(sigma):
            return 1 / (Range(sigma) * sigma)
        case m.PoissonSampled(m.Gaussian(sigma), q):
            return Range(q) * q * expm1(1 / (Range(sigma) * sigma))
    return None


def _limit(parts: Parts) -> Gaussian:
    total = Range(0.0)
    for mechanism, count in parts:
        one = _mu_squared(mechanism)
        assert one is not None, "refused parts were asked"
        total += count * one
    return Gaussian(total)


def _estimate(found: Range) -> Bound:
    return Bound(found.hi, found.hi, ENGINE.name, _BUDGET)
