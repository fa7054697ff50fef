"""DP-SGD: descent by clipped gradients of Poisson batches, with Gaussian noise and any optimizer (Abadi et al. 2016).

There are three departures from the paper. The divisor is the public expected batch size, and not the size of the batch
that was drawn. An empty batch still releases noise. The average of the last iterates may be returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._support import _check
from ..composition import Composition
from ..mechanisms import Gaussian, PoissonSampled
from ..models.contribution_grid import exact_bound
from ..release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.oracle import Public
from .building_blocks.algorithm import AlgorithmPlan, batch_size, compute_smallest_algorithm_batch_share
from .building_blocks.centering import (
    build_descent_on_centered_features,
    can_center_features,
    check_centering_share,
    compute_centering_noise,
)
from .building_blocks.descent import build_shared_gradient_descent
from .building_blocks.optimizers import Optimizer, check_shared_algorithm_optimizer
from .building_blocks.public_step_length import FRACTION, resolve_algorithm_optimizer


@dataclass(frozen=True)
class DPSGD:
    """Differentially private stochastic gradient descent.

    Each of ``steps`` steps releases ``sum clip(g, max_norm) + N(0, (noise_multiplier max_norm)^2 I)`` over a batch. The
    batch holds each record independently with probability q = batch_size / (public number of records).

    Parameters
    ----------
    batch_size : expected batch size. With a batch size of at least the number of records, every step uses every record.
        If the run would take over 2,500,000 steps, the batch size is enlarged until the run takes 2,500,000. None takes
        a fiftieth of the public number of records.
    epochs : number of epochs; the number of steps is ceil(epochs / q).
    max_norm : L2 bound on one record's gradient (the sum's sensitivity under add/remove).
    noise_multiplier : standard deviation of the noise, divided by ``max_norm``; None computes it from the estimator's
        epsilon and delta.
    optimizer : gets the released sum / batch_size + regularization * w as the gradient at the parameters w, with the
        estimator's ``regularization``; None takes plain steps whose length follows from ``spread``.
    spread : standard deviation that noise alone would give each parameter by the last step; None takes a default that
        depends on public facts alone.
    center : share of the budget for the mean of the features, as for ``NoisyGD``; 0 by default.
    average : share of the iterates, counted from the last, whose mean is returned; 0 returns the last iterate.

    Guarantee: exactly the privacy of ``steps`` Poisson-subsampled Gaussians (and the Gaussian for the mean of the
    features), if one record is added or removed.

    Raises ValueError for a setting out of its range.

    >>> from tightdp.train import DPSGD, Public, Target
    >>> plan = DPSGD(batch_size=100, epochs=2).plan(Public(records=5000, size=3), Target(1.0, 1e-6))
    >>> plan.releases, plan.used["sampling_probability"], plan.budget.charge().epsilon(1e-6) <= 1.0
    (100, 0.02, True)
    """

    batch_size: float | None = None
    epochs: float = 20
    max_norm: float = 1.0
    noise_multiplier: float | None = None
    optimizer: Optimizer | None = None
    spread: float | None = None
    center: float = 0.0
    average: float = 0.5

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, exact_bound, "max_norm")
        _check.check_dataclass_arguments(self, _check.positive, "epochs", "noise_multiplier", "spread")
        _check.check_dataclass_arguments(self, batch_size, "batch_size")
        _check.check_dataclass_arguments(self, check_centering_share, "center")
        _check.check_dataclass_arguments(self, _check.closed_unit, "average")
        _check.check_dataclass_arguments(self, check_shared_algorithm_optimizer, "optimizer")

    @property
    def cost_is_public(self) -> bool:
        """Whether the privacy cost of a plan does not depend on the number of records."""
        return self.batch_size is None

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan of steps on Poisson samples, and of one release of the centre if features are centred.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        q = FRACTION
        if self.batch_size is not None:
            q = min(1.0, max(self.batch_size / public.records, compute_smallest_algorithm_batch_share(self.epochs)))
        steps = math.ceil(self.epochs / q)
        share = self.center if can_center_features(public) else 0.0

        def compose_dpsgd_releases(noise: float) -> Composition:
            sampled = PoissonSampled(Gaussian(noise), q) * steps
            return sampled + Gaussian(compute_centering_noise(noise, q, steps, share)) if share else sampled

        noise = resolve_noise_from_gate_budget(compose_dpsgd_releases, self.noise_multiplier, target)
        signal = q * public.records * math.sqrt(steps) / noise
        optimizer = resolve_algorithm_optimizer(public, self.optimizer, signal, steps, self.max_norm, self.spread)
        descend = build_shared_gradient_descent(optimizer, steps, self.max_norm, noise, q, self.average)
        run = (
            build_descent_on_centered_features(descend, compute_centering_noise(noise, q, steps, share))
            if share
            else descend
        )
        used = {"sampling_probability": q, "steps": steps, "noise_multiplier": noise, "optimizer": optimizer}
        return AlgorithmPlan(FixedPlan(compose_dpsgd_releases(noise)), run, steps + bool(share), used)
