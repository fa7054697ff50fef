"""Moments of repeated runs and of groups of records (docs/theory/derived.md).

The moment K(c) of a mechanism is log E_P[e^{cY}], where Y is the privacy loss. (P, Q) is its dominating pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from .... import mechanisms as m
from ....mechanisms import Group, RepeatAndSelect
from ....mechanisms.selections_and_groups import SelectionOrGroup, scale_mechanism_to_group
from ...numerics.outward import INF, Range, exp, log
from ...pairs.group_mixtures import build_group_mixture
from ...pairs.replacement import Replaced, ReplacedClass, bracket_losses_of_replaced_pair
from ...pairs.selection_repetitions import build_selection_repetitions
from . import conversion

Moment = Callable[[m.Mechanism, float], float]
"""A function that returns an upper bound of K(c) of a mechanism."""
_RATIO = 1.25
"""If the number of repetitions is Poisson, delta of a run is bounded at an epsilon that is a power of this number."""


def bound_selection_or_group_moment(mechanism: SelectionOrGroup, c: float, of: Moment) -> float:
    """Returns an upper bound of K(c) of a repeated run or a group. ``of`` bounds the moments of its parts."""
    if isinstance(mechanism, Group):
        return _sum_run_moments(
            tuple((_bound_group_moment_by_mechanism(one, mechanism.size), count) for one, count in mechanism.parts),
            c,
            of,
        )
    assert isinstance(mechanism, RepeatAndSelect)
    once = _sum_run_moments(mechanism.parts, c, of)
    if not once < INF:
        return INF
    runs = build_selection_repetitions(mechanism)
    if not runs.poisson:
        return (log(runs.mean) + Range(c) * _bound_gain_by_renyi_moments(mechanism, of) + once).hi
    # E_P[e^{cY}] is at most e^-mean, for the event of no run, plus a bound for the event of at least one run.
    at = math.floor(math.log(math.log1p(1 / c)) / math.log(_RATIO) - 1e-9)
    lead = Range(c) * runs.mean * _bound_run_delta_by_moments(mechanism, _RATIO**at, of) + once
    if lead.hi > _EXP_LIMIT:
        return (lead + log(runs.mean + 1)).hi
    return log(exp(-runs.mean) + runs.mean * exp(lead)).hi


_EXP_LIMIT = 700.0
"""Largest exponent x for which e^x is computed. Beyond it, formulas use x itself."""


def _sum_run_moments(parts: tuple[tuple[m.Mechanism | None, int], ...], c: float, of: Moment) -> float:
    """Returns an upper bound of the sum of the parts' moments; infinite if a part is None."""
    found = Range(0.0)
    for mechanism, count in parts:
        found += INF if mechanism is None else count * Range(of(mechanism, c))
    return found.hi


@lru_cache(maxsize=1024)
def _bound_run_delta_by_moments(mechanism: RepeatAndSelect, epsilon: float, of: Moment) -> float:
    """Returns an upper bound of delta of one run, from its moments alone."""
    return conversion.convert_moments_to_delta(lambda c: _sum_run_moments(mechanism.parts, c, of), epsilon)


@lru_cache(maxsize=256)
def _bound_gain_by_renyi_moments(mechanism: RepeatAndSelect, of: Moment) -> float:
    """Returns an upper bound of the gain of selecting (``pairs/selection_repetitions.py``), from the moments of one
    run."""
    return build_selection_repetitions(mechanism).bound_gain_of_repetitions(
        lambda epsilon: _bound_run_delta_by_moments(mechanism, epsilon, of)
    )


def _bound_group_moment_by_mechanism(mechanism: m.Mechanism, size: int) -> m.Mechanism | None:
    """Returns a mechanism whose moments are at least those of ``mechanism`` for a group of ``size`` records.

    Returns None if no such mechanism is known.
    """
    k = Range(float(size))
    match mechanism:
        case m.PureDP():
            return m.PureDP((k * mechanism.nominal_epsilon).hi)
        case ReplacedClass() if mechanism.nominal_delta == 0:
            largest = max((loss.hi for loss, _ in bracket_losses_of_replaced_pair(mechanism)[1].positive), default=0.0)
            return m.PureDP((k * largest).hi)
        case m.BoundedRange(eta):
            return m.BoundedRange((k * eta).hi)
        case m.ZCDP(rho, 0.0):
            return m.ZCDP((k * k * rho).hi)
        case Replaced(m.ZCDP(rho, 0.0)):
            return m.ZCDP((4 * (k * k) * rho).hi)
        case m.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            return m.DiscreteGaussianVector(sigma, (k * sensitivity).hi, dimensions)
    return build_group_mixture(mechanism, size, up=True) or scale_mechanism_to_group(mechanism, size)
