"""Privacy filters: adaptively chosen releases within a guarantee that is fixed in advance (docs/theory/filters.md).

It is NOT valid to compose the privacy loss distributions of adaptively chosen releases, and to stop before their delta
exceeds the target. An adversary with two levels of noise reaches more than twice the target (filters.md section 7,
tests/accounting/running_accounts/test_filters.py). The filters here add up costs, and the sum never exceeds a cap that
is fixed in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, NoReturn

import numpy as np

from ..._core import check_arithmetic
from ..._support import _check
from ..._support.number_texts import format_up
from ...composition import Composable, Composition
from ...mechanisms import Mechanism, PoissonSampled
from ...options import NEIGHBORS, Neighbors
from ..engines.renyi.engine import remove_failure_from_moment
from ..numerics.outward import INF, Range, log1p, widen_down
from .filter_costs import (
    FilterCostFamily,
    GaussianFilterCosts,
    RenyiFilterCosts,
    ZcdpFilterCosts,
    resolve_running_charge,
)
from .shared_state import Entries, SharedAccountState, list_running_account_entries

FAMILIES = ("renyi", "zcdp", "gaussian")
_ODOMETER_ADVICE = "the parent's odometer would miss what the child records; make another odometer in the child"
_ADVICE = "parent and child would each spend the same budget; give the child a filter of its own, with its share of it"


class BudgetExceeded(RuntimeError):
    """A release was refused because the guarantee would not cover it. Nothing was spent.

    If this was a ``PrivacyFilter`` of the family "renyi", a filter that is made with ``expected``, a composition like
    the one to be spent, may cover many times more sampled steps.
    """


class _FilterState(NamedTuple):
    """Everything that was spent from a filter so far.

    ``total`` is the sum of costs, and ``failed`` the sum of -log(1 - failure probability). The failure probability of a
    release is the probability that its mechanism differs from the mechanism that its cost covers. ``others_left`` has
    the number of further releases of each mechanism in ``others``. ``releases`` is the sum of the counts in
    ``entries``.
    """

    total: Range
    failed: Range
    others_left: Mapping[Mechanism, int]
    entries: Entries = None
    releases: int = 0


@dataclass
class _ReleaseCost:
    """The cost and the failure probability of each of ``count`` releases of ``mechanism``. Both are computed from the
    mechanism ``paid`` that is charged, and neither depends on the filter's state."""

    mechanism: Mechanism
    count: int
    paid: Mechanism
    family: FilterCostFamily

    @cached_property
    def release_cost(self) -> float:
        return self.family.bound_running_cost(remove_failure_from_moment(self.paid)[0])

    @cached_property
    def failure_probability(self) -> float:
        return remove_failure_from_moment(self.paid)[1]


