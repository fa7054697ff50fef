"""DPIS: records are drawn in proportion to the norms of their gradients, in two stages (docs/theory/dpis.md).

A step looks at candidates, drawn by bounds on their norms; of those it takes some, by the norms themselves, and adds
unit vectors. Once an epoch it looks at all records, for fresh bounds. Candidates, bounds and sizes are as private as
the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..release.gradients import clipped_sum
from ..release.noise import RandomSource
from ..train.algorithms.dpis import DPIS
from ..train.algorithms.importance import TwoStages
from .account import Account
from .exact import ExactSums
from .loader import Batch, Rows, RunLoader
from .onepass.clipping import SLACK, OnePassSums
from .plan import Plan

LEAST = 1e-100
"""Added to norms before a division: the smallest that the kernel takes."""


class Candidates:
    """The candidates of a step, and which of them it takes."""

    def __init__(self, plan: Plan, source: RandomSource) -> None:
        settings = plan.settings
        assert isinstance(settings, DPIS)
        self._stages = TwoStages(plan.sampling_probability, plan.max_norm[0], settings.reach, settings.floor)
        self._source = source
        self._bounds: npt.NDArray[np.float64] | None = None
        self._fresh = np.zeros(0)
        self._rows: Rows = np.zeros(0, np.intp)
        self._seen = 0

    def draw(self, records: int, *, afresh: bool) -> Rows:
        """The numbers of the next step's candidates: all records where bounds are missing, or are to be ``afresh``."""
        self._seen = 0
        if afresh or self._bounds is None or len(self._bounds) != records:
            self._bounds, self._fresh = None, np.zeros(records)
            self._rows = np.arange(records)
        else:
            self._rows = np.flatnonzero(self._stages.candidates(self._source, self._bounds))
        return self._rows

    def taken(self, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Which of the next candidates are taken, given the norms of their gradients; one that is not finite is not.

        Norms are remembered. Where all records are looked at, both coins are tossed here.
        """
        rows = self._rows[self._seen : self._seen + len(norms)]
        self._seen += len(norms)
        norms = np.where(np.isfinite(norms), norms, 0.0)
        now, both = self._stages.bounds(norms), np.ones(len(norms), np.bool_)
        if self._bounds is None:
            before, self._fresh[rows] = now, now
            both = self._stages.candidates(self._source, now)
            if self._seen == len(self._fresh):
                self._bounds = self._fresh
        else:
            before, self._bounds[rows] = self._bounds[rows], now
        return both & self._stages.taken(self._source, before, norms)


class LateBatch(Batch):
    """Candidates, drawn when a step takes them: they depend on what the step before saw.

    ``rows`` is empty until then.
    """

    loader: ImportanceLoader

    def __init__(self, loader: ImportanceLoader) -> None:
        super().__init__(loader, np.zeros(0, np.intp), iter(()))

    def parts(self) -> Iterator[tuple[Any, int]]:
        super().parts()
        return self._drawn()

    def _drawn(self) -> Iterator[tuple[Any, int]]:
        self.rows = self.loader.draw()
        pieces = self.loader._pieces(self.rows)
        yield from zip(self.loader._reader(pieces), map(len, pieces), strict=True)

    def _keep(self) -> None:
        """Nothing is read ahead."""


class ImportanceLoader(RunLoader):
    """The candidates of a run of DPIS: an iteration is an epoch, and its first step looks at all records."""

    def __init__(self, account: Account, dataset: Any, **options: Any) -> None:
        if options.get("num_workers"):
            raise ValueError("num_workers must be 0 for DPIS: who is a candidate depends on the step before")
        super().__init__(account, dataset, **options)
        self.candidates = Candidates(account.plan, self._source)
        if self.physical_batch_size is None:
            settings = account.plan.settings
            assert isinstance(settings, DPIS)
            self.physical_batch_size = math.ceil(settings.reach * account.plan.batch_size)  # as many as are usual

    def _batches(self, steps: int) -> Iterator[Batch]:
        for _ in range(steps):
            yield LateBatch(self)

    def draw(self) -> Rows:
        """The candidates of the step that was charged last."""
        afresh = (self._account.steps - 1) % self._account.plan.steps_per_epoch == 0
        return self.candidates.draw(len(self.dataset), afresh=afresh)


class ExactUnits(ExactSums):
    """Integer sums of C g / |g| over the candidates that are taken."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], candidates: Candidates) -> None:
        super().__init__(plan, parameters)
        self._candidates = candidates

    def _clipped(self, rows: list[Any]) -> None:
        squares = sum(torch.linalg.vector_norm(row.flatten(1), dim=1, dtype=torch.float64).square() for row in rows)
        taken = self._candidates.taken(torch.as_tensor(squares).sqrt().numpy())
        clipped_sum(
            rows, self._plan.max_norm[0], weights=taken, normalize=True, stability=LEAST, out=self._totals,
            accumulate=True, arithmetic="exact",
        )  # fmt: skip


class OnePassUnits(OnePassSums):
    """Float sums of C g / |g| over the candidates that are taken, without gradients of single records."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], candidates: Candidates) -> None:
        super().__init__(plan, parameters)
        self._candidates = candidates

    def _weights(self, norms: Any, bound: float) -> Any:
        taken = torch.from_numpy(self._candidates.taken(norms.to("cpu", torch.float64).numpy())).to(norms.device)
        return torch.where(taken, bound * (1 - SLACK) / norms, torch.zeros_like(norms))
