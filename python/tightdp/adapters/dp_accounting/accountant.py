"""An accountant of theirs that answers with our upper bounds."""

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

from ... import _check
from ...accounting.pairs.largest import largest_loss
from ...accounting.pairs.neighbors import translate
from ...composition import Composition
from ...mechanisms import Mechanism
from ...options import Neighbors
from .distribution import INTERVAL, privacy_loss_distribution
from .events import NEIGHBORS, REPLACE, REVEALS, check_relation, parts
from .orders import best_order
from .tree import Refused, is_short, shown

_DetailsOf = PrivacyAccountant.CompositionErrorDetails


class _Spent(NamedTuple):
    """What was composed. ``stated`` holds for neighbours under the relation itself."""

    own: Composition = Composition()
    stated: Composition = Composition()
    releases: int = 0


class TightDPAccountant(PrivacyAccountant):
    """A ``dp_accounting.PrivacyAccountant`` whose epsilon and delta are certified upper bounds.

    Takes the place of ``PLDAccountant`` and of ``RdpAccountant``: ``TightDPAccountant(relation)``.
    ``value_discretization_interval`` changes no answer; it is the grid of ``privacy_loss_distribution``. ``orders``
    changes no answer either; it is what ``get_epsilon_and_optimal_order`` chooses from.

    All relations are served. For an event without a known bound, and for parameters out of their range,
    ``supports(event)`` is False and ``compose`` raises UnsupportedEventError, whose message names them. For further
    questions ask ``accountant.composition`` under ``accountant.neighbors``.

    Threads may compose and ask at once. Copies, by ``copy`` or ``pickle``, are new accounts.
    """

    def __init__(
        self,
        neighboring_relation: Any = NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval: float = INTERVAL,
        *,
        orders: Sequence[float] | None = None,
    ) -> None:
        check_relation(neighboring_relation)
        super().__init__(neighboring_relation)
        self._interval = _check.positive("value_discretization_interval", value_discretization_interval)
        self._orders = _check.reals(
            "orders", rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS if orders is None else orders
        )
        if self._orders.ndim != 1 or not self._orders.size or not (self._orders > 1).all():
            raise ValueError("orders must be a sequence of numbers above 1")
        self._spent = _Spent()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # the ledger changes in place
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def compose(self, event: Any, count: int = 1) -> TightDPAccountant:
        """Adds ``count`` runs of ``event``: UnsupportedEventError or ValueError change nothing."""
        with self._lock:
            if not is_short(event):  # theirs would write it out in full, however often it shares a part
                refused = self._maybe_compose(event, count, False)
                if refused:
                    raise UnsupportedEventError(
                        f"Unsupported event: {shown(event)}. Error: [{refused.error_message}] caused by subevent "
                        f"{shown(refused.invalid_event)}."
                    )
                event, count = _unwrapped(event, count)
            try:
                super().compose(event, count)
            except RecursionError:
                raise ValueError(
                    f"event must be nested at most some {sys.getrecursionlimit()} deep, because the ledger compares "
                    f"events by recursion, got {shown(event)}"
                ) from None
        return self

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        """Theirs to override: the first subevent that has no bound, or None; adds the event if ``do_compose``."""
        times = count if isinstance(count, int) and count > 1 else 1  # supports() asks with 0; theirs refuses others
        own: list[tuple[Mechanism, int]] = []
        stated: list[tuple[Mechanism, int]] = []
        spent = self._spent
        total = spent.releases
        try:
            for part in parts(event, self.neighboring_relation):
                total += part.times * times
                if total > _check.MAX_COUNT:
                    raise Refused(event, f"count must be at most {_check.MAX_COUNT} in all, got {total}")
                (stated if part.stated else own).append((part.mechanism, part.times * times))
        except Refused as refused:
            return _DetailsOf(invalid_event=refused.event, error_message=refused.reason)
        if do_compose:
            self._spent = _Spent(spent.own + Composition(own), spent.stated + Composition(stated), total)
        return None

    @property
    def composition(self) -> Composition:
        """What was composed, as mechanisms of ours."""
        spent = self._spent
        return spent.own + spent.stated

    @property
    def neighbors(self) -> Neighbors:
        """The relation under which ``composition`` is to be asked."""
        return self._asked()[1]

    def get_epsilon(self, target_delta: float) -> float:
        """An upper bound of epsilon at ``target_delta`` in [0, 1]; infinite where none is finite."""
        delta = _check.closed_unit("target_delta", target_delta)
        run, neighbors = self._asked()
        if _reveals(run):
            return math.inf
        if not run or delta == 1:
            return 0.0
        largest = largest_loss(run, neighbors)
        return min(run.epsilon(delta, neighbors=neighbors).upper, largest) if delta else largest

    def get_delta(self, target_epsilon: float) -> float:
        """An upper bound of delta at ``target_epsilon``, any number or infinity."""
        epsilon = target_epsilon if _is_infinite(target_epsilon) else _check.real("target_epsilon", target_epsilon)
        run, neighbors = self._asked()
        if _reveals(run) or epsilon == -math.inf:
            return 1.0
        if epsilon >= largest_loss(run, neighbors) < math.inf:
            return 0.0
        return run.delta(min(epsilon, _check.LARGEST), neighbors=neighbors).upper

    @property
    def orders(self) -> NDArray[np.float64]:
        """The orders of Renyi divergences that ``get_epsilon_and_optimal_order`` chooses from."""
        return np.copy(self._orders)

    def get_epsilon_and_optimal_order(self, target_delta: float) -> tuple[float, float]:
        """``get_epsilon``, and the order whose Renyi divergence alone would bound epsilon best.

        The order is for information alone; the bound does not use it.
        """
        epsilon = self.get_epsilon(target_delta)
        run, neighbors = self._asked()
        return epsilon, best_order(run, neighbors, target_delta, epsilon, np.sort(self._orders))

    def privacy_loss_distribution(self) -> Any:
        """A ``PrivacyLossDistribution`` above the privacy curve (``privacy_loss_distribution`` of this module says how
        far) on the grid of ``value_discretization_interval``."""
        run, neighbors = self._asked()
        return privacy_loss_distribution(run, neighbors, self._interval)

    def _asked(self) -> tuple[Composition, Neighbors]:
        """What to ask, and under which relation.

        What is stated for neighbours under "replace" needs no translation, but the rest does; where a mechanism has no
        translated form, the worse bound of what is stated for adding or removing serves (replace.md section 1).
        """
        own, stated, _ = self._spent
        if self.neighboring_relation == REPLACE and stated:
            translated = translate(own.parts)
            if translated is not None:
                return Composition(translated) + stated, "add_or_remove"
        return own + stated, NEIGHBORS[self.neighboring_relation]


def _unwrapped(event: Any, count: Any) -> tuple[Any, Any]:
    """The event below repetitions, and how often it runs: as the ledger has it, which finds out by recursion."""
    while isinstance(event, dp_event.SelfComposedDpEvent) and isinstance(count, int) and event.count > 0:
        event, count = event.event, count * event.count
    return event, count


def _reveals(run: Composition) -> bool:
    return any(mechanism == REVEALS for mechanism, _ in run.parts)


def _is_infinite(x: Any) -> bool:
    return isinstance(x, (int, float, np.floating)) and math.isinf(x)
