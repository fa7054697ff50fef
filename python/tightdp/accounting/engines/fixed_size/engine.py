"""Samples of fixed size with Gaussian noise under "replace" (docs/theory/adaptive.md).

The joined pair of the grid engine bounds each step against the worst data sets of that step, for each epsilon. Here an
adversary who sees all earlier outputs chooses data sets for the next one: the best choice is bounded from above by
value iteration over all of them, and from below by two that are changed between.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .... import _core
from .... import mechanisms as m
from ...numerics.outward import Range, exp, expm1
from ...pairs.replaced import Replaced
from ..base import DEFAULT, Bound, Direction, Parts, Request
from ..grid.laws import loss_distribution
from .kernels import Array, Side, bound_masses_below, list_epsilons

ABOVE, BELOW = 2700, 10_900
"""Lattice points on either side of 0, of the two bounds: with them the transforms have 2^13 and 2^15."""
MOST_STEPS = 1 << 14
BLOCK = 2000
"""Steps, at most, whose values are iterated; the curve of a block is composed as a pair. 2,000 take a second or two."""
SWITCHES = 256
"""How often, at most, the adversary of the lower bound chooses: each time for a block of steps."""
LEAST_SIGMA, MOST_SIGMA = 0.2, 100.0
"""Noise multipliers at which lattices of so many points tell anything, and it is worth asking."""
CURVES = 32
"""Whose curves are kept, 100 KB each."""
_NOTHING, _LEAST = 1e-4, 1e-3
"""Shares of a delta: what all steps together may take from beyond the lattice, and where the lower bound's ends."""
_FURTHEST = 600.0
"""Losses on a lattice, whose exponentials must be doubles."""
_ROUGH = 1e-3, 1 << 16


class Curve(NamedTuple):
    """Bounds of delta at multiples of a spacing each, none where nothing is known; and the work that they took."""

    above: Array
    above_spacing: float
    below: Array
    below_spacing: float
    work: int


class FixedSize:
    name = "fixed_size"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        if len(parts) == 1:
            match parts[0]:
                case Replaced(m.FixedSizeSampled(m.Gaussian(sigma), size, total)), count:
                    if size < total and 1 < count <= MOST_STEPS and LEAST_SIGMA <= sigma <= MOST_SIGMA:
                        return None
        return "it serves 2 to 16,384 equal steps on samples of fixed size, of Gaussian noise, under 'replace'"

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        found = _ask_curve(parts, _choose_level(delta))
        if found is None:
            return Bound(0.0, math.inf, self.name, {})
        low = float(np.count_nonzero(found.below > delta) - 1) * found.below_spacing * (1 - 2**-50)
        return _build_bound(max(low, 0.0), _invert_upper_curve(found.above, found.above_spacing, delta))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        rough = _core.grid_delta(_build_joined_pair(*parts[0]), abs(epsilon), *_ROUGH)[1]
        found = _ask_curve(parts, _choose_level(rough))
        low, high = (0.0, 1.0) if found is None else _evaluate_curve(found, abs(epsilon))
        if epsilon < 0:  # delta(-eps) = 1 - e^-eps + e^-eps delta(eps)
            there = exp(Range(epsilon)) * Range(low, high) - expm1(Range(epsilon))
            low, high = max(there.lo, 0.0), min(there.hi, 1.0)
        return _build_bound(low, high)


ENGINE = FixedSize()


def _build_bound(low: float, high: float) -> Bound:
    return Bound(low, high, ENGINE.name, {"adversary": high - low if low < high else 0.0})


def _choose_level(delta: float) -> int:
    """The power of ten that lattices are made for: one serves all questions about deltas up to ten times as large."""
    return max(math.floor(math.log10(max(delta, 1e-300))), -290)


def _build_joined_pair(mechanism: m.Mechanism, count: int) -> list[tuple[_core.GridLaw, float]]:
    return [(loss_distribution(mechanism, "remove").upper, float(count))]


def _ask_curve(parts: Parts, level: int) -> Curve | None:
    """None where the budget does not allow it. What is kept is charged as if it were not."""
    mechanism, count = parts[0]
    assert isinstance(mechanism, Replaced), "refused parts were asked"
    before = _core.work_spent()
    try:
        found = _compute_curve(mechanism, count, level)
    except _UnknownError:
        return None
    done = _core.work_spent() - before
    return found if done >= found.work or _core.work_charge(found.work - done) else None


