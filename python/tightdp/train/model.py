"""What a model tells the oracle: per-example gradients and losses, in a form that need not be materialised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..gradients import clipped_sum
from .records import Array, Records

Vector = NDArray[np.float64]


class Gradients(ABC):
    """The gradients g_k of a batch at one parameter vector: any norms and any weighted sum of them.

    A linear model keeps residuals, a network its activations and errors, a callable the matrix itself. An invalid
    record, or one whose gradient is not finite, has norm 0 and adds 0 to every sum.
    """

    @abstractmethod
    def squared_norms(self, center: Vector | None, scale: Vector | None) -> Vector:
        """|(g_k - center) / scale|^2, shape (batch,), rounded up; 0 for a record that does not contribute."""

    @abstractmethod
    def finite(self) -> NDArray[np.bool_]:
        """Which records contribute, shape (batch,)."""

    @abstractmethod
    def weighted_sum(self, weights: Vector) -> Vector:
        """sum_k weights_k g_k, shape (size,)."""

    def clipped_sum(self, max_norm: float, center: Vector | None, scale: Vector | None) -> Vector:
        """sum_k clip((g_k - center) / scale, max_norm), shape (size,)."""
        weights = clip_weights(self.squared_norms(center, scale), self.finite(), max_norm)
        total = self.weighted_sum(weights)
        if center is not None:
            total = total - weights.sum() * center
        return total if scale is None else total / scale


class Model(Protocol):
    """A differentiable loss of one record. Parameters are one flat float64 vector; all else is public."""

    size: int
    """Length of the parameter vector."""

    def start(self, uniform: Callable[[int], Vector]) -> Vector:
        """Initial parameters; they depend on nothing private. ``uniform(n)`` draws from [0, 1)."""

    def gradients(self, w: Vector, records: Records) -> Gradients:
        """The gradient of each record's loss."""

    def losses(self, w: Vector, records: Records) -> Array:
        """Each record's loss, a fresh array of shape (n,); NaN where it cannot be computed."""

    def line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        """``losses`` at ``w - step * direction`` for each step: what a line search asks."""


def clip_weights(squared_norms: Vector, finite: NDArray[np.bool_], max_norm: float) -> Vector:
    """min(1, max_norm / norm), and 0 for records that do not contribute; never above, rounding included."""
    norms = np.sqrt(squared_norms)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.minimum(1.0, max_norm / norms)
    return np.where(finite & (norms < np.inf), weights, 0.0)


class Materialised(Gradients):
    """Gradients as a plain (batch, size) matrix of float32 or float64."""

    def __init__(self, matrix: Array, valid: NDArray[np.bool_]) -> None:
        self._finite = valid & np.isfinite(matrix).all(axis=1)
        self._matrix = matrix if self._finite.all() else np.where(self._finite[:, None], matrix, matrix.dtype.type(0))

    def squared_norms(self, center: Vector | None, scale: Vector | None) -> Vector:
        _, norms = clipped_sum(self._matrix, 1.0, center=center, scale=scale)
        return np.where(self._finite, norms * norms, 0.0)

    def finite(self) -> NDArray[np.bool_]:
        return self._finite

    def weighted_sum(self, weights: Vector) -> Vector:
        return np.asarray(weights @ self._matrix, dtype=np.float64)

    def clipped_sum(self, max_norm: float, center: Vector | None, scale: Vector | None) -> Vector:
        total, _ = clipped_sum(
            self._matrix, max_norm, weights=self._finite.astype(np.float64), center=center, scale=scale
        )
        return np.asarray(total, dtype=np.float64)


class CallableModel:
    """Any model, given as functions of (w, X, y) over a batch.

    Parameters
    ----------
    size : length of the flat parameter vector
    gradients : ``(w, X, y) -> (batch, size)``, row k the gradient of record k alone. Rows must not depend on one
        another (no batch normalisation): the sensitivity of every clipped sum rests on that.
    losses : ``(w, X, y) -> (batch,)``; needed only by algorithms that compare losses (DP-AGD)
    initial : public starting point, zeros by default

    Arrays that come back may be NumPy or anything with ``__dlpack__`` on the CPU or ``.get()`` (CuPy).
    """

    def __init__(
        self,
        size: int,
        gradients: Callable[[Vector, Array, NDArray[Any]], Any],
        losses: Callable[[Vector, Array, NDArray[Any]], Any] | None = None,
        initial: Vector | None = None,
    ) -> None:
        self.size = size
        self._gradients, self._losses = gradients, losses
        self._initial = np.zeros(size) if initial is None else np.array(initial, dtype=np.float64)
        if self._initial.shape != (size,):
            raise ValueError(f"initial must have shape ({size},), got {self._initial.shape}")

    def start(self, uniform: Callable[[int], Vector]) -> Vector:
        return self._initial.copy()

    def gradients(self, w: Vector, records: Records) -> Gradients:
        matrix = _host(self._gradients(w, records.features, records.targets))
        if matrix.shape != (len(records), self.size):
            raise ValueError(f"gradients must return shape ({len(records)}, {self.size}), got {matrix.shape}")
        return Materialised(matrix, records.valid)

    def losses(self, w: Vector, records: Records) -> Array:
        if self._losses is None:
            raise ValueError("losses must be given to this model: the algorithm compares losses")
        values = _host(self._losses(w, records.features, records.targets))
        if values.shape != (len(records),):
            raise ValueError(f"losses must return shape ({len(records)},), got {values.shape}")
        return np.where(records.valid, values, np.nan)

    def line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        return (self.losses(w - step * direction, records) for step in steps)


def _host(array: Any) -> Array:
    """A NumPy view or copy of what a user's function returned."""
    if hasattr(array, "get") and hasattr(array, "__cuda_array_interface__"):
        array = array.get()
    out = np.asarray(array)
    return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
