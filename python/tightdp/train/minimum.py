"""Queries whose value is the minimum of a strongly convex objective over all records (docs/theory/perturbation.md).

F(w) = sum of losses + b . w + convexity/2 |w|^2, for a linear model with a smooth loss, records scaled down to
``max_norm`` (intercept included), b a noise vector or 0. The minimum is computed, certified and rounded to a public
grid; how far all that may take it from the true one is part of the sensitivity.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from .grid import grid_below, norms_above, truncated
from .linear import Hinge, Logistic, Loss
from .minimize import NotReached, minimize
from .model import Vector
from .oracle import CHUNK, Integers, Oracle, Public, Query
from .records import Array, Records
from .sampling import Source

SLACK = 1e-6
"""Gradient norm to which a minimum is certified, as a part of one record's largest gradient: far above the rounding of
a gradient (``Sum.error``) for up to some 10^7 records, and of no weight beside any useful noise."""
OUTWARD = 1 + 2.0**-40
"""More than the rounding of the few products that make a constant."""
BLOCK = 256
"""Records whose gradients are added up in plain floating point: fewer are slower, more lose digits."""
EPS = 2.0**-53
STAGE, STAGE_PASSES = 0.1, 300
"""Tolerance of a minimum to start from, over one record's largest gradient, and passes that it may take."""
COVER_BITS = 6
"""Digits of the distance that the second noise covers: truncation adds a 64th to it."""


@dataclass(frozen=True)
class Objective:
    """F's public constants, on which the proofs rest, none rounded down."""

    loss: Loss
    max_norm: float
    convexity: float
    """N times the regularization."""

    @property
    def lipschitz(self) -> float:
        """Largest gradient norm of one record's loss."""
        return self.loss.lipschitz * self.max_norm * OUTWARD

    @property
    def curvature(self) -> float:
        """Largest eigenvalue of the Hessian of one record's loss."""
        return self.loss.curvature * self.max_norm**2 * OUTWARD

    @property
    def tolerance(self) -> float:
        """Gradient norm of F at a computed minimum."""
        return SLACK * self.lipschitz


@dataclass(frozen=True)
class Perturbed:
    """The minimum with a noise vector b that the gate brings, in two parts of docs/theory/perturbation.md, section 3.

    b is integers times ``noise_grid``: in units of ``sensitivity`` it is what makes the true minimum private.
    ``cover`` bounds how far apart the computed minima for two neighbours may be where the true ones agree, which a
    second noise covers. The value is integers times ``grid``.
    """

    shape: tuple[int, ...]
    sensitivity: float
    noise_grid: float
    cover: float
    grid: float
    evaluate: Callable[[Source, Vector], Integers] = field(repr=False, compare=False)


def objective(public: Public, max_norm: float) -> Objective:
    """F for a public description. ValueError where the model, the loss or the regularization does not carry it."""
    if public.loss is None or not math.isfinite(public.loss.curvature):
        raise ValueError("algorithm needs a linear model with a smooth loss: logistic, or a hinge with huber > 0")
    if not public.regularization > 0:
        raise ValueError("regularization must be > 0 for this algorithm: it rests on strong convexity")
    return Objective(public.loss, max_norm, public.records * public.regularization)


def minimum(oracle: Oracle, w: Vector, f: Objective) -> Query:
    """The minimum with b = 0, from the starting point ``w``. Sensitivity: lipschitz/convexity for the true minimum,
    twice the tolerance over the convexity for the computed one, and a grid step a coordinate."""
    distance = (f.lipschitz + 2 * f.tolerance) / f.convexity * OUTWARD
    grid = grid_below(distance)
    sensitivity = (distance + math.sqrt(w.size) * grid) * OUTWARD

    def evaluate(source: Source) -> Integers:
        return truncated(_minimum(oracle, w, f, np.zeros_like(w), source), grid)

    return Query(w.shape, sensitivity, 1.0, grid, evaluate)


def perturbed_minimum(oracle: Oracle, w: Vector, f: Objective) -> Perturbed:
    """The minimum with the gate's b."""
    side = math.sqrt(w.size)
    noise_grid = grid_below(f.tolerance / side, 0)  # so that rounding moves b by at most half the tolerance
    distance = 3 * f.tolerance / f.convexity * OUTWARD
    grid = grid_below(distance / side, COVER_BITS)
    cover = (distance + side * grid) * OUTWARD

    def evaluate(source: Source, b: Vector) -> Integers:
        return truncated(_minimum(oracle, w, f, b, source), grid)

    return Perturbed(w.shape, f.lipschitz, noise_grid, cover, grid, evaluate)


