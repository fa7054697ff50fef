"""An Opacus accountant that answers with our upper bound."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from typing import Any

from opacus.accountants import IAccountant, register_accountant

from ... import _check
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled

Entry = tuple[Any, Any, Any]
"""Noise multiplier, sample rate and number of steps, as Opacus keeps them."""

_lock = threading.RLock()
"""Held while a step is recorded. One for all: it is held for a microsecond."""


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # a thread that the child does not have may hold it
    os.register_at_fork(after_in_child=_new_lock)


class Accountant(IAccountant):
    """Steps of DP-SGD with Poisson batches: each is ``PoissonSampled(Gaussian(noise_multiplier), sample_rate)``.

    ``history`` is a list of (noise multiplier, sample rate, steps), as Opacus' own accountants keep it. It may be read,
    edited and replaced at any time: every question reads it anew. Neighbours differ in one record that is added or
    removed. Any number of threads may record steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any]
        self._merged: tuple[list[Entry], Composition | None] = [], Composition()

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Records a step. ValueError for a negative noise multiplier or a sample rate beyond 1: an optimiser that
        accumulates more batches than an epoch has counts a record more than once."""
        sigma, q = _step(noise_multiplier, sample_rate)
        with _lock:
            last = tuple(self.history[-1]) if self.history else ()
            if last[:2] == (sigma, q):
                self.history[-1] = (sigma, q, last[2] + 1)
            else:
                self.history.append((sigma, q, 1))

    def get_epsilon(self, delta: float, *args: object, **kwargs: object) -> float:
        """The upper bound on epsilon at ``delta``, in [0, 1]; further arguments, of other accountants, are ignored.

        0.0 before the first step. Infinity after a step without noise, and for ``delta`` = 0.
        """
        target = _check.closed_unit("delta", delta)
        run = self._composition()
        if target == 1 or (run is not None and not run.parts):
            return 0.0
        return math.inf if run is None or target == 0 else run.epsilon(target).upper

    def _composition(self) -> Composition | None:
        """What ``history`` records, or None where a step had no noise."""
        entries = [tuple(entry) if isinstance(entry, list) else entry for entry in self.history]
        known, composition = self._merged
        if known != entries:
            further, composition = _further(known, entries, composition)
            steps = [(sigma, q, count) for sigma, q, count in map(_entry, further) if q * count > 0]
            if composition is not None:
                silent = any(sigma == 0 for sigma, _, _ in steps)
                composition = None if silent else composition + _composed(steps)
            self._merged = entries, composition
        return composition

    @property
    def composition(self) -> Composition:
        """All steps as one value of this library: for both ends of a bound, curves and other relations."""
        run = self._composition()
        if run is None:
            raise ValueError("history must have noise in every step, and some noise multiplier is 0")
        return run

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
        self._merged = [], Composition()


def _step(noise_multiplier: Any, sample_rate: Any) -> tuple[float, float]:
    return _check.nonnegative("noise_multiplier", noise_multiplier), _check.closed_unit("sample_rate", sample_rate)


def _entry(entry: Any) -> Entry:
    """A checked entry of a history; tuples that are well-formed are returned as they are."""
    if not isinstance(entry, (tuple, list)) or len(entry) != 3:
        raise ValueError(f"history must hold triples (noise multiplier, sample rate, steps), got {entry!r}")
    sigma, q, steps = entry
    return *_step(sigma, q), _check.count("steps", steps, least=0)


def _composed(steps: list[Entry]) -> Composition:
    return Composition((PoissonSampled(Gaussian(sigma), q), count) for sigma, q, count in steps)


def _further(
    known: list[Entry], entries: list[Entry], composition: Composition | None
) -> tuple[list[Entry], Composition | None]:
    """What ``entries`` hold beyond ``known``, and ``composition`` of that; all of them, if they begin otherwise.

    The last entry may have grown.
    """
    n = len(known)
    if n and known[:-1] == entries[: n - 1] and len(entries) >= n:
        (*before, past), (*now, steps) = known[-1], _entry(entries[n - 1])
        if before == now and steps >= past:
            return [(*now, steps - past), *entries[n:]], composition
    return entries, Composition()


register_accountant(Accountant.mechanism(), Accountant, force=True)  # again where this module is reloaded
