"""Queries whose value is the minimum of a strongly convex objective over all records (docs/theory/perturbation.md).

The objective of this file is F(w) = sum of weighted losses + b . w + convexity/2 |w|^2. A minimum is a point w at which
F is smallest. The model is linear and its loss is smooth. The features of a record, with the 1 of the intercept, are
scaled down to a norm of at most ``max_norm``. Weights are in [0, 1], and b is a noise vector or 0. The minimum is
computed, certified and rounded to a public grid. The largest distance of the result from the true minimum is part of
the sensitivity.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..clipping_and_noise.noise import Philox, RandomSource
from ..models.contribution_grid import (
    choose_contribution_grid,
    compute_model_contribution_clip_factors,
    truncate_contributions_to_grid,
)
from ..models.dense import apply_dense_affine_map
from ..models.linear import Hinge, Logistic, Loss
from ..models.model_interface import Vector
from ..models.model_records import Array, Records
from .minimum_solver import (
    MinimumNotReached,
    compute_solver_dot_product,
    compute_solver_norm,
    minimize_convex_gate_function,
)
from .oracle import CHUNK, Integers, Oracle, Public, Query

SLACK = 1e-6
"""Largest norm of F's gradient at a certified minimum, divided by the largest norm of one record's gradient. For up to
some 10^7 records, this limit is far above the rounding errors of F's gradient (``MinimumQueryPoint.error``), and far
below any useful noise."""
OUTWARD = 1 + 2.0**-40
"""Factor on a computed constant that outweighs the rounding errors of the few products in it."""
MOST_REGULARIZATION = 1e100
"""Largest regularization. Squares of larger numbers overflow in the search for the minimum."""
BLOCK = 256
"""Number of records whose gradients are added in plain floating point. Smaller blocks are slower, and sums over larger
blocks lose digits (docs/theory/perturbation.md, section 4)."""
EPS = 2.0**-53
"""Largest relative rounding error of one operation in doubles."""
STAGE, STAGE_PASSES = 0.1, 300
"""Two limits for a minimum that is only a starting point. The first limits the norm of F's gradient, divided by the
largest norm of one record's gradient. The second limits the number of passes over the data."""
COVER_BITS = 6
"""Number of binary digits of a computed minimum that are kept below the magnitude of its error. Truncation increases
the error by at most a 64th. A second noise hides the error (``PerturbedMinimumQuery.cover``)."""


@dataclass(frozen=True)
class MinimumObjective:
    """The public constants of F, which the proofs use. No constant is rounded down."""

    loss: Loss
    max_norm: float
    convexity: float
    """The public number of records times the regularization."""

    @property
    def largest_gradient_norm(self) -> float:
        """Largest gradient norm of one record's loss."""
        return self.loss.lipschitz * self.max_norm * OUTWARD

    @property
    def largest_curvature(self) -> float:
        """Largest eigenvalue of the Hessian of one record's loss."""
        return self.loss.curvature * self.max_norm**2 * OUTWARD

    @property
    def gradient_tolerance(self) -> float:
        """Largest norm of F's gradient at a computed minimum."""
        return SLACK * self.largest_gradient_norm


@dataclass(frozen=True)
class PerturbedMinimumQuery:
    """The query of the minimum of F with a noise vector b, which the gate draws (docs/theory/perturbation.md, section
    3).

    The entries of b are integers times ``noise_grid``. The noise b makes the true minimum private, and the deviation of
    b is a multiple of ``sensitivity``. If the true minima of two neighbours agree, the distance of the computed minima
    is at most ``cover``. A second noise, on the computed minimum, hides this distance. The entries of the query's value
    are integers times ``grid``.
    """

    shape: tuple[int, ...]
    sensitivity: float
    noise_grid: float
    cover: float
    grid: float
    evaluate: Callable[[RandomSource, Vector], Integers] = field(repr=False, compare=False)


