"""DPIS: records drawn in proportion to the norms of their gradients (Wei, Bao, Xiao, Yang, CCS 2022), corrected.

Departures from the paper, each with its reason in docs/theory/dpis.md:

- A record's contribution is the unit vector of its gradient times a weight that is fixed before the draw, never one
over
  the realised probability.
- The sum of norms is released over all records and charged as such a release.
- The number of records is a public constant, and the norm bound is confined to a public range.
- Adaptively chosen noise goes through a filter that is valid for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _check
from ..accounting.numerics.root import bracket_crossing
from ..accounting.questions.calibration import calibrate
from ..composition import Composition
from ..gate.budget import FilterBudget, FixedPlan, Target, resolve_noise_multiplier
from ..gate.gate import Gate, find_largest_noise
from ..gate.oracle import Integers, Oracle, Public, Query
from ..mechanisms import Gaussian
from ..models.dense import grid_for
from ..models.grid import exact_bound
from ..models.model import Vector
from ..release.noise import RandomSource
from .shared.algorithm import AlgorithmPlan, RepeatedRelease, batch_size, build_sampled_gaussian, compute_smallest_share
from .shared.importance import TwoStages
from .shared.optimizers import Optimizer, TailMean, check_optimizer
from .shared.step_length import FRACTION, check_stable, resolve_optimizer

Run = Callable[[Oracle, Gate, Vector], Vector]
"""(oracle, gate, initial parameters) -> final parameters."""
Choice = Callable[[int, Vector, float], tuple[float, float]]
"""(epoch, parameters, norm bound) -> (sampling probability, noise multiplier)."""


@dataclass(frozen=True)
class DPIS:
    """Differentially private gradient descent with importance sampling.

    A step takes record i with probability q |clip(g_i, C)| / C and releases the sum of the taken records' C g_i / |g_i|
    plus N(0, (noise_multiplier C)^2 I). Weights of records multiply |clip(g_i)|. Divided by q N the release is an
    unbiased estimate of the mean clipped gradient. q = batch_size / (norm_share * N), so that batch_size records are
    taken on average where the mean clipped norm is norm_share * C.

    Parameters
    ----------
    batch_size : number of records aimed at in a step; None for a hundredth of the public number, so that with the
        ``norm_share`` of .5 the sampling probability is that of ``DPSGD``. One with which the run would take over
        2,500,000 steps is enlarged to take so many.
    epochs : each of ceil(N / batch_size) steps
    max_norm : C in the first epoch
    norm_share : the ratio of the mean clipped norm to C, in (0, 1], which sets q. With a public number every release is
        known in advance and charged exactly. With None, as in the paper, the ratio is released in each epoch; q and the
        noise then depend on releases, a filter of one Renyi order covers them, and epsilon must be given
    noise_multiplier : over C; with ``norm_share``. None computes it from the estimator's epsilon and delta.
    norm_noise : noise multiplier of each released sum of norms, over the norm bound; None for 0.02 N, or for what
        keeps all of these sums to half of epsilon where that is more
    reach : k >= 1. A record is a candidate with at most k times the probability that it had when last looked at, so a
        step computes about k batch_size gradients; a norm that grew by more than k is clipped to k times the old one
    floor : smallest norm, over C, that a record is taken to have had
    adapt : lambda > 0, to set C to lambda times the mean norm at the start of each later epoch, out of a released sum
        of norms clipped at 4 max_norm, within [max_norm / 100, 4 max_norm]; None keeps C
    reserve : with ``norm_share=None``, the share of epochs in which later epochs are assumed to cost the most possible
    optimizer : applied to the estimate, plus regularization * w; None for plain steps whose length follows from
        ``spread``, as for ``DPSGD``
    average : the share of last iterates whose mean is returned; 0 returns the last one
    spread : as for ``DPSGD``

    Guarantee, add/remove one record: with ``norm_share`` that of Poisson-subsampled Gaussians (q, noise_multiplier),
    and of one Gaussian(norm_noise) for each released sum of norms; without it, (epsilon, delta).

    It saves only computation: DPSGD with batch_size / norm_share has the same guarantee at the same noise and a smaller
    variance of the sample (docs/theory/dpis.md, section 5).
    """

    batch_size: float | None = None
    epochs: int = 10
    max_norm: float = 1.0
    norm_share: float | None = 0.5
    noise_multiplier: float | None = None
    norm_noise: float | None = None
    reach: float = 5.0
    floor: float = 0.05
    adapt: float | None = None
    reserve: float = 0.8
    optimizer: Optimizer | None = None
    average: float = 0.5
    spread: float | None = None
    in_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.replace_fields(self, exact_bound, "max_norm")
        _check.replace_fields(self, _check.positive, "noise_multiplier", "norm_noise", "adapt", "spread")
        _check.replace_fields(self, batch_size, "batch_size")
        _check.replace_fields(self, _check.count, "epochs")
        _check.replace_fields(self, _check.at_least_one, "reach")
        _check.replace_fields(self, _check.probability, "floor")
        _check.replace_fields(self, _check.closed_unit, "reserve", "average")
        _check.replace_fields(self, check_optimizer, "optimizer")
        if self.norm_share is not None:
            _check.replace_fields(self, _check.probability, "norm_share")
        if self.norm_share is None and self.noise_multiplier is not None:
            raise ValueError("noise_multiplier must be left out where norm_share is None: the filter sets the noise")

    @property
    def cost_is_public(self) -> bool:
        return (
            self.norm_share is not None
            and self.batch_size is None
            and (self.adapt is None or self.norm_noise is not None)
        )

    @property
    def norm_sum_count(self) -> int:
        """Number of sums of norms that are released."""
        return (0 if self.adapt is None else self.epochs - 1) + (self.epochs if self.norm_share is None else 0)

    def share_of_records(self, records: int) -> float:
        """Returns the batch size over that number of records, in (0, 1]."""
        if self.batch_size is None:
            return FRACTION / 2
        return min(1.0, max(self.batch_size / records, compute_smallest_share(self.epochs)))

    def compute_steps(self, public: Public, target: Target) -> RepeatedRelease:
        """Returns the steps of a run. With ``norm_share=None`` they are those of the largest cost, which steer the
        filter's choice of order and the length of steps."""
        run = _DpisRun(self, public, target)
        run.check_norms()
        q, count = (
            run.compute_sampling_probability(1.0 if self.norm_share is None else self.norm_share),
            self.epochs * run.steps,
        )
        noise = resolve_noise_multiplier(
            lambda noise: RepeatedRelease(q, noise, count).composed_releases + run.norm_releases,
            self.noise_multiplier,
            target,
        )
        return RepeatedRelease(q, noise, count)

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Plans the steps; where the norms' share is released, their noise is chosen epoch by epoch within a cap."""
        if self.optimizer is not None:
            check_stable("optimizer", public, self.optimizer)
        if self.norm_share is None and target.epsilon is None:
            raise ValueError("epsilon must be given where norm_share is None: the noise is chosen within that total")
        run, made = _DpisRun(self, public, target), self.compute_steps(public, target)
        q, noise, count = made
        used = {"steps": count, "noise_multiplier": noise, "norm_noise": run.norm_noise}
        if self.norm_share is not None or target.epsilon is None:
            return AlgorithmPlan(
                FixedPlan(made.composed_releases + run.norm_releases),
                run.build_fixed_run(q, noise),
                count + self.norm_sum_count,
                used,
            )
        budget = run.make_filter(made)
        return AlgorithmPlan(budget, run.build_adaptive_run(budget, q, noise), count + self.norm_sum_count, used)


