"""AdaCliP: gradients centred and scaled coordinate by coordinate before they are clipped (Pichapati et al. 2019).

Departures from the paper, each with its reason in docs/theory/adaclip.md:

- Noise is added once, to the sum, so that an empty batch carries it too. The divisor is public.
- The noise's own variance is subtracted from the variance estimate at the scale it has there, (b sigma / B)^2. The rest
  is the variance of a batch mean, and is scaled to that of one record.
- Estimates are averaged before they are confined to [h1, h2]. Deviations start at (h1 h2)^(1/4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import _check
from ..gate.budget import FixedPlan, Target, resolve_noise_multiplier
from ..gate.gate import Gate
from ..gate.oracle import Oracle, Public
from ..models.grid import exact_bound
from ..models.model import Vector
from .shared.algorithm import AlgorithmPlan, RepeatedRelease, batch_size, compute_smallest_share
from .shared.optimizers import Optimizer, TailMean, check_optimizer
from .shared.step_length import FRACTION, resolve_optimizer


@dataclass(frozen=True)
class AdaCliP:
    """Differentially private gradient descent with coordinate-wise adaptive clipping.

    Each of ``steps`` steps releases ``b * (sum clip((g - a) / b, 1) + N(0, noise_multiplier^2 I))`` over a batch that
    holds each record independently with probability q = batch_size / (public number of records), and takes
    ``a + released / batch_size`` for the mean gradient. The centre a is a running mean of past estimates. The
    scale is b_i = sqrt(s_i sum(s) / gamma) for running estimates s_i of the deviation of one record's gradient. Of all
    b that keep the mean of |(g - a) / b|^2 at gamma, these have the least noise.

    Parameters
    ----------
    batch_size : expected batch size B, at most the public number of records less one, which stands for larger ones: the
        mean of all records says nothing about their variance. One with which the run would take over 2,500,000 steps is
        enlarged to take so many. None for a fiftieth of the public number
    epochs : steps = ceil(epochs / q)
    h1, h2 : 0 < h1 <= h2, the range of the variances s_i^2. With h1 = h2 this is DP-SGD with
        max_norm = sqrt(h2 parameters / gamma), plus the centre. If the noise is much larger than the deviation to be
        estimated (see the page on AdaCliP), a narrow range does better than a wide one. None for half and twice the
        variance that ``max_norm`` stands for
    beta1, beta2 : weights of the past in the running mean and variance
    gamma : mean squared norm of the scaled gradients; smaller clips less and adds more noise
    noise_multiplier : of the sum of scaled gradients; None computes it from the estimator's epsilon and delta
    optimizer : applied to the estimate, plus regularization * w; None for plain steps whose length follows from
        ``spread`` and ``max_norm``, as for ``DPSGD``
    average : the share of last iterates whose mean is returned; 0 returns the last one
    max_norm : the norm bound of the DP-SGD that this starts as, where ``h1``, ``h2`` or ``optimizer`` is None
    spread : as for ``DPSGD``

    Guarantee: exactly that of ``steps`` Poisson-subsampled Gaussians, add/remove one record: centre and scale come
    from past releases.
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
        _check.replace_fields(self, exact_bound, "max_norm")
        _check.replace_fields(self, _check.positive, "epochs", "h1", "h2", "gamma", "noise_multiplier", "spread")
        _check.replace_fields(self, batch_size, "batch_size")
        _check.replace_fields(self, _check.below_one, "beta1", "beta2")
        _check.replace_fields(self, _check.closed_unit, "average")
        _check.replace_fields(self, check_optimizer, "optimizer")
        if self.h1 is not None and self.h2 is not None and self.h1 > self.h2:
            raise ValueError(f"h1 must be at most h2 = {self.h2!r}, got {self.h1!r}")

    @property
    def cost_is_public(self) -> bool:
        return self.batch_size is None

    def resolve_variance_range(self, size: int) -> tuple[float, float]:
        """Returns h1 and h2 for ``size`` parameters."""
        start = self.max_norm**2 * self.gamma / size
        h1 = min(start / 2, self.h2 or math.inf) if self.h1 is None else self.h1
        h2 = max(start * 2, h1) if self.h2 is None else self.h2
        return h1, h2

    def compute_steps(self, public: Public, target: Target) -> RepeatedRelease:
        """Returns the releases of a run: how many, of which samples and with which noise."""
        q = FRACTION
        if self.batch_size is not None:
            q = limit_batch(self.batch_size, public.records, self.epochs) / public.records
        steps = math.ceil(self.epochs / q)
        noise = resolve_noise_multiplier(
            lambda noise: RepeatedRelease(q, noise, steps).composed_releases, self.noise_multiplier, target
        )
        return RepeatedRelease(q, noise, steps)

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Plans the steps, whose clipping follows moments that were released with the gradients."""
        made = self.compute_steps(public, target)
        q, noise, steps = made
        batch = q * public.records
        signal = batch * math.sqrt(steps) / noise
        optimizer = resolve_optimizer(public, self.optimizer, signal, steps, self.max_norm, self.spread)

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            """Takes steps along estimates of the mean gradient, from which the next centre and scale are learned."""
            step, iterates = optimizer.make_stepper(public.size), TailMean(steps, self.average)
            moments = Moments(self, public.size, batch, q, noise)
            for _ in range(steps):
                query = oracle.gradient_sum_query(
                    w, 1.0, sampling_probability=q, center=moments.center, scale=moments.gradient_scale
                )
                gradient = moments.learn_from_release(gate.release_gaussian(query, noise).value)
                w = step(w, gradient + public.regularization * w)
                iterates.add(w)
            return iterates.get_mean()

        used = {"sampling_probability": q, "steps": steps, "noise_multiplier": noise, "optimizer": optimizer}
        return AlgorithmPlan(FixedPlan(made.composed_releases), run, steps, used)


def limit_batch(batch_size: float, records: int, epochs: float) -> float:
    """Returns an expected batch size that has a plan: in place of all records, all but one, or half of a single one,
    and in place of too few, so many that ``epochs`` end."""
    batch_size = max(batch_size, records * compute_smallest_share(epochs))
    return batch_size if batch_size < records else max(records - 1, 0.5)


class Moments:
    """Running mean and deviation of one record's gradient, from releases alone."""

    def __init__(self, settings: AdaCliP, size: int, expected: float, q: float, noise: float) -> None:
        self._settings, self._expected, self._q, self._noise = settings, expected, q, noise
        self._low, self._high = settings.resolve_variance_range(size)
        self.center: Vector = np.zeros(size)
        self.variance: Vector = np.full(size, math.sqrt(self._low * self._high))

    @property
    def gradient_scale(self) -> Vector:
        """Scale of each coordinate, b_i = sqrt(s_i sum(s) / gamma), with s confined to its range."""
        deviation = np.sqrt(np.clip(self.variance, self._low, self._high))
        return np.asarray(np.sqrt(deviation * (deviation.sum() / self._settings.gamma)))

    def learn_from_release(self, released: Vector) -> Vector:
        """Returns the estimate of the mean gradient in a released sum, and updates the moments with it."""
        options, scale = self._settings, self.gradient_scale
        gradient: Vector = self.center + released / self._expected
        observed = estimate_variance((gradient - self.center) ** 2, scale, self._noise, self._expected, self._q)
        self.variance = options.beta2 * self.variance + (1 - options.beta2) * observed
        self.center = options.beta1 * self.center + (1 - options.beta1) * gradient
        return gradient


def estimate_variance(squares: Vector, scale: Vector, noise: float, expected: float, q: float) -> Vector:
    """Returns the variance of one record's gradient, from squared distances of the estimate from the centre.

    If nothing is clipped, E (g~ - m)^2 = (b sigma / B)^2 + ((1-q)/B) mean_k (g_k - m)^2 + (g_mean - m)^2 for Poisson
    batches (docs/theory/adaclip.md, section 3). So the estimate is unbiased up to the last term, which is small once m
    has settled.
    """
    return (squares - (scale * noise / expected) ** 2) * (expected / (1 - q))
