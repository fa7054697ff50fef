"""Lower bounds for allocations of several steps, from the distribution of a sum of scores (docs/theory/allocation.md,
section 7).

Each output of a Gaussian step gets an integer score, and the adversary sees only the sum of the scores modulo
``POINTS``. If the record is in the data, it shifts ``selected`` of the outputs. The distributions of the sum with the
record and without it are convolutions, which are computed by Fourier transforms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._core import ndtr, rfft_forward, rfft_inverse, rfft_multiply, rfft_power, rfft_power_bound, rfft_rounding_bound
from ...numerics.root import bracket_monotone_crossing
from ..engine_interface import Direction

U = 2.0**-53
POINTS = 1 << 16
"""Number of residues of sums of scores, which is the length of the Fourier transforms."""
UNITS = 2 * 10**8
"""Number of work units that are charged for ``build_allocation_score_sums``. A unit is about a nanosecond."""
MOST_STEPS = 10**7
"""Largest number of steps. With more steps the rounding error would exceed the result."""
LEAST_SIGMA, MOST_SIGMA = 0.05, 1e4
"""Least and largest noise multiplier for which the errors of ``_bound_masses_of_allocation_scores`` cover the roundings
of 1/sigma."""
MOST_EPSILON = 700.0
"""Epsilon above which the lower bound of delta is 0, because e^epsilon must be a double."""
_MOST_SCORES = 4 * POINTS
_FAR = 37.0
"""Number of standard deviations up to which outputs have scores of their own. Outputs farther out have the
lowest or the highest score."""

_Array = NDArray[np.float64]


class AllocationScoreSums(NamedTuple):
    """Distributions of the sum of scores under both data sets, for each residue modulo ``POINTS``.

    In the direction "remove", the first distribution is that of the data set with the record. In the direction "add",
    it is that of the data set without the record. ``first`` bounds the first distribution from below, and
    ``weight * tilted`` bounds the second distribution from above.

    ``tilted`` is the second distribution times a normalised exponential of the sum, and ``weight`` is the inverse of
    this exponential. The exponential is large where the second distribution matters although it is small. So ``tilted``
    keeps the digits that matter there. The 2-norms of the errors of ``first`` and ``tilted`` are at most
    ``first_error`` and ``second_error``. Each residue stands for one sum in a window of ``POINTS`` sums. ``outside``
    bounds the mass of the second distribution outside this window, on the side where ``weight * tilted`` does not
    bound it.
    """

    first: _Array
    first_error: float
    tilted: _Array
    weight: _Array
    second_error: float
    outside: float

    def delta(self, epsilon: float) -> float:
        """Returns a lower bound of the hockey-stick divergence of the first distribution from the second."""
        if epsilon > MOST_EPSILON:
            return 0.0
        x = math.exp(epsilon) * (1 + 4 * U)
        # Residues are left out if they add less to delta than the error of one residue.
        with np.errstate(over="ignore", invalid="ignore"):
            gain = self.first - x * (self.weight * self.tilted)
            inside = gain > (self.first_error + x * self.second_error * self.weight) / math.sqrt(POINTS)
        count = int(inside.sum())
        if count == 0:
            return 0.0
        error = self.first_error * math.sqrt(count) + x * self.second_error * math.sqrt(
            float(np.dot(self.weight[inside], self.weight[inside]))
        )
        kept = float(self.first[inside].sum()) * (1 - POINTS * U)
        lost = x * (float(np.dot(self.weight[inside], self.tilted[inside])) * (1 + POINTS * U) + self.outside)
        return max(kept - lost - 1.01 * error, 0.0) * (1 - 8 * U)

    def epsilon(self, delta: float) -> float:
        """Returns a lower bound of the epsilon of ``delta``."""
        if not self.delta(0.0) > delta:
            return 0.0
        return bracket_monotone_crossing(lambda epsilon: self.delta(epsilon) > delta, 1.0, 2.0**-45)[0]


@lru_cache(maxsize=16)
def build_allocation_score_sums(sigma: float, steps: int, selected: int, direction: Direction) -> AllocationScoreSums:
    """Returns the distributions of the sum of all steps' scores.

    The score of an output is the rounded log ratio ln(1 - q + q L) of a Poisson step. Here q is selected / steps, and L
    is the likelihood ratio of the output.
    """
    scale, edges, start = _choose_allocation_scores(sigma, steps, selected)
    plain_low, plain_high = _bound_masses_of_allocation_scores(edges)
    shifted_low, shifted_high = _bound_masses_of_allocation_scores(edges - 1 / sigma)
    scores: _Array = scale * (start + np.arange(len(edges) + 1, dtype=np.float64))
    counts = {"remove": ((selected, steps - selected), (0, steps)), "add": ((0, steps), (selected, steps - selected))}
    (p1, q1), (p2, q2) = counts[direction]
    first, first_error = _compose_allocation_scores([(shifted_low, p1), (plain_low, q1)], start)
    lean = 1.0 if direction == "remove" else -1.0
    log_total, factors = 0.0, []
    for masses, count in ((shifted_high, p2), (plain_high, q2)):
        heavy = masses * np.exp(lean * scores) * (1 + (8 + 4 * np.abs(scores)) * U)
        total = float(heavy.sum()) * (1 + len(heavy) * U)
        factors.append((heavy / total, count))
        log_total += count * math.log(total) * (1 if count else 0)
    tilted, second_error = _compose_allocation_scores(factors, start)
    # The centre of the window is midway between the means of the sum under the two data sets.
    mean_plain, mean_shifted = float(np.dot(plain_high, scores)), float(np.dot(shifted_high, scores))
    centre = 0.5 * selected * (mean_shifted - mean_plain) + steps * mean_plain
    bottom = round(centre / scale) - POINTS // 2
    places = bottom + np.arange(POINTS)
    order = places % POINTS
    exponent = log_total - lean * scale * places
    rounding = (8 + 2 * abs(exponent) + 4 * (p2 + q2)) * U + 4 * U * abs(scale * places)
    with np.errstate(over="ignore"):  # a residue with an infinite weight adds nothing to delta
        weight = np.exp(exponent) * (1 + rounding)
    # The residue of a sum outside the window has the weight of another sum, which lies in the window. For sums beyond
    # ``end`` this weight is too small, so a moment bounds their mass. For sums beyond the other end the weight is too
    # large, and the upper bound remains valid.
    end = scale * (bottom if direction == "remove" else bottom + POINTS)
    log_moment = _build_log_mean_of_allocation_scores([(shifted_high, p2), (plain_high, q2)], scores)
    tails = (log_moment(-lean * s) + lean * s * end for s in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
    outside = min(math.exp(min(tail, 0.0)) for tail in tails)
    return AllocationScoreSums(
        np.maximum(first[order], 0.0), first_error, np.maximum(tilted[order], 0.0), weight, second_error, 1.01 * outside
    )


def _choose_allocation_scores(sigma: float, steps: int, selected: int) -> tuple[float, _Array, int]:
    """Returns the log ratio that a score of 1 stands for, the outputs at which the score changes, and the lowest score.

    The outputs are in units of sigma.
    """
    q = selected / steps

    def log_ratio_of_allocation_step(z: _Array) -> _Array:
        return np.logaddexp(math.log1p(-q), math.log(q) + z / sigma - 0.5 / sigma**2)

    z = np.linspace(-10.0, 10.0, 2001)
    weights = np.exp(-0.5 * z * z)
    weights /= weights.sum()
    plain, shifted = log_ratio_of_allocation_step(z), log_ratio_of_allocation_step(z + 1 / sigma)
    mean, moved = float(np.dot(weights, plain)), float(np.dot(weights, shifted))
    variance = steps * float(np.dot(weights, (plain - mean) ** 2)) + selected * float(
        np.dot(weights, (shifted - moved) ** 2)
    )
    span = 20 * math.sqrt(variance) + 1.5 * selected * (moved - mean) + 8 * (float(shifted[-1]) - mean) / 4
    scale = span / POINTS
    lowest, highest = (float(log_ratio_of_allocation_step(np.array([end]))[0]) for end in (-_FAR, _FAR + 1 / sigma))
    start = round(lowest / scale)
    # The score ``stop`` is the last one, and stands for all larger scores too.
    stop = min(max(round(min(highest, 500.0) / scale), start + 1), start + _MOST_SCORES)
    middles = scale * (np.arange(start, stop) + 0.5)
    ratios = np.expm1(middles) / q + 1
    with np.errstate(divide="ignore"):
        edges = sigma * np.log(np.maximum(ratios, 0.0)) + 0.5 / sigma
    edges = np.clip(np.nan_to_num(edges, nan=-_FAR, neginf=-_FAR), -_FAR, _FAR + 1 / sigma)
    return scale, np.maximum.accumulate(edges), start


def _bound_masses_of_allocation_scores(edges: _Array) -> tuple[_Array, _Array]:
    """Returns lower and upper bounds of the masses of N(0, 1) between ``edges`` and outside them."""
    left, right = ndtr(edges), ndtr(-edges)
    ends = np.concatenate(([0.0], left)), np.concatenate((left, [1.0]))
    tails = np.concatenate(([1.0], right)), np.concatenate((right, [0.0]))
    low_side = ends[1] < 0.5
    masses = np.where(low_side, ends[1] - ends[0], tails[0] - tails[1])
    size = np.where(low_side, ends[1] + ends[0], tails[0] + tails[1])
    # ndtr has a relative error of 16 u, where u is the unit roundoff U. The argument z has an error of about u |z|,
    # which changes a tail by about a relative u z^2.
    place = np.concatenate((edges[:1], edges)) ** 2 + np.concatenate((edges, edges[-1:])) ** 2
    error = size * (32 + 8 * place) * U
    return np.maximum(masses - error, 0.0), np.maximum(masses, 0.0) + error


def _compose_allocation_scores(factors: list[tuple[_Array, int]], start: int) -> tuple[_Array, float]:
    """Returns the distribution of the sum of all scores modulo ``POINTS``, and a bound on the 2-norm of its error.

    A factor has the masses of the scores of one step, and the number of steps that have these masses. The distribution
    is the convolution over all steps (grid.md section 5.1).
    """
    kappa = rfft_rounding_bound(POINTS)
    spectrum, error, total, rounding = None, 0.0, 1.0, 0.0
    for masses, count in factors:
        if count == 0:
            continue
        wound = np.zeros(POINTS)
        at = (start + np.arange(len(masses))) % POINTS
        np.add.at(wound, at, masses)
        size = float(wound.sum()) * (1 + POINTS * U)
        shrink = 1 / (max(size, 1.0) * (1 + 2 * kappa))  # then no Fourier coefficient exceeds 1
        wound *= shrink
        total /= shrink**count
        error += count * (kappa + 8 * U * len(masses) / POINTS + 8 * U) * float(np.linalg.norm(wound))
        one = rfft_power(rfft_forward(wound), count)
        rounding += rfft_power_bound(count)
        spectrum = one if spectrum is None else rfft_multiply(spectrum, one)
    assert spectrum is not None
    found = np.asarray(rfft_inverse(spectrum))
    norm = float(np.linalg.norm(found))
    error += (kappa + 2 * rounding + 16 * U) * norm + 2.0**-400
    steps = sum(count for _, count in factors)
    return found * total, 1.02 * error * total * math.exp(4 * steps * U)


def _build_log_mean_of_allocation_scores(factors: list[tuple[_Array, int]], scores: _Array) -> Callable[[float], float]:
    """Returns a function of s that bounds the logarithm of E[e^{s T}] from above, where T is the sum of all scores.

    The bound is infinite if the moment may overflow."""

    def log_mean_of_allocation_scores(s: float) -> float:
        total = 0.0
        for masses, count in factors:
            if count:
                if float(np.max(s * scores)) > 700:
                    return math.inf
                total += count * math.log(float(np.dot(masses, np.exp(s * scores))) * (1 + 1e-10))
        return total

    return log_mean_of_allocation_scores
