"""Computes the upper bounds that the accountants and distributions with dp_accounting's interface return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..._support import _check
from ...accounting.pairs.largest_loss import largest_loss_of_pair
from ...accounting.questions.question import Question
from ...composition import Composition
from ...options import Neighbors
from .events import REVEALS

_FAR = 1e4
"""An epsilon that is larger than most losses, and whose exponential overflows a double."""
_TANGENTS = 512
"""Number of epsilons whose tangents bound a trade-off curve. Tangents are needed near the ends of the curve, where a
bound on the curve itself has no relative accuracy."""
_LEAST_DELTA, _STEEPEST = 1e-15, 100.0
"""The largest epsilon of a tangent is ``_STEEPEST`` or the epsilon whose delta is ``_LEAST_DELTA``, whichever is
smaller."""
_MIDDLES = np.logspace(-12, math.log10(0.5), 60)
"""Default false positive rates for an estimate of mu. The smallest rate is that of dp_accounting's defaults."""


def bound_epsilon_for_dp_accounting(
    run: Composition, neighbors: Neighbors, target_delta: Any, name: str = "target_delta"
) -> float:
    """Returns an upper bound of epsilon at ``target_delta`` in [0, 1]. At 0 the bound is the largest privacy loss.

    The bound may be infinite.
    """
    delta = _check.closed_unit(name, target_delta)
    if has_event_without_noise(run):
        return math.inf
    if not run or delta == 1:
        return 0.0
    largest = largest_loss_of_pair(run, neighbors)
    return min(run.epsilon(delta, neighbors=neighbors).upper, largest) if delta else largest


def bound_delta_for_dp_accounting(
    run: Composition, neighbors: Neighbors, target_epsilon: Any, name: str = "target_epsilon"
) -> float:
    """Returns an upper bound of delta at ``target_epsilon``, which may be any number or infinite."""
    infinite = isinstance(target_epsilon, (int, float, np.floating)) and math.isinf(target_epsilon)
    epsilon = target_epsilon if infinite else _check.check_real_argument(name, target_epsilon)
    if has_event_without_noise(run) or epsilon == -math.inf:
        return 1.0
    if epsilon >= largest_loss_of_pair(run, neighbors) < math.inf:
        return 0.0
    if math.isinf(epsilon):
        # Delta at infinity is at most delta at a finite epsilon. Two finite epsilons are tried, because some engines
        # refuse LARGEST.
        return min(run.delta(at, neighbors=neighbors).upper for at in (_FAR, _check.LARGEST))
    return run.delta(float(epsilon), neighbors=neighbors).upper


def bound_deltas_for_dp_accounting(
    run: Composition, neighbors: Neighbors, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns upper bounds of delta at many epsilons. The grid engine computes many of these bounds in little more time
    than a single one."""
    infinite, found = np.isinf(epsilons), np.empty(epsilons.shape)
    for i in np.argwhere(infinite):
        found[tuple(i)] = bound_delta_for_dp_accounting(run, neighbors, float(epsilons[tuple(i)]))
    finite, where = np.unique(epsilons[~infinite], return_inverse=True)
    if not finite.size:
        return found
    if has_event_without_noise(run):
        answers = np.ones(finite.shape)
    elif not run:
        answers = np.maximum(-np.expm1(finite), 0.0)
    else:
        answers = np.minimum.accumulate(
            Question.from_question_options(run, neighbors).bound_profile_of_question(finite)
        )
        answers[finite >= largest_loss_of_pair(run, neighbors)] = 0.0
    found[~infinite] = answers[where.ravel()]
    return found


def bound_rates_for_dp_accounting(run: Composition, neighbors: Neighbors, rates: ArrayLike) -> Any:
    """Returns upper bounds on the true positive rates of any test at the given false positive rates.

    There are two bounds for each rate, and the smaller one is returned. The first bound follows from the trade-off
    curve. The second bound is the least value of e^epsilon rate + delta(epsilon) over several epsilons. For each
    epsilon, this expression is a tangent of the curve (docs/theory/conversions.md section 8).
    """
    given = np.asarray(_check.check_array_argument("false_positive_rates", rates, "numbers in [0, 1]"))
    if has_event_without_noise(run):
        found = np.ones(given.shape)
    elif not run:
        found = given
    else:
        top = bound_epsilon_for_dp_accounting(run, neighbors, _LEAST_DELTA)
        epsilons = np.linspace(0.0, top if top < _STEEPEST else _STEEPEST, _TANGENTS)
        deltas = bound_deltas_for_dp_accounting(run, neighbors, epsilons)
        tangents = np.min(np.exp(epsilons) * given[..., None] + deltas, axis=-1) * (1 + 1e-14)
        found = np.minimum(tangents, 1 - run.tradeoff(given, neighbors=neighbors).lower)
    return float(found) if given.ndim == 0 else found


def estimate_gdp_for_dp_accounting(run: Composition, neighbors: Neighbors, rates: Any = None) -> float:
    """Returns the least mu whose trade-off curve is below the curve of ``run`` at the given rates up to 1/2.

    The result is an estimate and not a bound, because only these rates are checked.
    """
    given = (
        _MIDDLES if rates is None else _check.check_array_argument("false_positive_rates", rates, "numbers in (0, 1)")
    )
    given = np.ravel(given)[np.ravel(given) <= 0.5]
    if not given.size or not (given > 0).all():
        raise ValueError("false_positive_rates must be numbers in (0, 1), with one that is at most 1/2")
    found = bound_rates_for_dp_accounting(run, neighbors, given)
    return float(np.max(special.ndtri(found) - special.ndtri(given), initial=0.0))


def has_event_without_noise(run: Composition) -> bool:
    """Returns whether a part of ``run`` is a release without noise."""
    return any(mechanism == REVEALS for mechanism, _ in run.parts)
