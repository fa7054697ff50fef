"""Checks the data loader that a user gives, and keeps the public facts about its batches."""

from __future__ import annotations

from typing import Any

from opacus.data_loader import CollateFnWithEmpty, DPDataLoader
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from .sampler import CountingOpacusSampler

_DECLARED = "_declared_batch_size"
"""Name of the attribute of a private loader that keeps the batch size of the original loader."""


def require_replaceable_opacus_batches(data_loader: Any) -> None:
    """Raises ValueError unless an epoch of the loader visits each record once, in batches of a fixed size.

    Poisson batches may replace only such batches. A sampler with weights or with replacement draws records with other
    probabilities. A sampler of a subset leaves out records that Poisson batches would hold.
    """
    if isinstance(data_loader, DPDataLoader) or isinstance(data_loader.batch_sampler, CountingOpacusSampler):
        return
    sampler = data_loader.sampler
    plain = isinstance(sampler, (SequentialSampler, DistributedSampler)) or (
        isinstance(sampler, RandomSampler)
        and not sampler.replacement
        and sampler.num_samples == len(sampler.data_source)
    )
    if not plain:
        raise ValueError(
            f"data_loader must draw each record once an epoch, as with shuffle=True, got the sampler "
            f"{type(sampler).__name__}: pass a part of the records as torch.utils.data.Subset, and weights in the loss"
        )
    if data_loader.batch_size is None and type(data_loader.batch_sampler) is not BatchSampler:
        raise ValueError(
            f"data_loader must have a batch_size, got the batch sampler {type(data_loader.batch_sampler).__name__}"
        )


def read_opacus_batch_size(data_loader: Any) -> int | None:
    """Returns the declared batch size over all processes, which is public, or None if none was declared."""
    kept: int | None = getattr(data_loader, _DECLARED, None)
    if kept is not None:
        return kept
    declared: int | None = getattr(data_loader.batch_sampler, "batch_size", None)
    sampler = data_loader.sampler
    return declared * sampler.num_replicas if declared and isinstance(sampler, DistributedSampler) else declared


def remember_opacus_batch_size(loader: Any, data_loader: Any) -> None:
    """Stores the declared batch size of ``data_loader`` in the private ``loader``, which may be made private again."""
    declared = read_opacus_batch_size(data_loader)
    if declared is not None:
        object.__setattr__(loader, _DECLARED, declared)


def prepare_empty_opacus_batches(loader: Any) -> None:
    """Shows the loader's collate function what an empty batch looks like, so that the first batch may be empty.

    Opacus takes the form of an empty batch from the first batch that has a record. Before that, Opacus guesses a batch
    of lists, which fails for records that are dicts. So this function collates record 0. Only the shapes and types of
    this record matter, which are taken to be public for all records.
    """
    collate = loader.collate_fn
    if isinstance(collate, CollateFnWithEmpty) and collate.first_batch is None and len(loader.dataset):
        collate([loader.dataset[0]])