def build_minimum_objective(public: Public, max_norm: float) -> MinimumObjective:
    """Returns the constants of F. Raises ValueError if the model, the loss or the regularization is not allowed."""
    if public.loss is None or not math.isfinite(max(public.loss.curvature, public.loss.lipschitz)):
        raise ValueError(
            "algorithm needs a linear model with a smooth loss of bounded slope: logistic, or a hinge with huber > 0"
        )
    if not public.regularization > 0:
        raise ValueError("regularization must be > 0 for this algorithm: it rests on strong convexity")
    if public.regularization > MOST_REGULARIZATION:
        raise ValueError(f"regularization must be at most {MOST_REGULARIZATION:g} for this algorithm")
    return MinimumObjective(public.loss, max_norm, public.records * public.regularization)


def build_minimum_query(oracle: Oracle, w: Vector, f: MinimumObjective) -> Query:
    """Returns the query of the minimum of F with b = 0. The search starts from ``w``.

    The sensitivity has three terms. One record moves the true minimum by at most the largest gradient norm, divided by
    the convexity. The distances of the two computed minima from the true minima add up to at most twice the tolerance,
    divided by the convexity. Rounding moves each coordinate by up to a grid step."""
    distance = (f.largest_gradient_norm + 2 * f.gradient_tolerance) / f.convexity * OUTWARD
    grid = choose_contribution_grid(distance)
    sensitivity = (distance + math.sqrt(w.size) * grid) * OUTWARD

    def evaluate_minimum_query(source: RandomSource) -> Integers:
        return truncate_contributions_to_grid(_minimize_query_objective(oracle, w, f, np.zeros_like(w), source), grid)

    return Query(w.shape, sensitivity, 1.0, grid, evaluate_minimum_query)


def build_perturbed_minimum_query(oracle: Oracle, w: Vector, f: MinimumObjective) -> PerturbedMinimumQuery:
    """Returns the query of the minimum of F with a noise vector b, which the gate draws."""
    side = math.sqrt(w.size)
    noise_grid = choose_contribution_grid(
        f.gradient_tolerance / side, 0
    )  # so that rounding moves b by at most half the tolerance
    distance = 3 * f.gradient_tolerance / f.convexity * OUTWARD
    grid = choose_contribution_grid(distance / side, COVER_BITS)
    cover = (distance + side * grid) * OUTWARD

    def evaluate_perturbed_minimum_query(source: RandomSource, b: Vector) -> Integers:
        return truncate_contributions_to_grid(_minimize_query_objective(oracle, w, f, b, source), grid)

    return PerturbedMinimumQuery(
        w.shape, f.largest_gradient_norm, noise_grid, cover, grid, evaluate_perturbed_minimum_query
    )