class EpochSettings:
    """Sampling probability and noise of a run, fixed in advance or chosen epoch by epoch.

    ``most`` is the largest noise multiplier that a step can have, by default the gate's. Whatever the number of
    records and whatever is released, each epoch has a plan (docs/theory/dpis.md, section 6).
    """

    def __init__(self, settings: DPIS, public: Public, target: Target, most: float | None = None) -> None:
        self.settings, self.public, self.target = settings, public, target
        self.largest_noise = find_largest_noise(public.size) if most is None else most
        self.part = settings.share_of_records(public.records)
        """The batch size over the public number of records, in (0, 1]."""
        self.steps = math.ceil(1 / self.part)
        """The number of steps in an epoch."""
        self.norm_noise = settings.norm_noise or max(0.02 * public.records, self._find_least_norm_noise())
        """Noise multiplier of each released sum of norms."""

    @property
    def norm_releases(self) -> Composition:
        """Composition of the released sums of norms."""
        return (
            Gaussian(self.norm_noise) * self.settings.norm_sum_count if self.settings.norm_sum_count else Composition()
        )

    def _find_least_norm_noise(self) -> float:
        """Returns the noise multiplier with which all sums of norms take half of epsilon in the run's account; 0
        without epsilon."""
        sums, (epsilon, delta, _) = self.settings.norm_sum_count, self.target
        if epsilon is None or not sums:
            return 0.0
        if self.settings.norm_share is not None:
            return float(calibrate(lambda noise: Gaussian(noise) * sums, epsilon=epsilon / 2, delta=delta))
        half = FilterBudget(epsilon / 2, delta)
        return math.sqrt(sums * half.cost(Gaussian(1.0)) / half.cap) * (1 + 1e-9)  # a cost falls with the square

    def check_norms(self) -> None:
        """Raises ValueError if released sums of norms leave nothing of the target for gradients."""
        if self.target.epsilon is None or not self.settings.norm_sum_count:
            return
        norms = self.norm_releases + (self.target.beside or Composition())
        if not norms.epsilon(self.target.delta).upper < self.target.epsilon:
            raise self._make_norm_refusal()

    def make_filter(self, made: RepeatedRelease) -> FilterBudget:
        """Returns the filter of a run whose share of norms is released, of the order that is best for ``made`` if
        that leaves enough for every epoch. Otherwise it is the order at which sums of norms cost least.

        Raises ValueError if this leaves too little as well, which does not depend on the number of records.
        """
        assert self.target.epsilon is not None
        for expected in (made.composed_releases + self.norm_releases, None):
            budget = FilterBudget(self.target.epsilon, self.target.delta, expected=expected)
            # The steps of an epoch in which all norms are C, with the largest noise: section 6.
            epoch = 2 * math.expm1(min(budget.cost(Gaussian(self.largest_noise / 1.01)), 700.0))
            room = budget.cap * (1 - 1e-6) - self.settings.norm_sum_count * budget.cost(Gaussian(self.norm_noise))
            if self.settings.epochs * epoch <= room:
                return budget
        raise self._make_norm_refusal()

    def _make_norm_refusal(self) -> ValueError:
        """Returns the error for sums of norms that leave nothing for gradients."""
        return ValueError(
            f"norm_noise must be larger, or epochs fewer: {self.settings.norm_sum_count} sums of norms with "
            f"norm_noise={self.norm_noise:g} take up the whole of epsilon. None keeps them to half of it"
        )

    def compute_sampling_probability(self, share: float) -> float:
        """Returns q for a ratio of the mean norm to C."""
        return min(1.0, self.part / share)

    def choose_share_and_noise(
        self, budget: FilterBudget, epoch: int, released: float, max_norm: float
    ) -> tuple[float, float]:
        """Returns the share of norms by a released sum, and the noise multiplier of the epoch's steps."""
        # K >= k b C, so that a candidate's probability q k |g|/C stays below 1 and nothing is biased.
        least = min(1.0, self.settings.reach * self.part)
        share = min(max(released / (max_norm * self.public.records), least), 1.0)
        noise = self._choose_noise(budget, epoch, share)
        while noise > self.largest_noise and share < 1:  # a larger share takes less noise, and is as unbiased
            share = min(1.0, 2 * share)
            noise = self._choose_noise(budget, epoch, share)
        return share, noise

    def _choose_noise(self, budget: FilterBudget, epoch: int, share: float) -> float:
        """Returns sigma / share for the smallest sigma that leaves room for later epochs; infinity if it is far beyond
        the largest noise."""
        later = self.settings.epochs - epoch - 1
        sums = Gaussian(self.norm_noise)
        ahead = later * (2 if self.settings.adapt is not None else 1) * budget.cost(sums)
        left = (budget.cap - budget.spent - ahead) * (1 - 1e-9)
        worst = 1.0 if epoch < self.settings.reserve * self.settings.epochs else share

        def is_affordable(sigma: float) -> bool:
            """Tells whether the steps of this epoch, with this sigma, leave enough for later epochs."""
            now = budget.cost(build_sampled_gaussian(sigma / share, self.compute_sampling_probability(share)))
            then = (
                now
                if worst == share
                else budget.cost(build_sampled_gaussian(sigma / worst, self.compute_sampling_probability(worst)))
            )
            # No epoch takes more than its part of what is left, so that later ones find as much.
            return self.steps * max(now + later * then, (1 + later) * now) <= left

        _, sigma = bracket_crossing(lambda sigma: not is_affordable(sigma), 1.0, 1e-4, most=2 * self.largest_noise)
        return sigma / share