class _UnknownError(Exception):
    """No lattice serves, or the budget cut the work short: nothing is kept of that."""


@lru_cache(maxsize=CURVES)
def _compute_curve(replaced: Replaced, count: int, level: int) -> Curve:
    mechanism = replaced.mechanism
    assert isinstance(mechanism, m.FixedSizeSampled) and isinstance(mechanism.mechanism, m.Gaussian)
    before = _core.work_spent()
    blocks = -(-count // BLOCK)
    each = -(-count // blocks)
    joined = _build_joined_pair(replaced, blocks * each)
    delta, share = 10.0**level, Range(mechanism.sample_size) / mechanism.dataset_size
    beyond = delta * _NOTHING / (blocks * each)
    reach, near, far = (_core.grid_epsilon(joined, at, *_ROUGH)[1] for at in (beyond, delta, delta * _LEAST))
    if not (0 < reach <= _FURTHEST and 0 < far <= _FURTHEST):
        raise _UnknownError
    # That of a saddle point, unless what is left beyond the lattice would drown the curve at delta.
    tilt = min(
        -math.log(_LEAST) / max(far - near, 1e-300), -math.log(_NOTHING) / max(reach - near, 1e-300), 300 / reach
    )
    spacing, finer = reach * (1 + 2**-40) / ABOVE, far / BELOW
    mu = (1 / Range(mechanism.mechanism.noise_multiplier)).hi
    above = _core.fixed_size_above(mu, share.hi, each, blocks, ABOVE, spacing, tilt, beyond)
    if not above.size:
        raise _UnknownError
    below = _compute_lower_curve(
        2 / mechanism.mechanism.noise_multiplier, share.lo, count, finer, tilt, delta * _LEAST / count
    )
    if not (below.size and _core.work_charge(0)):
        raise _UnknownError
    return Curve(above, spacing, below, finer, _core.work_spent() - before)


def _compute_lower_curve(mu: float, q: float, count: int, spacing: float, tilt: float, floor: float) -> Array:
    """The adversary removes or adds, in blocks of steps."""
    block = -(-count // SWITCHES)
    places, base = list_epsilons(BELOW, spacing), _core.GridLaw.gaussian(mu)
    remove, add = (
        Side(*(ends.reshape(places.shape) for ends in _core.grid_deltas(run, places.ravel(), 1e-6, floor, 1 << 20)))
        for run in ([(base.poisson(q, added), float(block))] for added in (False, True))
    )
    if not _core.work_charge(0):  # the last of these deltas are unknown
        raise _UnknownError
    menu = [bound_masses_below(one, other, spacing) for one, other in ((remove, add), (add, remove))]
    found = _core.worst_below(np.array(menu), count // block, spacing, tilt)
    # Where a value is drowned by its error, that of a larger epsilon holds.
    falling: Array = np.maximum.accumulate(found[::-1])[::-1]
    return falling


def _invert_upper_curve(above: Array, spacing: float, delta: float) -> float:
    """Where the chords of the curve, convex in e^epsilon, come down to ``delta``."""
    falling = np.minimum.accumulate(above)
    j = int(np.count_nonzero(falling > delta))
    if j == len(falling):
        return math.inf
    if j == 0:
        return 0.0
    share = (falling[j - 1] - delta) / (falling[j - 1] - falling[j])
    return min((j - 1) * spacing + math.log1p(share * math.expm1(spacing)), j * spacing) * (1 + 2**-45)


def _evaluate_curve(found: Curve, epsilon: float) -> tuple[float, float]:
    i = math.floor(min(epsilon / found.above_spacing, 2.0**53) * (1 - 2**-50))
    high = float(found.above.min())
    if i + 1 < len(found.above):
        left, right = float(found.above[i]), float(found.above[i + 1])
        share = math.expm1(max(epsilon - i * found.above_spacing, 0.0)) / math.expm1(found.above_spacing)
        high = (left + (right - left) * share) * (1 + 2**-40)
    j = math.ceil(min(epsilon / found.below_spacing, 2.0**53) * (1 + 2**-50))
    return (float(found.below[j]) if j < len(found.below) else 0.0), min(high, 1.0)
