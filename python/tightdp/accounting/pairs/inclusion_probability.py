"""The probability that at least one sample of a run holds a given record (docs/theory/conversions.md section 16)."""

from __future__ import annotations

import math

from ... import mechanisms as m
from ...composition import Mechanism, Parts
from ...mechanisms import Group, RepeatAndSelect
from ..numerics.outward import Range, expm1, log1p
from .kinds import cache_fact_of_parts
from .replacement import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


@cache_fact_of_parts
def inclusion_probability(parts: Parts) -> float:
    """Returns an upper bound of the probability that a record is in at least one sample of ``parts``.

    The bound is 1 if a part does not sample. delta(0) is at most this probability, under every relation.
    """
    return _group_inclusion_probability(parts, 1)


def _group_inclusion_probability(parts: Parts, size: int) -> float:
    """Returns an upper bound of the probability that at least one of ``size`` records is in at least one sample of
    ``parts``."""
    shares = [(_group_inclusion_probability_in_release(mechanism, size), count) for mechanism, count in parts]
    if any(share >= 1 for share, _ in shares):
        return 1.0
    # Floats are used because they are faster than ranges. All terms have the same sign, so a relative margin covers
    # their roundings.
    missed = math.fsum(count * math.log1p(-share) for share, count in shares)
    return min(-math.expm1(missed * (1 + _ROUNDED)) * (1 + _ROUNDED), 1.0)


def _group_inclusion_probability_in_release(mechanism: Mechanism, size: int) -> float:
    """Returns an upper bound of the probability that at least one of ``size`` records is in the sample of one
    release."""
    match mechanism:
        case Replaced(inner) | Zeroed(inner):
            return _group_inclusion_probability_in_release(inner, size)
        case Group(run, inside):
            return _group_inclusion_probability(run._to_composition().parts, size * inside)
        case RepeatAndSelect(run, mean):
            return min((Range(_group_inclusion_probability(run._to_composition().parts, size)) * mean).hi, 1.0)
    if size == 1:
        return _record_inclusion_probability(mechanism)
    anyone = min((Range(_record_inclusion_probability(mechanism)) * size).hi, 1.0)
    if (q := _independent_inclusion_probability(mechanism)) < 1:
        return min(anyone, (-expm1(size * log1p(-Range(q)))).hi)
    return anyone


def _independent_inclusion_probability(mechanism: Mechanism) -> float:
    """Returns the inclusion probability of each record if records are drawn independently, and 1 if they are not."""
    match mechanism:
        case m.PoissonSampled(_, q) | m.TruncatedPoissonSampled(_, q) | ReplacedGaussian(_, q) | ReplacedClass(_, _, q):
            return q
    return 1.0


def _record_inclusion_probability(mechanism: Mechanism) -> float:
    """Returns an upper bound of the probability that a given record is in the sample of one release."""
    match mechanism:
        case m.PoissonSampled(inner, q):
            share = _record_inclusion_probability(inner)
            return q if share == 1 else min((Range(q) * share).hi, 1.0)
        case m.TruncatedPoissonSampled(_, q) | ReplacedGaussian(_, q) | ReplacedClass(_, _, q):
            return q
        case m.FixedSizeSampled(_, size, total):
            return min((Range(size) / total).hi, 1.0)
        case m.SampledWithReplacement(_, size, total):
            return min((-expm1(size * log1p(-1 / Range(total)))).hi, 1.0) if total > 1 else 1.0
        case m.MixtureOfGaussians(_, norms, shares):
            missed = [share for norm, share in zip(norms, shares, strict=True) if norm == 0]
            return (1 - Range(missed[0]) * Range(1 - _SCALED, 1 + _SCALED)).hi if missed else 1.0
    return 1.0


_ROUNDED = 2.0**-46
"""Relative margin. It is many times larger than the roundings of a logarithm, a product, a sum and an exponential
together."""
_SCALED = 2.0**-40
"""Relative margin for the probabilities of a mixture. Their sum may differ from 1 by less than this margin."""
