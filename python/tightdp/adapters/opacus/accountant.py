"""An Opacus accountant that answers with our upper bound."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from opacus.accountants import IAccountant, RDPAccountant, register_accountant

from ... import _check
from ..._renewed import RenewedLock
from ...accounting import accountant
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled
from .._orders import best_order
from . import little_noise

Entry = tuple[Any, Any, Any]
"""Noise multiplier, sample rate and number of steps, as Opacus keeps them."""
_Read = tuple[list[Entry], accountant.Accountant | None, int]
"""The history at the last question, an account of it, and the process that the account belongs to."""

_NO_NOISE = 1e-9
"""Noise multipliers below serve no purpose but a search that halves them without end."""
_lock = RenewedLock()
"""Held while a step is recorded or a history read. One for all: it is held for microseconds."""


class Accountant(IAccountant):
    """Steps of DP-SGD with Poisson batches: each is ``PoissonSampled(Gaussian(noise_multiplier), sample_rate)``.

    ``history`` is a list of (noise multiplier, sample rate, steps), as Opacus' own accountants keep it. It may be read,
    edited and replaced at any time: every question reads it anew. Neighbours differ in one record that is added or
    removed. Any number of threads may record steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any]
        self._read: _Read = [], accountant.Accountant(), os.getpid()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Records a step. ValueError for a negative noise multiplier or a sample rate beyond 1: an optimiser that
        accumulates more batches than an epoch has counts a record more than once."""
        sigma, q = _step(noise_multiplier, sample_rate)
        with _lock.now:
            last = tuple(self.history[-1]) if self.history else ()
            if last[:2] == (sigma, q):
                self.history[-1] = (sigma, q, last[2] + 1)
            else:
                self.history.append((sigma, q, 1))

    def get_epsilon(self, delta: float, *args: object, **kwargs: object) -> float:
        """The upper bound on epsilon at ``delta``, in [0, 1]; further arguments, of other accountants, are ignored.

        0.0 before the first step. Infinity after a step without noise, and for ``delta`` = 0. At noise multipliers up
        to 0.4 it takes a few milliseconds, where the bound of ``composition`` may take 0.4 s, and may exceed that
        bound by a part in 10^3, or in 100 below 0.025.

        ValueError where epsilon is 0 although the noise multipliers of a non-empty history are positive and below
        1e-9, which protects nothing: every noise multiplier meets every target then, and
        the search of ``get_noise_multiplier`` for the smallest one would not end.
        """
        target = _check.closed_unit("delta", delta)
        account = self._account()
        if target == 1 or (account is not None and self._taken_part() <= target):
            return self._nothing(target)
        if account is None or target == 0:
            return math.inf
        found = little_noise.epsilon(account, target)
        return (account.epsilon(target).upper if found is None else found) or self._nothing(target)

    def get_privacy_spent(self, *, delta: float, alphas: Any = None) -> tuple[float, float]:
        """``get_epsilon``, and the one of the orders ``alphas`` whose Renyi divergence alone would bound it best.

        The order is for information, for callers of Opacus' ``RDPAccountant``; 0 before the first step."""
        orders = _check.reals("alphas", RDPAccountant.DEFAULT_ALPHAS if alphas is None else alphas)
        if orders.ndim != 1 or not (orders > 1).any():
            raise ValueError(f"alphas must be a sequence of numbers with one above 1, got {alphas!r}")
        epsilon = self.get_epsilon(delta)
        account = self._account()
        if not self.history or account is None:
            return epsilon, 0.0
        return epsilon, best_order(account.composition, "add_or_remove", delta, epsilon, np.sort(orders[orders > 1]))

    def _taken_part(self) -> float:
        """An upper bound on the probability that a record is in a batch at all: else it loses nothing."""
        steps = [(q, n) for _, q, n in map(_entry, self.history) if q * n > 0]
        if any(q == 1 for q, _ in steps):
            return 1.0
        return -math.expm1(math.fsum(n * math.log1p(-q) for q, n in steps)) * (1 + 1e-12)

    def _nothing(self, delta: float) -> float:
        """Epsilon is 0: an error where a search asks for ever less noise."""
        if self.history and all(0 < _entry(entry)[0] < _NO_NOISE for entry in self.history):
            raise ValueError(
                f"noise_multiplier must be at least {_NO_NOISE:g} where epsilon is 0 whatever the noise, as at "
                f"delta={delta!r}, got {self.history!r}: a record is sampled so rarely that no noise is needed"
            )
        return 0.0

    def _account(self) -> accountant.Accountant | None:
        """An account of what ``history`` records, or None where a step had no noise.

        It is kept between questions, and what was recorded since the last one is added.
        """
        with _lock.now:
            entries = [tuple(entry) if isinstance(entry, list) else entry for entry in self.history]
            known, account, process = self._read
            if known == entries and process == os.getpid():
                return account
            further = _further(known, entries) if process == os.getpid() else None
            if further is None:  # edited, or in a forked child, where an account of the parent cannot be added to
                further, account = entries, accountant.Accountant()
            steps = [(sigma, q, count) for sigma, q, count in map(_entry, further) if q * count > 0]
            if any(sigma == 0 for sigma, _, _ in steps):
                account = None
            if account is not None:
                for sigma, q, count in steps:
                    account.compose(PoissonSampled(Gaussian(sigma), q), count)
            self._read = entries, account, os.getpid()
            return account

    @property
    def composition(self) -> Composition:
        """All steps as one value of this library: for both ends of a bound, curves and other relations."""
        account = self._account()
        if account is None:
            raise ValueError("history must have noise in every step, and some noise multiplier is 0")
        return account.composition

    def __len__(self) -> int:
        """The number of steps."""
        return sum(_entry(entry)[2] for entry in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "tightdp"

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over what ``state_dict`` returned. ValueError for another accountant's state or a malformed history,
        and nothing changes then."""
        before = self.history
        super().load_state_dict(state_dict)
        try:
            self.history = [_entry(entry) for entry in self.history]
        except BaseException:
            self.history = before
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {"history": list(self.history)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.history = state["history"]
        self._read = [], accountant.Accountant(), os.getpid()


def _step(noise_multiplier: Any, sample_rate: Any) -> tuple[float, float]:
    return _check.nonnegative("noise_multiplier", noise_multiplier), _check.closed_unit("sample_rate", sample_rate)


def _entry(entry: Any) -> Entry:
    """A checked entry of a history; tuples that are well-formed are returned as they are."""
    if not isinstance(entry, (tuple, list)) or len(entry) != 3:
        raise ValueError(f"history must hold triples (noise multiplier, sample rate, steps), got {entry!r}")
    sigma, q, steps = entry
    return *_step(sigma, q), _check.count("steps", steps, least=0)


def _further(known: list[Entry], entries: list[Entry]) -> list[Entry] | None:
    """What ``entries`` hold beyond ``known``, if they begin with it: the last entry may have grown."""
    n = len(known)
    if not n or len(entries) < n or known[:-1] != entries[: n - 1]:
        return None
    (*before, past), (*now, steps) = known[-1], _entry(entries[n - 1])
    return [(*now, steps - past), *entries[n:]] if before == now and steps >= past else None


register_accountant(Accountant.mechanism(), Accountant, force=True)  # again where this module is reloaded
