"""Weights of the mixtures of Gaussians that a mechanism states or that sampling causes (docs/theory/mixtures.md)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache

from ...numerics.outward import Range, as_range
from ..closed_form.binomial import CONTEXT, compute_closed_form_binomial_mass

_FAINT = 1e-45
"""Probability below which a count is left out. The count is the number of times that the record is drawn. The sum of
the left-out probabilities is treated as the probability that everything is revealed."""

Weights = list[tuple[float, Range]]
"""Ascending shifts >= 0 of the mean, in the unit of the noise's deviation, each with its probability."""


def list_midpoints_of_grid_mixture(weights: Weights) -> list[tuple[float, float]]:
    """Returns the shifts with the midpoints of their probabilities."""
    return [(shift, 0.5 * (weight.lo + weight.hi)) for shift, weight in weights]


def measure_error_of_grid_mixture(*weights: Weights) -> float:
    """Returns the largest relative error of the midpoints of the probabilities.

    It includes the scaling of a mixture's probabilities to a sum of 1 (``build_grid_mixture_weights``).
    """
    widths = [(w.hi - w.lo) / w.lo for one in weights for _, w in one if w.lo > 0]
    return max(widths, default=0.0) + 2.0**-49


def build_grid_mixture_weights(
    sensitivities: Sequence[float], probabilities: Sequence[float], q: float = 1.0
) -> Weights:
    """Returns the weights of a mixture of Gaussians in a Poisson sample of probability q.

    The exact probabilities are the given doubles divided by their sum, which differs from 1 by at most 2^-50
    (``MixtureOfGaussians``). This function uses the doubles without dividing them.
    """
    out = 1 - Range(q)
    found: dict[float, Range] = {0.0: out} if q < 1 else {}
    for shift, p in zip(sensitivities, probabilities, strict=True):
        if p > 0:
            found[shift] = found.get(shift, Range(0.0)) + Range(p) * q
    return sorted(found.items())


NOTHING: Weights = [(0.0, Range(1.0))]
"""The weights of a record that contributes nothing."""


@lru_cache(maxsize=64)
def list_grid_mixture_draws(sample_size: int, dataset_size: int) -> tuple[tuple[tuple[float, Range], ...], float]:
    """Returns the distribution of the count, the number of times that one record is drawn.

    The second result is an upper bound of the total probability of all counts that are left out.
    """
    if dataset_size == 1:
        return ((float(sample_size), Range(1.0)),), 0.0
    q = 1 / Decimal(dataset_size)
    with localcontext(CONTEXT):
        log_p = -Decimal(dataset_size).ln()
        log_q = Decimal(dataset_size - 1).ln() + log_p
    mode = int((sample_size + 1) * q)
    found = {mode: compute_closed_form_binomial_mass(sample_size, mode, log_p, log_q)}
    lost = Range(0.0)
    for step, end in ((1, sample_size), (-1, 0)):
        k = mode
        while k != end:
            k += step
            here = compute_closed_form_binomial_mass(sample_size, k, log_p, log_q)
            if here.hi < _FAINT or abs(k - mode) > _MOST_DRAWS:
                # Away from the mode the ratios of neighbouring masses decrease, so a geometric series bounds the
                # left-out masses.
                before = found[k - step].lo
                ratio = (here / before).hi if before > 0 else 1.0
                lost += here / (1 - Range(ratio)) if ratio < 1 else Range(1.0)
                break
            found[k] = here
    return tuple((float(k), found[k]) for k in sorted(found)), min(as_range(lost).hi, 1.0)


_MOST_DRAWS = 4000
"""Largest distance of a count from the mode, which is the most likely count. Counts that are farther away are left out.
The distance is about forty standard deviations if the record is drawn ten thousand times on average."""


def absorb_small_grid_mixture_shifts(weights: Weights, lost: float) -> Weights:
    """Moves ``lost`` and the smallest shifts to shift 0, and returns the new weights.

    Shifts are moved, the smallest first, until their probability is at least 1e-18. The result is dominated by the
    given mixture, because shifts only become smaller (mixtures.md section 1).
    """
    moved, rest = Range(0.0), list(weights)
    while moved.lo < _PLENTY and rest:
        moved += rest.pop(0)[1]
    return [(0.0, Range(moved.lo, (moved + lost).hi)), *rest] if rest else weights[-1:]


_PLENTY = 1e-18
"""Least total probability of the shifts that are moved to shift 0. Compared with this probability, the left-out
probability (``_FAINT``) is negligible."""
