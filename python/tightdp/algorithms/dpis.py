"""DPIS: gradient descent that samples records in proportion to the norms of their gradients (Wei, Bao, Xiao, Yang, CCS
2022).

The following departures correct the privacy analysis of the paper, for reasons in docs/theory/dpis.md.

- A record's contribution is the unit vector of its gradient times a weight that is fixed before the sample is drawn,
  and not 1 / (the realised probability).
- The sum of norms is a release over all records, and is charged as a release.
- The number of records is a public constant, and the norm bound is confined to a public range.
- Adaptively chosen noise is paid from a filter, a cap on the sum of Renyi costs, which is valid for adaptive choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._support import _check
from ..accounting.numerics.root import bracket_monotone_crossing
from ..accounting.questions.calibration import calibrate
from ..clipping_and_noise.noise import RandomSource
from ..composition import Composition
from ..mechanisms import Gaussian
from ..models.contribution_grid import exact_bound
from ..models.dense import choose_dense_gradient_grid
from ..models.model_interface import Vector
from ..release_gate.budget import FilterBudget, FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate, find_largest_gate_noise
from ..release_gate.oracle import Integers, Oracle, Public, Query
from .building_blocks.algorithm import (
    AlgorithmPlan,
    AlgorithmReleases,
    batch_size,
    build_algorithm_release,
    compute_smallest_algorithm_batch_share,
)
from .building_blocks.importance import ImportanceSampling
from .building_blocks.optimizers import MeanOfLastIterates, Optimizer, check_shared_algorithm_optimizer
from .building_blocks.public_step_length import FRACTION, check_stable_step_length, resolve_algorithm_optimizer

Run = Callable[[Oracle, Gate, Vector], Vector]
"""Function that maps (oracle, gate, initial parameters) to the final parameters. The oracle makes queries about the
records, and the gate releases their values with noise."""
Choice = Callable[[int, Vector, float], tuple[float, float]]
"""Function that maps (epoch, parameters, norm bound) to the sampling probability and noise multiplier of the epoch."""


@dataclass(frozen=True)
class DPIS:
    """Differentially private gradient descent with importance sampling.

    Let g_i be the gradient of record i, C the clipping norm and N the number of records. A step takes record i with
    probability q |clip(g_i, C)| / C. The step releases the sum of C g_i / |g_i| over the taken records, plus
    N(0, (noise_multiplier C)^2 I). Weights of records multiply |clip(g_i)|. The release divided by q N is an unbiased
    estimate of the mean clipped gradient. With q = batch_size / (norm_share * N), a step takes batch_size records on
    average if the mean clipped norm is norm_share * C.

    Parameters
    ----------
    batch_size : expected number of records that a step takes, if ``norm_share`` is right. None takes a hundredth of the
        public number of records, which with a ``norm_share`` of .5 gives the default sampling probability of ``DPSGD``.
        If the run would take over 2,500,000 steps, the batch size is enlarged until the run takes 2,500,000.
    epochs : number of epochs, each of ceil(N / batch_size) steps.
    max_norm : C in the first epoch.
    norm_share : the ratio of the mean clipped norm to C, in (0, 1], which sets q. If it is a number, every release is
        known in advance and charged exactly. If it is None, as in the paper, each epoch releases the ratio. Then q and
        the noise depend on released values. All releases are paid from a Renyi filter, and epsilon must be given.
    noise_multiplier : standard deviation of the noise, divided by C; only where ``norm_share`` is a number. None
        computes it from the estimator's epsilon and delta.
    norm_noise : noise multiplier of each released sum of norms, relative to the norm bound. None takes the larger of
        0.02 N and the noise with which all of these sums together take half of epsilon.
    reach : k >= 1. A record is a candidate with about k times the sampling probability that its last computed norm
        gives. A step computes the gradients of candidates alone, about k batch_size gradients. A norm that has grown by
        more than the factor k is clipped to k times the last computed norm.
    floor : a number in (0, 1]. A last computed norm below floor * C counts as floor * C where it decides whether a
        record is a candidate.
    adapt : lambda > 0. At the start of each epoch but the first, C becomes lambda times the mean norm, within
        [max_norm / 100, 4 max_norm]. The mean norm is a released sum of norms clipped at 4 max_norm. None keeps C.
    reserve : with ``norm_share=None``, the share of epochs, counted from the first, that leave enough budget for later
        epochs even if these have the largest possible cost.
    optimizer : takes the steps, along the estimate plus regularization * w. None takes plain steps whose length follows
        from ``spread``, as for ``DPSGD``.
    average : share of the iterates, counted from the last, whose mean is returned; 0 returns the last iterate.
    spread : as for ``DPSGD``.

    The guarantee is about adding or removing one record. If ``norm_share`` is a number, the guarantee is the privacy of
    Poisson-subsampled Gaussians (q, noise_multiplier), composed with a Gaussian(norm_noise) for each released sum of
    norms. If ``norm_share`` is None, the guarantee is (epsilon, delta)-DP.

    The algorithm saves only computation. DPSGD with batch_size / norm_share has the same guarantee at the same noise,
    and its samples have a smaller variance (docs/theory/dpis.md, section 5).

    Raises ValueError for a setting out of its range.

    >>> from tightdp.train import DPIS, Public, Target
    >>> algorithm = DPIS(batch_size=100, epochs=2)
    >>> plan = algorithm.plan(Public(records=5000, size=3), Target(1.0, 1e-6))
    >>> plan.budget.charge().epsilon(1e-6) <= 1.0, algorithm.compute_dpis_share_of_records(5000)
    (True, 0.02)
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
        _check.check_dataclass_arguments(self, exact_bound, "max_norm")
        _check.check_dataclass_arguments(self, _check.positive, "noise_multiplier", "norm_noise", "adapt", "spread")
        _check.check_dataclass_arguments(self, batch_size, "batch_size")
        _check.check_dataclass_arguments(self, _check.check_count_argument, "epochs")
        _check.check_dataclass_arguments(self, _check.at_least_one, "reach")
        _check.check_dataclass_arguments(self, _check.probability, "floor")
        _check.check_dataclass_arguments(self, _check.closed_unit, "reserve", "average")
        _check.check_dataclass_arguments(self, check_shared_algorithm_optimizer, "optimizer")
        if self.norm_share is not None:
            _check.check_dataclass_arguments(self, _check.probability, "norm_share")
        if self.norm_share is None and self.noise_multiplier is not None:
            raise ValueError("noise_multiplier must be left out where norm_share is None: the filter sets the noise")

    @property
    def cost_is_public(self) -> bool:
        """Whether the cost of a plan does not depend on the number of records."""
        return (
            self.norm_share is not None
            and self.batch_size is None
            and (self.adapt is None or self.norm_noise is not None)
        )

    @property
    def norm_sum_count(self) -> int:
        """Number of sums of norms that are released."""
        return (0 if self.adapt is None else self.epochs - 1) + (self.epochs if self.norm_share is None else 0)

    def compute_dpis_share_of_records(self, records: int) -> float:
        """Returns the batch size divided by ``records``, in (0, 1]."""
        if self.batch_size is None:
            return FRACTION / 2
        return min(1.0, max(self.batch_size / records, compute_smallest_algorithm_batch_share(self.epochs)))

    def compute_steps(self, public: Public, target: Target) -> AlgorithmReleases:
        """Returns the steps of a run: their sampling probability, noise multiplier and number.

        With ``norm_share=None``, the returned steps have the largest possible cost. These steps determine the order of
        the filter and the length of steps.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        run = _DPISRun(self, public, target)
        run.check_dpis_norms()
        q, count = (
            run.compute_sampling_probability(1.0 if self.norm_share is None else self.norm_share),
            self.epochs * run.steps,
        )
        noise = resolve_noise_from_gate_budget(
            lambda noise: AlgorithmReleases(q, noise, count).composed_releases + run.dpis_norm_releases,
            self.noise_multiplier,
            target,
        )
        return AlgorithmReleases(q, noise, count)

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan of the steps. With ``norm_share=None``, the run chooses their noise epoch by epoch, within
        a filter.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        if self.optimizer is not None:
            check_stable_step_length("optimizer", public, self.optimizer)
        if self.norm_share is None and target.epsilon is None:
            raise ValueError("epsilon must be given where norm_share is None: the noise is chosen within that total")
        run, made = _DPISRun(self, public, target), self.compute_steps(public, target)
        q, noise, count = made
        used = {"steps": count, "noise_multiplier": noise, "norm_noise": run.norm_noise}
        if self.norm_share is not None or target.epsilon is None:
            return AlgorithmPlan(
                FixedPlan(made.composed_releases + run.dpis_norm_releases),
                run.build_fixed_dpis_run(q, noise),
                count + self.norm_sum_count,
                used,
            )
        budget = run.make_dpis_filter(made)
        return AlgorithmPlan(budget, run.build_adaptive_dpis_run(budget, q, noise), count + self.norm_sum_count, used)


class DPISEpochSettings:
    """The sampling probability and noise of a run, fixed in advance or chosen epoch by epoch.

    ``most`` is the largest noise multiplier that a step can have, by default the largest that the gate can draw.
    Whatever the number of records and the released values are, each epoch has settings that fit its budget
    (docs/theory/dpis.md, section 6).
    """

    def __init__(self, settings: DPIS, public: Public, target: Target, most: float | None = None) -> None:
        self.settings, self.public, self.target = settings, public, target
        self.largest_noise = find_largest_gate_noise(public.size) if most is None else most
        self.part = settings.compute_dpis_share_of_records(public.records)
        """The batch size over the public number of records, in (0, 1]."""
        self.steps = math.ceil(1 / self.part)
        """The number of steps in an epoch."""
        self.norm_noise = settings.norm_noise or max(0.02 * public.records, self._find_least_dpis_norm_noise())
        """Noise multiplier of each released sum of norms."""

    @property
    def dpis_norm_releases(self) -> Composition:
        """Composition of the released sums of norms."""
        return (
            Gaussian(self.norm_noise) * self.settings.norm_sum_count if self.settings.norm_sum_count else Composition()
        )

    def _find_least_dpis_norm_noise(self) -> float:
        """Returns the noise multiplier with which all released sums of norms together take half of epsilon. Returns 0
        if epsilon is not given."""
        sums, (epsilon, delta, _) = self.settings.norm_sum_count, self.target
        if epsilon is None or not sums:
            return 0.0
        if self.settings.norm_share is not None:
            return float(calibrate(lambda noise: Gaussian(noise) * sums, epsilon=epsilon / 2, delta=delta))
        half = FilterBudget(epsilon / 2, delta)
        return math.sqrt(sums * half.cost(Gaussian(1.0)) / half.cap) * (1 + 1e-9)  # a cost is proportional to 1/noise^2

    def check_dpis_norms(self) -> None:
        """Raises ValueError if the released sums of norms use up the target and leave nothing for gradients."""
        if self.target.epsilon is None or not self.settings.norm_sum_count:
            return
        norms = self.dpis_norm_releases + (self.target.beside or Composition())
        if not norms.epsilon(self.target.delta).upper < self.target.epsilon:
            raise self._make_dpis_norm_refusal()

    def make_dpis_filter(self, made: AlgorithmReleases) -> FilterBudget:
        """Returns the Renyi filter of a run with ``norm_share=None``.

        The filter has the best order for ``made`` if this order leaves enough for every epoch. Otherwise it has the
        order at which sums of norms cost least. Raises ValueError if neither order leaves enough. Whether the error is
        raised does not depend on the number of records.
        """
        assert self.target.epsilon is not None
        for expected in (made.composed_releases + self.dpis_norm_releases, None):
            budget = FilterBudget(self.target.epsilon, self.target.delta, expected=expected)
            # Bounds the cost of an epoch with the largest noise, if all norms are C (docs/theory/dpis.md, section 6).
            epoch = 2 * math.expm1(min(budget.cost(Gaussian(self.largest_noise / 1.01)), 700.0))
            room = budget.cap * (1 - 1e-6) - self.settings.norm_sum_count * budget.cost(Gaussian(self.norm_noise))
            if self.settings.epochs * epoch <= room:
                return budget
        raise self._make_dpis_norm_refusal()

    def _make_dpis_norm_refusal(self) -> ValueError:
        """Returns the error for sums of norms that leave nothing for gradients."""
        return ValueError(
            f"norm_noise must be larger, or epochs fewer: {self.settings.norm_sum_count} sums of norms with "
            f"norm_noise={self.norm_noise:g} take up the whole of epsilon. With norm_noise=None "
            "they take at most half of epsilon"
        )

    def compute_sampling_probability(self, share: float) -> float:
        """Returns q for ``share``, the ratio of the mean clipped norm to C."""
        return min(1.0, self.part / share)

    def choose_dpis_share_and_noise(
        self, budget: FilterBudget, epoch: int, released: float, max_norm: float
    ) -> tuple[float, float]:
        """Returns the share and the noise multiplier of an epoch's steps.

        The share is an estimate of the ratio of the mean norm to C, from the ``released`` sum of norms.
        """
        # The share is at least reach * part, so that a candidate's probability q * reach * |g| / C is at most 1.
        # Otherwise the estimate would be biased.
        least = min(1.0, self.settings.reach * self.part)
        share = min(max(released / (max_norm * self.public.records), least), 1.0)
        noise = self._choose_dpis_noise(budget, epoch, share)
        while noise > self.largest_noise and share < 1:  # a larger share needs less noise, and adds no bias
            share = min(1.0, 2 * share)
            noise = self._choose_dpis_noise(budget, epoch, share)
        return share, noise

    def _choose_dpis_noise(self, budget: FilterBudget, epoch: int, share: float) -> float:
        """Returns the noise multiplier of an epoch, sigma / share, for the smallest sigma that leaves enough budget for
        later epochs. May return infinity if this sigma exceeds the largest noise."""
        later = self.settings.epochs - epoch - 1
        sums = Gaussian(self.norm_noise)
        ahead = later * (2 if self.settings.adapt is not None else 1) * budget.cost(sums)
        left = (budget.cap - budget.spent - ahead) * (1 - 1e-9)
        worst = 1.0 if epoch < self.settings.reserve * self.settings.epochs else share

        def is_dpis_noise_affordable(sigma: float) -> bool:
            """Tells whether the steps of this epoch, with this sigma, leave enough for later epochs."""
            now = budget.cost(build_algorithm_release(sigma / share, self.compute_sampling_probability(share)))
            then = (
                now
                if worst == share
                else budget.cost(build_algorithm_release(sigma / worst, self.compute_sampling_probability(worst)))
            )
            # An epoch takes at most an equal part of the budget that is left for this epoch and the later epochs. So
            # every later epoch can spend as much as this one.
            return self.steps * max(now + later * then, (1 + later) * now) <= left

        _, sigma = bracket_monotone_crossing(
            lambda sigma: not is_dpis_noise_affordable(sigma), 1.0, 1e-4, most=2 * self.largest_noise
        )
        return sigma / share


class _DPISRun(DPISEpochSettings):
    """The steps of a run, with fixed or adaptive settings."""

    def build_fixed_dpis_run(self, q: float, noise: float) -> Run:
        """Returns a run with the same sampling probability and noise in all steps."""

        def run_fixed_dpis(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return self._run_dpis_epochs(
                oracle, gate, w, lambda epoch, w, max_norm: (q, noise), self._resolve_dpis_optimizer(q, noise)
            )

        return run_fixed_dpis

    def build_adaptive_dpis_run(self, budget: FilterBudget, q: float, noise: float) -> Run:
        """Returns a run whose epochs release the ratio of the mean norm to C.

        ``q`` and ``noise`` are those of a run with the largest possible cost. The length of steps follows from their
        ratio q / noise, which is about the same for any norms."""

        def run_adaptive_dpis(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            """Trains with the noise and the sampling probability that each epoch's released norms ask for."""

            def choose_dpis_epoch_settings(epoch: int, w: Vector, max_norm: float) -> tuple[float, float]:
                """Releases the sum of norms of an epoch, and returns its sampling probability and noise."""
                released = gate.release_gaussian(oracle.norm_sum_query(w, max_norm), self.norm_noise).value[0]
                share, noise = self.choose_dpis_share_and_noise(budget, epoch, released, max_norm)
                return self.compute_sampling_probability(share), noise

            return self._run_dpis_epochs(
                oracle, gate, w, choose_dpis_epoch_settings, self._resolve_dpis_optimizer(q, noise)
            )

        return run_adaptive_dpis

    def _resolve_dpis_optimizer(self, q: float, noise: float) -> Optimizer:
        """Returns the optimizer of the settings, or plain steps whose length follows from ``spread``."""
        options, steps = self.settings, self.settings.epochs * self.steps
        signal = q * self.public.records * math.sqrt(steps) / noise
        return resolve_algorithm_optimizer(
            self.public, options.optimizer, signal, steps, options.max_norm, options.spread
        )

    def _run_dpis_epochs(self, oracle: Oracle, gate: Gate, w: Vector, choose: Choice, optimizer: Optimizer) -> Vector:
        """Runs the epochs. An epoch may first release a sum of norms, which sets the clipping norm, and then takes its
        steps."""
        options, public = self.settings, self.public
        step = optimizer.make_stepper(public.size)
        iterates = MeanOfLastIterates(options.epochs * self.steps, options.average)
        max_norm = options.max_norm
        for epoch in range(options.epochs):
            if options.adapt is not None and epoch:
                total = gate.release_gaussian(oracle.norm_sum_query(w, 4 * options.max_norm), self.norm_noise).value[0]
                wanted = options.adapt * total / public.records
                max_norm = min(max(wanted, options.max_norm / 100), 4 * options.max_norm)
            q, noise = choose(epoch, w, max_norm)
            for i in range(self.steps):
                query = build_dpis_sum_query(oracle, w, max_norm, q, options.reach, options.floor, refresh=i == 0)
                total = gate.release_gaussian(query, noise).value
                w = step(w, total / (q * public.records) + public.regularization * w)
                iterates.add(w)
        return iterates.get_mean()