class CappedFilter:
    """A filter that holds the sum of the costs of adaptively chosen releases below a cap that is fixed in advance.

    In addition, each mechanism in ``others`` may be released up to its count, at no cost. Any number of threads may
    spend at once, because each release is checked and recorded in one step.
    """

    def __init__(
        self,
        family: FilterCostFamily,
        others: Iterable[tuple[Mechanism, int]] = (),
        failure: float = 0.0,
        neighbors: Neighbors = "add_or_remove",
    ) -> None:
        check_arithmetic()
        self.neighbors: Neighbors = neighbors
        self._family, self._failure_cap = family, failure
        self._shared = SharedAccountState(_FilterState(Range(0.0), Range(0.0), dict(others)), _ADVICE)

    @property
    def cap(self) -> float:
        """The largest sum of costs that may be spent, in ``unit``."""
        return self._family.cap

    @property
    def unit(self) -> str:
        """The name of the quantity that is added up."""
        return self._family.unit

    @property
    def spent(self) -> float:
        """The sum of costs spent so far, in ``unit``, rounded up."""
        return self._shared.state.total.hi

    @property
    def history(self) -> tuple[tuple[Mechanism, int], ...]:
        """The releases spent so far, in order, with their counts."""
        return list_running_account_entries(self._shared.state.entries)

    @property
    def spent_releases(self) -> int:
        """The number of releases spent so far, the sum of the counts in ``history``."""
        return self._shared.state.releases

    def can_spend(self, mechanism: Mechanism, count: int = 1) -> bool:
        """Returns True if ``count`` more releases of ``mechanism`` are covered."""
        self._shared.require_own_process_of_account()
        return self._try_to_add_to_filter(self._shared.state, self._build_filter_cost(mechanism, count)) is not None

    def spend(self, mechanism: Mechanism, count: int = 1) -> None:
        """Charges ``count`` releases, or raises ``BudgetExceeded`` and charges nothing.

        Call this method before the releases.
        """
        price = self._build_filter_cost(mechanism, count)

        def record_filter_releases(before: _FilterState) -> _FilterState:
            after = self._try_to_add_to_filter(before, price)
            if after is None:
                cost = format_up(price.release_cost * count, ".6g")
                raise BudgetExceeded(
                    f"{count} x {mechanism!r} would exceed the filter: {format_up(before.total.hi, '.6g')} of "
                    f"{self.cap:.6g} ({self.unit}) are spent, and this costs {cost}{self._family.advice}"
                )
            return after

        self._shared.update_state(record_filter_releases)

    def cost(self, mechanism: Mechanism) -> float:
        """Returns the cost of one release, in ``unit``, rounded up; infinite if the filter cannot cover it."""
        price = self._build_filter_cost(mechanism, 1)
        return INF if self._failure_loss_of_filter(price).hi > self._largest_failure_loss else price.release_cost

    def _failure_loss_of_filter(self, price: _ReleaseCost) -> Range:
        """Returns -log of the probability that none of the releases fails."""
        if not price.failure_probability:
            return Range(0.0)
        return price.count * (
            -log1p(-Range(price.failure_probability)) if price.failure_probability < 1 else Range(INF)
        )

    @property
    def _largest_failure_loss(self) -> float:
        """-log(1 - p) for the largest probability p with which any release may fail, rounded down."""
        return (-log1p(-Range(self._failure_cap))).lo

    def _build_filter_cost(self, mechanism: Mechanism, count: int) -> _ReleaseCost:
        """Returns the cost of ``count`` releases of ``mechanism`` under this filter."""
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must be a Mechanism, got {mechanism!r}")
        check_arithmetic()
        return _ReleaseCost(
            mechanism,
            _check.check_count_argument("count", count),
            resolve_running_charge(mechanism, self.neighbors),
            self._family,
        )

    def _try_to_add_to_filter(self, before: _FilterState, price: _ReleaseCost) -> _FilterState | None:
        """Returns the state after the releases; None if the filter does not cover them."""
        entries, releases = (before.entries, price.mechanism, price.count), before.releases + price.count
        paid = price.paid
        if isinstance(paid, PoissonSampled) and paid not in before.others_left:
            paid = paid.mechanism  # the mechanism on all records dominates the sampled one
        left = before.others_left.get(paid, 0) - price.count
        if left >= 0:  # the cap was chosen with room for these releases
            return _FilterState(before.total, before.failed, {**before.others_left, paid: left}, entries, releases)
        if price.release_cost == INF:
            return None
        total, failed = before.total + price.count * Range(price.release_cost), before.failed
        if price.failure_probability:
            failed += self._failure_loss_of_filter(price)
            if failed.hi > self._largest_failure_loss:
                return None
        if total.hi > self.cap:
            return None
        return _FilterState(total, failed, before.others_left, entries, releases)


