"""Queries whose value is the minimum of a strongly convex objective over all records (docs/theory/perturbation.md).

F(w) = sum of losses + b . w + convexity/2 |w|^2, for a linear model with a smooth loss, records scaled down to
``max_norm`` (intercept included), b a noise vector or 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .grid import grid_below, truncated
from .linear import LinearModel, Loss
from .minimize import minimize
from .model import Vector
from .oracle import Integers, Oracle, Public, Query
from .records import Records
from .sampling import Source

SLACK = 1e-6
"""Gradient norm to which a minimum is computed, as a part of one record's largest gradient: far above the rounding of
the sum (1e-16 times the number of records), and of no weight beside any useful noise."""


@dataclass(frozen=True)
class Objective:
    """F's public constants, on which the proofs rest."""

    loss: Loss
    max_norm: float
    convexity: float
    """N times the regularization."""

    @property
    def lipschitz(self) -> float:
        """Largest gradient norm of one record's loss."""
        return self.loss.lipschitz * self.max_norm

    @property
    def curvature(self) -> float:
        """Largest eigenvalue of the Hessian of one record's loss."""
        return self.loss.curvature * self.max_norm**2

    @property
    def slack(self) -> float:
        """How far a computed minimum may be from the true one."""
        return SLACK * self.lipschitz / self.convexity


@dataclass(frozen=True)
class Perturbed:
    """The minimum with a noise vector b that the gate brings: in units of ``sensitivity`` it is what makes the minimum
    private; ``slack`` bounds the distance of a computed minimum from the true one, which a second noise covers."""

    shape: tuple[int, ...]
    sensitivity: float
    slack: float
    evaluate: Callable[[Source, Vector], Vector] = field(repr=False, compare=False)


def objective(public: Public, max_norm: float) -> Objective:
    """F for a public description. ValueError where the model, the loss or the regularization does not carry it."""
    if public.loss is None or not math.isfinite(public.loss.curvature):
        raise ValueError("algorithm needs a linear model with a smooth loss: logistic, or a hinge with huber > 0")
    if not public.regularization > 0:
        raise ValueError("regularization must be > 0 for this algorithm: it rests on strong convexity")
    return Objective(public.loss, max_norm, public.records * public.regularization)


def minimum(oracle: Oracle, w: Vector, f: Objective) -> Query:
    """The minimum with b = 0, from the starting point ``w``. Sensitivity: lipschitz/convexity for the true minimum, and
    twice the slack for the computed one."""
    sensitivity = f.lipschitz / f.convexity + 2 * f.slack
    grid = grid_below(sensitivity)

    def evaluate(source: Source) -> Integers:
        return truncated(_minimum(oracle, w, f, np.zeros_like(w), source), grid)

    return Query(w.shape, sensitivity, 1.0, grid, evaluate)


def perturbed_minimum(oracle: Oracle, w: Vector, f: Objective) -> Perturbed:
    """The minimum with the gate's b."""
    return Perturbed(w.shape, f.lipschitz, f.slack, lambda source, b: _minimum(oracle, w, f, b, source))


def _minimum(oracle: Oracle, w: Vector, f: Objective, b: Vector, source: Source) -> Vector:
    _, records = oracle.batch(source, 1.0)
    records = _scaled(records, f.max_norm, w.size // f.loss.outputs)
    model = LinearModel(records.features.shape[1], f.loss, intercept=False)

    def function(v: Vector) -> tuple[float, Vector]:
        z = model.scores(v, records.features)
        value = float(f.loss.value(z, records.targets) @ records.valid)
        residual = f.loss.residual(z, records.targets) * records.valid[:, None]
        value += float(b @ v) + 0.5 * f.convexity * float(v @ v)
        return value, (residual.T @ records.features).ravel() + b + f.convexity * v

    smoothness = f.curvature * len(records) + f.convexity
    return minimize(function, w, SLACK * f.lipschitz, smoothness)


def _scaled(records: Records, max_norm: float, width: int) -> Records:
    """Features in float64, with the intercept's 1 as a last column where ``width`` asks for one, each row scaled
    down to ``max_norm``; rows that are not finite are zero and invalid."""
    features = records.features.astype(np.float64)
    if width > features.shape[1]:
        features = np.column_stack([features, np.ones(len(features))])
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", features, features))
    valid = records.valid & np.isfinite(norms)
    factors = np.where(valid, np.minimum(1.0, max_norm / np.maximum(norms, 1e-300)), 0.0)
    return Records(features * factors[:, None], records.targets, valid)
