"""Pairs that dominate a mechanism of which nothing exact is known: further upper ends (docs/theory/discrete.md)."""

from __future__ import annotations

import math
from collections.abc import Callable

from ... import mechanisms as m
from ...composition import Parts, sort_parts
from ...derived import Derived, Group
from ..numerics.outward import Range, exp, sqrt, widen_up
from .groups import build_group_mixture
from .kinds import has_any_type
from .largest import bound_largest_loss
from .neighbors import translate_to_replacement
from .replaced import Replaced

_LOG_FAILURE = 55.3
"""About -ln 1e-24: what is left over at each step, which a million of them may be without its being seen."""
_TWO_PI_SQUARED = Range(19.739208802178712, 19.739208802178720)
_MOST_SIGMA = 1e4
"""Of one discrete Gaussian: up to there its atoms are looked at."""


def list_dominating_compositions(
    parts: Parts, of_derived: Callable[[Derived], m.Mechanism] | None = None
) -> tuple[Parts, ...]:
    """Compositions that dominate ``parts``, which are translated already; none where nothing is gained.

    ``of_derived`` returns a mechanism that dominates a repeated run or a group; without it, one that is known by its
    largest loss stands for all that have no larger one (derived.md section 3).
    """
    if not has_any_type(parts, m.DiscreteGaussian, m.DiscreteGaussianVector, Derived):
        return ()
    found: dict[m.Mechanism, int] = {}
    gained = False
    for mechanism, count in parts:
        others = _find_dominating_parts(mechanism)
        if others is None and isinstance(mechanism, Derived):
            others = (of_derived(mechanism),) if of_derived else _bound_by_largest_loss(mechanism)
        gained = gained or others is not None
        for other in others or (mechanism,):
            found[other] = found.get(other, 0) + count
    return (sort_parts(tuple(found.items())),) if gained else ()


def _bound_by_largest_loss(mechanism: Derived) -> tuple[m.Mechanism, ...] | None:
    """Returns the class of all mechanisms with no larger loss than ``mechanism`` has, if that is finite."""
    largest = bound_largest_loss(((mechanism, 1),), "remove")
    return (m.PureDP(largest),) if largest < math.inf else None


def _find_dominating_parts(mechanism: m.Mechanism) -> tuple[m.Mechanism, ...] | None:
    """A Gaussian, and with a tiny probability everything, for a discrete Gaussian (discrete.md section 2); a mixture
    for a group (derived.md section 2)."""
    match mechanism:
        case Group(m.Mechanism() as inner, size):
            mixed = build_group_mixture(inner, size, up=True)
            return None if mixed is None else (mixed,)
        case m.DiscreteGaussian(sigma, sensitivity) if sigma > _MOST_SIGMA:
            return _bound_discrete_gaussian(sigma, sensitivity, 1)
        case m.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            return _bound_discrete_gaussian(sigma, sensitivity, dimensions)
        case m.PoissonSampled(inner, q):
            if inside := _find_dominating_parts(inner):
                return m.PoissonSampled(inside[0], q), inside[1]
        case Replaced(inner):
            if inside := _find_dominating_parts(inner):
                return translate_to_replacement(inside[0]), inside[1]
    return None


def _bound_discrete_gaussian(
    sigma: float, sensitivity: float, dimensions: int
) -> tuple[m.Mechanism, m.Mechanism] | None:
    """N(0, s^2), s^2 = sigma^2 - tau^2, which rounding to integers with deviation tau makes discrete but for gamma."""
    if sigma > 1e150:
        return None
    exponent = _LOG_FAILURE + math.log(2 * dimensions)
    variance = exponent / _TWO_PI_SQUARED.lo  # tau^2: e^{-2 pi^2 tau^2} is about 1e-24 / (2 d)
    rest = Range(sigma) * sigma - variance
    if not rest.lo > variance:
        return None
    odd = exp(-_TWO_PI_SQUARED * variance)
    # eta of tau and that of sigma, which is larger, so that it is at most that of tau.
    lost = dimensions * (4 * (odd / (1 - odd)))
    multiplier = (sqrt(rest) / sensitivity).lo
    return (m.Gaussian(multiplier), m.ApproximateDP(0.0, min(widen_up(lost.hi), 1.0))) if multiplier > 0 else None
