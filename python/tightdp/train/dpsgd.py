"""DP-SGD: clipped gradients of Poisson batches, Gaussian noise, any optimiser (Abadi et al. 2016).

Departures: the divisor is the public expected batch size, never the realised one; an empty batch still releases
noise; the average of the last iterates may be returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .. import _check
from ..mechanisms import Gaussian, PoissonSampled
from .algorithm import Plan
from .budget import FixedPlan, Target, noise_for
from .gate import Gate
from .model import Vector
from .optimizers import SGD, Optimizer
from .oracle import Oracle, Public


@dataclass(frozen=True)
class DPSGD:
    """Differentially private stochastic gradient descent.

    Each of ``steps`` steps releases ``sum clip(g, max_norm) + N(0, (noise_multiplier max_norm)^2 I)`` over a batch that holds
    each record independently with probability q = batch_size / (public number of records).

    Parameters
    ----------
    batch_size : expected batch size; at least the number of records means every record, every step
    epochs : steps = ceil(epochs / q)
    max_norm : L2 bound on one record's gradient (the sum's sensitivity under add/remove)
    noise_multiplier : noise over ``max_norm``; None to have it follow from the estimator's epsilon and delta
    optimizer : applied to the released sum / batch_size, plus regularization * w
    average : the share of last iterates whose mean is returned; 0 returns the last one

    Guarantee: exactly that of ``steps`` Poisson-subsampled Gaussians, add/remove one record.
    """

    batch_size: float = 256
    epochs: float = 10
    max_norm: float = 1.0
    noise_multiplier: float | None = None
    optimizer: Optimizer = field(default_factory=SGD)
    average: float = 0.5

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "max_norm"):
            object.__setattr__(self, name, _check.positive(name, getattr(self, name)))
        if self.noise_multiplier is not None:
            object.__setattr__(self, "noise_multiplier", _check.positive("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "average", _check.below_one("average", self.average))

    def plan(self, public: Public, target: Target) -> Plan:
        q = min(1.0, self.batch_size / public.records)
        steps = math.ceil(self.epochs / q)
        expected = q * public.records

        def releases(noise: float) -> object:
            step = Gaussian(noise)
            return (step if q == 1 else PoissonSampled(step, q)) * steps

        noise = noise_for(releases, self.noise_multiplier, target)

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            step, iterates = self.optimizer.stepper(public.size), TailMean(steps, self.average)
            for _ in range(steps):
                total = gate.gaussian(oracle.gradient_sum(w, self.max_norm, sampling_probability=q), noise).value
                w = step(w, total / expected + public.regularization * w)
                iterates.add(w)
            return iterates.mean()

        return Plan(FixedPlan(releases(noise)), run)


class TailMean:
    """The mean of the last ``share`` of ``steps`` iterates, or the last one."""

    def __init__(self, steps: int, share: float) -> None:
        self._skip = steps - max(1, round(steps * share))
        self._seen, self._sum = 0, np.float64(0.0)

    def add(self, w: Vector) -> None:
        self._seen += 1
        if self._seen > self._skip:
            self._sum = self._sum + w

    def mean(self) -> Vector:
        return np.asarray(self._sum / (self._seen - self._skip))