class _DpisRun(EpochSettings):
    """The steps of a run, with fixed or adaptive settings."""

    def build_fixed_run(self, q: float, noise: float) -> Run:
        """Returns a run with the same sampling probability and noise in all steps."""

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return self._run_epochs(
                oracle, gate, w, lambda epoch, w, max_norm: (q, noise), self._resolve_optimizer(q, noise)
            )

        return run

    def build_adaptive_run(self, budget: FilterBudget, q: float, noise: float) -> Run:
        """Returns a run whose epochs release the share of norms. ``q`` and ``noise`` are those of the largest cost.
        Other norms will have about the same ratio of the two."""

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            def choose_epoch_settings(epoch: int, w: Vector, max_norm: float) -> tuple[float, float]:
                """Releases the sum of norms of an epoch, and returns its sampling probability and noise."""
                released = gate.release_gaussian(oracle.norm_sum_query(w, max_norm), self.norm_noise).value[0]
                share, noise = self.choose_share_and_noise(budget, epoch, released, max_norm)
                return self.compute_sampling_probability(share), noise

            return self._run_epochs(oracle, gate, w, choose_epoch_settings, self._resolve_optimizer(q, noise))

        return run

    def _resolve_optimizer(self, q: float, noise: float) -> Optimizer:
        """Returns the optimizer of the settings, or plain steps whose length follows from ``spread``."""
        options, steps = self.settings, self.settings.epochs * self.steps
        signal = q * self.public.records * math.sqrt(steps) / noise
        return resolve_optimizer(self.public, options.optimizer, signal, steps, options.max_norm, options.spread)

    def _run_epochs(self, oracle: Oracle, gate: Gate, w: Vector, choose: Choice, optimizer: Optimizer) -> Vector:
        """Runs the epochs: each may release a sum of norms that sets the clipping norm, then takes its steps."""
        options, public = self.settings, self.public
        step = optimizer.make_stepper(public.size)
        iterates = TailMean(options.epochs * self.steps, options.average)
        max_norm = options.max_norm
        for epoch in range(options.epochs):
            if options.adapt is not None and epoch:
                total = gate.release_gaussian(oracle.norm_sum_query(w, 4 * options.max_norm), self.norm_noise).value[0]
                wanted = options.adapt * total / public.records
                max_norm = min(max(wanted, options.max_norm / 100), 4 * options.max_norm)
            q, noise = choose(epoch, w, max_norm)
            for i in range(self.steps):
                query = importance_sum_query(oracle, w, max_norm, q, options.reach, options.floor, refresh=i == 0)
                total = gate.release_gaussian(query, noise).value
                w = step(w, total / (q * public.records) + public.regularization * w)
                iterates.add(w)
        return iterates.get_mean()