def _minimize_query_objective(
    oracle: Oracle, w: Vector, f: MinimumObjective, b: Vector, source: RandomSource
) -> Vector:
    """Returns the minimum of F with the noise vector ``b``. The search starts from ``w`` and uses smoother losses
    first."""
    _, records = oracle.draw_batch(source, 1.0)
    data = _scale_gate_query_records(records, f.max_norm, w.size // f.loss.outputs)
    for stage in _list_smoother_gate_query_losses(f.loss):
        smoother = dataclasses.replace(f, loss=stage)
        # Only the last minimum is certified. The others are starting points, and need not be accurate.
        with contextlib.suppress(MinimumNotReached):
            w = minimize_convex_gate_function(
                partial(MinimumQueryPoint, smoother, data, b), w, STAGE * f.largest_gradient_norm, STAGE_PASSES
            )
    return minimize_convex_gate_function(partial(MinimumQueryPoint, f, data, b), w, f.gradient_tolerance)


def _list_smoother_gate_query_losses(loss: Loss) -> list[Hinge]:
    """Returns hinges whose kinks are smoothed over longer intervals than the kink of ``loss``. The intervals get
    shorter. The minimum with each hinge is the starting point for the next hinge.

    Newton's method needs curvature. A record has curvature only within the interval, and few records are within a short
    interval."""
    if not isinstance(loss, Hinge):
        return []
    widths = [0.5**k for k in range(0, 60, 2) if 0.5**k > loss.h]
    return [Hinge(2 if loss.outputs == 1 else loss.outputs, width) for width in widths]


class OrderedQueryTable:
    """A table of rows x, whose products do not depend on the number of threads or the processor."""

    def __init__(self, x: Array) -> None:
        self._x = x
        self._columns = [np.ascontiguousarray(x[i : i + BLOCK].T) for i in range(0, len(x), BLOCK)]

    def compute_scores(self, w: Vector, outputs: int) -> Array:
        """Returns x_k . w for each row and output, shape (n, outputs)."""
        return apply_dense_affine_map(self._x, w.reshape(outputs, -1), None)

    def sum_weighted_gate_query_rows(self, weights: Array) -> Vector:
        """Returns weights^T x, flattened.

        The rows of a block of ``BLOCK`` are added in plain floating point. The sum over blocks is compensated: the
        rounding errors of its additions are computed, and added at the end (Ogita, Rump and Oishi 2005, Sum2)."""
        total = np.zeros((self._x.shape[1], weights.shape[1]))
        lost = np.zeros_like(total)
        for i, columns in enumerate(self._columns):
            part = apply_dense_affine_map(columns, weights[i * BLOCK : (i + 1) * BLOCK].T, None)
            new = total + part
            kept = new - total
            lost += (total - (new - kept)) + (part - kept)
            total = new
        return np.asarray((total + lost).T.ravel())


class MinimumQueryRecords(NamedTuple):
    """The records of F: features scaled down to ``max_norm``, targets, and weights as a column or None if all are
    1."""

    features: Array
    targets: NDArray[np.intp]
    weights: Array | None
    table: OrderedQueryTable

    def apply_weights(self, derivatives: Array) -> Array:
        """Returns the derivatives of the losses, of shape (n, outputs), times the weights."""
        return derivatives if self.weights is None else derivatives * self.weights

    def take_gate_query_rows(self, rows: NDArray[np.bool_]) -> MinimumQueryRecords:
        """Returns the records for which the mask ``rows`` is True."""
        features = self.features[rows]
        weights = None if self.weights is None else self.weights[rows]
        return MinimumQueryRecords(features, self.targets[rows], weights, OrderedQueryTable(features))


class MinimumQueryPoint:
    """The derivatives of F at a point w, with a bound on the error of the computed gradient."""

    def __init__(self, f: MinimumObjective, data: MinimumQueryRecords, b: Vector, w: Vector) -> None:
        self._f, self._data = f, data
        self._b, self._w = b, w
        self._z = data.table.compute_scores(w, f.loss.outputs)
        summed = data.table.sum_weighted_gate_query_rows(
            data.apply_weights(f.loss.differentiate_by_scores(self._z, data.targets))
        )
        self.gradient = summed + b + f.convexity * w
        self.error = self._bound_gate_query_rounding(compute_solver_norm(summed))

    def multiply_by_gate_query_hessian(self, v: Vector) -> Vector:
        """Returns the Hessian of F at this point times v."""
        z, data = self._curved_gate_query_records
        bend = self._f.loss.multiply_by_curvature(z, data.targets, data.table.compute_scores(v, z.shape[1]))
        return data.table.sum_weighted_gate_query_rows(data.apply_weights(bend)) + self._f.convexity * v

    @cached_property
    def _curved_gate_query_records(self) -> tuple[Array, MinimumQueryRecords]:
        """The scores and the records for which the loss has curvature at w.

        If these are more than half of the records, no record is left out."""
        probe = np.broadcast_to(np.arange(1.0, self._z.shape[1] + 1), self._z.shape)
        rows = np.asarray(self._f.loss.multiply_by_curvature(self._z, self._data.targets, probe).any(axis=1))
        if 2 * np.count_nonzero(rows) > len(rows):
            return self._z, self._data
        return self._z[rows], self._data.take_gate_query_rows(rows)

    def differentiate_along(self, direction: Vector) -> Callable[[float], float]:
        """Returns a function of t, the derivative of F along the line w - t * direction. Each call passes once over the
        scores."""
        dz = self._data.table.compute_scores(direction, self._f.loss.outputs)
        convexity = self._f.convexity
        linear = compute_solver_dot_product(direction, self._b) + convexity * compute_solver_dot_product(
            direction, self._w
        )
        square = convexity * compute_solver_dot_product(direction, direction)

        def differentiate_objective_at_step(t: float) -> float:
            residual = self._data.apply_weights(
                self._f.loss.differentiate_by_scores(self._z - t * dz, self._data.targets)
            )
            return t * square - linear - compute_solver_dot_product(residual, dz)

        return differentiate_objective_at_step

    def _bound_gate_query_rounding(self, summed: float) -> float:
        """Bounds the distance of the computed gradient from the true gradient (docs/theory/perturbation.md, section
        4)."""
        f, n, d = self._f, len(self._z), self._data.features.shape[1]
        size, outputs = compute_solver_norm(self._w), f.loss.outputs
        score = 1.1 * EPS * ((d + 2 * outputs + 4) * f.max_norm * size + 2)
        rest = summed + compute_solver_norm(self._b) + f.convexity * size
        plain = n * (f.max_norm * (2 * outputs + 16) + (BLOCK + 5) * f.largest_gradient_norm) + 4 * rest
        return f.max_norm * self._bound_gate_query_residual_shift(score) + 1.1 * EPS * plain

    def _bound_gate_query_residual_shift(self, error: float) -> float:
        """Bounds the total distance by which an ``error`` of the scores can move the residuals of all records. The
        residual of a record is the derivative of its loss by its scores."""
        f = self._f
        worst = len(self._z) * f.loss.curvature * error
        if worst * f.max_norm <= 0.1 * f.gradient_tolerance or not isinstance(f.loss, (Logistic, Hinge)):
            return worst
        low, high = (f.loss.differentiate_by_scores(self._z + s * error, self._data.targets) for s in (-1, 1))
        return min(worst, float(np.sqrt(((high - low) ** 2).sum(axis=1)).sum()))


def _scale_gate_query_records(records: Records, max_norm: float, width: int) -> MinimumQueryRecords:
    """Returns the finite records in float64, each row scaled down to ``max_norm``, in the order of
    ``_order_query_records``.

    If ``width`` exceeds the number of features by one, the last column is the intercept's 1."""
    order, own = _order_query_records(records), records.features.shape[1]
    features = np.ones((len(order), width))
    for start in range(0, len(features), CHUNK):
        rows = features[start : start + CHUNK]
        rows[:, :own] = records.features[order[start : start + CHUNK]]
        rows *= compute_model_contribution_clip_factors(rows, max_norm)
    weights = None if records.weights is None else records.weights[order][:, None]
    return MinimumQueryRecords(
        features, np.ascontiguousarray(records.targets[order]), weights, OrderedQueryTable(features)
    )


def _order_query_records(records: Records) -> NDArray[np.intp]:
    """Returns the row numbers of the finite records, sorted by a hash of features and target.

    Unequal records with the same hash are sorted by features and target themselves. Records with equal features and
    targets are sorted by their weights. So floating-point sums do not depend on the order of the rows in the table."""
    words = records.features.view(f"u{records.features.itemsize}")
    targets = records.targets.astype(np.uint64)
    odd = Philox(0).integers(words.shape[1] + 1) | np.uint64(1)
    keys = np.einsum("ij,j->i", words, odd[1:]) + targets * odd[0]
    order = np.flatnonzero(records.valid)
    weights = np.ones(len(keys)) if records.weights is None else records.weights
    order = order[np.lexsort((weights[order], keys[order]))]

    def list_exact_record_keys(rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Returns the features and targets of some rows as whole numbers, one row for each record."""
        return np.column_stack([words[rows].astype(np.uint64), targets[rows]])

    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    unequal = (list_exact_record_keys(order[same]) != list_exact_record_keys(order[same + 1])).any(axis=1)
    if unequal.any():
        shared = np.isin(keys[order], keys[order[same[unequal]]])
        rows = order[shared]
        order[shared] = rows[np.lexsort((weights[rows], *list_exact_record_keys(rows).T, keys[rows]))]
    return order
