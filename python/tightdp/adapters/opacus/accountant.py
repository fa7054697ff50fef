"""An accountant for Opacus that returns tightdp's upper bound."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from opacus.accountants import IAccountant, RDPAccountant, register_accountant

from ..._support import _check
from ..._support.fork_lock import RenewedLock
from ...accounting.running_accounts import accountant, small_noise
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled
from .._orders import choose_order_for_adapters

Entry = tuple[Any, Any, Any]
"""Type of an entry of Opacus' histories: noise multiplier, sample rate and number of steps."""
_KnownHistory = tuple[list[Entry], accountant.Accountant | None, int]
"""Type of the values that are kept between calls: a history, its account, and the process that owns the account."""

_NO_NOISE = 1e-9
"""Smallest noise multiplier that counts as protection. If every noise multiplier meets the target, Opacus' search for
the smallest one halves the noise without end. Noise multipliers below this number are a sign of such a search."""
_lock = RenewedLock()
"""Lock that is held for microseconds while a step is recorded or a history is read. All accountants share it."""


class Accountant(IAccountant):
    """An accountant of DP-SGD with Poisson batches.

    Each step is charged as ``PoissonSampled(Gaussian(noise_multiplier), sample_rate)``. Neighbours differ in one record
    that is added or removed. ``history`` is a list of (noise multiplier, sample rate, steps), as in Opacus' own
    accountants. The list may be read, edited and replaced at any time, because every method reads it again. Any number
    of threads may call ``step``.

    >>> from tightdp.adapters.opacus import Accountant
    >>> account = Accountant()
    >>> for _ in range(1000):
    ...     account.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> round(account.get_epsilon(delta=1e-5), 6), account.history
    (1.828237, [(1.0, 0.01, 1000)])
    >>> copy = Accountant()
    >>> copy.load_state_dict(account.state_dict())
    >>> copy.get_privacy_spent(delta=1e-5)[0] == account.get_epsilon(1e-5), copy.mechanism()
    (True, 'tightdp')
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any]
        self._read: _KnownHistory = [], accountant.Accountant(), os.getpid()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Records a step. Raises ValueError for a negative noise multiplier or a sample rate beyond 1.

        The rate exceeds 1 if an optimiser adds up more batches than an epoch has. A record may then occur twice.
        """
        sigma, q = _check_opacus_step(noise_multiplier, sample_rate)
        with _lock.now:
            last = tuple(self.history[-1]) if self.history else ()
            if last[:2] == (sigma, q):
                self.history[-1] = (sigma, q, last[2] + 1)
            else:
                self.history.append((sigma, q, 1))

    def get_epsilon(self, delta: float, *args: object, **kwargs: object) -> float:
        """Returns an upper bound on epsilon at ``delta`` in [0, 1]. Arguments of other accountants are ignored.

        The bound is 0.0 before the first step. The bound is infinite after a step without noise, and for ``delta`` = 0.
        At noise multipliers up to 0.4, a faster bound is used, which takes a few milliseconds. The bound of
        ``composition`` may take 0.4 s. The faster bound may be larger by one part in 1,000, or by one part in 100 below
        a noise multiplier of 0.025.

        Epsilon is 0 even without noise if ``delta`` is at least the probability that a record is in any batch. Every
        noise multiplier then meets every target. The search of Opacus' ``get_noise_multiplier`` for the smallest noise
        multiplier would not end. Therefore, an epsilon of 0 raises ValueError if all noise multipliers of a non-empty
        history are positive and below 1e-9.
        """
        target = _check.closed_unit("delta", delta)
        account = self._read_opacus_history()
        if target == 1 or (account is not None and self._bound_opacus_participation() <= target):
            return self._return_zero_to_opacus(target)
        if account is None or target == 0:
            return math.inf
        found = small_noise.bound_epsilon_of_small_noise(account, target)
        return (account.epsilon(target).upper if found is None else found) or self._return_zero_to_opacus(target)

    def get_privacy_spent(self, *, delta: float, alphas: Any = None) -> tuple[float, float]:
        """Returns the bound of ``get_epsilon``, and the best order among ``alphas``.

        The best order is the one whose Renyi divergence alone would give the smallest bound. It is returned for
        information, as by Opacus' ``RDPAccountant``, and is 0 before the first step.

        ``delta`` is in [0, 1]. Raises ValueError unless ``alphas`` are numbers and at least one of them is above 1.
        """
        orders = _check.check_array_argument("alphas", RDPAccountant.DEFAULT_ALPHAS if alphas is None else alphas)
        if orders.ndim != 1 or not (orders > 1).any():
            raise ValueError(f"alphas must be a sequence of numbers with one above 1, got {alphas!r}")
        epsilon = self.get_epsilon(delta)
        account = self._read_opacus_history()
        if not self.history or account is None:
            return epsilon, 0.0
        return epsilon, choose_order_for_adapters(
            account.composition, "add_or_remove", delta, epsilon, np.sort(orders[orders > 1])
        )

    def _bound_opacus_participation(self) -> float:
        """Returns an upper bound on the probability that a record is in any batch. Delta never exceeds this
        probability."""
        steps = [(q, n) for _, q, n in map(_check_opacus_entry, self.history) if q * n > 0]
        if any(q == 1 for q, _ in steps):
            return 1.0
        return -math.expm1(math.fsum(n * math.log1p(-q) for q, n in steps)) * (1 + 1e-12)

    def _return_zero_to_opacus(self, delta: float) -> float:
        """Returns an epsilon of 0.

        Raises ValueError if the history looks as if a search keeps trying less noise.
        """
        if self.history and all(0 < _check_opacus_entry(entry)[0] < _NO_NOISE for entry in self.history):
            raise ValueError(
                f"noise_multiplier must be at least {_NO_NOISE:g} where epsilon is 0 whatever the noise, as at "
                f"delta={delta!r}, got {self.history!r}: a record is sampled so rarely that no noise is needed"
            )
        return 0.0

    def _read_opacus_history(self) -> accountant.Accountant | None:
        """Returns an account of the steps in ``history``, or None if a step had no noise.

        The account is kept between calls. Later calls only add the steps that are new in ``history``.
        """
        with _lock.now:
            entries = [tuple(entry) if isinstance(entry, list) else entry for entry in self.history]
            known, account, process = self._read
            if known == entries and process == os.getpid():
                return account
            further = _find_added_opacus_steps(known, entries) if process == os.getpid() else None
            if further is None:  # the history was edited, or a forked child cannot use the parent's account
                further, account = entries, accountant.Accountant()
            steps = [(sigma, q, count) for sigma, q, count in map(_check_opacus_entry, further) if q * count > 0]
            if any(sigma == 0 for sigma, _, _ in steps):
                account = None
            if account is not None:
                for sigma, q, count in steps:
                    account.compose(PoissonSampled(Gaussian(sigma), q), count)
            self._read = entries, account, os.getpid()
            return account

    @property
    def composition(self) -> Composition:
        """Composition of all steps. Use it for lower bounds, curves and other neighbouring relations."""
        account = self._read_opacus_history()
        if account is None:
            raise ValueError("history must have noise in every step, and some noise multiplier is 0")
        return account.composition

    def __len__(self) -> int:
        """Returns the number of steps."""
        return sum(_check_opacus_entry(entry)[2] for entry in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Returns the name under which Opacus knows this accountant."""
        return "tightdp"

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Sets the state to one that ``state_dict`` returned.

        Raises ValueError for another accountant's state or a malformed history. The state then stays as it was.
        """
        before = self.history
        super().load_state_dict(state_dict)
        try:
            self.history = [_check_opacus_entry(entry) for entry in self.history]
        except BaseException:
            self.history = before
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {"history": list(self.history)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.history = state["history"]
        self._read = [], accountant.Accountant(), os.getpid()


def _check_opacus_step(noise_multiplier: Any, sample_rate: Any) -> tuple[float, float]:
    return _check.nonnegative("noise_multiplier", noise_multiplier), _check.closed_unit("sample_rate", sample_rate)


def _check_opacus_entry(entry: Any) -> Entry:
    """Returns an entry of a history as a checked triple."""
    if not isinstance(entry, (tuple, list)) or len(entry) != 3:
        raise ValueError(f"history must hold triples (noise multiplier, sample rate, steps), got {entry!r}")
    sigma, q, steps = entry
    return *_check_opacus_step(sigma, q), _check.check_count_argument("steps", steps, least=0)


def _find_added_opacus_steps(known: list[Entry], entries: list[Entry]) -> list[Entry] | None:
    """Returns the steps in ``entries`` that are not in ``known``.

    Returns None if ``known`` is empty, or if ``entries`` do not begin with it. The last entry of ``known`` may have a
    larger number of steps in ``entries``.
    """
    n = len(known)
    if not n or len(entries) < n or known[:-1] != entries[: n - 1]:
        return None
    (*before, past), (*now, steps) = known[-1], _check_opacus_entry(entries[n - 1])
    return [(*now, steps - past), *entries[n:]] if before == now and steps >= past else None


register_accountant(Accountant.mechanism(), Accountant, force=True)  # force: this module may be reloaded
