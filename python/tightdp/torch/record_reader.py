"""How records become batches: each is read and collated alone, so that nothing of the others can enter it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from . import collated
from .coins import seed_generators

Part = tuple[Any, int]
"""Collated records of one shape, and their number."""


class RecordReader(Dataset[Any]):
    """A data set whose items are records that are read with coins of their own; ``collate`` makes a batch of one of
    each.

    An index is a pair: the record's in ``dataset``, and the seed of the global generators while it is read.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self._dataset, self._collate = dataset, collate

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, drawn: tuple[int, int]) -> Any:
        index, seed = drawn
        seed_generators(seed)
        record = self._dataset[index]
        return record if self._collate is None else self._collate([record])


class RecordCollator:
    """Puts records of one form and one shape together, so that no record is padded to the length of another.

    ``alone`` says that each was made a batch of one; PyTorch's own collation stacks records of one form, each by
    itself. ``in_order`` leaves records in their order, and makes a new part wherever the form changes.
    """

    def __init__(self, *, alone: bool, in_order: bool) -> None:
        self._join, self._in_order = _join_records if alone else default_collate, in_order

    def __call__(self, records: list[Any]) -> list[Part]:
        groups: dict[Any, list[Any]] = {}
        changes, last = 0, None
        for record in records:
            form = _describe_form(record)
            changes += self._in_order and form != last
            last = form
            groups.setdefault((changes, form), []).append(record)
        return [(self._join(group), len(group)) for group in groups.values()]


def _describe_form(x: Any) -> Any:
    """What a record is made of, apart from the numbers in it."""
    if isinstance(x, torch.Tensor):
        return x.dtype, x.shape, x.layout
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape
    if isinstance(x, Mapping):
        return type(x), *((key, _describe_form(inner)) for key, inner in x.items())
    if isinstance(x, (list, tuple)):
        return type(x), *map(_describe_form, x)
    return type(x)


def _join_records(records: list[Any]) -> Any:
    """One batch of batches of one, of one form. ValueError for what is not made of dense tensors of one row."""
    found = [collated.split_records(record, 1) for record in records]
    rows = [torch.cat(column) for column in zip(*(tensors for tensors, _ in found), strict=True)]
    return found[0][1](rows)


def check_reads_repeat(reader: RecordReader, drawn: list[tuple[int, int]], order: list[int]) -> None:
    """ValueError unless each record is read alike, with the same coins, whenever its turn comes in ``order``."""
    found: dict[int, Any] = {}
    for i in order:
        content = _record_content(reader[drawn[i]])
        if found.setdefault(i, content) != content:
            raise ValueError(
                "dataset and collate_fn must make the same of a record whatever was read before it: a record was read "
                "again, with the same seed of all global generators, and became something else. Keep no count, "
                "iterator or generator between records, and draw from the global generators of PyTorch, NumPy or "
                "random, which are seeded for each record"
            )


def _record_content(record: Any) -> Any:
    tensors, _ = collated.split_records(record, 1)
    return collated.describe_structure(record), [
        (t.shape, t.detach().contiguous().view(torch.uint8).tolist()) for t in tensors
    ]
