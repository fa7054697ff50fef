"""How records become batches: each is read and collated alone, so that nothing of the others can enter it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch
from torch.utils.data import Dataset, default_collate

from . import examples
from .draws import seed_all

Part = tuple[Any, int]
"""Collated records of one shape, and their number."""


class RecordReader(Dataset[Any]):
    """A data set whose items are records collated alone, each as a batch of one, with coins of its own.

    An index is a pair: the record's in ``dataset``, and the seed of the global generators while it is read.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self._dataset, self._collate = dataset, collate or default_collate

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, drawn: tuple[int, int]) -> Any:
        index, seed = drawn
        seed_all(seed)
        return self._collate([self._dataset[index]])


class Together:
    """Puts records of one shape together, so that no record is padded to the length of another.

    ``in_order`` leaves records in their order, and makes a new part wherever the shape changes. ValueError for what is
    not made of dense tensors of one row.
    """

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order

    def __call__(self, records: list[Any]) -> list[Part]:
        found = [(*examples.split(record, 1), record) for record in records]
        keys = [repr((examples.structure(record), [t.shape for t in tensors])) for tensors, _, record in found]
        order = range(len(records)) if self._in_order else sorted(range(len(records)), key=keys.__getitem__)
        parts = []
        for _, group in groupby(order, key=keys.__getitem__):
            chosen = [found[i] for i in group]
            rows = [torch.cat(column) for column in zip(*(tensors for tensors, _, _ in chosen), strict=True)]
            parts.append((chosen[0][1](rows), len(chosen)))
        return parts


def check_repeats(reader: RecordReader, one: tuple[int, int], other: tuple[int, int]) -> None:
    """ValueError unless a record is read alike, with the same coins, before and after another one."""
    before, _, after = (_content(reader[drawn]) for drawn in (one, other, one))
    if before != after:
        raise ValueError(
            "dataset and collate_fn must make the same of a record whatever was read before it: a record was read "
            "twice, with the same seed of all global generators, and became something else the second time. Keep no "
            "count, iterator or generator between records, and draw from the global generators of PyTorch, NumPy or "
            "random, which are seeded for each record"
        )


def _content(record: Any) -> Any:
    tensors, _ = examples.split(record, 1)
    return examples.structure(record), [(t.shape, t.detach().contiguous().view(torch.uint8).tolist()) for t in tensors]
