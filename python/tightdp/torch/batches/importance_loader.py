"""DPIS: records are drawn in proportion to the norms of their gradients, in two stages (docs/theory/dpis.md).

A step looks at candidates, which are drawn by bounds on their norms, and takes some of them by the norms themselves.
Before the first step of an epoch all records are looked at, for fresh bounds. Candidates, bounds and sizes are as
private as the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...algorithms.dpis import DPIS
from ...algorithms.shared.importance import TwoStages
from ...release.noise import RandomSource
from ..plan.account import Account
from ..plan.plan import Plan
from ..randomness.key import Key
from ..randomness.process_group import World
from .batch_places import Places, RecordIndices
from .poisson_loader import Batch, RunLoader

Share = tuple[Iterator[Places | None], Iterator[tuple[Any, int]]]
"""The records of one process: the places in each physical batch (None without padding), and the collated parts."""
NORM_STREAMS = 2**62
"""First stream of the noise on sums of norms. Each step takes two of the streams before it, for its coins."""


class Candidates:
    """Bounds on the norms of all records, by which each step chooses candidates and takes some of them.

    The processes of a run hold the same bounds. Coins are tossed by the numbers of the step and of the candidate, so
    that it does not matter which process looks at which record (docs/theory/training.md, section 6).
    """

    def __init__(self, plan: Plan, key: Key) -> None:
        self.follow_plan(plan)
        self._key, self._steps_per_epoch = key, plan.steps_per_epoch
        self._bounds: npt.NDArray[np.float64] | None = None
        self._coins = self._norms = np.zeros(0)
        self._rows = self._own = np.zeros(0, np.intp)
        self._seen, self._everyone = 0, False

    def follow_plan(self, plan: Plan) -> None:
        """Uses the sampling probability and the norm bound of this plan from now on."""
        settings = plan.settings
        assert isinstance(settings, DPIS)
        self._stages = TwoStages(plan.sampling_probability, plan.max_norm[0], settings.reach, settings.floor)

    def must_renew_bounds(self, number: int, records: int) -> bool:
        """Tells whether the step with this number must first look at all records, for fresh bounds."""
        return self._bounds is None or len(self._bounds) != records or number % self._steps_per_epoch == 0

    def draw_candidate_rows(self, number: int) -> RecordIndices:
        """Draws the candidates of a step, and returns their numbers."""
        bounds = np.zeros(0) if self._bounds is None else self._bounds
        source = self._key.make_source_at(2 * number)
        rows = np.flatnonzero(self._stages.draw_candidates(source, bounds))
        self._coins = source.uniform(len(rows))
        return rows

    def begin_look(self, rows: RecordIndices, own: RecordIndices, *, everyone: bool) -> None:
        """Begins a look at the records ``rows``. This process sees those at the places ``own``, in that order.

        ``everyone`` says that the rows are all records.
        """
        self._rows, self._own, self._everyone = rows, own, everyone
        self._norms, self._seen = np.zeros(len(rows)), 0

    def note_norms(self, norms: npt.NDArray[np.float64]) -> RecordIndices:
        """Notes the norms of the next rows, 0 for one that is not finite. Returns their places among the rows."""
        at = self._own[self._seen : self._seen + len(norms)]
        self._seen += len(norms)
        self._norms[at] = np.where(np.isfinite(norms), norms, 0.0)
        return at

    def select_candidates(self, norms: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Notes the norms of the next candidates, and returns a mask of those that take part in the step."""
        assert self._bounds is not None
        at = self.note_norms(norms)
        return self._stages.select_by_norms(self._coins[at], self._bounds[self._rows[at]], self._norms[at])

    def renew_bounds(self, world: World) -> npt.NDArray[np.float64]:
        """Sets the bounds for later steps from the norms that all processes noted, and returns these norms."""
        # Each norm is 0 on all processes but one, so that the sum of its bits as an integer is the norm itself.
        world.add_up(torch.from_numpy(self._norms).view(torch.int64))
        bounds = self._stages.bound_norms(self._norms)
        if self._bounds is None or self._everyone:
            self._bounds = bounds
        else:
            self._bounds[self._rows] = bounds
        return self._norms

    def make_norm_noise_source(self, number: int) -> RandomSource:
        """Returns the source of the noise on the ``number``-th released sum of norms."""
        return self._key.make_source_at(NORM_STREAMS + number)


