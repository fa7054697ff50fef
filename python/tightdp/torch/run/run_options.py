"""Frozen dataclasses that group related settings of ``make_private``, and the checks of these settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._support import _check
from ...algorithms.dpis import DPIS
from ..plan.loss_release import LossRelease


@dataclass(frozen=True)
class Batches:
    """Settings for reading the records of a step and for passing them through the model.

    Parameters
    ----------
    physical_size : the largest number of records that go through the model at once. These records are a physical batch,
        and a step adds up the gradients of as many physical batches as it needs. None lets the whole batch go at once,
        unless ``padded`` is True.
    padded : whether all physical batches have the same shape. Each record then draws a random row (its place) in a
        physical batch, independently of the other records. No bit of a record's gradient then depends on other records,
        provided that PyTorch's kernels compute each row from its contents and its position alone. ``padded`` must be
        False for ``arithmetic="float"``. Empty places are computed too. The model then processes twice as many rows as
        records if a batch has ``8 * physical_size`` records, and 1.4 times as many if a batch has
        ``32 * physical_size`` records (docs/theory/training.md, section 8). If ``physical_size`` is None, a padded
        physical batch has 8 to 64 places.
    collate_fn : like the argument of ``torch.utils.data.DataLoader``, but called with a list of one record. It must
        return only dense tensors with one row, so that no part of a record can enter another record. Records of equal
        shape go through the model together. To let all records go together, pad them to a fixed length.
    options : options of ``torch.utils.data.DataLoader``, such as ``{"num_workers": 2}``. Only options that decide where
        and when records are read are accepted (``SAFE_OPTIONS`` in ``poisson_loader.py``). Options that could change
        which records are read, or the order of the records, are refused.

    >>> Batches(physical_size=64, options={"num_workers": 2}).physical_size
    64
    """

    physical_size: int | None = None
    padded: bool = False
    collate_fn: Callable[[list[Any]], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.physical_size is not None:
            _check.check_count_argument("physical_size", self.physical_size)
        _check.check_function_argument("collate_fn", self.collate_fn, "records", optional=True)
        _check.check_dataclass_arguments(self, _check.check_flag_argument, "padded")
        if not isinstance(self.options, Mapping) or "collate_fn" in self.options:
            raise TypeError(f"options must map DataLoader's options to values, without collate_fn, got {self.options}")


@dataclass(frozen=True)
class AfterFailure:
    """The folder of a checkpoint from which a run may go on although an error ended the run.

    The error itself may reveal something about a record. Therefore the statement says that the run went on after an
    error.

    ``folder`` is the path of the folder. ``make_private`` raises an error if the folder holds no checkpoint of such a
    run.

    >>> from tightdp.torch import AfterFailure
    >>> AfterFailure("checkpoints/run").folder
    'checkpoints/run'
    """

    folder: str | os.PathLike[str]


def check_run_options_for_batches(batches: Any) -> Batches:
    """Returns the checked settings of batches. None stands for the default settings."""
    batches = Batches() if batches is None else batches
    if not isinstance(batches, Batches):
        raise TypeError(f"batches must be a Batches of tightdp.torch, got {batches!r}")
    return batches


def split_run_option_of_checkpoint(checkpoint: Any) -> tuple[Any, bool]:
    """Returns the folder of a checkpoint, and whether a run that an error ended may go on from the folder."""
    after_failure = isinstance(checkpoint, AfterFailure)
    return (checkpoint.folder if after_failure else checkpoint), after_failure


def check_run_options_for_loss(given: Any, algorithm: Any) -> LossRelease | None:
    """Returns the checked settings for releasing losses, or None if losses are not released."""
    if given is not None and not isinstance(given, LossRelease):
        raise TypeError(f"release_loss must be a LossRelease of tightdp.torch or None, got {given!r}")
    if given is not None and (algorithm == "dpis" or isinstance(algorithm, DPIS)):
        raise ValueError(
            "release_loss must be None for dpis: records of large gradients are drawn more often, and the mean of "
            "their losses says little about the other records"
        )
    return given
