"""Costs that add up under adaptive composition, and the caps that guarantee a target (docs/theory/filters.md).

A family assigns a cost to each mechanism. Adaptively chosen releases are (epsilon, delta)-DP if the sum of their costs
never exceeds the family's cap. Costs are rounded up and caps are rounded down.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from ... import mechanisms as m
from ...composition import Composable, Composition
from ...options import Neighbors
from ..engines.renyi import engine as renyi
from ..engines.renyi.conversion import log_factor_of_renyi_conversion, minimize_over_renyi_orders
from ..engines.renyi.two_sided_moments import compute_binary_moment
from ..numerics.outward import INF, Range, log, sqrt
from ..pairs.largest_loss import bound_largest_loss
from ..pairs.neighbors import explain_unproved_neighbors, translate_parts_to_zeroing, translate_to_replacement
from ..pairs.replacement import Replaced, ReplacedClass, ReplacedGaussian
from ..questions.calibration import calibrate


class FilterCostFamily(ABC):
    """A way to assign costs to mechanisms, with the unit and the cap of the sum of costs."""

    unit: str
    cap: float
    advice = ""
    """Text at the end of a refusal. It names the argument of the filter that may allow more releases."""

    @abstractmethod
    def bound_running_cost(self, mechanism: m.Mechanism) -> float:
        """Returns an upper bound of the cost of one release; infinite if the family has no cost for the mechanism."""


class RenyiFilterCosts(FilterCostFamily):
    """The costs c D_{c+1}, where D_{c+1} is the Renyi divergence of an order c + 1 that is fixed in advance.

    The proof is in section 2 of filters.md. The cost as a function of c is called K(c).
    """

    def __init__(self, epsilon: float, delta: float, order: float | None, expected: Composable | None) -> None:
        if order is None:
            if expected is None:
                self.advice = ". A filter with expected=, a composition like the one to be spent, may cover more"
            order = 1 + choose_filter_order(epsilon, delta, expected)
        self.c = order - 1
        shown = f"{order:g}" if self.c >= 1e-3 else f"1 + {self.c:g}"
        self.unit = f"Renyi divergence of order {shown}, times {self.c:g}"
        self.cap = _cap_of_filter_order(self.c, epsilon, delta).lo

    def bound_running_cost(self, mechanism: m.Mechanism) -> float:
        found = renyi.sum_renyi_moments(((mechanism, 1),), self.c)
        if found < INF:
            return found
        largest = bound_largest_loss(((mechanism, 1),), "remove")  # a mechanism with losses of at most e is e-DP
        return compute_binary_moment(Range(largest), self.c).hi if largest < INF else INF


class ZcdpFilterCosts(FilterCostFamily):
    """The costs rho of zero-concentrated differential privacy (filters.md section 3)."""

    unit = "rho of zCDP"

    def __init__(self, epsilon: float, delta: float) -> None:
        c = choose_filter_order(epsilon, delta, None)
        self.cap = (_cap_of_filter_order(c, epsilon, delta) / (Range(c) * (Range(c) + 1))).lo

    def bound_running_cost(self, mechanism: m.Mechanism) -> float:
        """Returns an upper bound of the mechanism's rho. Section 3 of filters.md has a formula for each kind."""
        match mechanism:
            case m.PoissonSampled(inner, _):  # at most the cost on all records, because divergences are jointly convex
                return self.bound_running_cost(inner)
            case ReplacedGaussian(sigma, _):
                return self.bound_running_cost(translate_to_replacement(m.Gaussian(sigma)))
            case ReplacedClass(e, 0.0, _):
                return _bound_filter_cost_of_pure_dp(2 * Range(e))
            case Replaced(m.PoissonSampled(inner) | m.FixedSizeSampled(inner)):
                return self.bound_running_cost(translate_to_replacement(inner))
            case m.Gaussian(sigma):
                return (1 / (2 * (Range(sigma) * sigma))).hi
            case m.ZCDP(rho, 0.0):
                return rho
            case Replaced(m.ZCDP(rho, 0.0)):
                return 4 * rho
            case Replaced(m.DiscreteGaussianVector() as vector):
                return 4 * self.bound_running_cost(vector)
            case m.BoundedRange(eta):
                return (Range(eta) * eta / 8).hi
            case m.PureDP():
                return _bound_filter_cost_of_pure_dp(Range(mechanism.nominal_epsilon))
            case m.Laplace(scale):
                return _bound_filter_cost_of_pure_dp(1 / Range(scale))
            case m.DiscreteLaplace(scale, sensitivity):
                return _bound_filter_cost_of_pure_dp(sensitivity / Range(scale))
            case m.DiscreteGaussian(sigma, sensitivity) | m.DiscreteGaussianVector(sigma, sensitivity):
                ratio = Range(sensitivity) / sigma
                return (ratio * ratio / 2).hi
            case m.RandomizedResponse(p, buckets):
                return _bound_filter_cost_of_pure_dp(log((1 - Range(p)) * buckets / p + 1))
        return INF


