"""DP-AGD: gradient descent whose noise and step sizes adapt to earlier releases (Lee and Kifer 2018, Algorithm 2).

Each iteration releases a noisy gradient and privately chooses among ``candidates`` step sizes. If a step of size 0
wins, the iteration spends more budget on a second release of the same gradient, and averages both releases. Departures
from the paper (docs/algorithms/dp-agd.md has the reasons):

- Neighbours differ by adding or removing a record. The paper says the same, but also fixes the number of records, which
  rules out such neighbours.
- All measurements of a gradient are averaged before the average is normalised to a direction.
- The regulariser is multiplied by a public number of records.
- The selection adds Gumbel noise, whose rho in zCDP is a quarter of the rho of Laplace noise of the same scale.
- The budget must allow a release before it is made. Caps limit the gradients and the selections of a run. The charge is
  the exact composition of the caps, and not only their zCDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._support import _check
from ..accounting.running_accounts.filters import BudgetExceeded
from ..composition import Composition
from ..mechanisms import BoundedRange, PureDP
from ..models.contribution_grid import exact_bound
from ..models.model_interface import Vector
from ..release_gate.budget import Caps, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.oracle import Oracle, Public, Query
from .building_blocks.algorithm import AlgorithmPlan, check_algorithm_step_count
from .building_blocks.centering import (
    build_descent_on_centered_features,
    can_center_features,
    check_centering_share,
)


@dataclass(frozen=True)
class DPAGD:
    """Adaptive gradient descent under a cap on gradients and a cap on selections.

    Parameters
    ----------
    selections : how many private selections the run may make. A selection that is won by a step of size 0 counts too.
    share : the part of the privacy budget (as zCDP) that selections get, in [1e-6, 1).
    max_norm : L2 bound on one record's gradient.
    max_loss : one record's loss is clipped to [0, max_loss] in selections. Keep this bound well above the loss of a
        wrong but unsure prediction. If the bound is too low, always predicting the larger class loses little.
    candidates, max_step : step sizes are 0 and the right ends of ``candidates`` equal parts of [0, max_step].
    every, stretch : after every ``every`` steps, max_step becomes (1 + stretch) times the largest of these steps.
    growth : relative growth of a gradient's budget when a step of size 0 wins, at least 1e-6.
    momentum : weight of the previous direction in the next direction, which averages out noise by post-processing. The
        paper has 0.
    center : the share of the gradients' cap for the mean of the features, as for ``NoisyGD``; the paper has 0.
    noise : "gumbel" selects by the exponential mechanism, which is equivalent to Gumbel noise. "exponential" selects by
        permute-and-flip, which is equivalent to exponential noise and costs the epsilon of Laplace noise.
    batch_size : expected size of a Poisson batch for each gradient and each selection; None takes all records. The
        charge is that of full batches, which is valid but not tight.
    noise_multiplier : standard deviation of the noise of the first gradients, divided by max_norm; None computes it
        from epsilon and delta.

    Guarantee: the privacy of Gaussian(noise_multiplier / sqrt(selections)) composed with ``selections`` times
    BoundedRange(eta) (PureDP with exponential noise), add/remove one record, however the run adapts
    (docs/theory/caps.md).

    Raises ValueError for a setting out of its range.

    >>> from tightdp.train import DPAGD, Public, Target
    >>> plan = DPAGD(selections=40).plan(Public(records=5000, size=3), Target(1.0, 1e-6))
    >>> plan.releases is None, plan.budget.charge().epsilon(1e-6) <= 1.0  # the run decides on the number of releases
    (True, True)
    """

    selections: int = 100
    share: float = 0.15
    max_norm: float = 1.2
    max_loss: float = 3.0
    candidates: int = 20
    max_step: float = 0.5
    every: int = 10
    stretch: float = 0.1
    growth: float = 0.3
    momentum: float = 0.8
    center: float = 0.05
    noise: str = "gumbel"
    batch_size: float | None = None
    noise_multiplier: float | None = None
    cost_is_public: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, exact_bound, "max_norm", "max_loss")
        _check.check_dataclass_arguments(self, check_algorithm_step_count, "selections")
        _check.check_dataclass_arguments(self, _check.check_count_argument, "candidates", "every")
        _check.check_dataclass_arguments(self, _check.build_argument_check("[1e-6, 1)"), "share")
        _check.check_dataclass_arguments(self, _check.positive, "max_step", "batch_size", "noise_multiplier")
        _check.check_dataclass_arguments(self, _check.build_argument_check("[1e-6, inf)"), "growth")
        _check.check_dataclass_arguments(self, _check.nonnegative, "stretch")
        _check.check_dataclass_arguments(self, _check.below_one, "momentum")
        _check.check_dataclass_arguments(self, check_centering_share, "center")
        _check.check_choice_argument("noise", self.noise, ("gumbel", "exponential"))

    def _calibrate_dpagd_selection(self, noise_multiplier: float) -> BoundedRange | PureDP:
        """Returns the mechanism of one selection. All ``selections`` together have the part ``share`` of the run's
        zCDP.

        The rho of a Gaussian is 1/(2 noise_multiplier^2), the rho of Gumbel noise is eta^2/8, and the rho of
        exponential noise is epsilon^2/2."""
        ratio = float(np.sqrt(self.share / (1 - self.share))) / noise_multiplier
        return BoundedRange(2 * ratio) if self.noise == "gumbel" else PureDP(ratio)

    def _build_caps(self, noise_multiplier: float) -> Caps:
        """Returns the caps on gradients and selections."""
        gradients = self.selections / noise_multiplier**2
        return Caps(gradients, [(self._calibrate_dpagd_selection(noise_multiplier), self.selections)])

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan, which has caps for gradients and selections. Within the caps the run chooses its steps and
        the noise.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """

        def compute_dpagd_charge(noise_multiplier: float) -> Composition:
            return self._build_caps(noise_multiplier).charge()

        noise_multiplier = resolve_noise_from_gate_budget(compute_dpagd_charge, self.noise_multiplier, target)
        selection = self._calibrate_dpagd_selection(noise_multiplier)
        q = 1.0 if self.batch_size is None else min(1.0, self.batch_size / public.records)

        def run_dpagd(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return _DPAGDRun(self, public, oracle, gate, w, q, noise_multiplier, selection).run()

        if self.center and can_center_features(public):
            run = build_descent_on_centered_features(
                run_dpagd, noise_multiplier / math.sqrt(self.center * self.selections)
            )
        else:
            run = run_dpagd
        used = {"sampling_probability": q, "noise_multiplier": noise_multiplier}
        return AlgorithmPlan(self._build_caps(noise_multiplier), run, used=used)


class _DPAGDRun:
    """The state of one run: current parameters, the cost of the next gradient, and the largest step size."""

    def __init__(
        self,
        settings: DPAGD,
        public: Public,
        oracle: Oracle,
        gate: Gate,
        w: Vector,
        q: float,
        noise_multiplier: float,
        selection: BoundedRange | PureDP,
    ) -> None:
        self._set, self._public, self._oracle, self._gate, self._q = settings, public, oracle, gate, q
        self._w, self._selection = w, selection
        self._price = noise_multiplier**-2
        """1 / noise_multiplier^2 of the next gradient, which is the gradient's cost under the cap and its weight in the
        average."""
        self._max_step = settings.max_step
        self._taken: list[float] = []
        self._last: Vector = np.zeros_like(w)

    def run(self) -> Vector:
        """Iterates until a release is refused, and returns the parameters before this release."""
        try:
            while True:
                self._take_dpagd_step()
        except BudgetExceeded:
            return self._w

    def _take_dpagd_step(self) -> None:
        """Takes one step along a noisy gradient. While a step of size 0 wins the selection, more measurements of the
        gradient are released and averaged."""
        measured, weight = self._measure_dpagd_gradient(self._price), self._price
        while True:
            direction = self._set.momentum * self._last + measured + self._compute_penalty()
            unit = direction / max(float(np.linalg.norm(direction)), np.finfo(float).tiny)
            step = self._choose_step(unit)
            if step > 0:
                self._w = self._w - step * unit
                self._last = direction
                self._note_dpagd_step(step)
                return
            extra = self._set.growth * self._price
            measured = (weight * measured + extra * self._measure_dpagd_gradient(extra)) / (weight + extra)
            weight += extra
            self._price += extra

    def _measure_dpagd_gradient(self, price: float) -> Vector:
        """Releases an unbiased estimate of the sum of the clipped gradients. The noise has variance max_norm^2 / price
        in each coordinate, before the division by the sampling probability."""
        query = self._oracle.gradient_sum_query(self._w, self._set.max_norm, sampling_probability=self._q)
        return self._gate.release_gaussian(query, price**-0.5).value / self._q

    def _compute_penalty(self) -> Vector:
        """Returns the gradient of the penalty times the public number of records, to be added to a sum of gradients."""
        return self._public.records * self._public.regularization * self._w

    def _choose_step(self, unit: Vector) -> float:
        """Selects a step size along a direction privately. The size 0 stands for no step."""
        steps = np.linspace(0.0, self._max_step, self._set.candidates + 1)
        query: Query = self._oracle.line_loss_query(
            self._w, unit, steps, self._set.max_loss, sampling_probability=self._q
        )
        ends = self._w - steps[:, None] * unit
        penalty = 0.5 * self._q * self._public.records * self._public.regularization * (ends**2).sum(axis=1)
        return float(steps[self._gate.release_least_index(query, self._selection, offset=penalty).value])

    def _note_dpagd_step(self, step: float) -> None:
        """Stores a step size. After every ``every`` steps, sets the largest size of the next steps."""
        self._taken.append(step)
        if len(self._taken) % self._set.every == 0:
            self._max_step = (1 + self._set.stretch) * max(self._taken[-self._set.every :])
