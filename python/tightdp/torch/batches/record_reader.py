"""Makes batches of records. Each record is read and collated (turned into a batch of one) alone, so that no other
record can affect it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from ..randomness.global_generators import seed_global_generators
from . import collated_batch

Part = tuple[Any, int]
"""A batch of records that have the same form (``RecordCollator``), and the number of these records."""


class AloneRead(NamedTuple):
    """A record that was read and collated alone."""

    batch: Any
    raw: Any
    """Result of ``describe_batch_record_content`` for the record that the data set returned."""
    collated: Any
    """Result of ``describe_batch_record_content`` for ``batch``."""


class DatasetReader(Dataset[Any]):
    """A data set that reads each record with a random seed of its own, and collates it to a batch of one record.

    An index of this data set is a pair of the record's index in ``dataset`` and a seed. The global generators have this
    seed while the record is read.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None) -> None:
        self._dataset, self._collate = dataset, collate

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, drawn: tuple[int, int]) -> Any:
        # The copy is made before the next record is read, because a data set may use one buffer for all records.
        return copy_tensors_of_record(self.collate_single_record_batch(self.read_uncollated(drawn)))

    def read_uncollated(self, drawn: tuple[int, int]) -> Any:
        """Returns the record of the data set at an index, before it is collated."""
        index, seed = drawn
        seed_global_generators(seed)
        return self._dataset[index]

    def collate_single_record_batch(self, record: Any) -> Any:
        return record if self._collate is None else self._collate([record])

    def read_record_content_for_batch(self, drawn: tuple[int, int]) -> AloneRead:
        """Reads and collates a record, and describes its content after reading and after collating."""
        record = self.read_uncollated(drawn)
        raw = describe_batch_record_content(record)
        batch = copy_tensors_of_record(self.collate_single_record_batch(record))
        return AloneRead(batch, raw, describe_batch_record_content(batch))


def copy_tensors_of_record(x: Any) -> Any:
    """Returns a record whose tensors and arrays share no memory with those of ``x``."""
    if isinstance(x, torch.Tensor):
        return x.clone()
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, Mapping):
        inner = {key: copy_tensors_of_record(value) for key, value in x.items()}
        if type(x) is dict or not isinstance(x, MutableMapping):
            return inner
        made = copy.copy(x)  # the constructor may need other arguments
        made.update(inner)
        return made
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(copy_tensors_of_record, x))
    return type(x)(map(copy_tensors_of_record, x)) if isinstance(x, (list, tuple)) else x


class RecordCollator:
    """A function that collates records into parts, one for each form, so that no record is padded to another's length.

    The form of a record is its structure, its types and its shapes. ``alone`` says that each record is already a batch
    of one. Otherwise PyTorch's own collation stacks the records of one form. ``in_order`` keeps the order of the
    records, and begins a new part wherever the form changes.
    """

    def __init__(self, *, alone: bool, in_order: bool) -> None:
        self._join, self._in_order = join_collated_records if alone else default_collate, in_order

    def __call__(self, records: list[Any]) -> list[Part]:
        groups = group_batch_records_by_form(map(describe_batch_record_form, records), in_order=self._in_order)
        return [(self._join([records[i] for i in group]), len(group)) for group in groups]


def group_batch_records_by_form(forms: Iterable[Any], *, in_order: bool = False) -> list[list[int]]:
    """Returns a list of positions for each form. With ``in_order`` a new list begins wherever the form changes."""
    groups: dict[Any, list[int]] = {}
    changes, last = 0, None
    for i, form in enumerate(forms):
        changes += in_order and form != last
        last = form
        groups.setdefault((changes, form), []).append(i)
    return list(groups.values())


def describe_batch_record_form(x: Any) -> Any:
    """Returns the structure, types and shapes of a record, without its values."""
    if isinstance(x, torch.Tensor):
        return x.dtype, x.shape, x.layout
    if isinstance(x, np.ndarray):
        return x.dtype, x.shape
    if isinstance(x, Mapping):
        return type(x), *((key, describe_batch_record_form(inner)) for key, inner in x.items())
    if isinstance(x, (list, tuple)):
        return type(x), *map(describe_batch_record_form, x)
    return type(x)


def join_collated_records(records: list[Any]) -> Any:
    """Joins batches that hold one record each and have the same form.

    Raises ValueError unless the batches consist of dense tensors of one row.
    """
    found = [collated_batch.split_collated_batch(record, 1) for record in records]
    rows = [torch.cat(column) for column in zip(*(tensors for tensors, _ in found), strict=True)]
    return found[0][1](rows)


def check_record_reader_repeats(reader: DatasetReader, drawn: list[tuple[int, int]], order: list[int]) -> None:
    """Raises ValueError if a record that is read several times, with the same seed, differs between two readings.

    ``order`` has positions in ``drawn``. A position that occurs several times is read several times.
    """
    found: dict[int, Any] = {}
    for i in order:
        content = _describe_collated_record(reader[drawn[i]])
        if found.setdefault(i, content) != content:
            raise ValueError(
                "dataset and collate_fn must make the same of a record whatever was read before it: a record was read "
                "again, with the same seed of all global generators, and became something else. Keep no count, "
                "iterator or generator between records, and draw from the global generators of PyTorch, NumPy or "
                "random, which are seeded for each record"
            )


def _describe_collated_record(record: Any) -> Any:
    """Returns the structure, the shapes and the bytes of a collated record, for comparison with another reading."""
    tensors, _ = collated_batch.split_collated_batch(record, 1)
    return collated_batch.describe_batch_structure(record), [
        (t.shape, t.detach().contiguous().view(torch.uint8).tolist()) for t in tensors
    ]


def describe_batch_record_content(x: Any) -> Any:
    """Returns the form and the bytes of ``x``, for comparison with a later reading of the same record.

    An object that cannot be pickled is described by its type alone.
    """
    if isinstance(x, torch.Tensor) and x.layout is torch.strided and not x.is_nested:
        return describe_batch_record_form(x), x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(x, Mapping):
        return type(x), [(key, describe_batch_record_content(inner)) for key, inner in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x), [describe_batch_record_content(inner) for inner in x]
    try:
        return type(x), pickle.dumps(x)
    except (pickle.PicklingError, TypeError, AttributeError):
        return type(x)