class GaussianFilterCosts(FilterCostFamily):
    """The costs mu^2 = 1/sigma^2 of Gaussians with noise multiplier sigma (filters.md section 4)."""

    unit = "1/noise_multiplier^2 of Gaussians"

    def __init__(self, cap: float) -> None:
        self.cap = cap

    @classmethod
    def calibrate_running_cost(cls, epsilon: float, delta: float, others: Composition) -> GaussianFilterCosts:
        """Returns the family with the cap that leaves room for all releases of ``others`` (filters.md section 5)."""

        def compose_filter_with_others(mu_squared: float) -> Composition:
            return m.Gaussian(mu_squared**-0.5) + others

        if others.delta(epsilon).upper > delta:
            raise ValueError(f"others must be ({epsilon!r}, {delta!r})-DP by themselves, got {others!r}")
        return cls(
            calibrate(compose_filter_with_others, epsilon=epsilon, delta=delta, low=1e-24, high=1e12) * (1 - 1e-15)
        )

    def bound_running_cost(self, mechanism: m.Mechanism) -> float:
        match mechanism:
            case m.PoissonSampled(inner, _):
                return self.bound_running_cost(inner)
            case ReplacedGaussian(sigma, _) | Replaced(m.FixedSizeSampled(m.Gaussian(sigma))):
                return self.bound_running_cost(translate_to_replacement(m.Gaussian(sigma)))
            case m.Gaussian(sigma):
                return (1 / (Range(sigma) * sigma)).hi
        return INF


def choose_filter_order(epsilon: float, delta: float, expected: Composable | None) -> float:
    """Returns c for the order c + 1 whose cap covers the most repetitions of ``expected``.

    Without ``expected``, c is the best one for Gaussians and for other mechanisms that are charged by their rho.
    """
    parts = None if expected is None else expected._to_composition().parts

    def score_filter_order(c: float) -> float:
        """Returns minus the number of repetitions that the cap covers, or a positive number if it covers none."""
        allowed = _cap_of_filter_order(c, epsilon, delta).lo
        cost = c * (c + 1) if parts is None else renyi.sum_renyi_moments(parts, c)
        if not 0 < cost < INF:
            return INF
        return -allowed / cost if allowed > 0 else 1 + 1 / c

    best, at = INF, 0.0

    def remember_best_filter_order(c: float) -> float:
        nonlocal best, at
        found = score_filter_order(c)
        if found < best:
            best, at = found, c
        return found

    minimize_over_renyi_orders(remember_best_filter_order)
    if not best < 0:
        raise ValueError(f"epsilon={epsilon!r} and delta={delta!r} leave no budget at any Renyi order")
    return at


def _cap_of_filter_order(c: float, epsilon: float, delta: float) -> Range:
    """Returns the cost K(c) that converts to exactly ``delta`` at ``epsilon``.

    This cost is c eps + log delta - log kappa(c), where ``log_factor_of_renyi_conversion`` computes log kappa(c).
    """
    return Range(c) * epsilon + log(delta) - log_factor_of_renyi_conversion(c)


def _bound_filter_cost_of_pure_dp(e: Range) -> float:
    """Returns e^2/2, the rho of every e-DP mechanism (Bun and Steinke 2016, Proposition 3.3)."""
    return (e * e / 2).hi


def resolve_running_charge(mechanism: m.Mechanism, neighbors: Neighbors) -> m.Mechanism:
    """Returns the mechanism whose cost is charged under ``neighbors``.

    Raises ValueError if no dominating pair of the mechanism is proved under ``neighbors``.
    """
    reason = explain_unproved_neighbors(((mechanism, 1),), neighbors)
    if reason:
        raise ValueError(reason)
    if isinstance(mechanism, m.TreeAggregation):  # its Gaussians together are one Gaussian, since their mu^2 add up
        one, depth = mechanism.gaussians
        mechanism = m.Gaussian(max((Range(one.noise_multiplier) / sqrt(float(depth))).lo, math.ulp(0.0)))
    if neighbors == "replace_special":
        return translate_parts_to_zeroing(((mechanism, 1),))[0][0]
    return translate_to_replacement(mechanism) if neighbors == "replace" else mechanism