def _minimum(oracle: Oracle, w: Vector, f: Objective, b: Vector, source: Source) -> Vector:
    _, records = oracle.batch(source, 1.0)
    records = _scaled(records, f.max_norm, w.size // f.loss.outputs)
    for stage in _stages(f.loss):
        smoother = dataclasses.replace(f, loss=stage)
        # Only the last minimum is certified. The others are where to start from, and may be found badly.
        with contextlib.suppress(NotReached):
            w = minimize(partial(Sum, smoother, records, b), w, STAGE * f.lipschitz, STAGE_PASSES)
    return minimize(partial(Sum, f, records, b), w, f.tolerance)


def _stages(loss: Loss) -> list[Hinge]:
    """Wider roundings of a hinge: Newton's method on a narrow one looks at the few records near the kink."""
    if not isinstance(loss, Hinge):
        return []
    widths = [0.5**k for k in range(0, 60, 2) if 0.5**k > loss.h]
    return [Hinge(2 if loss.outputs == 1 else loss.outputs, width) for width in widths]


class Sum:
    """F at one w: its gradient, how far that may be from the true one, and its second derivative."""

    def __init__(self, f: Objective, records: Records, b: Vector, w: Vector) -> None:
        self._f, self._x, self._targets, self._valid = f, records.features, records.targets, records.valid[:, None]
        self._b, self._w = b, w
        self._z = self._scores(w)
        residual = f.loss.residual(self._z, self._targets) * self._valid
        data = _transposed_product(residual, self._x)
        self.gradient = data + b + f.convexity * w
        self.error = self._rounding(float(np.linalg.norm(data)))

    def bent(self, v: Vector) -> Vector:
        z, targets, x = self._curved
        bend = self._f.loss.bend(z, targets, x @ v.reshape(z.shape[1], -1).T)
        return np.asarray((bend.T @ x).ravel() + self._f.convexity * v)

    @cached_property
    def _curved(self) -> tuple[Array, NDArray[np.intp], Array]:
        """Scores, targets and features of the records whose loss is curved here: for a hinge, few."""
        probe = np.broadcast_to(np.arange(1.0, self._z.shape[1] + 1), self._z.shape)
        rows = (self._f.loss.bend(self._z, self._targets, probe) * self._valid).any(axis=1)
        if rows.mean() > 0.5:
            return self._z, self._targets, self._x * self._valid
        return self._z[rows], self._targets[rows], self._x[rows]

    def slope(self, direction: Vector) -> Callable[[float], float]:
        dz = self._scores(direction) * self._valid
        convexity = self._f.convexity
        linear = float(direction @ self._b) + convexity * float(direction @ self._w)
        square = convexity * float(direction @ direction)

        def at(t: float) -> float:
            residual = self._f.loss.residual(self._z - t * dz, self._targets)
            return t * square - linear - float(np.vdot(residual, dz))

        return at

    def _scores(self, w: Vector) -> Array:
        return np.asarray(self._x @ w.reshape(self._f.loss.outputs, -1).T)

    def _rounding(self, data: float) -> float:
        """How far the gradient is from the true one at most (docs/theory/perturbation.md, section 4)."""
        f, n, d = self._f, len(self._x), self._x.shape[1]
        size, outputs = float(np.linalg.norm(self._w)), f.loss.outputs
        score = 1.1 * EPS * ((d + 2 * outputs + 4) * f.max_norm * size + 2)
        rest = data + float(np.linalg.norm(self._b)) + f.convexity * size
        plain = n * (f.max_norm * (2 * outputs + 16) + (BLOCK + 4) * f.lipschitz) + 4 * rest
        return f.max_norm * self._moved(score) + 1.1 * EPS * plain

    def _moved(self, error: float) -> float:
        """Sum of how far an error of the scores can move the residuals, with what rounds a residual itself."""
        f = self._f
        worst = len(self._x) * f.loss.curvature * error
        if worst * f.max_norm <= 0.1 * f.tolerance or not isinstance(f.loss, (Logistic, Hinge)):
            return worst
        low, high = (f.loss.residual(self._z + s * error, self._targets) * self._valid for s in (-1, 1))
        return min(worst, float(np.sqrt(((high - low) ** 2).sum(axis=1)).sum()))


def _transposed_product(residual: Array, x: Array) -> Vector:
    """residual^T x, flat: the sums of ``BLOCK`` records in floating point, and their sum with its rounding errors
    summed beside it (Ogita, Rump and Oishi 2005, Sum2)."""
    total = np.zeros(residual.shape[1] * x.shape[1])
    lost = np.zeros_like(total)
    for start in range(0, len(x), BLOCK):
        rows = slice(start, start + BLOCK)
        part = (residual[rows].T @ x[rows]).ravel()
        new = total + part
        kept = new - total
        lost += (total - (new - kept)) + (part - kept)
        total = new
    return total + lost


def _scaled(records: Records, max_norm: float, width: int) -> Records:
    """Features in float64, with the intercept's 1 as a last column where ``width`` asks for one, each row scaled
    down to ``max_norm``; rows that are not finite are zero and invalid."""
    features = np.zeros((len(records), width))
    features[:, : records.features.shape[1]] = records.features
    if width > records.features.shape[1]:
        features[:, -1] = 1
    for start in range(0, len(features), CHUNK):
        rows = features[start : start + CHUNK]
        norms = norms_above(rows)
        with np.errstate(divide="ignore"):
            rows *= np.minimum(1.0, max_norm * (1 - 2.0**-50) / norms)[:, None]
    return Records(features, records.targets, records.valid)