def importance_sum_query(
    oracle: Oracle, w: Vector, max_norm: float, q: float, reach: float, floor: float, *, refresh: bool
) -> Query:
    """Returns the query of the sum of max_norm g_k / |g_k| over a sample that holds record k with probability q
    |clip(g_k)| / max_norm.

    The sample is drawn in two stages: candidates by a bound on the norm from when the record was last looked at (with
    ``refresh`` all bounds are made anew), then by the norm itself. Sensitivity: max_norm; sampling probability: q.
    Whatever its remembered bound, a record is taken with probability q at most, and adds a vector of norm max_norm at
    most (docs/theory/dpis.md, section 3). Weights multiply the norms |clip(g_k)|, and not the added vectors.
    """

    grid = grid_for(max_norm, records=oracle.public.records)
    stages = TwoStages(q, max_norm, reach, floor)

    def evaluate_importance_sum(source: RandomSource) -> Integers:
        """Draws candidates by bounds on their norms, thins them by the norms themselves, and sums the gradients."""
        hats = oracle.state.get("norm bounds")
        if refresh or hats is None:
            _, everyone = oracle.draw_batch(source, 1.0)
            found = [oracle.compute_gradients(w, part).clip_norms(max_norm) for part in oracle.split_batch(everyone)]
            hats = stages.bound_norms(np.concatenate([np.zeros(0), *found]))
        rows, records = oracle.select_records(stages.draw_candidates(source, hats))
        gradients = oracle.compute_gradients(w, records)
        norms = gradients.clip_norms(max_norm)
        taken = stages.select_by_norms(source.uniform(len(rows)), hats[rows], norms)
        hats[rows] = stages.bound_norms(norms)
        oracle.state["norm bounds"] = hats
        return gradients.sum_unit_gradients(max_norm, taken, grid=grid)

    return Query((oracle.public.size,), max_norm, q, grid, evaluate_importance_sum)
