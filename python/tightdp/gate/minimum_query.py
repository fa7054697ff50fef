"""Queries whose value is the minimum of a strongly convex objective over all records (docs/theory/perturbation.md).

F(w) = sum of weighted losses + b . w + convexity/2 |w|^2, for a linear model with a smooth loss, records scaled down to
``max_norm`` (intercept included), weights in [0, 1], b a noise vector or 0. The minimum is computed, certified and
rounded to a public grid. The largest distance of the result from the true minimum is part of the sensitivity.
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

from ..models.dense import apply_affine_map
from ..models.grid import grid_below, row_factors, truncate_to_grid
from ..models.linear import Hinge, Logistic, Loss
from ..models.model import Vector
from ..models.records import Array, Records
from ..release.noise import Philox, RandomSource
from .oracle import CHUNK, Integers, Oracle, Public, Query
from .solver import NotReached, euclidean_norm, minimize_convex_function, sum_products

SLACK = 1e-6
"""Gradient norm to which a minimum is certified, as a part of one record's largest gradient. It is far above the
rounding of a gradient (``ObjectivePoint.error``) for up to some 10^7 records, and negligible beside any useful
noise."""
OUTWARD = 1 + 2.0**-40
"""Factor on a constant that is larger than the roundings of the few products that make it."""
MOST_REGULARIZATION = 1e100
"""Largest regularization. Squares of larger numbers overflow in the search for the minimum."""
BLOCK = 256
"""Number of records whose gradients are added up in plain floating point: fewer are slower, and more lose digits
(docs/theory/perturbation.md, section 4)."""
EPS = 2.0**-53
"""Largest relative rounding error of one operation in doubles."""
STAGE, STAGE_PASSES = 0.1, 300
"""Tolerance, over one record's largest gradient, and passes over the data of a minimum that is only a starting
point."""
COVER_BITS = 6
"""Binary digits of the distance that the second noise covers. Truncation to them adds a 64th to the distance."""


@dataclass(frozen=True)
class Objective:
    """F's public constants, on which the proofs rest. No constant is rounded down."""

    loss: Loss
    max_norm: float
    convexity: float
    """N times the regularization."""

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
        """Gradient norm of F at a computed minimum."""
        return SLACK * self.largest_gradient_norm


@dataclass(frozen=True)
class PerturbedQuery:
    """The minimum with a noise vector b that the gate brings, in the two parts of docs/theory/perturbation.md, section
    3.

    b is integers times ``noise_grid``. In units of ``sensitivity`` it makes the true minimum private. ``cover`` bounds
    the distance of the computed minima of two neighbours whose true minima agree, and a second noise covers it. The
    value is integers times ``grid``.
    """

    shape: tuple[int, ...]
    sensitivity: float
    noise_grid: float
    cover: float
    grid: float
    evaluate: Callable[[RandomSource, Vector], Integers] = field(repr=False, compare=False)


def build_objective(public: Public, max_norm: float) -> Objective:
    """Returns F for a public description. ValueError if the model, the loss or the regularization does not allow it."""
    if public.loss is None or not math.isfinite(max(public.loss.curvature, public.loss.lipschitz)):
        raise ValueError(
            "algorithm needs a linear model with a smooth loss of bounded slope: logistic, or a hinge with huber > 0"
        )
    if not public.regularization > 0:
        raise ValueError("regularization must be > 0 for this algorithm: it rests on strong convexity")
    if public.regularization > MOST_REGULARIZATION:
        raise ValueError(f"regularization must be at most {MOST_REGULARIZATION:g} for this algorithm")
    return Objective(public.loss, max_norm, public.records * public.regularization)


def build_minimum_query(oracle: Oracle, w: Vector, f: Objective) -> Query:
    """Returns the query of the minimum with b = 0, from the starting point ``w``. The sensitivity is the largest
    gradient norm over the convexity for the true minimum, twice the tolerance over the convexity for the computed one,
    and a grid step for each coordinate."""
    distance = (f.largest_gradient_norm + 2 * f.gradient_tolerance) / f.convexity * OUTWARD
    grid = grid_below(distance)
    sensitivity = (distance + math.sqrt(w.size) * grid) * OUTWARD

    def evaluate_minimum(source: RandomSource) -> Integers:
        return truncate_to_grid(_find_minimum(oracle, w, f, np.zeros_like(w), source), grid)

    return Query(w.shape, sensitivity, 1.0, grid, evaluate_minimum)


