"""Each rank's share of the batches that all ranks draw alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..account import Account
from ..importance import ImportanceLoader
from ..loader import Rows, RunLoader
from ..world import World
from .key import Key


class SharedLoader(RunLoader):
    """The batches of a run of several ranks. Batch k of a run comes from stream k of its key, by record index.

    With ``physical_batch_size`` a batch is cut as on one rank, and the ranks take the pieces in turn: the same physical
    batches whatever their number. Without it every rank takes one piece, of about equal sizes.
    """

    def __init__(self, account: Account, dataset: Any, world: World, key: Key, **options: Any) -> None:
        self._world, self._key, self._next = world, key, 0
        super().__init__(account, dataset, **options)

    def _drawn(self, steps: int) -> Iterator[Rows]:
        first = max(self._next, self._account.steps)  # a run that was resumed is past the streams of its steps
        self._next = first + steps
        for number in range(first, first + steps):
            yield self._draw(self._key.at(number))

    def _pieces(self, rows: Rows) -> list[Rows]:
        rank, size = self._world.rank, self._world.size
        if self.physical_batch_size is not None:
            return super()._pieces(rows)[rank::size]
        share = rows[len(rows) * rank // size : len(rows) * (rank + 1) // size]
        return [share] if len(share) else []


class SharedImportanceLoader(ImportanceLoader, SharedLoader):
    """The candidates of a run of several ranks, which all ranks draw alike; each looks at its share of them."""
