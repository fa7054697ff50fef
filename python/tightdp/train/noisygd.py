"""Full-batch noisy gradient descent with momentum and iterate averaging.

Every step looks at every record, so no sampling has to be believed, the account is the exact Gaussian one, and the
noise of a step is sqrt(steps) times that of a single release. Averaging the last iterates takes most of that noise
out again."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _check
from ..accounting.composition import Composition
from ..mechanisms import Gaussian
from .algorithm import Plan
from .averaging import TailMean
from .budget import FixedPlan, Target, noise_for
from .gate import Gate
from .model import Vector
from .optimizers import SGD
from .oracle import Oracle, Public
from .settings import below_one, checked, optional


@dataclass(frozen=True)
class NoisyGD:
    """Noisy gradient descent over all records.

    Each of ``steps`` steps releases ``sum clip(g, max_norm) + N(0, (noise_multiplier max_norm)^2 I)`` over all
    records.

    Parameters
    ----------
    steps : number of releases
    max_norm : L2 bound on one record's gradient (the sum's sensitivity under add/remove)
    learning_rate : in units of 1 / max_norm: a step moves by at most learning_rate / (1 - momentum)
    momentum : in [0, 1)
    average : the share of last iterates whose mean is returned; 0 returns the last one
    noise_multiplier : noise over ``max_norm``; None to have it follow from the estimator's epsilon and delta

    Guarantee: that of one Gaussian of multiplier noise_multiplier / sqrt(steps), add/remove one record.
    """

    steps: int = 40
    max_norm: float = 0.5
    learning_rate: float = 2.0
    momentum: float = 0.8
    average: float = 0.5
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        checked(self, steps=_check.count, max_norm=_check.positive, learning_rate=_check.positive)
        checked(self, momentum=below_one, average=_check.closed_unit, noise_multiplier=optional(_check.positive))

    def plan(self, public: Public, target: Target) -> Plan:
        def releases(noise: float) -> Composition:
            return Gaussian(noise) * self.steps

        noise = noise_for(releases, self.noise_multiplier, target)

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            step = SGD(self.learning_rate / self.max_norm, self.momentum).stepper(public.size)
            iterates = TailMean(self.steps, self.average)
            for _ in range(self.steps):
                total = gate.gaussian(oracle.gradient_sum(w, self.max_norm), noise).value
                w = step(w, total / public.records + public.regularization * w)
                iterates.add(w)
            return iterates.mean()

        return Plan(FixedPlan(releases(noise)), run)
