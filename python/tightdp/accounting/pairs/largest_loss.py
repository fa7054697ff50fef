"""The largest privacy loss of a composition: epsilon at delta 0 (docs/theory/conversions.md section 12)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

from ... import mechanisms as m
from ...composition import FEW_PARTS, Composition, Parts
from ...mechanisms import Group, PrivacyLoss, RepeatAndSelect
from ...mechanisms.selections_and_groups import POISSON, SelectionOrGroup
from ...options import Direction, Neighbors
from ..numerics.outward import INF, Range, expm1, log, log1p
from .class_members import has_pair_without_loss
from .neighbors import translate_parts_to_replacement
from .replacement import Replaced, ReplacedClass, Zeroed, bracket_losses_of_replaced_pair


def largest_loss_of_pair(run: Composition, neighbors: Neighbors) -> float:
    """Returns an upper bound of the largest loss under a neighbouring relation; infinite if losses are unbounded."""
    return bound_largest_loss(
        translate_parts_to_replacement(run.parts) if neighbors == "replace" else run.parts, "remove"
    )


def bound_largest_loss(parts: Parts, direction: Direction) -> float:
    """Returns an upper bound of the largest loss of ``parts`` in one direction; infinite if losses are unbounded."""
    of = {"remove": _bound_largest_loss_of_mechanism, "add": _bound_largest_loss_when_added}[direction]
    total = Range(0.0)
    for mechanism, count in parts:
        total += of(mechanism) if count == 1 else count * of(mechanism)  # multiplying by 1 would widen an exact range
    return total.hi


def attained_largest_loss(parts: Parts) -> float:
    """Returns a lower bound of the largest loss. It is 0 unless every mechanism is known to attain its largest loss."""
    if not all(isinstance(mechanism, _ATTAINED) for mechanism, _ in parts):
        return 0.0
    total = Range(0.0)
    for mechanism, count in parts:
        total += (
            _bound_largest_loss_of_mechanism(mechanism)
            if count == 1
            else count * _bound_largest_loss_of_mechanism(mechanism)
        )
    return total.lo


_ATTAINED = (m.PureDP, m.Laplace, m.DiscreteLaplace, m.BoundedRange, m.RandomizedResponse)
"""Mechanisms with an output that attains the largest loss, and classes with such a member."""


def is_largest_loss_unbounded(parts: Parts, direction: Direction) -> bool:
    """Tells whether the losses are known to be unbounded or infinite. False means that this is not known."""
    return any(_has_unbounded_gaussian_loss(mechanism, direction) for mechanism, _ in parts)


def _has_unbounded_gaussian_loss(mechanism: m.Mechanism, direction: Direction) -> bool:
    """Tells whether ``mechanism`` is Gaussian noise, whose losses are unbounded.

    For a Poisson sample the answer is True in the direction "remove" only. The losses of adding a record are at most
    -log(1 - q), where q is the sampling probability.
    """
    if isinstance(mechanism, m.PoissonSampled) and direction == "remove":
        return _has_unbounded_gaussian_loss(mechanism.mechanism, direction)
    return isinstance(mechanism, (m.Gaussian, m.DiscreteGaussian))


def largest_loss_within_delta(parts: Parts, delta: float) -> float:
    """Returns an upper bound of epsilon(delta): the largest finite loss, if an infinite loss has probability <= delta.

    A composition of (e, d)-DP mechanisms has an infinite loss with probability 1 - prod (1 - d). If this probability
    exceeds ``delta``, the result is infinite. The probability may be equal to ``delta``, and it is rounded up. It is
    computed with 60 digits, so that the rounding rarely makes it exceed ``delta``.
    """
    kept = Decimal(1)
    for mechanism, count in parts:
        if isinstance(mechanism, m.ApproximateDP):
            with localcontext(_FLOOR):
                kept *= _compute_power_for_largest_loss(1 - Decimal(mechanism.nominal_delta), count)
    if _CEILING.subtract(Decimal(1), kept) > Decimal(delta):
        return INF
    sure = ((m.PureDP(one.nominal_epsilon) if isinstance(one, m.ApproximateDP) else one, n) for one, n in parts)
    return bound_largest_loss(tuple(sure), "remove")


_FLOOR, _CEILING = Context(prec=60, rounding=ROUND_FLOOR), Context(prec=60, rounding=ROUND_CEILING)


def _compute_power_for_largest_loss(base: Decimal, count: int) -> Decimal:
    """Returns base^count, with every product rounded as the current decimal context says."""
    found = Decimal(1)
    while count:
        if count & 1:
            found *= base
        base *= base
        count >>= 1
    return found


def bound_largest_loss_of_adding(parts: Parts) -> float:
    """Returns an upper bound of the largest loss of adding a record to Poisson samples. It is infinite for other parts.

    The density of the output with the record is at least 1 - q times the density without it, where q is the sampling
    probability. For many parts the result is infinite too, because computing the sum would take more time than the
    result saves.
    """
    if len(parts) > FEW_PARTS:
        return INF
    total = 0.0
    for mechanism, count in parts:
        if not isinstance(mechanism, m.PoissonSampled) or mechanism.sampling_probability == 1:
            return INF
        total -= count * math.log1p(-mechanism.sampling_probability)
    return total * (1 + 1e-12)  # a margin larger than the roundings


def _bound_largest_loss_of_mechanism(mechanism: m.Mechanism) -> Range:
    """Returns a range of the largest loss of adding or removing a record. The range is exactly 0 if nothing is
    revealed."""
    match mechanism:
        case m.PureDP():
            return Range(mechanism.nominal_epsilon)
        case ReplacedClass() if mechanism.nominal_delta == 0:
            return max(
                (loss for loss, _ in bracket_losses_of_replaced_pair(mechanism)[1].positive), key=lambda loss: loss.hi
            )
        case m.Laplace(scale):
            return 1 / Range(scale)
        case m.DiscreteLaplace(scale, sensitivity):
            return sensitivity / Range(scale)
        case m.BoundedRange(eta):
            return Range(eta)
        case m.RandomizedResponse(p, buckets):
            odds = (1 - Range(p)) * buckets / p
            if odds.hi < INF:
                return log1p(odds)
            return (
                log1p(-Range(p)) + log(Range(buckets)) - log(Range(p)) + Range(0.0, 1e-300)
            )  # log1p(x) <= log x + 1/x
        case m.PoissonSampled(inner, q):
            return _bound_largest_loss_of_sample(_bound_largest_loss_of_mechanism(inner), Range(q))
        case SelectionOrGroup():
            return _bound_largest_loss_of_derived(mechanism, _bound_largest_loss_of_mechanism)
        case Replaced(inner) | Zeroed(inner):  # zeroing exchanges the record for one that contributes nothing
            return _bound_largest_loss_when_replaced(inner)
        case PrivacyLoss() if mechanism.dominating.largest_absolute_loss < INF:  # the largest over (P, Q) and (Q, P)
            return Range(mechanism.dominating.largest_absolute_loss) + mechanism.dominating.slack
    return Range(0.0) if has_pair_without_loss(mechanism) else Range(INF)


def _bound_largest_loss_when_added(mechanism: m.Mechanism) -> Range:
    """Returns a range of the largest loss of adding a record.

    For a Poisson sample with sampling probability q, this loss is at most -log(1 - q).
    """
    loss = _bound_largest_loss_of_mechanism(mechanism)
    if isinstance(mechanism, m.PoissonSampled):
        return Range(0.0, min(loss.hi, (-log1p(-Range(mechanism.sampling_probability))).hi))
    return loss


def _bound_largest_loss_when_replaced(mechanism: m.Mechanism) -> Range:
    """Returns a range of the largest loss of replacing a record.

    This loss is at most the sum of the losses of removing a record and of adding another one.
    """
    match mechanism:
        case m.FixedSizeSampled(inner, size, total):
            return _bound_largest_loss_of_sample(_bound_largest_loss_when_replaced(inner), Range(size) / total)
        case m.RandomizedResponse() | PrivacyLoss():
            return _bound_largest_loss_of_mechanism(mechanism)
        case SelectionOrGroup():
            return _bound_largest_loss_of_derived(mechanism, _bound_largest_loss_when_replaced)
    return 2 * _bound_largest_loss_of_mechanism(mechanism)


def _bound_largest_loss_of_derived(mechanism: SelectionOrGroup, of: Callable[[m.Mechanism], Range]) -> Range:
    """Returns a range of the largest loss of a group or a selection. ``of`` bounds the loss of each inner mechanism.

    A group of n records is a chain of n neighbours, whose losses add up. The loss of a selection is at most the loss of
    one run plus a gain, which is bounded here (docs/theory/derived.md section 1).
    """
    loss = Range(0.0)
    for one, count in mechanism.parts:
        loss += count * of(one)
    if isinstance(mechanism, Group):
        return loss * float(mechanism.size)
    assert isinstance(mechanism, RepeatAndSelect)
    if mechanism.shape == POISSON:  # the total variation distance under e-DP is at most tanh(e/2) <= e/2
        return loss + mechanism.mean * Range(0.0, min((loss * 0.5).hi, 1.0))
    return loss * (Range(float(mechanism.shape)) + 2)


def _bound_largest_loss_of_sample(loss: Range, q: Range) -> Range:
    """Returns a range of log(1 + q (e^loss - 1)), which is at most ``loss``."""
    grown = expm1(loss)
    if math.isinf(loss.hi) or math.isinf(grown.hi):
        return loss
    return Range(0.0, min(log1p(q * grown).hi, loss.hi))
