"""Which mechanisms stand for a class that their pair, composed, exceeds (docs/theory/conversions.md section 7), and
which for nothing.

The pair of ``BoundedRange`` is the envelope of all pairs of its class, which no one mechanism attains at every
epsilon; ``ZCDP`` has no pair. For these a composition's upper bounds are upper bounds of the class, but its lower
bounds are not: those come from a member of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ... import mechanisms as m
from ...composition import Parts
from ...options import Direction
from ..numerics.outward import Range, expm1, log


@dataclass(frozen=True, slots=True)
class BinaryRange(m.Mechanism):
    """The losses ``share * eta`` and ``share * eta - eta``, share in (0, 1): a member of ``BoundedRange(eta)``."""

    eta: float
    share: float
    symmetric = False

    def atoms(self) -> list[tuple[Range, Range]]:
        """Losses and logarithms of P's masses, whose Q-masses add up to 1 as they do."""
        top = self.share * Range(self.eta)
        least, whole = top - self.eta, -expm1(-Range(self.eta))
        return [(least, log(expm1(top) / whole) - self.eta), (top, log(-expm1(least) / whole))]


def members(parts: Parts, direction: Direction) -> tuple[Parts, ...]:
    """Compositions that the class contains, of which the best counts; ``parts`` itself where every pair is attained."""
    if not any(_loose(mechanism) for mechanism, _ in parts):
        return (parts,)
    if len(parts) == 1 and parts[0][1] == 1:
        alone = parts[0][0]
        if _once(alone, direction):
            return (parts,)
        if isinstance(alone, m.RandomAllocation) and isinstance(alone.mechanism, m.BoundedRange):
            eta, *rest = alone.mechanism.eta, alone.steps, alone.selected
            return tuple(((m.RandomAllocation(BinaryRange(eta, share), *rest), 1),) for share in _SHARES)
    found = [(_member(mechanism), count) for mechanism, count in parts]
    return (tuple((mechanism, count) for mechanism, count in found if mechanism is not None),)


_SHARES = 0.25, 0.5, 0.75
"""Which of them is best depends on epsilon; between them a tenth or less is lost."""


def _once(mechanism: m.Mechanism, direction: Direction) -> bool:
    """Whether the envelope is the supremum of the class: of one step, as the curve of a sampled one is a function of
    the unsampled curve at one point. An allocation composes it."""
    if _holds(mechanism, m.ZCDP) or isinstance(mechanism, m.RandomAllocation):
        return False
    return not (direction == "replace" and isinstance(mechanism, m.PoissonSampled))


def _loose(mechanism: m.Mechanism) -> bool:
    return _holds(mechanism, m.BoundedRange) or _holds(mechanism, m.ZCDP)


def _holds(mechanism: m.Mechanism, kind: type[m.Mechanism]) -> bool:
    inner = getattr(mechanism, "mechanism", mechanism)
    return isinstance(inner, kind)


def _member(mechanism: m.Mechanism) -> m.Mechanism | None:
    match mechanism:
        case m.ZCDP():
            return None
        case m.BoundedRange(eta):  # losses -eta/2 and eta/2
            half = eta / 2
            return m.PureDP(half if 2 * half <= eta else math.nextafter(half, 0.0))
        case m.PoissonSampled(inner, q) if _loose(inner):
            member = _member(inner)
            return None if member is None else m.PoissonSampled(member, q)
        case m.FixedSizeSampled(inner, size, total) if _loose(inner):
            member = _member(inner)
            return None if member is None else m.FixedSizeSampled(member, size, total)
        case m.RandomAllocation(inner, steps, selected) if _loose(inner):
            member = _member(inner)
            return None if member is None else m.RandomAllocation(member, steps, selected)
    return mechanism


def reveals_nothing(mechanism: m.Mechanism) -> bool:
    """Whether both outputs of its pair have one and the same law, or so nearly that no double shows it."""
    match mechanism:
        case m.PureDP():
            return mechanism.nominal_epsilon == 0
        case m.ApproximateDP():
            return mechanism.nominal_epsilon == 0 == mechanism.nominal_delta
        case m.BoundedRange(parameter) | m.ZCDP(parameter):
            return parameter == 0
        case m.RandomizedResponse(p, _):
            return p == 1
        case m.PoissonSampled(inner) | m.FixedSizeSampled(inner) | m.RandomAllocation(inner):
            return reveals_nothing(inner)
    return False