class LateBatch(Batch):
    """Candidates of a step, drawn when the step takes them, because they depend on the norms of the step before.

    ``rows`` is empty until then.
    """

    loader: ImportanceLoader

    def __init__(self, loader: ImportanceLoader) -> None:
        super().__init__(loader, np.zeros(0, np.intp), iter(()))

    @property
    def _digest_rows(self) -> bytes:
        return repr((self.loader.must_look_at_all, len(self.loader.dataset))).encode()

    def _read_before_draw(self) -> Iterator[tuple[Any, int]] | None:
        if not self.loader.must_look_at_all:
            return None
        self._places, parts = self.loader.share_all_records()
        return parts

    def parts(self) -> Iterator[tuple[Any, int]]:
        super().parts()
        return self._draw_all(self.loader.next_step)

    def _draw_all(self, number: int) -> Iterator[tuple[Any, int]]:
        self.rows, (self._places, parts) = self.loader.draw_candidate_share(number)
        yield from parts

    def _hold_parts(self) -> None:
        """Reads nothing ahead."""


class ImportanceLoader(RunLoader):
    """The candidates of a run of DPIS: an iteration is an epoch, and before its first step all records are looked at.

    By default as many records go through the model at once as a step usually has candidates.
    """

    candidates: Candidates
    _in_order = True  # norms are noted by the place of their candidate

    def __init__(self, account: Account, dataset: Any, key: Key, world: World, **options: Any) -> None:
        settings = account.plan.settings
        assert isinstance(settings, DPIS)
        self._reach = settings.reach
        super().__init__(account, dataset, key, world, **options)
        self.candidates = Candidates(account.plan, key)

    @property
    def next_step(self) -> int:
        """The number of the step that is charged next."""
        return self._account.charged_steps

    @property
    def _usual_records(self) -> float:
        """Expected number of candidates of a step."""
        return self._reach * super()._usual_records

    @property
    def must_look_at_all(self) -> bool:
        """Whether all records are looked at before the next step."""
        return self.candidates.must_renew_bounds(self.next_step, len(self.dataset))

    def share_all_records(self) -> Share:
        """Returns this process's share of all records."""
        return self._share_rows(np.arange(len(self.dataset)), 2 * self.next_step + 1, everyone=True)

    def draw_candidate_share(self, number: int) -> tuple[RecordIndices, Share]:
        """Draws the candidates of a step, and returns them and this process's share of them."""
        self.candidates.follow_plan(self._account.current_plan)
        rows = self.candidates.draw_candidate_rows(number)
        return rows, self._share_rows(rows, 2 * number, everyone=False)

    def _share_rows(self, rows: RecordIndices, number: int, everyone: bool) -> Share:
        placed = self._place_rows(np.arange(len(rows)), number)
        own = self._cut_records(placed)
        self.candidates.begin_look(rows, np.concatenate([np.zeros(0, np.intp), *own]), everyone=everyone)
        draw = next(self._draws)
        parts = chain.from_iterable(map(self._check_parts, self._read_parts((draw, rows[each]) for each in own)))
        return iter([self._make_places(cut) for cut in self._cut_places(placed)]), parts

    def _yield_batches(self, steps: int) -> Iterator[Batch]:
        for _ in range(steps):
            yield LateBatch(self)

    def _cut_records(self, rows: RecordIndices) -> list[RecordIndices]:
        found = super()._cut_records(rows)
        if self.physical_batch_size is not None:
            return found
        size = math.ceil(self._usual_records)
        return [piece[start : start + size] for piece in found for start in range(0, len(piece), size)]
