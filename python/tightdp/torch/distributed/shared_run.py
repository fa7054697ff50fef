"""The run of several ranks (processes) that train one model."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import Any

import torch

from ...clipping_and_noise import clipping
from ..gradient_sums.base_sums import GradientSums
from ..gradient_sums.sum_noise import add_rank_noise_to_gradient_sums
from ..run.private_run import PrivateRun
from .ranks import Ranks


class SharedRun(PrivateRun):
    """A ``PrivateRun`` on several ranks. All ranks make the same calls, and each computes its share of every step.

    The guarantee of ``PrivateRun`` holds for the releases of all ranks together. The guarantee requires that all ranks
    hold the same records in the same order, and that nobody else reads their messages (docs/theory/training.md, section
    6).
    """

    def __init__(self, *parts: Any, world: Ranks, **options: Any) -> None:
        super().__init__(*parts, world=world, **options)
        self._ranks = world

    def _restore_run_tensors(self) -> None:
        """Gives all ranks the model of the first rank, and the tensors that the first rank's checkpoint saved."""
        with self._world.run_ranks_together("the checkpoint"):
            super()._restore_run_tensors()
        self._ranks.copy_from_first_rank([*self.model.parameters(), *self.model.buffers()])
        if self.has_checkpoint:
            file = BytesIO()
            if self._ranks.is_first:
                torch.save({**self._collect_run_tensors(), "model": None}, file)
            data = self._ranks.broadcast_bytes(file.getvalue())
            if not self._ranks.is_first:
                found = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
                self._load_run_tensors({**found, "model": self.model.state_dict()})

    def _release_run_sums(self, sums: GradientSums) -> Iterable[Any]:
        """Returns noisy estimates of the mean gradient, the same as on one process.

        All noise is from the stream of the step. Each rank adds the noise to its share of the elements, and then the
        sums of all ranks are added up.
        """
        flat, totals = sums.integers()
        start, end = (len(flat) * rank // self._world.size for rank in (self._world.rank, self._world.rank + 1))
        stream = self._make_private_run_noise_source().stream()
        deviation = clipping.convert_deviation_to_grid(
            self.plan.planned_grid_step, self._account.current_plan.noise_deviation
        )
        add_rank_noise_to_gradient_sums(stream, deviation, flat, start, end)
        self._ranks.add_over_ranks(flat)
        return sums.estimate_mean_gradient(totals)
