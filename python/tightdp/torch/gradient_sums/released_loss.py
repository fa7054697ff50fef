"""The release of the training loss: each step adds up clipped losses together with the gradients.

The sum of losses and the sum of gradients are over the same Poisson sample. One Gaussian mechanism releases both
(docs/theory/training.md, section 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from ..._support.strict_json import check_json_entries, read_json_value
from ...clipping_and_noise.noise import RandomSource
from ...models.contribution_grid import choose_contribution_grid
from ..batches import collated_batch
from ..batches.batch_places import BatchPlaces
from ..plan.loss_release import LossRelease
from ..randomness.process_group import World
from .sum_noise import add_noise_to_gradient_sums

LOSS_STREAMS = 2**63 + 2**62
"""Number of the first stream of random numbers for noise on losses. Each step uses one such stream. The streams for
noise on gradients begin at 2^63."""
_FINE_NOISE = 31
"""Number k that limits how fine the grid of losses is. Let d be the largest power of two that is at most the standard
deviation of the noise. The grid step is at least 2^-k d."""


class MeanLoss(NamedTuple):
    """A released mean of the clipped losses of some steps. ``noise`` is the standard deviation of the mean's noise.

    ``step`` counts from 1, and ``mean`` and ``noise`` are in the unit of the loss. A run that was made with a
    ``release_loss`` lists its means in ``losses_``. The constructor of ``MeanLoss`` checks nothing, so it raises no
    error.

    >>> from tightdp.torch import MeanLoss
    >>> MeanLoss(step=100, mean=0.41, noise=0.02).mean
    0.41
    """

    step: int
    """Number of the last of these steps."""
    mean: float
    noise: float


class LossSum:
    """The integer sum of clipped losses of a step, and the means that were released so far.

    ``divisor`` is the expected number of records in a step, and ``steps`` is the number of steps of the run.
    """

    def __init__(
        self, release: LossRelease, noise_multiplier: float, divisor: float, steps_per_epoch: int, steps: int
    ) -> None:
        self._bound, self._divisor, self._steps = float(release.bound), divisor, steps
        self._every = steps_per_epoch if release.every is None else release.every
        self._deviation = release.loss_multiplier(noise_multiplier) * self._bound
        self._grid = max(
            choose_contribution_grid(self._bound, 23), choose_contribution_grid(self._deviation, _FINE_NOISE)
        )
        self._total = torch.zeros(1, dtype=torch.int64)
        self._seen: list[Any] = []
        self._window: list[float] = []
        self.released: tuple[MeanLoss, ...] = ()

    def begin_step_of_released_loss(self) -> None:
        """Sets the sum to zero for a new step."""
        self._total.zero_()

    def watch_losses(self, loss_fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Returns a loss function that calls ``loss_fn`` and also stores the losses of all records in this object."""
        self._seen.clear()

        def compute_watched_loss(model: Any, batch: Any) -> Any:
            losses = loss_fn(model, batch)
            if isinstance(losses, torch.Tensor):
                _watch(self._seen.append, losses.detach(), *collated_batch.flatten_batch(batch)[0])
            return losses

        return compute_watched_loss

    def add_to_released_loss(self, records: int, places: BatchPlaces | None) -> None:
        """Clips the stored losses of the last ``records`` records and adds them. A loss that is not finite counts as 0.

        ``places`` tells which rows of the batch are records. The other rows are left out. Earlier stored losses are
        ignored, because the loss function may have been called on zeros to test a way of computing gradients.
        """
        rows = torch.cat([each.reshape(-1) for each in self._seen]).to("cpu", torch.float64).numpy()
        self._seen.clear()
        size = records if places is None else places.size
        assert len(rows) >= size
        rows = rows[len(rows) - size :]
        losses = rows if places is None else rows[places.where]
        kept = np.where(np.isfinite(losses), losses, 0.0).clip(-self._bound, self._bound)
        self._total += int(np.trunc(kept / self._grid).astype(np.int64).sum())

    def release_step_loss(self, step: int, source: RandomSource, world: World) -> None:
        """Releases the sum of losses of a step. Call this once a step, after the step was charged.

        The first process (rank) adds the noise. Means over several steps are computed from released sums alone.
        """
        if world.is_first:
            add_noise_to_gradient_sums([self._total], self._deviation, self._grid, source)
        world.add_over_ranks(self._total)
        self._window.append(int(self._total) * self._grid / self._divisor)
        if step % self._every == 0 or step == self._steps:
            steps = len(self._window)
            noise = self._deviation / self._divisor / math.sqrt(steps)
            self.released += (MeanLoss(step, math.fsum(self._window) / steps, noise),)
            self._window.clear()

    def export_state(self) -> dict[str, Any]:
        """Returns the released means, and the sums of steps that have no mean yet, as values that JSON can hold."""
        return {"released": [list(each) for each in self.released], "window": list(self._window)}

    def check_state_of_sums(self, given: Any) -> None:
        """Raises ValueError unless ``given`` has the form that ``export_state`` returns."""
        _read_state_of_released_loss(given)

    def import_state_of_sums(self, given: Any) -> None:
        """Restores the state that ``export_state`` returned."""
        self.released, self._window = _read_state_of_released_loss(given)


def _read_state_of_released_loss(given: Any) -> tuple[tuple[MeanLoss, ...], list[float]]:
    """Returns the released means, and the sums of steps that have no mean yet, from a saved state."""
    try:
        check_json_entries("losses", given, ("released", "window"))
        released = read_json_value(tuple[tuple[int, float, float], ...], given["released"], "released")
        return tuple(MeanLoss(*each) for each in released), list(
            read_json_value(tuple[float, ...], given["window"], "window")
        )
    except ValueError as error:
        raise ValueError(f"state must hold the losses that its run released: {error}") from None


class _WatchedLosses(torch.autograd.Function):
    """A function that calls ``keep`` with losses. Under ``torch.func.vmap`` it passes the losses of all records.

    Further arguments are tensors that depend on the records. PyTorch finds the axis of the records by these tensors.
    """

    @staticmethod
    def forward(keep: Any, losses: Any, *records: Any) -> Any:
        keep(losses)
        return torch.zeros(())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keeps nothing, because no gradient goes through this function."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, keep: Any, losses: Any, *records: Any) -> Any:
        dim = in_dims[1]
        keep(losses.expand(info.batch_size, *losses.shape) if dim is None else losses.movedim(dim, 0))
        return torch.zeros(()), None


_watch: Any = _WatchedLosses.apply
"""Calls ``keep(losses)``. The arguments are (keep, losses, *tensors that depend on the records)."""
