"""The baselines that perturb once: the minimum of a strongly convex objective, or the objective itself.

Both need a linear model with a smooth loss (logistic, Huberised hinge) and records of bounded norm: features are scaled
down to ``max_norm``. Proofs: docs/theory/perturbation.md.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

from .. import _check
from ..accounting.questions.calibration import calibrate
from ..gate.budget import FixedPlan, Target, resolve_noise_multiplier
from ..gate.gate import Gate
from ..gate.minimum_query import Objective, build_minimum_query, build_objective, build_perturbed_query
from ..gate.oracle import Oracle, Public
from ..mechanisms import ApproximateDP, Gaussian
from ..models.grid import exact_bound
from ..models.model import Vector
from .shared.algorithm import AlgorithmPlan

CURVATURE_SHARE = 0.5
"""Largest part of epsilon that may pay for the change of curvature; if it would be more, the regularization is
raised (docs/theory/perturbation.md, section 3)."""
EPSILON = _check.interval("(0, 1400]")
"""Range of epsilon: e^(epsilon/2), by which the least convexity is divided, is a double."""
COVER = 0.02
"""Part of epsilon and delta for the noise that covers the inexactness of the minimum. It can be small, because the
minimum is computed to 1e-6 of one record's gradient: even the noise that it buys is negligible."""


@dataclass(frozen=True)
class OutputPerturbation:
    """Releases the minimum of (sum of losses)/N + regularization/2 |w|^2 plus Gaussian noise.

    Parameters
    ----------
    max_norm : records are scaled down to this norm, intercept included
    noise_multiplier : noise over the minimum's sensitivity L / (N regularization), L the largest gradient of a
        record; None computes it from epsilon and delta

    Needs ``regularization`` > 0. Guarantee: that of one Gaussian, add/remove one record. Departure from Zhang et
    al. (2017), whom the DP-AGD paper compares with: the exact minimum instead of a fixed number of gradient steps,
    and the exact Gaussian calibration instead of sqrt(2 ln(1.25/delta)).
    """

    max_norm: float = 1.0
    noise_multiplier: float | None = None
    cost_is_public: ClassVar[bool] = True
    in_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.replace_fields(self, exact_bound, "max_norm")
        _check.replace_fields(self, _check.positive, "noise_multiplier")

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Plans the release of one minimum with noise."""
        f = build_objective(public, self.max_norm)
        noise = resolve_noise_multiplier(Gaussian, self.noise_multiplier, target)

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return gate.release_gaussian(build_minimum_query(oracle, w, f), noise).value

        return AlgorithmPlan(FixedPlan(Gaussian(noise)), run, 1, {"noise_multiplier": noise})


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Releases the minimum of (sum of losses + b . w)/N + regularization/2 |w|^2, with Gaussian b.

    Parameters
    ----------
    max_norm : records are scaled down to this norm, intercept included

    Two classes only; the noise follows from epsilon, at most 1400, and delta. Guarantee: (epsilon, delta)-DP,
    add/remove one record, of which log(1 + beta/(N regularization)) of epsilon pays for the change of curvature, beta
    being the loss's largest second derivative times max_norm^2. Departures from Kifer, Smith and Thakurta (2012): the
    exact Gaussian curve replaces a tail bound, without the factor two that losses of either slope would need. The
    minimum may be approximate, because a second, small Gaussian covers its error (Iyengar et al. 2019).
    """

    max_norm: float = 1.0
    in_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check.replace_fields(self, exact_bound, "max_norm")

    def choose_objective(self, public: Public, epsilon: float) -> Objective:
        """Returns the function to minimise. Its convexity is raised if the change of curvature would otherwise cost
        more than half of epsilon."""
        epsilon = EPSILON("epsilon of objective perturbation", epsilon)
        f = build_objective(public, self.max_norm)
        if f.loss.outputs != 1:
            raise ValueError("classes must be two: objective perturbation needs losses of one score")
        least = f.largest_curvature / math.expm1(CURVATURE_SHARE * epsilon)
        return dataclasses.replace(f, convexity=max(f.convexity, least))

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Plans the release of one minimum, whose noise and cover share the target."""
        if target.epsilon is None:
            raise ValueError("epsilon must be given: objective perturbation has no noise of its own")
        f = self.choose_objective(public, target.epsilon)
        left = target.epsilon - math.log1p(f.largest_curvature / f.convexity) * (1 + 1e-12)
        noise = float(calibrate(Gaussian, epsilon=(1 - COVER) * left, delta=(1 - COVER) * target.delta))
        cover = float(calibrate(Gaussian, epsilon=COVER * left, delta=COVER * target.delta))
        charge = ApproximateDP(target.epsilon, target.delta)

        def run(oracle: Oracle, gate: Gate, w: Vector) -> Vector:
            return gate.release_perturbed_minimum(build_perturbed_query(oracle, w, f), noise, cover, charge).value

        return AlgorithmPlan(FixedPlan(charge), run, 1)
