"""Laws of mixtures of Gaussians, and of the samples that lead to them (docs/theory/mixtures.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from .... import _core
from ...numerics.outward import Range, as_range
from ..closed_form.binomial import CONTEXT, mass

LEAST_SHIFT, MOST_SHIFT = 1e-9, 1e6
"""Of the largest shift, in deviations of the noise: what other engines serve beyond."""
MOST_COMPONENTS = 48
"""Of one mixture. Of more, the least probable are taken for their neighbours: each costs its own cells."""
_FAINT = 1e-45
"""Numbers of draws that are less probable are left out, and what is left out is taken to reveal everything."""
_TINY = 1e-9
"""Shifts smaller than this part of the largest one are taken for it, or for none."""

Weights = list[tuple[float, Range]]
"""Shifts >= 0, ascending, in units of a sensitivity of 1, and their probabilities."""


def exact(weights: Weights, sigma: float) -> bool:
    """Whether nothing is rounded, or merged: then one law serves for both ends."""
    largest = max(shift for shift, _ in weights) / sigma
    return len(weights) <= MOST_COMPONENTS and all(
        shift == 0 or (Fraction(shift) == Fraction(shift / sigma) * Fraction(sigma) and shift / sigma > _TINY * largest)
        for shift, _ in weights
    )


def shifted(weights: Weights, sigma: float, high: bool) -> list[tuple[float, float]]:
    """(shift / sigma, probability): shifts rounded up or down, few of them, none too small to be told from 0."""
    largest = max(shift for shift, _ in weights) / sigma
    found: dict[float, float] = {}
    ordered = sorted(weights, key=lambda weight: weight[0])
    zero = [weight for weight in ordered if weight[0] == 0]
    rest = ordered[len(zero) :]
    # The most probable stand for themselves, and for those between them and the next one; the last for all beyond.
    by_weight = sorted(range(len(rest)), key=lambda i: -rest[i][1].hi)
    order = range(len(rest))[:: -1 if high else 1]
    kept = {*by_weight[: MOST_COMPONENTS - 1], *order[:1]}
    at = 0.0
    for i in order:
        if i in kept:
            shift = rest[i][0]
            at = shift / sigma
            if Fraction(at) * Fraction(sigma) != Fraction(shift):
                at = math.nextafter(at, math.inf if high else 0.0)
            if at < _TINY * largest:
                at = _TINY * largest if high else 0.0
        found[at] = found.get(at, 0.0) + _middle(rest[i][1])
    for _, weight in zero:
        found[0.0] = found.get(0.0, 0.0) + _middle(weight)
    return [(shift, weight) for shift, weight in found.items() if weight > 0]


def relative(*weights: Weights) -> float:
    """By what factor their probabilities may be off, sums of up to a thousand included."""
    widths = [(w.hi - w.lo) / w.lo for one in weights for _, w in one if w.lo > 0]
    return max(widths, default=0.0) + 2.0**-50 * max(len(one) for one in weights)


def law(ahead: Weights, behind: Weights, sigma: float, lost: float, high: bool) -> _core.GridLaw:
    """sum p_i N(a_i) of deviation sigma against sum q_j N(-b_j); ``lost`` is where the other has nothing."""
    components = [(shift, weight, 0.0) for shift, weight in shifted(ahead, sigma, high)]
    components += [(-shift, 0.0, weight) for shift, weight in shifted(behind, sigma, high)]
    none = [0.0, 0.0]
    for shift, p, q in components:
        if shift == 0:
            none = [none[0] + p, none[1] + q]
    components = [one for one in components if one[0] != 0]
    return _core.GridLaw.gaussian_mixture([*components, (0.0, none[0], none[1])], lost, lost, relative(ahead, behind))


def weights_of(sensitivities: Sequence[float], probabilities: Sequence[float], q: float = 1.0) -> Weights:
    """Of a mixture of Gaussians, in a Poisson sample of probability q. Probabilities were given as doubles: their sum
    is 1 as they stand, and the largest takes what they lack."""
    out = 1 - Range(q)
    found: dict[float, Range] = {0.0: out} if q < 1 else {}
    for shift, p in zip(sensitivities, probabilities, strict=True):
        if p > 0:
            found[shift] = found.get(shift, Range(0.0)) + Range(p) * q
    return sorted(found.items())


NOTHING: Weights = [(0.0, Range(1.0))]


def times(weights: Weights, factor: float) -> Weights:
    return [(shift * factor, weight) for shift, weight in weights]


@lru_cache(maxsize=64)
def draws(sample_size: int, dataset_size: int) -> tuple[tuple[tuple[float, Range], ...], float]:
    """How often one of ``dataset_size`` records is among ``sample_size`` draws, and a bound of what is left out."""
    if dataset_size == 1:
        return ((float(sample_size), Range(1.0)),), 0.0
    q = 1 / Decimal(dataset_size)
    with localcontext(CONTEXT):
        log_p = -Decimal(dataset_size).ln()
        log_q = Decimal(dataset_size - 1).ln() + log_p
    mode = int((sample_size + 1) * q)
    found = {mode: mass(sample_size, mode, log_p, log_q)}
    lost = Range(0.0)
    for step, end in ((1, sample_size), (-1, 0)):
        k = mode
        while k != end:
            k += step
            here = mass(sample_size, k, log_p, log_q)
            if here.hi < _FAINT or abs(k - mode) > _MOST_DRAWS:
                # Ratios of neighbouring masses fall from the mode.
                before = found[k - step].lo
                ratio = (here / before).hi if before > 0 else 1.0
                lost += here / (1 - Range(ratio)) if ratio < 1 else Range(1.0)
                break
            found[k] = here
    return tuple((float(k), found[k]) for k in sorted(found)), min(as_range(lost).hi, 1.0)


_MOST_DRAWS = 4000
"""Numbers of draws on either side of the mode: some forty standard deviations of ten thousand draws on average."""


def settled(weights: Weights, lost: float) -> Weights:
    """With what is left out, and the least shifts so that its share of them is nothing, at 0: a smaller shift is
    dominated (mixtures.md section 1)."""
    moved, rest = Range(0.0), list(weights)
    while moved.lo < _PLENTY and rest:
        moved += rest.pop(0)[1]
    return [(0.0, Range(moved.lo, (moved + lost).hi)), *rest] if rest else weights[-1:]


_PLENTY = 1e-18
"""Of probability, for the least shifts to be set to 0: beside it what is left out (``_FAINT``) is nothing."""


def _middle(weight: Range) -> float:
    return 0.5 * (weight.lo + weight.hi)
