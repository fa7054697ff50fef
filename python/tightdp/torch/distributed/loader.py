"""Each rank's share of the batches that all ranks draw alike."""

from __future__ import annotations

from typing import Any

from ...release.noise import RandomSource
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
        self._world, self._key = world, key
        super().__init__(account, dataset, **options)

    def _stream(self, number: int) -> RandomSource:
        return self._key.at(number)

    def _cuts(self, rows: Rows) -> list[Rows]:
        rank, size = self._world.rank, self._world.size
        if self.physical_batch_size is not None:
            return super()._cuts(rows)[rank::size]
        share = rows[len(rows) * rank // size : len(rows) * (rank + 1) // size]
        return [share] if len(share) else []


class SharedImportanceLoader(ImportanceLoader, SharedLoader):
    """The candidates of a run of several ranks, which all ranks draw alike; each looks at its share of them."""