def build_dpis_sum_query(
    oracle: Oracle, w: Vector, max_norm: float, q: float, reach: float, floor: float, *, refresh: bool
) -> Query:
    """Returns the query of the sum of max_norm g_k / |g_k| over a sample that holds record k with probability
    q |clip(g_k)| / max_norm, where g_k is the record's gradient.

    The sample is drawn in two stages. The first stage draws candidates, with probabilities from bounds on the norms.
    The second stage takes some of the candidates, with probabilities from the norms themselves. A record's bound is
    from the last time that its gradient was computed. With ``refresh``, all bounds are computed anew first. For any
    bound, a record is taken with probability at most q. A record that is taken adds a vector of norm at most max_norm,
    so the sensitivity is max_norm (docs/theory/dpis.md, section 3). Weights multiply the norms |clip(g_k)|, and not the
    added vectors.
    """

    grid = choose_dense_gradient_grid(max_norm, records=oracle.public.records)
    stages = ImportanceSampling(q, max_norm, reach, floor)

    def evaluate_dpis_sum(source: RandomSource) -> Integers:
        """Draws candidates, takes some of them, and returns the sum of max_norm g_k / |g_k| over the taken ones."""
        hats = oracle.state.get("norm bounds")
        if refresh or hats is None:
            _, everyone = oracle.draw_batch(source, 1.0)
            found = [
                oracle.compute_gradients(w, part).clip_model_gradient_norms(max_norm)
                for part in oracle.split_gate_query_batch(everyone)
            ]
            hats = stages.bound_norms(np.concatenate([np.zeros(0), *found]))
        rows, records = oracle.select_records(stages.draw_candidates(source, hats))
        gradients = oracle.compute_gradients(w, records)
        norms = gradients.clip_model_gradient_norms(max_norm)
        taken = stages.select_by_norms(source.uniform(len(rows)), hats[rows], norms)
        hats[rows] = stages.bound_norms(norms)
        oracle.state["norm bounds"] = hats
        return gradients.sum_unit_model_gradients(max_norm, taken, grid=grid)

    return Query((oracle.public.size,), max_norm, q, grid, evaluate_dpis_sum)
