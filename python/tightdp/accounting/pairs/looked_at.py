"""The chance that a record is looked at at all (docs/theory/conversions.md section 16)."""

from __future__ import annotations

import math

from ... import mechanisms as m
from ...composition import Mechanism, Parts
from ...derived import Group, RepeatAndSelect
from ..numerics.outward import Range, expm1, log1p
from .kinds import once
from .replaced import Replaced, ReplacedClass, ReplacedGaussian, Zeroed


@once
def looked_at(parts: Parts) -> float:
    """An upper bound of the chance, under every relation: delta(0) is no larger. 1 where nothing is sampled."""
    shares = [(_once(mechanism), count) for mechanism, count in parts]
    if any(share >= 1 for share, _ in shares):
        return 1.0
    # A few roundings of numbers of one sign: in plain numbers, since it is asked in every question of microseconds.
    missed = math.fsum(count * math.log1p(-share) for share, count in shares)
    return min(-math.expm1(missed * (1 + _ROUNDED)) * (1 + _ROUNDED), 1.0)


def _once(mechanism: Mechanism) -> float:
    """Of one release, rounded up."""
    match mechanism:
        case Replaced(inner) | Zeroed(inner):
            return _once(inner)
        case m.PoissonSampled(inner, q):
            share = _once(inner)
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
        case Group(run, size):
            return min((Range(looked_at(run._composition().parts)) * size).hi, 1.0)
        case RepeatAndSelect(run, mean):
            return min((Range(looked_at(run._composition().parts)) * mean).hi, 1.0)
    return 1.0


_ROUNDED = 2.0**-46
"""Many times the roundings of a logarithm, a product, a sum and an exponential, relatively."""
_SCALED = 2.0**-40
"""More than by which probabilities of a mixture are from adding up to 1."""
