"""Linear models. The gradient of one record is an outer product r x^T of a residual and the features. No per-example
gradient is formed, and what a record adds to a sum is computed from that record alone, in integers (``dense.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._core import dense as kernels
from .dense import Layer, apply_affine_map
from .model import Gradients, Vector
from .records import Array, Records

Targets = NDArray[Any]
"""Class indices, or numbers for ``Squared``."""


class Loss(Protocol):
    """A loss of scores z of shape (n, outputs) and targets of shape (n,): class indices, or numbers.

    Each record's value and residual are functions of its own scores, to the last bit and whatever its row; NaN where a
    score is not finite.
    """

    outputs: int
    lipschitz: float
    """Largest norm of the residual."""
    curvature: float
    """Largest eigenvalue of the second derivative by z; infinite where the loss has kinks."""

    def compute_losses(self, z: Array, targets: Targets) -> Vector:
        """Loss per record, shape (n,)."""

    def differentiate_by_scores(self, z: Array, targets: Targets) -> Array:
        """Derivative by z, shape (n, outputs)."""

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        """Second derivative by z, times v of shape (n, outputs)."""


class _CompiledLoss:
    """A loss of the compiled core."""

    _kind: int
    _width = 0.0

    def compute_losses(self, z: Array, targets: Targets) -> Vector:
        values: Vector = kernels.loss_value(self._kind, self._width, np.ascontiguousarray(z), _as_indices(targets))
        return values

    def differentiate_by_scores(self, z: Array, targets: Targets) -> Array:
        found: Array = kernels.loss_residual(self._kind, self._width, np.ascontiguousarray(z), _as_indices(targets))
        return found


class Logistic(_CompiledLoss):
    """log(1 + exp(-y z)) with y = 2 target - 1."""

    _kind = 0
    outputs, lipschitz, curvature = 1, 1.0, 0.25

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        e = np.exp(-np.abs(z))
        return np.asarray(e / (1 + e) ** 2 * v)


class Multinomial(_CompiledLoss):
    """log(sum_j exp(z_j)) - z_target."""

    _kind = 1
    lipschitz, curvature = math.sqrt(2.0), 0.5

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        p: Array = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return np.asarray(p * (v - (p * v).sum(axis=1, keepdims=True)))


class Hinge(_CompiledLoss):
    """max(0, 1 - y z), or its Huberised form of width ``h``: quadratic for |1 - y z| <= h, else the hinge.

    With more than two classes the sum over one-against-the-rest problems, y = 1 for the record's own class and -1 for
    the others. With h = 0 the derivative at the kink is taken as 0. Huberised: Chapelle (2007), "Training a support
    vector machine in the primal"; smooth with curvature 1/(2h), which output and objective perturbation need.
    """

    _kind = 2

    def __init__(self, classes: int = 2, h: float = 0.0) -> None:
        self.outputs = 1 if classes == 2 else classes
        self.h = self._width = h
        self.lipschitz = math.sqrt(self.outputs)
        self.curvature = 1 / (2 * h) if h else math.inf

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        own = np.where(targets[:, None] == (1 if self.outputs == 1 else np.arange(self.outputs)), 1.0, -1.0)
        inside = np.abs(1 - own * z) <= self.h
        return np.asarray(np.where(inside, v * (0.5 / self.h if self.h else 0.0), 0.0))


class Squared:
    """(z - target)^2 / 2 for numbers as targets. The slope is unbounded: gradients are clipped."""

    outputs, lipschitz, curvature = 1, math.inf, 1.0

    def compute_losses(self, z: Array, targets: NDArray[Any]) -> Vector:
        off = z[:, 0].astype(np.float64) - targets
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isfinite(off), 0.5 * off * off, np.nan)

    def differentiate_by_scores(self, z: Array, targets: NDArray[Any]) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(z - targets[:, None].astype(z.dtype))

    def multiply_by_curvature(self, z: Array, targets: NDArray[Any], v: Array) -> Array:
        return v


class LinearModel:
    """w . x (+ b) with a loss; parameters are (outputs, features [+ 1]) row by row, the intercept last."""

    def __init__(self, features: int, loss: Loss, *, intercept: bool = True) -> None:
        self.loss, self.intercept = loss, intercept
        self._shape = (loss.outputs, features + intercept)
        self.size = loss.outputs * (features + intercept)

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        return np.zeros(self.size)

    def compute_scores(self, w: Vector, features: Array) -> Array:
        """Margins z, shape (n, outputs), in the dtype of the features; each row a function of its features alone."""
        m = w.reshape(self._shape)
        return (
            apply_affine_map(features, m[:, :-1], m[:, -1]) if self.intercept else apply_affine_map(features, m, None)
        )

    def compute_gradients(self, w: Vector, records: Records) -> Gradients:
        residual = self.loss.differentiate_by_scores(self._remember_scores(w, records), records.targets)
        layer = Layer(records.features, residual, records.get_units(self.intercept), self.intercept)
        return Gradients([layer], weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Vector:
        return self._compute_valid_losses(self._remember_scores(w, records), records)

    def compute_line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Vector]:
        z, dz = self._remember_scores(w, records), self.compute_scores(direction, records.features)
        for step in steps.astype(z.dtype):
            yield self._compute_valid_losses(z - step * dz, records)

    def _compute_valid_losses(self, z: Array, records: Records) -> Vector:
        values = self.loss.compute_losses(z, records.targets)
        if not records.valid.all():
            values[~records.valid] = np.nan
        return values

    def _remember_scores(self, w: Vector, records: Records) -> Array:
        """``compute_scores``, kept with the records for the next question about the same parameters."""
        memo = records.memo
        if memo is None or not np.array_equal(memo[0], w):
            records.memo = memo = (w.copy(), self.compute_scores(w, records.features))
        return memo[1]


def _as_indices(targets: Targets) -> NDArray[np.int64]:
    return np.ascontiguousarray(targets, dtype=np.int64)
