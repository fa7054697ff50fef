"""A run of several ranks."""

from __future__ import annotations

import hashlib
from typing import Any

from ... import _core
from ...ledger import Ledger
from ...release import clipping
from ..account import Account
from ..run import PrivateRun
from ..sums import Sums
from ..world import Fact
from .key import NOISE, Key
from .loader import SharedLoader
from .ranks import Ranks


class SharedRun(PrivateRun):
    """``PrivateRun`` on several ranks: all call its methods alike, and each adds its share to every step.

    Guarantee: that of ``PrivateRun`` for what all ranks release together, given that they hold the same records in the
    same order and that nobody else reads what they send (docs/theory/training.md, section 6).
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        account: Account,
        loader: SharedLoader,
        key: Key,
        world: Ranks,
        ledger: Ledger | None = None,
    ) -> None:
        self._world = self._ranks = world
        self._key, self._finished = key, 0
        super().__init__(model, optimizer, account, loader, key.at(NOISE), ledger)
        self._identity = world.on_first("the name of the run", lambda: self._identity)
        held = [*model.parameters(), *model.buffers()]
        world.copy_of_first(held)

    def step(self, loss_fn: Any, batch: Any) -> None:
        super().step(loss_fn, batch)
        self._finished += 1

    def _facts(self, batch: Any) -> dict[str, Fact]:
        return {
            "run": lambda: self._identity,
            "key": lambda: self._key.digest,
            "account": lambda: self.steps_,
            "number_of_steps_that_ended": lambda: self._finished,
            "batch": lambda: hashlib.blake2b(batch.rows).digest(),
            "parameters_that_are_trained": lambda: [(name, p.shape) for name, p in self._parameters().items()],
        }

    def _released(self, sums: Sums) -> list[Any]:
        """What ``release`` of all records' sums would be with the step's stream of the key: its noise, by element."""
        flat, totals = sums.integers()
        start, end = (len(flat) * rank // self._world.size for rank in (self._world.rank, self._world.rank + 1))
        number = self.steps_ - (1 if self.plan.count is None else 0)  # the first stream is that of the count
        stream = self._key.at(NOISE + number).stream()
        deviation = clipping.in_steps(self.plan.grid, self.plan.deviation)
        _core.add_rounded_normals(stream, deviation, flat[start:end].numpy(), start)
        self._ranks.add_up(flat)
        return sums.estimates(totals)
