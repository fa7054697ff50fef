"""Pairs that dominate a mechanism whose own pair is unknown or slow to compute (docs/theory/discrete.md).

An upper bound for such a pair is an upper bound for the mechanism too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ... import mechanisms as m
from ...composition import Parts, sort_composition_parts
from ...mechanisms import Group
from ...mechanisms.selections_and_groups import SelectionOrGroup
from ..numerics.outward import Range, exp, sqrt, widen_up
from .group_mixtures import build_group_mixture
from .kinds import has_kind_of_mechanism
from .largest_loss import bound_largest_loss
from .neighbors import translate_to_replacement
from .replacement import Replaced

_LOG_FAILURE = 55.3
"""About -ln 1e-24, where 1e-24 is the probability that a Gaussian fails to dominate a step with discrete Gaussian
noise. In a million steps, failures add about 1e-18 to delta."""
_TWO_PI_SQUARED = Range(19.739208802178712, 19.739208802178720)
_MOST_SIGMA = 1e4
"""Largest sigma of a single discrete Gaussian whose atoms the engines compute. For a larger sigma, a pair that
dominates the discrete Gaussian is used instead."""


def list_dominating_compositions(
    parts: Parts, of_derived: Callable[[SelectionOrGroup], m.Mechanism] | None = None
) -> tuple[Parts, ...]:
    """Returns compositions that dominate ``parts``. The tuple is empty if none would improve a bound.

    ``parts`` must already be translated to the neighbouring relation. ``of_derived`` returns a mechanism that dominates
    a repeated run or a group. Without ``of_derived``, a repeated run or a group with a finite largest loss is replaced
    by a class. The class has all mechanisms whose losses are at most this largest loss (derived.md section 3).
    """
    if not has_kind_of_mechanism(parts, m.DiscreteGaussian, m.DiscreteGaussianVector, SelectionOrGroup):
        return ()
    found: dict[m.Mechanism, int] = {}
    gained = False
    for mechanism, count in parts:
        others = _find_dominating_parts(mechanism)
        if others is None and isinstance(mechanism, SelectionOrGroup):
            others = (of_derived(mechanism),) if of_derived else _find_class_dominating_derived(mechanism)
        gained = gained or others is not None
        for other in others or (mechanism,):
            found[other] = found.get(other, 0) + count
    return (sort_composition_parts(tuple(found.items())),) if gained else ()


def list_mechanisms_without_mixture(parts: Parts) -> tuple[SelectionOrGroup, ...]:
    """Returns the repeated runs and groups that no known mixture dominates. Good bounds need their whole curves."""
    derived = (mechanism for mechanism, _ in parts if isinstance(mechanism, SelectionOrGroup))
    return tuple(mechanism for mechanism in derived if _find_dominating_parts(mechanism) is None)


def _find_class_dominating_derived(mechanism: SelectionOrGroup) -> tuple[m.Mechanism, ...] | None:
    """Returns the class of all mechanisms whose losses are at most the largest loss of ``mechanism``.

    Returns None if the largest loss is infinite.
    """
    largest = bound_largest_loss(((mechanism, 1),), "remove")
    return (m.PureDP(largest),) if largest < math.inf else None


def _find_dominating_parts(mechanism: m.Mechanism) -> tuple[m.Mechanism, ...] | None:
    """Returns mechanisms that together dominate ``mechanism``; None if none are known.

    A discrete Gaussian is dominated by a Gaussian together with a tiny probability of revealing everything (discrete.md
    section 2). A group is dominated by a mixture of Gaussians (derived.md section 2).
    """
    match mechanism:
        case Group(m.Mechanism() as inner, size):
            mixed = build_group_mixture(inner, size, up=True)
            return None if mixed is None else (mixed,)
        case m.DiscreteGaussian(sigma, sensitivity) if sigma > _MOST_SIGMA:
            return _find_parts_dominating_discrete_gaussian(sigma, sensitivity, 1)
        case m.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            return _find_parts_dominating_discrete_gaussian(sigma, sensitivity, dimensions)
        case m.PoissonSampled(inner, q):
            if inside := _find_dominating_parts(inner):
                return m.PoissonSampled(inside[0], q), inside[1]
        case Replaced(inner):
            if inside := _find_dominating_parts(inner):
                return translate_to_replacement(inside[0]), inside[1]
    return None


def _find_parts_dominating_discrete_gaussian(
    sigma: float, sensitivity: float, dimensions: int
) -> tuple[m.Mechanism, m.Mechanism] | None:
    """Returns a Gaussian and a failure that together dominate discrete Gaussian noise (discrete.md section 2).

    The failure reveals everything, with a tiny probability. The Gaussian is N(0, s^2) with s^2 = sigma^2 - tau^2. A
    number from this Gaussian is rounded to a random integer, and tau is the standard deviation of this rounding. The
    result has the discrete Gaussian distribution, except with the failure's probability. Returns None if sigma is too
    small or above 1e150.
    """
    if sigma > 1e150:
        return None
    exponent = _LOG_FAILURE + math.log(2 * dimensions)
    variance = exponent / _TWO_PI_SQUARED.lo  # tau^2: e^{-2 pi^2 tau^2} is about 1e-24 / (2 dimensions)
    rest = Range(sigma) * sigma - variance
    if not rest.lo > variance:
        return None
    odd = exp(-_TWO_PI_SQUARED * variance)
    # The failure probability of discrete.md is at most eta + eta' in each dimension. Here eta depends on tau, and eta'
    # depends on sigma. Since eta' <= eta, the sum is at most 2 eta. This is at most 4 odd / (1 - odd).
    lost = dimensions * (4 * (odd / (1 - odd)))
    multiplier = (sqrt(rest) / sensitivity).lo
    return (m.Gaussian(multiplier), m.ApproximateDP(0.0, min(widen_up(lost.hi), 1.0))) if multiplier > 0 else None
