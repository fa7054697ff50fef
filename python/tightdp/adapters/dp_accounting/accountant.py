"""Accountants with dp_accounting's interface, which return tightdp's upper bounds."""

from __future__ import annotations

import copy
import math
import sys
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import NeighboringRelation, PrivacyAccountant, UnsupportedEventError, dp_event, rdp
from numpy.typing import NDArray

from ..._support import _check
from ...accounting.pairs.largest_loss import largest_loss_of_pair
from ...accounting.pairs.neighbors import translate_parts_to_replacement
from ...composition import Composition
from ...mechanisms import Mechanism
from ...options import Neighbors
from .._orders import choose_order_for_adapters
from .answers import (
    bound_delta_for_dp_accounting,
    bound_epsilon_for_dp_accounting,
    bound_rates_for_dp_accounting,
    estimate_gdp_for_dp_accounting,
    has_event_without_noise,
)
from .distribution import INTERVAL, privacy_loss_distribution
from .event_reading import NEIGHBORS, REPLACE, EventReading, Unit
from .events import list_parts_of_event
from .tree import Refused, RefusedEventError, describe_event, is_event_short

_LEAST_ORDER = 1 + 2.0**-20
"""Renyi order that replaces order 1. Renyi divergences grow with the order, so the divergence of this order is an upper
bound on the divergence of order 1."""
_ErrorDetails = PrivacyAccountant.CompositionErrorDetails


class _SpentEvents(NamedTuple):
    """The mechanisms that were composed, in two parts.

    In ``own``, parameters are relative to one record's contribution. In ``stated``, parameters hold directly for
    neighbours under the accountant's relation.
    """

    own: Composition = Composition()
    stated: Composition = Composition()
    releases: int = 0