def build_perturbed_query(oracle: Oracle, w: Vector, f: Objective) -> PerturbedQuery:
    """Returns the query of the minimum with the noise vector b that the gate brings."""
    side = math.sqrt(w.size)
    noise_grid = grid_below(f.gradient_tolerance / side, 0)  # so that rounding moves b by at most half the tolerance
    distance = 3 * f.gradient_tolerance / f.convexity * OUTWARD
    grid = grid_below(distance / side, COVER_BITS)
    cover = (distance + side * grid) * OUTWARD

    def evaluate_perturbed_minimum(source: RandomSource, b: Vector) -> Integers:
        return truncate_to_grid(_find_minimum(oracle, w, f, b, source), grid)

    return PerturbedQuery(w.shape, f.largest_gradient_norm, noise_grid, cover, grid, evaluate_perturbed_minimum)


def _find_minimum(oracle: Oracle, w: Vector, f: Objective, b: Vector, source: RandomSource) -> Vector:
    """Returns the minimum of the objective with the noise vector ``b``, from ``w`` and by way of smoother losses."""
    _, records = oracle.draw_batch(source, 1.0)
    data = _scale_records(records, f.max_norm, w.size // f.loss.outputs)
    for stage in _list_smoother_losses(f.loss):
        smoother = dataclasses.replace(f, loss=stage)
        # Only the last minimum is certified. The others are starting points, and need not be accurate.
        with contextlib.suppress(NotReached):
            w = minimize_convex_function(
                partial(ObjectivePoint, smoother, data, b), w, STAGE * f.largest_gradient_norm, STAGE_PASSES
            )
    return minimize_convex_function(partial(ObjectivePoint, f, data, b), w, f.gradient_tolerance)


def _list_smoother_losses(loss: Loss) -> list[Hinge]:
    """Returns wider roundings of a hinge, to begin with: on a narrow one Newton's method sees few records near the
    kink."""
    if not isinstance(loss, Hinge):
        return []
    widths = [0.5**k for k in range(0, 60, 2) if 0.5**k > loss.h]
    return [Hinge(2 if loss.outputs == 1 else loss.outputs, width) for width in widths]


class OrderedTable:
    """Rows x, and their products in an order that neither threads nor the processor change."""

    def __init__(self, x: Array) -> None:
        self._x = x
        self._columns = [np.ascontiguousarray(x[i : i + BLOCK].T) for i in range(0, len(x), BLOCK)]

    def compute_scores(self, w: Vector, outputs: int) -> Array:
        """Returns x_k . w for each row and output, shape (n, outputs)."""
        return apply_affine_map(self._x, w.reshape(outputs, -1), None)

    def sum_weighted_rows(self, weights: Array) -> Vector:
        """Returns weights^T x, flat. ``BLOCK`` records at a time are added in floating point, and the blocks with the
        rounding errors of their sum added beside it (Ogita, Rump and Oishi 2005, Sum2)."""
        total = np.zeros((self._x.shape[1], weights.shape[1]))
        lost = np.zeros_like(total)
        for i, columns in enumerate(self._columns):
            part = apply_affine_map(columns, weights[i * BLOCK : (i + 1) * BLOCK].T, None)
            new = total + part
            kept = new - total
            lost += (total - (new - kept)) + (part - kept)
            total = new
        return np.asarray((total + lost).T.ravel())


class MinimumRecords(NamedTuple):
    """The records of a minimum: rows scaled to the norm bound, targets, and weights as a column; None for all 1."""

    features: Array
    targets: NDArray[np.intp]
    weights: Array | None
    table: OrderedTable

    def apply_weights(self, derivatives: Array) -> Array:
        """Returns derivatives of the losses, (n, outputs), times the weights."""
        return derivatives if self.weights is None else derivatives * self.weights

    def take_rows(self, rows: NDArray[np.bool_]) -> MinimumRecords:
        """Returns some of the records."""
        features = self.features[rows]
        weights = None if self.weights is None else self.weights[rows]
        return MinimumRecords(features, self.targets[rows], weights, OrderedTable(features))


class ObjectivePoint:
    """F at one w: its gradient, a bound on the distance of that from the true one, and its second derivative."""

    def __init__(self, f: Objective, data: MinimumRecords, b: Vector, w: Vector) -> None:
        self._f, self._data = f, data
        self._b, self._w = b, w
        self._z = data.table.compute_scores(w, f.loss.outputs)
        summed = data.table.sum_weighted_rows(data.apply_weights(f.loss.differentiate_by_scores(self._z, data.targets)))
        self.gradient = summed + b + f.convexity * w
        self.error = self._bound_rounding(euclidean_norm(summed))

    def multiply_by_hessian(self, v: Vector) -> Vector:
        """Returns the Hessian of F at this point times v."""
        z, data = self._curved_records
        bend = self._f.loss.multiply_by_curvature(z, data.targets, data.table.compute_scores(v, z.shape[1]))
        return data.table.sum_weighted_rows(data.apply_weights(bend)) + self._f.convexity * v

    @cached_property
    def _curved_records(self) -> tuple[Array, MinimumRecords]:
        """The scores of the records whose loss is curved here, for a hinge few, and these records."""
        probe = np.broadcast_to(np.arange(1.0, self._z.shape[1] + 1), self._z.shape)
        rows = np.asarray(self._f.loss.multiply_by_curvature(self._z, self._data.targets, probe).any(axis=1))
        if 2 * np.count_nonzero(rows) > len(rows):
            return self._z, self._data
        return self._z[rows], self._data.take_rows(rows)

    def differentiate_along(self, direction: Vector) -> Callable[[float], float]:
        """Returns the derivative along ``direction`` as a function of the step, at one pass over the scores a call."""
        dz = self._data.table.compute_scores(direction, self._f.loss.outputs)
        convexity = self._f.convexity
        linear = sum_products(direction, self._b) + convexity * sum_products(direction, self._w)
        square = convexity * sum_products(direction, direction)

        def differentiate_at_step(t: float) -> float:
            residual = self._data.apply_weights(
                self._f.loss.differentiate_by_scores(self._z - t * dz, self._data.targets)
            )
            return t * square - linear - sum_products(residual, dz)

        return differentiate_at_step

    def _bound_rounding(self, summed: float) -> float:
        """Bounds the distance of the gradient from the true one (docs/theory/perturbation.md, section 4)."""
        f, n, d = self._f, len(self._z), self._data.features.shape[1]
        size, outputs = euclidean_norm(self._w), f.loss.outputs
        score = 1.1 * EPS * ((d + 2 * outputs + 4) * f.max_norm * size + 2)
        rest = summed + euclidean_norm(self._b) + f.convexity * size
        plain = n * (f.max_norm * (2 * outputs + 16) + (BLOCK + 5) * f.largest_gradient_norm) + 4 * rest
        return f.max_norm * self._bound_residual_shift(score) + 1.1 * EPS * plain

    def _bound_residual_shift(self, error: float) -> float:
        """Bounds the sum of the distances by which an error of the scores, and their own rounding, can move the
        residuals."""
        f = self._f
        worst = len(self._z) * f.loss.curvature * error
        if worst * f.max_norm <= 0.1 * f.gradient_tolerance or not isinstance(f.loss, (Logistic, Hinge)):
            return worst
        low, high = (f.loss.differentiate_by_scores(self._z + s * error, self._data.targets) for s in (-1, 1))
        return min(worst, float(np.sqrt(((high - low) ** 2).sum(axis=1)).sum()))


def _scale_records(records: Records, max_norm: float, width: int) -> MinimumRecords:
    """Returns the finite records in float64, in an order of their own, each row scaled down to ``max_norm``. If
    ``width`` asks for one column more, it holds the intercept's 1."""
    order, own = _order_records(records), records.features.shape[1]
    features = np.ones((len(order), width))
    for start in range(0, len(features), CHUNK):
        rows = features[start : start + CHUNK]
        rows[:, :own] = records.features[order[start : start + CHUNK]]
        rows *= row_factors(rows, max_norm)
    weights = None if records.weights is None else records.weights[order][:, None]
    return MinimumRecords(features, np.ascontiguousarray(records.targets[order]), weights, OrderedTable(features))


def _order_records(records: Records) -> NDArray[np.intp]:
    """Returns the row numbers of the finite records, sorted by a hash of features and target. Unequal records with one
    hash are sorted by features and target themselves, and equal records by their weights. Floating-point sums in this
    order do not depend on the order of the rows."""
    words = records.features.view(f"u{records.features.itemsize}")
    targets = records.targets.astype(np.uint64)
    odd = Philox(0).integers(words.shape[1] + 1) | np.uint64(1)
    keys = np.einsum("ij,j->i", words, odd[1:]) + targets * odd[0]
    order = np.flatnonzero(records.valid)
    weights = np.ones(len(keys)) if records.weights is None else records.weights
    order = order[np.lexsort((weights[order], keys[order]))]

    def list_exact_keys(rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Returns features and targets as whole numbers, a row for each record."""
        return np.column_stack([words[rows].astype(np.uint64), targets[rows]])

    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    unequal = (list_exact_keys(order[same]) != list_exact_keys(order[same + 1])).any(axis=1)
    if unequal.any():
        shared = np.isin(keys[order], keys[order[same[unequal]]])
        rows = order[shared]
        order[shared] = rows[np.lexsort((weights[rows], *list_exact_keys(rows).T, keys[rows]))]
    return order
