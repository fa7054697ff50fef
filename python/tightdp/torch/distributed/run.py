"""A run of several ranks."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import torch

from ...ledger import Ledger
from ...release import clipping
from ..account import Account
from ..noise import add_share
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
        *,
        saves: bool = False,
        **options: Any,
    ) -> None:
        self._world = self._ranks = world
        self._key, self._finished, self._saves_together = key, 0, saves
        super().__init__(model, optimizer, account, loader, key.at(NOISE), ledger, **options)

    @property
    def _saves(self) -> bool:
        return self._saves_together  # though the first rank alone has the folder

    def _start(self) -> None:
        """All ranks take up the first one's model, and what its checkpoint saved."""
        with self._world.together("the checkpoint"):
            super()._start()
        self._ranks.copy_of_first([*self.model.parameters(), *self.model.buffers()])
        if self._saves:
            file = BytesIO()
            if self._ranks.first:
                torch.save({**self._tensors(), "model": None}, file)
            data = self._ranks.broadcast(file.getvalue())
            if not self._ranks.first:
                found = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
                self._take_up({**found, "model": self.model.state_dict()})

    def step(self, loss_fn: Any, batch: Any) -> None:
        super().step(loss_fn, batch)
        self._finished += 1

    def _facts(self, batch: Any) -> dict[str, Fact]:
        return {
            "run": lambda: self._identity,
            "key": lambda: self._key.digest,
            "account": lambda: self.steps_,
            "number_of_steps_that_ended": lambda: self._finished,
            "batch": lambda: batch._digest,
            "parameters_that_are_trained": lambda: [(name, p.shape) for name, p in self._parameters().items()],
        }

    def _released(self, sums: Sums) -> list[Any]:
        """What ``release`` of all records' sums would be with the step's stream of the key: its noise, by element."""
        flat, totals = sums.integers()
        start, end = (len(flat) * rank // self._world.size for rank in (self._world.rank, self._world.rank + 1))
        number = self.steps_ - (1 if self.plan.count is None else 0)  # the first stream is that of the count
        stream = self._key.at(NOISE + number).stream()
        deviation = clipping.in_steps(self.plan.grid, self._account.now.deviation)
        add_share(stream, deviation, flat, start, end)
        self._ranks.add_up(flat)
        return sums.estimates(totals)
