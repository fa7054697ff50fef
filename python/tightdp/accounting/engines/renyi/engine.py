"""The engine of Renyi differential privacy, which has an upper bound of most compositions (docs/theory/conversions.md).

The bound of a mechanism is an upper bound of K(c), which is c times the Renyi divergence of order c + 1
(``moments.py``). An (e, d)-DP mechanism is treated as an e-DP mechanism that fails with probability d, and then reveals
everything. The lower bound on epsilon or delta is trivial, except for one release of ``ZCDP``. ``ZCDP`` stands for the
class of all mechanisms that satisfy zCDP. Each of these mechanisms is a member of the class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from .... import mechanisms as m
from ....composition import FEW_PARTS
from ....mechanisms import RepeatAndSelect
from ...numerics.outward import INF, Range, expm1, log1p, widen_down
from ...numerics.shared_work import try_to_spend_work
from ...pairs import class_members
from ...pairs.replacement import Replaced, ReplacedClass, Zeroed, bracket_losses_of_replaced_pair
from ..closed_form import engine as closed_form
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request, build_bound_with_one_term
from . import conversion, zcdp
from .moments import bound_renyi_moment
from .two_sided_moments import bound_attained_moment


class Renyi:
    """Bounds by moments of the privacy loss."""

    name = "renyi"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        for mechanism, _ in parts:
            if not _has_known_renyi_moments(remove_failure_from_moment(mechanism)[0]):
                return f"no bound of the Renyi divergence of {mechanism!r} is known here"
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Bounds epsilon by the best order, at the delta that remains after failures.

        The probability that an (epsilon, delta)-DP mechanism fails is taken from ``delta`` first. For one release of a
        zCDP mechanism, the lower end is the largest lower end of the members that are tried.
        """
        kept, failure = split_failures_from_moments(parts)
        spare = widen_down(((delta - failure) / (1 - failure)).lo) if failure.hi < delta else 0.0
        upper = (
            max(_minimize_renyi_bound(kept, lambda c, k: conversion.epsilon_at_renyi_order(c, k, spare)), 0.0)
            if spare > 0
            else INF
        )
        lower = 0.0
        if (alone := _get_single_zcdp(parts)) is not None:
            lower = zcdp.bound_zcdp_epsilon_below(alone.rho, alone.xi, delta)
            for member in class_members.list_class_members_of_zcdp(alone):
                lower = max(lower, closed_form.ENGINE.epsilon(((member, 1),), direction, delta).lower)
        return build_bound_with_one_term(lower, upper, self.name, "conversion")

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Bounds delta by the best order, and adds the probability that an (epsilon, delta)-DP mechanism fails.

        For one release of a zCDP mechanism, the lower end is the largest lower end of the members that are tried.
        """
        kept, failure = split_failures_from_moments(parts)
        rest = conversion.convert_renyi_log_delta(
            _minimize_renyi_bound(kept, lambda c, k: conversion.log_delta_at_renyi_order(c, k, epsilon))
        )
        upper = (failure + (1 - failure) * rest).hi
        lower = max((-expm1(epsilon)).lo, 0.0)
        if not request.above and (alone := _get_single_zcdp(parts)) is not None:
            lower = max(lower, zcdp.bound_zcdp_delta_below(alone.rho, alone.xi, epsilon))
            for member in class_members.list_class_members_of_zcdp(alone):
                lower = max(lower, closed_form.ENGINE.delta(((member, 1),), direction, epsilon).lower)
        upper = min(max(upper, lower), 1.0)
        return build_bound_with_one_term(lower, upper, self.name, "conversion")


ENGINE = Renyi()


def _has_known_renyi_moments(mechanism: m.Mechanism) -> bool:
    """Tells whether a finite bound of a moment is known.

    A ``RepeatAndSelect`` has such a bound if all parts of the repeated run have one. The amount that selecting adds to
    the moment is then finite, and is not computed here.
    """
    if isinstance(mechanism, RepeatAndSelect):
        return all(_has_known_renyi_moments(one) for one, _ in mechanism.parts)
    return bound_renyi_moment(mechanism, _LOW_ORDER) < INF


_LOW_ORDER = 0.01
"""Value of c at which a moment is finite if it is finite at any c."""


def _get_single_zcdp(parts: Parts) -> m.ZCDP | None:
    """Returns the single zCDP mechanism that a composition consists of, or None.

    For such a composition, members of the class give a lower end.
    """
    mechanism, count = parts[0] if len(parts) == 1 else (None, 0)
    return mechanism if isinstance(mechanism, m.ZCDP) and count == 1 and mechanism.rho > 0 else None


def _minimize_renyi_bound(parts: Parts, value: Callable[[float, float], float]) -> float:
    """Returns the minimum of ``value(c, K(c))`` over the orders that are searched.

    If there are many parts, the best order is first estimated from a few parts that are spread over all parts. Near
    this order the moments of all parts are added up, for as many orders as the budget allows.
    """
    if len(parts) <= FEW_PARTS:
        return conversion.minimize_over_renyi_orders(lambda c: value(c, sum_renyi_moments(parts, c)))[0]
    pilot = parts[:: -(-len(parts) // FEW_PARTS)]
    start = conversion.minimize_over_renyi_orders(
        lambda c: value(c, (Range(sum_renyi_moments(pilot, c)) * len(parts) / len(pilot)).hi)
    )[1]
    units = sum(_UNITS if _is_renyi_moment_quick(one) else _UNITS_SAMPLED for one, _ in parts)
    asked = 0

    def bound_at_renyi_order(c: float) -> float:
        nonlocal asked
        asked += 1
        if not try_to_spend_work(units) and not (asked == 1 and units <= _LAST):
            return INF
        return value(c, sum_renyi_moments(parts, c))

    return conversion.minimize_near_renyi_order(bound_at_renyi_order, start)


def _is_renyi_moment_quick(mechanism: m.Mechanism) -> bool:
    """Tells whether one moment of the mechanism takes about a tenth of a millisecond."""
    match mechanism:
        case m.PoissonSampled(inner):
            return isinstance(inner, m.Gaussian)
        case m.TruncatedPoissonSampled() | Replaced() | Zeroed() | m.RandomAllocation():
            return False
    return True


_UNITS, _UNITS_SAMPLED = 10**5, 10**6
"""Work units for one moment. The moment of a Gaussian, sampled or not, takes a tenth of a millisecond. The moment of
other noise on a sample takes up to two milliseconds, but about half of these moments are cached."""
_LAST = 10**9
"""Work units that a question may spend beyond its budget on the first order that is tried, so that the answer has an
upper end."""


def sum_renyi_moments(parts: Parts, c: float) -> float:
    """Returns an upper bound of K(c) of a composition, for both directions."""
    found = Range(0.0)
    for mechanism, count in parts:
        found += count * Range(bound_renyi_moment(mechanism, c))
    return found.hi


def bound_renyi_divergence(parts: Parts, direction: Direction, order: float) -> tuple[float, float]:
    """Returns bounds of the Renyi divergence of an order > 1.

    A member of the class attains the lower bound (docs/theory/conversions.md section 14).
    """
    c = order - 1
    lower = max(bound_attained_moment(member, direction, c) for member in class_members.list_class_members(parts))
    upper = INF
    if ENGINE.explain_refusal(parts, direction) is None and split_failures_from_moments(parts)[1].hi == 0:
        upper = sum_renyi_moments(parts, c)
    return max((Range(lower) / c).lo, 0.0) if lower < INF else INF, (Range(upper) / c).hi if upper < INF else INF


@lru_cache(maxsize=64)
def split_failures_from_moments(parts: Parts) -> tuple[Parts, Range]:
    """Returns the parts on condition that none of them failed, and the probability that any of them fails.

    See docs/theory/conversions.md section 6.
    """
    log_kept = Range(0.0)
    kept = []
    for mechanism, count in parts:
        rest, failure = remove_failure_from_moment(mechanism)
        log_kept += count * log1p(-Range(failure))
        kept.append((rest, count))
    return tuple(kept), (-expm1(log_kept)).limit_range_to(0.0, 1.0)


def remove_failure_from_moment(mechanism: m.Mechanism) -> tuple[m.Mechanism, float]:
    """Returns a mechanism whose moments bound those of ``mechanism`` if it does not fail, and the failure probability.

    If an approximate mechanism is sampled, the sampling is left out, which by joint convexity never reduces moments.
    """
    match mechanism:
        case m.ApproximateDP():
            return m.PureDP(mechanism.nominal_epsilon), mechanism.nominal_delta
        case ReplacedClass(e, delta, _) if delta > 0:  # 2e-DP, except that with some probability everything is revealed
            found = bracket_losses_of_replaced_pair(ReplacedClass(e, delta))[1]
            rest = max((loss for loss, _ in found.positive), key=lambda loss: loss.hi, default=Range(0.0))
            return m.PureDP(rest.hi), min(found.infinity.hi, 1.0)
        case m.PoissonSampled(m.ApproximateDP() as inner):
            return m.PureDP(inner.nominal_epsilon), inner.nominal_delta
        case m.RandomAllocation(m.ApproximateDP() as inner, _, selected):
            failure = (-expm1(selected * log1p(-Range(inner.nominal_delta)))).hi
            return m.RandomAllocation(m.PureDP(inner.nominal_epsilon), selected, selected), min(failure, 1.0)
    return mechanism, 0.0
