"""Which mechanisms stand for a class that their pair, composed, exceeds (docs/theory/conversions.md section 7).

The pair of ``BoundedRange`` is the envelope of all pairs of its class, which no one mechanism attains at every
epsilon; ``ZCDP`` has no pair. For these a composition's upper bounds are upper bounds of the class, but its lower
bounds are not: those come from a member of the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import mechanisms as m

if TYPE_CHECKING:
    from .engines.base import Parts


def attained(parts: Parts) -> Parts:
    """A composition that the class contains; ``parts`` itself where every pair is attained."""
    if not any(_loose(mechanism) for mechanism, _ in parts):
        return parts
    if len(parts) == 1 and parts[0][1] == 1 and not _holds(parts[0][0], m.ZCDP):
        return parts  # the envelope is the supremum of one step
    members = [(_member(mechanism), count) for mechanism, count in parts]
    return tuple((mechanism, count) for mechanism, count in members if mechanism is not None)


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
            return m.PureDP(eta / 2)
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