class TightDPAccountant(PrivacyAccountant):
    """A ``dp_accounting.PrivacyAccountant`` whose epsilon and delta are certified upper bounds.

    ``TightDPAccountant(relation)`` replaces ``PLDAccountant``, and this package's ``RdpAccountant`` replaces
    dp_accounting's ``RdpAccountant``. ``value_discretization_interval`` is the interval of the grid of
    ``privacy_loss_distribution``. ``rdp`` has the divergences of ``orders``, and ``get_epsilon_and_optimal_order`` and
    ``get_delta_and_optimal_order`` choose from these orders. Neither parameter changes any other result.

    Noise multipliers are relative to a bound, and under REPLACE_ONE the account depends on which bound this is.
    ``noise_relative_to`` names the bound. The value "contribution" stands for the bound on one record's contribution,
    and "sensitivity" for the sensitivity of the query under the relation. The value "clipped_sum" stands for the
    sensitivity of a clipped sum, which is twice the bound on a contribution. By default noise is relative to the
    contribution, as dp_accounting defines its events. For samples of a fixed size the default is the sensitivity, as in
    dp_accounting's ``RdpAccountant``, the only accountant of dp_accounting that accepts such samples. If the class is
    called like ``RdpAccountant``, as ``TightDPAccountant(orders, relation)``, all noise is relative to the sensitivity.

    All relations are accepted. For an event without a known bound, and for parameters out of their range,
    ``supports(event)`` is False. In these cases ``compose`` raises UnsupportedEventError, which names the event or the
    parameter. The raised error is a ValueError too. For other questions than epsilon and delta, use
    ``accountant.composition`` with the relation ``accountant.neighbors``.

    Several threads may use an accountant at once. Copies, by ``copy`` or ``pickle``, are independent accounts.

    ``neighboring_relation`` is a ``dp_accounting.NeighboringRelation``.

    >>> import dp_accounting
    >>> from tightdp.adapters.dp_accounting import TightDPAccountant
    >>> event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    >>> account = TightDPAccountant().compose(event, 1000)
    >>> round(account.get_epsilon(1e-5), 6), account.get_delta(2.0) < 1e-5
    (1.828237, True)
    """

    def __init__(
        self,
        neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval: float = INTERVAL,
        *,
        orders: Any = None,
        noise_relative_to: Unit | None = None,
    ) -> None:
        if isinstance(neighboring_relation, (list, tuple, range, np.ndarray)):
            relation, interval = _read_rdp_accountant_arguments(value_discretization_interval, orders)
            orders, neighboring_relation, value_discretization_interval = neighboring_relation, relation, interval
            noise_relative_to = noise_relative_to or "sensitivity"
        self._reading = EventReading.check_and_make_dp_accounting_reading(neighboring_relation, noise_relative_to)
        super().__init__(neighboring_relation)
        self._interval = _check.positive("value_discretization_interval", value_discretization_interval)
        self._orders = _check.check_array_argument(
            "orders", rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS if orders is None else orders
        )
        if self._orders.ndim != 1 or not self._orders.size or not (self._orders >= 1).all():
            raise ValueError("orders must be a sequence of numbers of at least 1")
        self._spent = _SpentEvents()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # dp_accounting's ledger of events changes in place
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def compose(self, event: Any, count: int = 1) -> TightDPAccountant:
        """Adds ``count`` runs of ``event``, and returns the accountant itself.

        If UnsupportedEventError or ValueError is raised, nothing is added.
        """
        with self._lock:
            if not is_event_short(event):  # dp_accounting's error would quote the whole event
                refused = self._maybe_compose(event, count, False)
                if refused:
                    raise RefusedEventError(
                        f"Unsupported event: {describe_event(event)}. Error: [{refused.error_message}] caused by "
                        f"subevent {describe_event(refused.invalid_event)}."
                    )
                event, count = _unpack_self_composed_event(event, count)
            try:
                super().compose(event, count)
            except UnsupportedEventError as error:
                raise RefusedEventError(str(error)) from None
            except RecursionError:
                raise ValueError(
                    f"event must be nested at most some {sys.getrecursionlimit()} deep, because the ledger compares "
                    f"events by recursion, got {describe_event(event)}"
                ) from None
        return self

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Returns an error about the first subevent that has no bound, or None. Adds the event if ``do_compose``.

        ``PrivacyAccountant`` calls this method, and its subclasses override it.
        """
        # supports() asks with a count of 0, for which one run is checked. PrivacyAccountant refuses all other counts
        # that are not positive integers.
        times = count if isinstance(count, int) and count > 1 else 1
        own: list[tuple[Mechanism, int]] = []
        stated: list[tuple[Mechanism, int]] = []
        spent = self._spent
        total = spent.releases
        try:
            for part in list_parts_of_event(event, self._reading):
                total += part.times * times
                if total > _check.MAX_COUNT:
                    raise Refused(event, f"count must be at most {_check.MAX_COUNT} in all, got {total}")
                (stated if part.stated else own).append((part.mechanism, part.times * times))
        except Refused as refused:
            return _ErrorDetails(invalid_event=refused.event, error_message=refused.reason)
        if do_compose:
            self._spent = _SpentEvents(spent.own + Composition(own), spent.stated + Composition(stated), total)
        return None

    @property
    def composition(self) -> Composition:
        """Composition of all events that were added, as mechanisms of this library."""
        spent = self._spent
        return spent.own + spent.stated

    @property
    def neighbors(self) -> Neighbors:
        """Neighbouring relation for which ``composition`` must be bounded."""
        return self._build_dp_accounting_question()[1]

    def get_epsilon(self, target_delta: float) -> float:
        """Returns an upper bound of epsilon at ``target_delta`` in [0, 1], or infinity if no finite one is known."""
        return bound_epsilon_for_dp_accounting(*self._build_dp_accounting_question(), target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """Returns an upper bound of delta at ``target_epsilon``, which may be any number or infinite."""
        return bound_delta_for_dp_accounting(*self._build_dp_accounting_question(), target_epsilon)

    @property
    def orders(self) -> NDArray[np.float64]:
        """The orders of Renyi divergences that ``get_epsilon_and_optimal_order`` chooses from."""
        return np.copy(self._orders)

    def get_epsilon_and_optimal_order(self, target_delta: float) -> tuple[float, float]:
        """Returns the bound of ``get_epsilon``, and the order whose Renyi divergence alone would bound epsilon best.

        The order is only for information. The bound does not depend on the order.

        ``target_delta`` is in [0, 1].
        """
        epsilon = self.get_epsilon(target_delta)
        return epsilon, self._choose_dp_accounting_order(target_delta, epsilon)

    def get_delta_and_optimal_order(self, target_epsilon: float) -> tuple[float, float]:
        """Returns the bound of ``get_delta``, and the order whose Renyi divergence bounds epsilon best at this delta.

        ``target_epsilon`` may be any number or infinite.
        """
        delta = self.get_delta(target_epsilon)
        return delta, self._choose_dp_accounting_order(delta, max(target_epsilon, 0.0))

    def _choose_dp_accounting_order(self, delta: float, epsilon: float) -> float:
        run, neighbors = self._build_dp_accounting_question()
        # Orders of 1 and infinity are accepted, as in dp_accounting, but are not chosen. The divergence of order 1 does
        # not bound epsilon, and the divergence of order infinity is best only at delta 0.
        above = self._orders[(self._orders > 1) & (self._orders < math.inf)]
        return choose_order_for_adapters(run, neighbors, delta, epsilon, np.sort(above)) if above.size else 1.0

    @property
    def rdp(self) -> NDArray[np.float64]:
        """Upper bounds on the Renyi divergences of ``orders``. For order 1, this is the bound for a slightly larger
        order."""
        run, neighbors = self._build_dp_accounting_question()
        if has_event_without_noise(run) or not run:
            return np.full(self._orders.shape, math.inf if run else 0.0)
        found, finite = np.full(self._orders.shape, largest_loss_of_pair(run, neighbors)), self._orders < math.inf
        if finite.any():
            divergences = run.renyi(np.maximum(self._orders[finite], _LEAST_ORDER), neighbors=neighbors).upper
            found[finite] = np.minimum(divergences, found[finite])
        return found

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """Returns upper bounds on the true positive rates of any test.

        ``deltas``, at which dp_accounting evaluates its curve, has no effect.

        ``false_positive_rates`` are numbers in [0, 1].
        """
        return bound_rates_for_dp_accounting(*self._build_dp_accounting_question(), false_positive_rates)

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """Returns an estimate of the least mu of Gaussian differential privacy. ``deltas`` has no effect.

        The curves are compared at ``false_positive_rates`` in (0, 1). None takes 60 rates from 1e-12 to 1/2.
        """
        return estimate_gdp_for_dp_accounting(*self._build_dp_accounting_question(), false_positive_rates)

    def privacy_loss_distribution(self) -> Any:
        """Returns a ``PrivacyLossDistribution`` on the grid of ``value_discretization_interval``.

        The delta of this distribution exceeds the privacy profile. The documentation of the function
        ``privacy_loss_distribution`` says by how much.
        """
        run, neighbors = self._build_dp_accounting_question()
        return privacy_loss_distribution(run, neighbors, self._interval)

    def _build_dp_accounting_question(self) -> tuple[Composition, Neighbors]:
        """Returns the composition to bound, and the relation to bound it for.

        If some parameters are stated for neighbours under "replace", the relation is "add_or_remove". For this
        relation, a mechanism with such parameters has the dominating pair that its event has for a replacement. Every
        other mechanism M is translated to a mechanism whose pair for adding or removing a record is the pair of M for a
        replacement.
        """
        own, stated, _ = self._spent
        if self.neighboring_relation == REPLACE and stated:
            return Composition(translate_parts_to_replacement(own.parts)) + stated, "add_or_remove"
        return own + stated, NEIGHBORS[self.neighboring_relation]


class RdpAccountant(TightDPAccountant):
    """A replacement of dp_accounting's ``RdpAccountant``, with the same parameters.

    Noise is relative to the sensitivity under the relation. Under REPLACE_ONE samples of random size are refused, as in
    dp_accounting, because the sensitivity alone gives no bound for such samples.

    ``orders`` and ``neighboring_relation`` are as in dp_accounting.

    >>> import dp_accounting
    >>> from tightdp.adapters.dp_accounting import RdpAccountant
    >>> account = RdpAccountant().compose(dp_accounting.GaussianDpEvent(2.0))
    >>> account.get_epsilon_and_optimal_order(1e-5)[0] == account.get_epsilon(1e-5) < 2.0
    True
    """

    def __init__(
        self, orders: Sequence[float] | None = None, neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE
    ) -> None:
        super().__init__(neighboring_relation, orders=orders, noise_relative_to="sensitivity")


def _read_rdp_accountant_arguments(second: Any, orders: Any) -> tuple[Any, float]:
    """Returns the relation and the interval of a call whose first argument is orders, as in ``RdpAccountant``."""
    if orders is not None:
        raise TypeError("orders must be given once")
    if isinstance(second, NeighboringRelation):
        return second, INTERVAL
    return NeighboringRelation.ADD_OR_REMOVE_ONE, second


def _unpack_self_composed_event(event: Any, count: Any) -> tuple[Any, Any]:
    """Returns the event inside nested repetitions, and its total count, as dp_accounting's ledger would find them."""
    while isinstance(event, dp_event.SelfComposedDpEvent) and isinstance(count, int) and event.count > 0:
        event, count = event.event, count * event.count
    return event, count
