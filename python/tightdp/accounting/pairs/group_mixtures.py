"""Groups of records as mixtures of Gaussians (docs/theory/derived.md section 2).

The records of a group shift the mean of the noise. Each possible sum of shifts is the mean of one component.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from ... import mechanisms as m
from ...mechanisms.selections_and_groups import scale_mechanism_to_group
from ..numerics.shared_work import try_to_spend_work
from .replacement import Replaced, ReplacedGaussian

_MOST = 1000
"""Largest number of components of a mixture."""
_MARGIN = 4e-12
"""Relative margin that is added to each probability, or subtracted from it. The margin is larger than the rounding
error of a sum of ``_MOST`` probabilities."""
_LEAST = 1e-300
"""Smallest probability of a component."""
_UNITS = 250
"""Work units (about a nanosecond each) for one product of probabilities, as measured."""

_Shifts = tuple[tuple[float, float], ...]
"""Pairs (shift, probability) of one record. The shifts are distinct numbers >= 0. They have the same unit as ``sigma``,
the standard deviation of the noise."""


def find_dominated_pair_of_group(mechanism: m.Mechanism, size: int) -> m.Mechanism:
    """Returns a mechanism that the group of ``size`` records dominates.

    If no better mechanism is known, the result is ``mechanism`` itself, which the group dominates because the group
    contains a record.
    """
    return build_group_mixture(mechanism, size, up=False) or scale_mechanism_to_group(mechanism, size) or mechanism


def build_group_mixture(mechanism: m.Mechanism, size: int, up: bool) -> m.Mechanism | None:
    """Returns a mixture of Gaussians that dominates a group's pair if ``up``, or else a mixture that the pair
    dominates.

    These two mixtures differ by roundings alone. Returns None if the group has no such mixture, or if the mixture has
    too many components.
    """
    match mechanism:
        case m.PoissonSampled(m.Gaussian(sigma), q) if q < 1:
            return _build_mixture_of_group(sigma, ((0.0, 1 - q), (1.0, q)), size, up)
        case m.MixtureOfGaussians(sigma, norms, shares):
            return _build_mixture_of_group(sigma, tuple(zip(norms, shares, strict=True)), size, up)
        case m.PoissonSampled(m.MixtureOfGaussians(sigma, norms, shares), q):
            drawn = tuple((norm, q * share) for norm, share in zip(norms, shares, strict=True))
            return _build_mixture_of_group(sigma, ((0.0, 1 - q), *drawn), size, up)
        case ReplacedGaussian(sigma, q):
            inner = build_group_mixture(m.PoissonSampled(m.Gaussian(sigma), q), size, up)
            return Replaced(inner) if inner else None
        case Replaced(m.MixtureOfGaussians() | m.PoissonSampled(m.MixtureOfGaussians()) as one):
            inner = build_group_mixture(one, size, up)
            return Replaced(inner) if inner else None
    return None


def _build_mixture_of_group(sigma: float, one: _Shifts, size: int, up: bool) -> m.MixtureOfGaussians | None:
    """Returns the mixture of Gaussians for the sum of the shifts of ``size`` records.

    Returns None if the mixture has too many components, or takes more work than the budget of a question allows.
    """
    most = min((len(one) - 1) * size + 1, _MOST)
    if not try_to_spend_work(_UNITS * len(one) * min(size, _MOST) * most // 2):  # charged even if the result is cached
        return None
    return _compute_group_mixture(sigma, one, size, up)


@lru_cache(maxsize=64)
def _compute_group_mixture(sigma: float, one: _Shifts, size: int, up: bool) -> m.MixtureOfGaussians | None:
    """Returns the mixture of Gaussians for the sum of the shifts of ``size`` records.

    If ``up``, each upper tail of the returned probabilities is at least the exact tail. Otherwise each upper tail is at
    most the exact tail. Returns None if the mixture has too many components, or if no shift is left but 0.
    """
    sums = _sum_group_mixture_shifts(one, size)
    if sums is None:
        return None
    found: dict[float, float] = {}
    left = 1.0
    for exact, p in sorted(sums.items(), reverse=True):
        share = min(max(p * (1 + _MARGIN), _LEAST) if up else p * (1 - _MARGIN), left)
        if share >= _LEAST and exact > 0:
            shift = _round_group_mixture_shift(exact, up)
            found[shift] = found.get(shift, 0.0) + share
            left -= share
    if left > 0:
        found[0.0] = found.get(0.0, 0.0) + left
    if not found.keys() - {0.0}:
        return None
    return m.MixtureOfGaussians(sigma, tuple(found), tuple(found.values()))


def _sum_group_mixture_shifts(one: _Shifts, size: int) -> dict[Fraction, float] | None:
    """Returns the distribution of the sum of the shifts of ``size`` records, with probabilities rounded to nearest.

    Returns None if the sum has too many values, or values that are too large.
    """
    exact = [Fraction(shift) for shift, _ in one]
    unit = max(shift.denominator for shift in exact)  # a power of 2
    steps = [(int(shift * unit), p) for shift, (_, p) in zip(exact, one, strict=True)]
    if size > _MOST or (len(steps) - 1) * size >= _MOST or max(exact) * size > _LARGEST:
        return None
    sums = {0: 1.0}
    for _ in range(size):
        longer: dict[int, float] = {}
        for at, p in sums.items():
            for step, share in steps:
                longer[at + step] = longer.get(at + step, 0.0) + p * share
        if len(longer) > _MOST:
            return None
        sums = longer
    return {Fraction(at, unit): p for at, p in sums.items()}


_LARGEST = 1e300
"""Largest sum of shifts that is accepted, well below the largest double."""


def _round_group_mixture_shift(exact: Fraction, up: bool) -> float:
    """Returns the positive number ``exact``, rounded upward to a double if ``up``, or else downward."""
    near = float(exact)
    if up and near < exact:
        return math.nextafter(near, math.inf)
    if not up and near > exact:
        return math.nextafter(near, 0.0)
    return near
