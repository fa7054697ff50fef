"""Settings of ``make_private`` that belong together, as frozen objects."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import _check
from ...algorithms.dpis import DPIS
from ..plan.loss_release import LossRelease


@dataclass(frozen=True)
class Batches:
    """Settings by which the records of a step are read and go through the model.

    Parameters
    ----------
    physical_size : the most records that go through the model at once; a step adds up as many as it takes
    padded : whether every physical batch has the same shape and each record draws its own place in one, for the exact
        arithmetic and for products: then no bit of a record's gradient depends on the others, as far as PyTorch's
        kernels compute a row from what it holds and where it stands. It costs the empty places: twice the rows for
        batches of 8 times ``physical_size``, 1.4 times for 32 (docs/theory/training.md, section 8). Without that size
        there are from 8 to 64 places
    collate_fn : as for ``torch.utils.data.DataLoader``, of a list of one record: it makes dense tensors with one row,
        and nothing else. So nothing of a record can enter another. Records of equal shape go through the model
        together: to have all of them go together, pad to a fixed length
    options : of ``torch.utils.data.DataLoader``, such as ``{"num_workers": 2}``: those that decide where and when
        records are read, and neither which nor in what order (``SAFE_OPTIONS`` in ``poisson_loader.py``)

    >>> Batches(physical_size=64, options={"num_workers": 2}).physical_size
    64
    """

    physical_size: int | None = None
    padded: bool = False
    collate_fn: Callable[[list[Any]], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.physical_size is not None:
            _check.count("physical_size", self.physical_size)
        if self.collate_fn is not None and not callable(self.collate_fn):
            raise TypeError(f"collate_fn must be a function of a list of records or None, got {self.collate_fn!r}")
        if not isinstance(self.padded, bool):
            raise TypeError(f"padded must be True or False, got {self.padded!r}")
        if not isinstance(self.options, Mapping) or "collate_fn" in self.options:
            raise TypeError(f"options must be a mapping of those of DataLoader, without collate_fn, got {self.options}")


@dataclass(frozen=True)
class AfterFailure:
    """A checkpoint's folder from which a run may go on although an error ended it.

    That the error came may tell of a record; the statement says that the run went on.
    """

    folder: str | os.PathLike[str]


def check_batches(batches: Any) -> Batches:
    """Returns the settings of batches, the default ones for None."""
    batches = Batches() if batches is None else batches
    if not isinstance(batches, Batches):
        raise TypeError(f"batches must be a Batches of tightdp.torch, got {batches!r}")
    return batches


def split_checkpoint(checkpoint: Any) -> tuple[Any, bool]:
    """Returns the folder of a checkpoint, and whether its run may go on after a failure."""
    after_failure = isinstance(checkpoint, AfterFailure)
    return (checkpoint.folder if after_failure else checkpoint), after_failure


def check_loss_release(given: Any, algorithm: Any) -> LossRelease | None:
    """Returns the checked settings of the release of losses, or None."""
    if given is not None and not isinstance(given, LossRelease):
        raise TypeError(f"release_loss must be a LossRelease of tightdp.torch or None, got {given!r}")
    if given is not None and (algorithm == "dpis" or isinstance(algorithm, DPIS)):
        raise ValueError(
            "release_loss must be None for dpis: records of large gradients are drawn more often, and the mean of "
            "their losses says little of the others"
        )
    return given
