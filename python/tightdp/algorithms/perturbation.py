"""Output and objective perturbation: baselines that add noise once, to the minimum of an objective or to the objective.

Both algorithms need a linear model with a smooth loss (logistic, or a Huberised hinge), and records of norm at most
``max_norm``. Longer records are scaled down. Proofs are in docs/theory/perturbation.md.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

from .._support import _check
from ..accounting.questions.calibration import calibrate
from ..mechanisms import ApproximateDP, Gaussian
from ..models.contribution_grid import exact_bound
from ..models.model_interface import Vector
from ..release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.minimum_query import (
    MinimumObjective,
    build_minimum_objective,
    build_minimum_query,
    build_perturbed_minimum_query,
)
from ..release_gate.oracle import Oracle, Public
from .building_blocks.algorithm import AlgorithmPlan

CURVATURE_SHARE = 0.5
"""Largest part of epsilon that one record's effect on the curvature of the objective may cost. If the cost would be
larger, the regularization is raised (docs/theory/perturbation.md, section 3)."""
EPSILON = _check.build_argument_check("(0, 1400]")
"""Check of epsilon's range. The least convexity depends on e^(epsilon/2), which must not overflow."""
COVER = 0.02
"""Part of epsilon and delta for the noise that covers the error of the computed minimum. The part can be small: the
gradient at the computed minimum is at most 1e-6 of one record's gradient, so this noise is negligible."""


@dataclass(frozen=True)
class OutputPerturbation:
    """Releases the minimum of (sum of losses)/N + regularization/2 |w|^2 plus Gaussian noise.

    Parameters
    ----------
    max_norm : records are scaled down to this norm, intercept included.
    noise_multiplier : noise divided by the minimum's sensitivity L / (N regularization), where L is the largest norm of
        a record's gradient and N the number of records; None computes it from epsilon and delta.

    ``regularization`` must be > 0. Guarantee: the privacy of one Gaussian, add/remove one record. Lee and Kifer (2018)
    compare DP-AGD with the output perturbation of Zhang et al. (2017). That algorithm takes a fixed number of gradient
    steps, and its noise is at least sqrt(2 ln(1.25/delta))/epsilon times the sensitivity. Here the
    distance of the computed minimum from the exact minimum is bounded and added to the sensitivity. The noise is
    calibrated to the exact privacy profile of the Gaussian.

    Raises ValueError for a setting out of its range, or for a model that is not linear.

    >>> from tightdp.train import LogisticRegression, OutputPerturbation
    >>> settings = {"epsilon": 1.0, "delta": 1e-6, "regularization": 0.01, "public_size": 2000}
    >>> LogisticRegression(OutputPerturbation(), **settings).charge_for(n_features=2).epsilon(1e-6) <= 1.0
    True
    """

    max_norm: float = 1.0
    noise_multiplier: float | None = None
    cost_is_public: ClassVar[bool] = True
    in_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, exact_bound, "max_norm")
        _check.check_dataclass_arguments(self, _check.positive, "noise_multiplier")

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan of the release of one minimum with noise.

        ``public`` holds the public facts, and ``target`` the guarantee to meet.
        """
        f = build_minimum_objective(public, self.max_norm)
        noise = resolve_noise_from_gate_budget(Gaussian, self.noise_multiplier, target)

        def run_output_perturbation(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return gate.release_gaussian(build_minimum_query(oracle, w, f), noise).value

        return AlgorithmPlan(FixedPlan(Gaussian(noise)), run_output_perturbation, 1, {"noise_multiplier": noise})


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Releases the minimum of (sum of losses + b . w)/N + regularization/2 |w|^2, with Gaussian b.

    Parameters
    ----------
    max_norm : records are scaled down to this norm, intercept included.

    There must be two classes. The noise follows from delta and from epsilon, which is at most 1400. Guarantee:
    (epsilon, delta)-DP, add/remove one record. A record's effect on the curvature costs log(1 + beta/(N
    regularization)) of epsilon. Here N is the number of records, and beta the loss's largest second derivative times
    max_norm^2. There are two differences from Kifer, Smith and Thakurta (2012). First, the exact privacy profile of
    the Gaussian replaces a tail bound. Second, a factor two is left out. The factor is needed only for a loss whose
    slope has both signs for the same class. The computed minimum may be approximate, because a second, small Gaussian
    covers its distance from the exact minimum (Iyengar et al. 2019).

    Raises ValueError for a setting out of its range, or for a model that is not linear.

    >>> from tightdp.train import LogisticRegression, ObjectivePerturbation
    >>> settings = {"epsilon": 1.0, "delta": 1e-6, "regularization": 0.01, "public_size": 2000}
    >>> LogisticRegression(ObjectivePerturbation(), **settings).charge_for(n_features=2)
    ApproximateDP(epsilon=1.0, delta=1e-06) * 1
    """

    max_norm: float = 1.0
    in_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.check_dataclass_arguments(self, exact_bound, "max_norm")

    def choose_objective(self, public: Public, epsilon: float) -> MinimumObjective:
        """Returns the function to minimise. If a record's effect on the curvature would cost more than half of epsilon,
        the convexity is raised.

        ``public`` holds the public facts. ``epsilon``, in (0, 1400], is the epsilon of the guarantee.
        """
        epsilon = EPSILON("epsilon of objective perturbation", epsilon)
        f = build_minimum_objective(public, self.max_norm)
        if f.loss.outputs != 1:
            raise ValueError("classes must be two: objective perturbation needs losses of one score")
        least = f.largest_curvature / math.expm1(CURVATURE_SHARE * epsilon)
        return dataclasses.replace(f, convexity=max(f.convexity, least))

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns the plan of the release of one minimum.

        ``public`` holds the public facts, and ``target`` the guarantee to meet. A part of the target's epsilon is the
        cost of the curvature. The rest of epsilon, and delta, are divided between two noises: the noise in the
        objective, and the noise that covers the error of the computed minimum.
        """
        if target.epsilon is None:
            raise ValueError("epsilon must be given: objective perturbation has no noise of its own")
        f = self.choose_objective(public, target.epsilon)
        left = target.epsilon - math.log1p(f.largest_curvature / f.convexity) * (1 + 1e-12)
        noise = float(calibrate(Gaussian, epsilon=(1 - COVER) * left, delta=(1 - COVER) * target.delta))
        cover = float(calibrate(Gaussian, epsilon=COVER * left, delta=COVER * target.delta))
        charge = ApproximateDP(target.epsilon, target.delta)

        def run_objective_perturbation(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return gate.release_perturbed_minimum(
                build_perturbed_minimum_query(oracle, w, f), noise, cover, charge
            ).value

        return AlgorithmPlan(FixedPlan(charge), run_objective_perturbation, 1)
