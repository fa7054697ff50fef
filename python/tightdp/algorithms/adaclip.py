"""AdaCliP: descent whose gradients are centred and scaled, coordinate by coordinate, and then clipped (Pichapati et al.
2019).

Departures from the paper, each with its reason in docs/theory/adaclip.md:

- Noise is added once, to the sum over the batch, even if the batch is empty. The sum is divided by the public expected
  batch size.
- The variance of the noise, (b sigma / B)^2 for scale b, noise multiplier sigma and batch size B, is subtracted from
  the variance estimate. The remaining variance of a batch mean is scaled to the variance of one record's gradient.
- Variance estimates are averaged. The average starts at sqrt(h1 h2), for the settings h1 and h2. The scale is computed
  from the average confined to [h1, h2].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._support import _check
from ..models.contribution_grid import exact_bound
from ..models.model_interface import Vector
from ..release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.oracle import Oracle, Public
from .building_blocks.algorithm import (
    AlgorithmPlan,
    AlgorithmReleases,
    batch_size,
    compute_smallest_algorithm_batch_share,
)
from .building_blocks.optimizers import MeanOfLastIterates, Optimizer, check_shared_algorithm_optimizer
from .building_blocks.public_step_length import FRACTION, resolve_algorithm_optimizer


@dataclass(frozen=True)
class AdaCliP:
    """Differentially private gradient descent with coordinate-wise adaptive clipping.

    Let g be the gradient of a record, a the centre and b the scale. Each of ``steps`` steps releases ``b * (sum clip((g
    - a) / b, 1) + N(0, noise_multiplier^2 I))`` over a batch. The batch holds each record independently with
    probability q = batch_size / (public number of records). The estimate of the mean gradient is ``a + released /
    batch_size``. The centre a is a running mean of past estimates. The scale of coordinate i is b_i = sqrt(s_i sum(s) /
    gamma), where s_i is a running estimate of the standard deviation of one record's gradient in this coordinate. This
    scale gives the least noise among all scales for which |(g - a) / b|^2 has the mean gamma.

    Parameters
    ----------
    batch_size : expected batch size B. Let N be the public number of records. If B is N or more, it is replaced by
        N - 1, or by 0.5 if N is 1. If every batch held all records, the mean of a batch would not vary, and the
        records' variance could not be estimated from it. If the run would take over 2,500,000 steps, the batch size is
        enlarged until the run takes 2,500,000. None takes a fiftieth of the public number of records.
    epochs : number of epochs; the number of steps is ceil(epochs / q).
    h1, h2 : the least and largest variance s_i^2, 0 < h1 <= h2. With h1 = h2 the algorithm is DP-SGD with
        max_norm = sqrt(h2 p / gamma) for p parameters, plus the centre. If the noise is much larger than the gradients'
        standard deviation (see the page on AdaCliP), a narrow range does better than a wide range. None takes
        v / 2 for h1 and 2 v for h2, where v = max_norm^2 gamma / p.
    beta1, beta2 : weights of the past in the running mean and variance.
    gamma : mean squared norm of the scaled gradients. A smaller gamma clips less and adds more noise.
    noise_multiplier : noise multiplier of the sum of scaled gradients; None computes it from the estimator's epsilon
        and delta.
    optimizer : applied to the sum of the estimate and regularization * w; None takes plain steps whose length follows
        from ``spread`` and ``max_norm``, as for ``DPSGD``.
    average : share of the iterates, counted from the last, whose mean is returned; 0 returns the last iterate.
    max_norm : L2 bound on one record's gradient in the first step, if ``h1`` and ``h2`` are None. The first step then
        clips as DP-SGD does. ``max_norm`` also decides ``h1``, ``h2`` and the step length where these are not given.
    spread : as for ``DPSGD``.

    Guarantee: exactly the privacy of ``steps`` Poisson-subsampled Gaussians, add/remove one record. Centre and scale
    cost nothing, because they are computed from past releases.

    Raises ValueError for a setting out of its range.

    >>> from tightdp.train import AdaCliP, Public, Target
    >>> public, target = Public(records=5000, size=4), Target(1.0, 1e-6)
    >>> AdaCliP(batch_size=100, epochs=2).compute_steps(public, target).composed_releases.epsilon(1e-6) <= 1.0
    True
    >>> AdaCliP(batch_size=100, epochs=2).plan(public, target).releases, AdaCliP().resolve_adaclip_variance_range(4)
    (100, (0.125, 0.5))
    """

    batch_size: float | None = None
    epochs: float = 20
    h1: float | None = None
    h2: float | None = None
    beta1: float = 0.99
    beta2: float = 0.999
    gamma: float = 1.0
    noise_multiplier: float | None = None
    optimizer: Optimizer | None = None
    average: float = 0.5
    max_norm: float = 1.0
    spread: float | None = None

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, exact_bound, "max_norm")
        _check.check_dataclass_arguments(
            self, _check.positive, "epochs", "h1", "h2", "gamma", "noise_multiplier", "spread"
        )
        _check.check_dataclass_arguments(self, batch_size, "batch_size")
        _check.check_dataclass_arguments(self, _check.below_one, "beta1", "beta2")
        _check.check_dataclass_arguments(self, _check.closed_unit, "average")
        _check.check_dataclass_arguments(self, check_shared_algorithm_optimizer, "optimizer")
        if self.h1 is not None and self.h2 is not None and self.h1 > self.h2:
            raise ValueError(f"h1 must be at most h2 = {self.h2!r}, got {self.h1!r}")

    @property
    def cost_is_public(self) -> bool:
        """Whether the cost of a plan does not depend on the number of records."""
        return self.batch_size is None

    def resolve_adaclip_variance_range(self, size: int) -> tuple[float, float]:
        """Returns h1 and h2 for ``size`` parameters."""
        start = self.max_norm**2 * self.gamma / size
        h1 = min(start / 2, self.h2 or math.inf) if self.h1 is None else self.h1
        h2 = max(start * 2, h1) if self.h2 is None else self.h2
        return h1, h2

    def compute_steps(self, public: Public, target: Target) -> AlgorithmReleases:
        """Returns the releases of a run: their sampling probability, noise multiplier and number.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        q = FRACTION
        if self.batch_size is not None:
            q = limit_adaclip_batch(self.batch_size, public.records, self.epochs) / public.records
        steps = math.ceil(self.epochs / q)
        noise = resolve_noise_from_gate_budget(
            lambda noise: AlgorithmReleases(q, noise, steps).composed_releases, self.noise_multiplier, target
        )
        return AlgorithmReleases(q, noise, steps)

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan of the steps. A step clips by moments that are estimated from the releases of earlier steps.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        made = self.compute_steps(public, target)
        q, noise, steps = made
        batch = q * public.records
        signal = batch * math.sqrt(steps) / noise
        optimizer = resolve_algorithm_optimizer(public, self.optimizer, signal, steps, self.max_norm, self.spread)

        def run_adaclip(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            """Takes steps along estimates of the mean gradient, from which the next centre and scale are learned."""
            step, iterates = optimizer.make_stepper(public.size), MeanOfLastIterates(steps, self.average)
            moments = AdaCliPMoments(self, public.size, batch, q, noise)
            for _ in range(steps):
                query = oracle.gradient_sum_query(
                    w, 1.0, sampling_probability=q, center=moments.center, scale=moments.gradient_scale
                )
                gradient = moments.learn_adaclip_moments(gate.release_gaussian(query, noise).value)
                w = step(w, gradient + public.regularization * w)
                iterates.add(w)
            return iterates.get_mean()

        used = {"sampling_probability": q, "steps": steps, "noise_multiplier": noise, "optimizer": optimizer}
        return AlgorithmPlan(FixedPlan(made.composed_releases), run_adaclip, steps, used)


def limit_adaclip_batch(batch_size: float, records: int, epochs: float) -> float:
    """Returns the expected batch size, within the range for which there is a plan.

    A plan has at most 2,500,000 steps. A batch size with which ``epochs`` epochs would take more steps is replaced by
    the one with which they take this number. After this, a batch size of ``records`` or more is replaced by one less
    than ``records``, or by 0.5 for a single record."""
    batch_size = max(batch_size, records * compute_smallest_algorithm_batch_share(epochs))
    return batch_size if batch_size < records else max(records - 1, 0.5)


class AdaCliPMoments:
    """Running estimates of the mean and variance of one record's gradient, from releases alone."""

    def __init__(self, settings: AdaCliP, size: int, expected: float, q: float, noise: float) -> None:
        self._settings, self._expected, self._q, self._noise = settings, expected, q, noise
        self._low, self._high = settings.resolve_adaclip_variance_range(size)
        self.center: Vector = np.zeros(size)
        self.variance: Vector = np.full(size, math.sqrt(self._low * self._high))

    @property
    def gradient_scale(self) -> Vector:
        """Scale of each coordinate, b_i = sqrt(s_i sum(s) / gamma), with each variance s_i^2 confined to [h1, h2]."""
        deviation = np.sqrt(np.clip(self.variance, self._low, self._high))
        return np.asarray(np.sqrt(deviation * (deviation.sum() / self._settings.gamma)))

    def learn_adaclip_moments(self, released: Vector) -> Vector:
        """Computes an estimate of the mean gradient from a released sum, updates the moments, and returns the
        estimate."""
        options, scale = self._settings, self.gradient_scale
        gradient: Vector = self.center + released / self._expected
        observed = estimate_adaclip_variance((gradient - self.center) ** 2, scale, self._noise, self._expected, self._q)
        self.variance = options.beta2 * self.variance + (1 - options.beta2) * observed
        self.center = options.beta1 * self.center + (1 - options.beta1) * gradient
        return gradient


def estimate_adaclip_variance(squares: Vector, scale: Vector, noise: float, expected: float, q: float) -> Vector:
    """Estimates the variance of one record's gradient, from squared distances of the estimated mean from the centre.

    Let g~ be the estimate of the mean gradient, m the centre and b the scale. Let sigma be the noise multiplier, B the
    expected batch size, q the sampling probability and g_k the gradient of record k. If nothing is clipped, then
    E (g~ - m)^2 = (b sigma / B)^2 + ((1-q)/B) mean_k (g_k - m)^2 + (g_mean - m)^2 (docs/theory/adaclip.md, section 3).
    The last term biases the result, and is small once m is close to g_mean.
    """
    return (squares - (scale * noise / expected) ** 2) * (expected / (1 - q))
