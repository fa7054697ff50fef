"""The batches of the algorithm DPIS, which draws records by the norms of their gradients, in two stages
(docs/theory/dpis.md).

A step draws candidates, with probabilities that follow from bounds on the norms of the records' gradients. It computes
the norms of the candidates' gradients, and then takes some of the candidates, with probabilities that follow from these
norms. Before the first step of an epoch, the gradient norms of all records are computed, for fresh bounds. The
candidates, the number of candidates and the bounds are as private as the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...algorithms.building_blocks.importance import ImportanceSampling
from ...algorithms.dpis import DPIS
from ...clipping_and_noise.noise import RandomSource
from ..plan.plan import Plan
from ..plan.run_account import RunAccount
from ..randomness.process_group import World
from ..randomness.run_key import RunKey
from .batch_places import BatchPlaces, RecordIndices
from .poisson_loader import Batch, RunLoader

Share = tuple[Iterator[BatchPlaces | None], Iterator[tuple[Any, int]]]
"""The records of one process, in physical batches. A physical batch holds the records that go through the model
together. For each physical batch, the first iterator has the records' places, or None if the batch has no other
places than those of records. The second iterator yields parts. A part is collated records of one shape, and their
number."""
NORM_STREAMS = 2**62
"""Number of the first stream of random numbers for noise on sums of norms. Each step has two streams with smaller
numbers: one for drawing candidates, and one for the coins that decide which candidates take part."""


class ImportanceCandidates:
    """The bounds on the gradient norms of all records, and the draws of candidates by these bounds.

    The processes of a run hold the same bounds. A coin is a uniform number that decides whether a candidate takes part.
    The coin follows from the number of the step and the number of the candidate. Therefore it does not matter which
    process computes which norm (docs/theory/training.md, section 6).
    """

    def __init__(self, plan: Plan, key: RunKey) -> None:
        self.set_importance_loader_plan(plan)
        self._key, self._steps_per_epoch = key, plan.steps_per_epoch
        self._bounds: npt.NDArray[np.float64] | None = None
        self._coins = self._norms = np.zeros(0)
        self._rows = self._own = np.zeros(0, np.intp)
        self._seen, self._everyone = 0, False

    def set_importance_loader_plan(self, plan: Plan) -> None:
        """Uses the sampling probability and the norm bound of ``plan`` from now on."""
        settings = plan.settings
        assert isinstance(settings, DPIS)
        self._stages = ImportanceSampling(plan.sampling_probability, plan.max_norm[0], settings.reach, settings.floor)

    def must_renew_importance_bounds(self, number: int, records: int) -> bool:
        """Tells whether the step ``number`` must first compute the norms of all records, for fresh bounds."""
        return self._bounds is None or len(self._bounds) != records or number % self._steps_per_epoch == 0

    def draw_importance_loader_candidates(self, number: int) -> RecordIndices:
        """Draws the candidates of a step, and returns their indices in the data set."""
        bounds = np.zeros(0) if self._bounds is None else self._bounds
        source = self._key.make_run_key_source(2 * number)
        rows = np.flatnonzero(self._stages.draw_candidates(source, bounds))
        self._coins = source.uniform(len(rows))
        return rows

    def begin_importance_loader_norms(self, rows: RecordIndices, own: RecordIndices, *, everyone: bool) -> None:
        """Begins to collect the norms of the records ``rows``.

        ``own`` has the positions in ``rows`` of the records that this process gets, in the order in which they arrive.
        ``everyone`` says that ``rows`` has all records.
        """
        self._rows, self._own, self._everyone = rows, own, everyone
        self._norms, self._seen = np.zeros(len(rows)), 0

    def note_importance_loader_norms(self, norms: npt.NDArray[np.float64]) -> RecordIndices:
        """Stores the norms of the next records, or 0 for a norm that is not finite. Returns the records' positions."""
        at = self._own[self._seen : self._seen + len(norms)]
        self._seen += len(norms)
        self._norms[at] = np.where(np.isfinite(norms), norms, 0.0)
        return at

    def select_importance_loader_rows(self, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Stores the norms of the next candidates, and returns a mask of the candidates that take part in the step."""
        assert self._bounds is not None
        at = self.note_importance_loader_norms(norms)
        return self._stages.select_by_norms(self._coins[at], self._bounds[self._rows[at]], self._norms[at])

    def gather_importance_loader_norms(self, world: World) -> npt.NDArray[np.float64]:
        """Gets the norms that other processes computed, and returns the norms of all records of the batch."""
        # One process has the record's norm, and the other processes have 0. The bits of these numbers are added as
        # integers, so the sum has the bits of the norm.
        world.add_over_ranks(torch.from_numpy(self._norms).view(torch.int64))
        return self._norms

    def renew_importance_bounds(self) -> None:
        """Computes the bounds for later steps from the norms that were gathered."""
        bounds = self._stages.bound_norms(self._norms)
        if self._bounds is None or self._everyone:
            self._bounds = bounds
        else:
            self._bounds[self._rows] = bounds

    def make_noise_source_of_importance_batch(self, number: int) -> RandomSource:
        """Returns the source of the noise for the released sum of norms that has this ``number``."""
        return self._key.make_run_key_source(NORM_STREAMS + number)


class ImportanceBatch(Batch):
    """A batch of candidates, which are drawn when a step uses the batch.

    The candidates cannot be drawn earlier, because they depend on the norms of the step before. ``rows`` is empty until
    the candidates are drawn.
    """

    loader: ImportanceLoader

    def __init__(self, loader: ImportanceLoader) -> None:
        super().__init__(loader, np.zeros(0, np.intp), iter(()))

    @property
    def _digest_rows(self) -> bytes:
        return repr((self.loader.must_look_at_all, len(self.loader.dataset))).encode()

    def _read_batch_before_draw(self) -> Iterator[tuple[Any, int]] | None:
        if not self.loader.must_look_at_all:
            return None
        self._places, parts = self.loader.share_records_of_importance_batch()
        return parts

    def parts(self) -> Iterator[tuple[Any, int]]:
        super().parts()
        return self._draw_rows_of_importance_batch(self.loader.next_step)

    def _draw_rows_of_importance_batch(self, number: int) -> Iterator[tuple[Any, int]]:
        self._rows, (self._places, parts) = self.loader.draw_batch_candidates(number)
        yield from parts

    def _hold_batch_parts(self) -> None:
        """Does nothing, because the candidates are not drawn ahead."""


class ImportanceLoader(RunLoader):
    """The loader of the candidates of a DPIS run. One iteration is an epoch.

    The norms of all records are computed before the first step of an epoch. By default a physical batch is as large as
    the expected number of candidates of a step.
    """

    candidates: ImportanceCandidates
    _in_order = True  # because norms are stored in the order of the candidates

    def __init__(self, account: RunAccount, dataset: Any, key: RunKey, world: World, **options: Any) -> None:
        settings = account.plan.settings
        assert isinstance(settings, DPIS)
        self._reach = settings.reach
        super().__init__(account, dataset, key, world, **options)
        self.candidates = ImportanceCandidates(account.plan, key)

    @property
    def next_step(self) -> int:
        """Number of the step that is charged next."""
        return self._account.charged_steps

    @property
    def _expected_batch_records(self) -> float:
        """Expected number of candidates in a step."""
        return self._reach * super()._expected_batch_records

    @property
    def must_look_at_all(self) -> bool:
        """Whether the norms of all records must be computed before the next step."""
        return self.candidates.must_renew_importance_bounds(self.next_step, len(self.dataset))

    def share_records_of_importance_batch(self) -> Share:
        """Returns the share of all records that this process reads."""
        return self._share_importance_loader_rows(np.arange(len(self.dataset)), 2 * self.next_step + 1, everyone=True)

    def draw_batch_candidates(self, number: int) -> tuple[RecordIndices, Share]:
        """Draws the candidates of a step, and returns all of them and the share that this process reads."""
        self.candidates.set_importance_loader_plan(self._account.current_plan)
        rows = self.candidates.draw_importance_loader_candidates(number)
        return rows, self._share_importance_loader_rows(rows, 2 * number, everyone=False)

    def _share_importance_loader_rows(self, rows: RecordIndices, number: int, everyone: bool) -> Share:
        """Returns the places of the drawn records in physical batches, and the parts that this rank reads."""
        placed = self._place_batch_rows(np.arange(len(rows)), number)
        own = self._cut_poisson_loader_batches(placed)
        self.candidates.begin_importance_loader_norms(
            rows, np.concatenate([np.zeros(0, np.intp), *own]), everyone=everyone
        )
        draw = next(self._draws)
        parts = chain.from_iterable(
            map(self._check_batch_parts, self._read_batch_parts((draw, rows[each]) for each in own))
        )
        return iter([self._make_batch_places(cut) for cut in self._cut_physical_places(placed)]), parts

    def _yield_step_batches(self, steps: int) -> Iterator[Batch]:
        for _ in range(steps):
            yield ImportanceBatch(self)

    def _cut_poisson_loader_batches(self, rows: RecordIndices) -> list[RecordIndices]:
        found = super()._cut_poisson_loader_batches(rows)
        if self.physical_batch_size is not None:
            return found
        size = math.ceil(self._expected_batch_records)
        return [piece[start : start + size] for piece in found for start in range(0, len(piece), size)]
