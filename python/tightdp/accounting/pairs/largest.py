"""The largest privacy loss of a composition: epsilon at delta 0 (docs/theory/conversions.md section 12)."""

from __future__ import annotations

import math

from ... import mechanisms as m
from ...composition import Composition
from ...options import Neighbors
from ..numerics.outward import INF, Range, expm1, log1p
from .members import reveals_nothing
from .neighbors import translate
from .replaced import ReplacedClass, losses


def largest_loss(run: Composition, neighbors: Neighbors) -> float:
    """An upper bound of the largest loss that any output has; infinite where none is bounded."""
    parts = run.parts
    direct = translate(parts) if neighbors == "replace" else parts
    total = Range(0.0)
    for mechanism, count in direct if direct is not None else parts:
        total += count * (_largest(mechanism) if direct is not None else _replaced(mechanism))
    return total.hi


def _largest(mechanism: m.Mechanism) -> Range:
    """Of adding or removing a record. 0 is exact: what reveals nothing adds nothing."""
    match mechanism:
        case m.PureDP():
            return Range(mechanism.nominal_epsilon)
        case ReplacedClass() if mechanism.nominal_delta == 0:
            return max((loss for loss, _ in losses(mechanism)[1].positive), key=lambda loss: loss.hi)
        case m.Laplace(scale):
            return 1 / Range(scale)
        case m.DiscreteLaplace(scale, sensitivity):
            return sensitivity / Range(scale)
        case m.BoundedRange(eta):
            return Range(eta)
        case m.RandomizedResponse(p, buckets):
            return log1p((1 - Range(p)) * buckets / p)
        case m.PoissonSampled(inner, q):
            return _amplified(_largest(inner), Range(q))
        case m.FixedSizeSampled():  # of a record that contributes nothing, a case of "replace"
            return _replaced(mechanism)
    return Range(0.0) if reveals_nothing(mechanism) else Range(INF)


def _replaced(mechanism: m.Mechanism) -> Range:
    """Of replacing a record: at most what removing it and adding another one may lose together."""
    match mechanism:
        case m.FixedSizeSampled(inner, size, total):
            return _amplified(_replaced(inner), Range(size) / total)
        case m.RandomizedResponse():
            return _largest(mechanism)
    return 2 * _largest(mechanism)


def _amplified(loss: Range, q: Range) -> Range:
    """log(1 + q (e^loss - 1)), which is at most loss."""
    grown = expm1(loss)
    if math.isinf(loss.hi) or math.isinf(grown.hi):
        return loss
    return Range(0.0, min(log1p(q * grown).hi, loss.hi))
