"""Samples of fixed size with Gaussian noise under "replace" (docs/theory/adaptive.md).

The joined pair of the grid engine (docs/theory/grid.md section 6.2) dominates one step for all neighbouring data sets.
Here an adversary sees all earlier outputs, and then chooses the neighbouring data sets of the next step. The curve of
an adversary is delta as a function of epsilon. Value iteration over all data sets bounds the curve of the best
adversary from above. The curve of an adversary with only two choices bounds it from below.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .... import mechanisms as m
from ...._core import (
    GridLaw,
    fixed_size_above,
    grid_delta,
    grid_deltas,
    grid_epsilon,
    work_charge,
    work_spent,
    worst_below,
)
from ...numerics.outward import Range
from ...pairs.replacement import Replaced
from ..closed_form.privacy_curve import mirror_privacy_curve
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request, build_bound_with_one_term
from ..grid.loss_distributions import grid_loss_distribution
from .kernels import Array, Side, bound_fixed_size_masses_below, list_fixed_size_epsilons

ABOVE, BELOW = 2700, 10_900
"""Number of grid points on either side of 0, for the upper and for the lower bound. The Fourier transforms have 2^13
and 2^15 points."""
MOST_STEPS = 1 << 14
BLOCK = 2000
"""Largest number of steps in a block. Value iteration over 2,000 steps takes a second or two. The curve of a block is
then composed like the curve of a pair."""
SWITCHES = 256
"""Largest number of choices of the adversary who attains the lower bound. Each choice holds for a block of steps."""
LEAST_SIGMA, MOST_SIGMA = 0.2, 100.0
"""Least and largest noise multiplier for which grids of ``ABOVE`` and ``BELOW`` points give useful bounds."""
CURVES = 32
"""Largest number of cached curves, which take 100 KB each."""
_NOTHING, _LEAST = 1e-4, 1e-3
"""Fractions of the smallest delta that a curve serves. All steps together may have at most ``_NOTHING`` times this
delta as mass outside the grid. The grid of the lower bound ends where delta falls to ``_LEAST`` times this delta."""
_FURTHEST = 600.0
"""Largest loss on a grid. The exponential of each loss must be a finite double."""
_ROUGH = 1e-3, 1 << 16
"""Relative width and number of grid points of rough answers."""


class FixedSizeCurve(NamedTuple):
    """Upper and lower bounds of delta, and the work of computing them.

    ``above`` has the upper bounds at multiples of ``above_spacing``, and ``below`` the lower bounds at multiples of
    ``below_spacing``. An array is empty if nothing is known.
    """

    above: Array
    above_spacing: float
    below: Array
    below_spacing: float
    work: int


class FixedSize:
    """Bounds the epsilon and the delta of the best adaptive adversary."""

    name = "fixed_size"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        if len(parts) == 1:
            match parts[0]:
                case Replaced(m.FixedSizeSampled(m.Gaussian(sigma), size, total)), count:
                    if size < total and 1 < count <= MOST_STEPS and LEAST_SIGMA <= sigma <= MOST_SIGMA:
                        return None
        return "it serves 2 to 16,384 equal steps on samples of fixed size, of Gaussian noise, under 'replace'"

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        found = _ask_fixed_size_curve(parts, _choose_fixed_size_level(delta))
        if found is None:
            return Bound(0.0, math.inf, self.name, {})
        low = float(np.count_nonzero(found.below > delta) - 1) * found.below_spacing * (1 - 2**-50)
        high = _invert_upper_fixed_size_curve(found.above, found.above_spacing, delta)
        return build_bound_with_one_term(max(low, 0.0), high, self.name, "adversary")

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        rough = grid_delta(_build_joined_fixed_size_pair(*parts[0]), abs(epsilon), *_ROUGH)[1]
        found = _ask_fixed_size_curve(parts, _choose_fixed_size_level(rough))
        low, high = (0.0, 1.0) if found is None else _evaluate_fixed_size_curve(found, abs(epsilon))
        if epsilon < 0:  # the pair is symmetric
            there = mirror_privacy_curve(epsilon, Range(low, high))
            low, high = max(there.lo, 0.0), min(there.hi, 1.0)
        return build_bound_with_one_term(low, high, self.name, "adversary")


ENGINE = FixedSize()


def _choose_fixed_size_level(delta: float) -> int:
    """Returns the integer n for which the curve for deltas from 10^n to 10^(n + 1) serves ``delta``."""
    return max(math.floor(math.log10(max(delta, 1e-300))), -290)


def _build_joined_fixed_size_pair(mechanism: m.Mechanism, count: int) -> list[tuple[GridLaw, float]]:
    """Returns the joined pair of the grid engine, which dominates each step."""
    return [(grid_loss_distribution(mechanism, "remove").upper, float(count))]


def _ask_fixed_size_curve(parts: Parts, level: int) -> FixedSizeCurve | None:
    """Returns the curve, or None if the budget of work is too small or no grid serves.

    A cached curve is charged the same work as a new one.
    """
    mechanism, count = parts[0]
    assert isinstance(mechanism, Replaced), "refused parts were asked"
    before = work_spent()
    try:
        found = _compute_fixed_size_curve(mechanism, count, level)
    except _UnknownError:
        return None
    done = work_spent() - before
    return found if done >= found.work or work_charge(found.work - done) else None


class _UnknownError(Exception):
    """Error that is raised if no grid serves, or if the budget of work ended before the curve was computed.

    This is an exception, because ``lru_cache`` keeps no result of a call that raises.
    """


@lru_cache(maxsize=CURVES)
def _compute_fixed_size_curve(replaced: Replaced, count: int, level: int) -> FixedSizeCurve:
    """Returns the curve of ``count`` equal steps, for deltas from 10^``level`` up."""
    mechanism = replaced.mechanism
    assert isinstance(mechanism, m.FixedSizeSampled) and isinstance(mechanism.mechanism, m.Gaussian)
    before = work_spent()
    blocks = -(-count // BLOCK)
    each = -(-count // blocks)
    joined = _build_joined_fixed_size_pair(replaced, blocks * each)
    delta, share = 10.0**level, Range(mechanism.sample_size) / mechanism.dataset_size
    beyond = delta * _NOTHING / (blocks * each)
    reach, near, far = (grid_epsilon(joined, at, *_ROUGH)[1] for at in (beyond, delta, delta * _LEAST))
    if not (0 < reach <= _FURTHEST and 0 < far <= _FURTHEST):
        raise _UnknownError
    # Masses are multiplied by e^{tilt loss}, which keeps small deltas accurate. The first term is about the tilt of the
    # saddle point. With a larger tilt than the second term, the tilted mass outside the grid would exceed ``delta``.
    # The third term keeps e^{tilt loss} a finite double.
    tilt = min(
        -math.log(_LEAST) / max(far - near, 1e-300), -math.log(_NOTHING) / max(reach - near, 1e-300), 300 / reach
    )
    spacing, finer = reach * (1 + 2**-40) / ABOVE, far / BELOW
    mu = (1 / Range(mechanism.mechanism.noise_multiplier)).hi
    above = fixed_size_above(mu, share.hi, each, blocks, ABOVE, spacing, tilt, beyond)
    if not above.size:
        raise _UnknownError
    below = _compute_lower_fixed_size_curve(
        2 / mechanism.mechanism.noise_multiplier, share.lo, count, finer, tilt, delta * _LEAST / count
    )
    if not (below.size and work_charge(0)):
        raise _UnknownError
    return FixedSizeCurve(above, spacing, below, finer, work_spent() - before)


def _compute_lower_fixed_size_curve(
    mu: float, q: float, count: int, spacing: float, tilt: float, floor: float
) -> Array:
    """Returns the curve of an adversary who chooses, for each block of steps, whether to remove or to add a record."""
    block = -(-count // SWITCHES)
    places, base = list_fixed_size_epsilons(BELOW, spacing), GridLaw.gaussian(mu)
    remove, add = (
        Side(*(ends.reshape(places.shape) for ends in grid_deltas(run, places.ravel(), 1e-6, floor, 1 << 20)))
        for run in ([(base.poisson(q, added), float(block))] for added in (False, True))
    )
    if not work_charge(0):  # the budget ended before the last of these deltas
        raise _UnknownError
    choices = [bound_fixed_size_masses_below(one, other, spacing) for one, other in ((remove, add), (add, remove))]
    found = worst_below(np.array(choices), count // block, spacing, tilt)
    # If the error of a value exceeds the value itself, the value at a larger epsilon is a better lower bound.
    falling: Array = np.maximum.accumulate(found[::-1])[::-1]
    return falling


def _invert_upper_fixed_size_curve(above: Array, spacing: float, delta: float) -> float:
    """Returns the epsilon at which the chords of the curve, which are linear in e^epsilon, reach ``delta``."""
    falling = np.minimum.accumulate(above)
    j = int(np.count_nonzero(falling > delta))
    if j == len(falling):
        return math.inf
    if j == 0:
        return 0.0
    share = (falling[j - 1] - delta) / (falling[j - 1] - falling[j])
    return min((j - 1) * spacing + math.log1p(share * math.expm1(spacing)), j * spacing) * (1 + 2**-45)


def _evaluate_fixed_size_curve(found: FixedSizeCurve, epsilon: float) -> tuple[float, float]:
    """Returns a lower and an upper bound of delta at ``epsilon``.

    The lower bound is that at the next larger grid point, and the upper bound comes from a chord of the upper curve.
    """
    i = math.floor(min(epsilon / found.above_spacing, 2.0**53) * (1 - 2**-50))
    high = float(found.above.min())
    if i + 1 < len(found.above):
        left, right = float(found.above[i]), float(found.above[i + 1])
        share = math.expm1(max(epsilon - i * found.above_spacing, 0.0)) / math.expm1(found.above_spacing)
        high = (left + (right - left) * share) * (1 + 2**-40)
    j = math.ceil(min(epsilon / found.below_spacing, 2.0**53) * (1 + 2**-50))
    return (float(found.below[j]) if j < len(found.below) else 0.0), min(high, 1.0)