class PrivacyFilter(CappedFilter):
    """Holds a sequence of releases to (``epsilon``, ``delta``)-DP, however each of them depends on the earlier ones.

    Ask ``can_spend``, or ``spend`` and catch ``BudgetExceeded``, BEFORE running a mechanism.

    Parameters
    ----------
    epsilon, delta : the guarantee of everything spent through this filter, under ``neighbors``.
    family : the quantity that is added up, fixed in advance.
        "renyi" (default): the Renyi divergence of one order. This family can charge any mechanism.
        "zcdp": rho, for mechanisms that are zCDP. A mechanism on a sample costs as much as on all records.
        "gaussian": 1/noise_multiplier^2 of Gaussians. A Gaussian on a sample costs as much as on all records. This
        family is the tightest for Gaussians on all records. It also admits the releases listed in ``others``, each up
        to its count.
    order : the Renyi order (> 1); by default the best for Gaussians, or for ``expected``.
    expected : a composition like the one that will be spent. It influences the choice of order, never the guarantee.
        Give ``expected`` for sampled steps: the order that is best for Gaussians on all records may cover only a
        fraction of the steps that the best order for ``expected`` covers.
    others : the other releases to keep room for; for "gaussian" only.
    failure : the part of ``delta`` that is set aside for mechanisms that are only approximately private; for "renyi"
        only.

    Guarantee: all outputs together are (``epsilon``, ``delta``)-DP, even if you stop at a time chosen by the outputs.

    Any number of threads may spend at once. Each release is checked and recorded in one step, and after an interrupt it
    is either recorded or not. If threads share a filter, the answer of ``can_spend`` may be outdated at once, and only
    ``spend`` decides.

    A budget must not be spent twice. A forked child process can read what a filter of its parent has spent, but
    ``spend`` and ``can_spend`` raise RuntimeError there. Copying or pickling a filter raises TypeError. To continue in
    another process, make a new filter there, and first charge the ``history`` of this filter to the new one. Spend
    nothing more from this filter.

    >>> import tightdp as dp
    >>> f = dp.PrivacyFilter(1.0, 1e-6)
    >>> f.can_spend(dp.Gaussian(1.0))
    False
    >>> f.spend(dp.Gaussian(10.0))
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        family: Literal["renyi", "zcdp", "gaussian"] = "renyi",
        order: float | None = None,
        expected: Composable | None = None,
        others: Composable | None = None,
        failure: float = 0.0,
        neighbors: Neighbors = "add_or_remove",
    ) -> None:
        check_arithmetic()  # comparisons with the cap rely on the rounding mode
        self.epsilon = _check.positive("epsilon", epsilon)
        self.delta = _check.open_unit("delta", delta)
        _check.check_choice_argument("family", family, FAMILIES)
        _check.check_choice_argument("neighbors", neighbors, NEIGHBORS)
        if family != "renyi" and (order is not None or expected is not None or failure):
            raise ValueError(f"order, expected and failure must be left out for family {family!r}")
        if family != "gaussian" and others is not None:
            raise ValueError(f"others must be left out for family {family!r}")
        for name, given in (("expected", expected), ("others", others)):
            if given is not None and not isinstance(given, Composable):
                raise TypeError(f"{name} must be a Mechanism, a Composition or None, got {given!r}")
        failure = _check.nonnegative("failure", failure)
        if not failure < self.delta:
            raise ValueError(f"failure must be a number in [0, delta), got {failure!r}")
        kept = _translate_to_filter_charge(others, neighbors)
        built = self._build_filter_family(family, (Range(self.delta) - failure).lo, order, expected, kept, neighbors)
        super().__init__(built, kept.parts, failure, neighbors)

    def _build_filter_family(
        self,
        family: str,
        delta: float,
        order: float | None,
        expected: Composable | None,
        others: Composition,
        neighbors: Neighbors,
    ) -> FilterCostFamily:
        """Returns the family of costs, with the cap that guarantees (``self.epsilon``, ``delta``)-DP."""
        if family == "zcdp":
            return ZcdpFilterCosts(self.epsilon, delta)
        if family == "gaussian":
            return GaussianFilterCosts.calibrate_running_cost(self.epsilon, delta, others)
        if order is not None:
            order = _check.build_argument_check("(1, inf)")("order", order)
        return RenyiFilterCosts(
            self.epsilon,
            delta,
            order,
            None if expected is None else _translate_to_filter_charge(expected, neighbors, True),
        )

    def __repr__(self) -> str:
        return (
            f"<PrivacyFilter of ({self.epsilon!r}, {self.delta!r}), neighbors={self.neighbors!r}: "
            f"{format_up(self.spent, '.6g')} of {self.cap:.6g} spent ({self.unit})>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("PrivacyFilter cannot be copied or pickled: each copy would spend the same budget")


def _translate_to_filter_charge(run: Composable | None, neighbors: Neighbors, without: bool = False) -> Composition:
    """Returns the composition of the mechanisms that are charged for ``run``.

    If ``without`` is True, approximately private mechanisms are replaced by mechanisms that never fail.
    """
    parts = () if run is None else run._to_composition().parts
    kept = ((remove_failure_from_moment(mechanism)[0] if without else mechanism, n) for mechanism, n in parts)
    return Composition((resolve_running_charge(mechanism, neighbors), n) for mechanism, n in kept)


class Odometer:
    """An odometer, which tells the smallest of some epsilons that holds for everything released so far.

    The epsilons, called ``levels``, are fixed in advance. An odometer never refuses a release. Each level is a Renyi
    filter at ``delta`` / len(levels), and the answer is the smallest level that is not exceeded.

    Guarantee (docs/theory/filters.md section 6): let x be all outputs up to a time that may depend on them, and let P
    and Q be the distributions of x on two neighbours. Let e(x) be the answer at that time. Then, for every set S of
    outputs, P(S) <= sum over x in S of e^{e(x)} Q(x) + delta.

    Threads, forks and copies are treated as by ``PrivacyFilter``, because the answer must cover all releases.

    Parameters
    ----------
    delta : the delta of the guarantee, in (0, 1).
    levels : one or more epsilons, in nats, in (0, inf).
    neighbors : the neighbouring relation of the guarantee.

    Raises ValueError for a ``delta`` or for ``levels`` out of their range.

    >>> odometer = dp.Odometer(1e-6, levels=[0.5, 1.0, 2.0, 4.0])
    >>> odometer.spend(dp.Gaussian(10.0), count=2)
    >>> odometer.epsilon
    1.0
    """

    def __init__(self, delta: float, levels: Sequence[float], *, neighbors: Neighbors = "add_or_remove") -> None:
        check_arithmetic()
        self.delta = _check.open_unit("delta", delta)
        given = np.unique(_check.check_array_argument("levels", levels, "epsilons in (0, inf)"))
        if not given.size or not (given[0] > 0 and given[-1] < INF):
            raise ValueError(f"levels must be one or more epsilons in (0, inf), got {levels!r}")
        self.levels: tuple[float, ...] = tuple(given.tolist())
        each = widen_down(self.delta / len(self.levels), 2.0**-52)
        self._filters = [PrivacyFilter(level, each, neighbors=neighbors) for level in self.levels]
        start = tuple(level._shared.state for level in self._filters)
        self._shared: SharedAccountState[tuple[_FilterState | None, ...]] = SharedAccountState(start, _ODOMETER_ADVICE)

    def spend(self, mechanism: Mechanism, count: int = 1) -> None:
        """Records ``count`` >= 1 releases of ``mechanism``. Call this method before the releases.

        Raises TypeError if ``mechanism`` is not a ``Mechanism``, and ValueError for ``count`` out of its range.
        """
        prices = [level._build_filter_cost(mechanism, count) for level in self._filters]

        def record_at_odometer_levels(before: tuple[_FilterState | None, ...]) -> tuple[_FilterState | None, ...]:
            """Returns the state of each level; None for a level that was exceeded."""
            levels = zip(self._filters, before, prices, strict=True)
            return tuple(
                None if spent is None else level._try_to_add_to_filter(spent, price) for level, spent, price in levels
            )

        self._shared.update_state(record_at_odometer_levels)

    @property
    def epsilon(self) -> float:
        """The smallest level that covers everything recorded; infinite if no level does."""
        return next((level for level, spent in zip(self.levels, self._shared.state, strict=True) if spent), INF)

    def __reduce__(self) -> NoReturn:
        raise TypeError("Odometer cannot be copied or pickled: a reading must know of all that was released")
