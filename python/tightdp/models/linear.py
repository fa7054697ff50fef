"""Linear models and their losses.

The gradient of one record is the outer product r x^T of its residual r and its features x. The residual is the
derivative of the loss by the scores. The product is never stored. A record's contribution to a sum is computed from
that record alone, in integers (``dense.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._core import dense as kernels
from .dense import DenseLayer, apply_dense_affine_map
from .model_interface import ModelGradients, Vector
from .model_records import Array, Records

Targets = NDArray[Any]
"""Array of class indices, or of numbers for the loss ``Squared``."""


class Loss(Protocol):
    """A loss of scores z of shape (n, outputs) and targets of shape (n,), which are class indices or numbers.

    A record's residual is the derivative of its loss by z. To the last bit, a record's loss and residual do not depend
    on the other records of the batch. If a score is not finite, the loss is NaN, and the residual is NaN or infinite.
    """

    outputs: int
    lipschitz: float
    """Largest norm of the residual."""
    curvature: float
    """Largest eigenvalue of the second derivative of the loss by z. It is infinite if the loss has kinks."""

    def compute_losses(self, z: Array, targets: Targets) -> Vector:
        """Returns the loss of each record, of shape (n,)."""

    def differentiate_by_scores(self, z: Array, targets: Targets) -> Array:
        """Returns the derivative of each record's loss by z, of shape (n, outputs)."""

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        """Returns the second derivative of each record's loss by z, times v. Result and v have shape (n, outputs)."""


def compute_model_class_probabilities(z: Array) -> Array:
    """Returns the probabilities of the classes for logistic scores z, of shape (n, classes) or, for two classes,
    (n,)."""
    z = np.column_stack([np.zeros_like(z), z]) if z.ndim == 1 else z
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


class _CompiledLoss:
    """A loss of the compiled core."""

    _kind: int
    _width = 0.0

    def compute_losses(self, z: Array, targets: Targets) -> Vector:
        values: Vector = kernels.loss_value(
            self._kind, self._width, np.ascontiguousarray(z), _convert_targets_to_score_columns(targets)
        )
        return values

    def differentiate_by_scores(self, z: Array, targets: Targets) -> Array:
        found: Array = kernels.loss_residual(
            self._kind, self._width, np.ascontiguousarray(z), _convert_targets_to_score_columns(targets)
        )
        return found


class Logistic(_CompiledLoss):
    """The logistic loss log(1 + exp(-y z)) with y = 2 target - 1."""

    _kind = 0
    outputs, lipschitz, curvature = 1, 1.0, 0.25

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        e = np.exp(-np.abs(z))
        return np.asarray(e / (1 + e) ** 2 * v)


class Multinomial(_CompiledLoss):
    """The multinomial logistic loss log(sum_j exp(z_j)) - z_target."""

    _kind = 1
    lipschitz, curvature = math.sqrt(2.0), 0.5

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def multiply_by_curvature(self, z: Array, targets: Targets, v: Array) -> Array:
        p = compute_model_class_probabilities(z)
        return np.asarray(p * (v - (p * v).sum(axis=1, keepdims=True)))


class Hinge(_CompiledLoss):
    """The hinge loss max(0, 1 - y z), or its Huberised form of width ``h``, which is quadratic for |1 - y z| <= h.

    Here y is 1 for the record's own class and -1 for another class. With more than two classes, the loss is the sum
    over one-against-the-rest problems. With h = 0 the derivative at the kink is taken as 0. The Huberised form is from
    Chapelle (2007), "Training a support vector machine in the primal". The form has curvature 1/(2h), and is smooth
    enough for output and objective perturbation.
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
    """The squared loss (z - target)^2 / 2 for numbers as targets. The slope of this loss is unbounded, so gradients
    must be clipped."""

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
    """A linear model with scores w . x, or w . x + b with an intercept b, and a loss.

    The parameters are a table of shape (outputs, features) or (outputs, features + 1), row by row. If there is an
    intercept, it is the last column.

    Parameters
    ----------
    features : the number of features, an integer >= 1.
    loss : the loss of the scores.
    intercept : whether there is an intercept b.

    Methods take the parameters ``w``, of shape (size,), and ``records`` or their ``features``. A method raises
    ValueError if an argument has another shape.

    >>> import numpy as np
    >>> from tightdp.models.linear import Logistic
    >>> from tightdp.train import LinearModel, Records
    >>> model = LinearModel(2, Logistic())
    >>> w = model.make_initial_parameters(np.zeros)

    At zero parameters each record has the loss log 2.

    >>> records = Records(np.ones((4, 2)), np.array([0, 1, 1, 0]))
    >>> w.shape, model.compute_scores(w, records.features).tolist(), model.compute_losses(w, records).round(3).tolist()
    ((3,), [[0.0], [0.0], [0.0], [0.0]], [0.693, 0.693, 0.693, 0.693])
    """

    def __init__(self, features: int, loss: Loss, *, intercept: bool = True) -> None:
        self.loss, self.intercept = loss, intercept
        self._shape = (loss.outputs, features + intercept)
        self.size = loss.outputs * (features + intercept)

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Returns zeros. The argument ``uniform`` is not used."""
        return np.zeros(self.size)

    def compute_scores(self, w: Vector, features: Array) -> Array:
        """Returns the scores z, of shape (n, outputs), in the dtype of the features. Each row depends on its own
        features alone."""
        m = w.reshape(self._shape)
        return (
            apply_dense_affine_map(features, m[:, :-1], m[:, -1])
            if self.intercept
            else apply_dense_affine_map(features, m, None)
        )

    def compute_gradients(self, w: Vector, records: Records) -> ModelGradients:
        """Returns the gradients of ``records`` at the parameters ``w``, as outer products."""
        residual = self.loss.differentiate_by_scores(self._remember_linear_model_scores(w, records), records.targets)
        layer = DenseLayer(
            records.features, residual, records.get_units_of_model_records(self.intercept), self.intercept
        )
        return ModelGradients([layer], weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Vector:
        """Returns the losses of ``records`` at the parameters ``w``, of shape (n,), with NaN for invalid records."""
        return self._compute_linear_model_losses(self._remember_linear_model_scores(w, records), records)

    def compute_line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Vector]:
        """Returns an iterator, which yields the losses at ``w - step * direction`` for each number in ``steps``."""
        z, dz = self._remember_linear_model_scores(w, records), self.compute_scores(direction, records.features)
        for step in steps.astype(z.dtype):
            yield self._compute_linear_model_losses(z - step * dz, records)

    def _compute_linear_model_losses(self, z: Array, records: Records) -> Vector:
        values = self.loss.compute_losses(z, records.targets)
        if not records.valid.all():
            values[~records.valid] = np.nan
        return values

    def _remember_linear_model_scores(self, w: Vector, records: Records) -> Array:
        """Returns ``compute_scores(w, records.features)``.

        The result is kept in ``records`` for the next call with the same parameters.
        """
        memo = records.memo
        if memo is None or not np.array_equal(memo[0], w):
            records.memo = memo = (w.copy(), self.compute_scores(w, records.features))
        return memo[1]


def _convert_targets_to_score_columns(targets: Targets) -> NDArray[np.int64]:
    return np.ascontiguousarray(targets, dtype=np.int64)
