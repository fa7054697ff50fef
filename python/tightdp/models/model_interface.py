"""The interface of models, which compute the gradient and the loss of each record. A model need not store a gradient in
full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from . import dense
from .dense import DenseLayer, Integers
from .dense import Vector as Vector
from .model_records import Array, Records

Arithmetic = Literal["exact", "idealised"]


class ModelGradients:
    """The gradients g_k of the records k of a batch at one parameter vector, stored as outer products.

    The factors of a product are the inputs and the errors of a layer. The errors are the derivatives of the loss by the
    layer's outputs. The entries of g_k are ordered by the layers of the model. A record adds a vector of integers to a
    sum, in units of the sum's grid. This vector depends on the record's inputs and errors alone. In exact arithmetic,
    its norm times the grid is at most the norm bound (docs/theory/exact-products.md). An invalid record, or a record
    whose gradient is not finite, has norm 0 and adds 0. ``arithmetic`` is "exact" if each record's inputs and errors
    depend on that record alone, to the last bit. If a user's function computes them, ``arithmetic`` is "idealised".
    ``weights`` in [0, 1] multiply the clipped gradients, so norm bounds still hold. If ``weights`` is None, all weights
    are 1.
    """

    def __init__(
        self, layers: Sequence[DenseLayer], arithmetic: Arithmetic = "exact", weights: Vector | None = None
    ) -> None:
        self.arithmetic: Arithmetic = arithmetic
        self._layers, self._weights = layers, weights

    def compute_model_gradient_norms(self) -> Vector:
        """Returns |g_k| for each record, of shape (batch,), never rounded down.

        The norm is 0 for a record that contributes nothing.
        """
        return dense.compute_dense_model_gradient_norms(self._layers)

    def clip_model_gradient_norms(self, max_norm: float) -> Vector:
        """Returns min(|g_k|, max_norm) times the weight of record k, of shape (batch,). For a norm that overflows, the
        result is 0."""
        norms = self.compute_model_gradient_norms()
        clipped = np.where(norms < np.inf, np.minimum(norms, max_norm), 0.0)
        return clipped if self._weights is None else clipped * self._weights

    def sum_clipped_model_gradients(
        self, max_norm: float, center: Vector | None = None, scale: Vector | None = None, *, grid: float | None = None
    ) -> Integers:
        """Returns sum_k weight_k (g_k - center) min(1, max_norm / |(g_k - center) / scale|), modulo 2^64, in units of
        ``grid``.

        The result has shape (size,). The grid must be one that ``dense.choose_dense_gradient_grid`` returns for the
        same arguments and any number of records. None stands for the finest such grid.
        """
        return dense.sum_clipped_dense_model_gradients(
            self._layers, max_norm, center, scale, grid=grid, weights=self._weights
        )

    def sum_unit_model_gradients(
        self, max_norm: float, taken: NDArray[np.bool_], *, grid: float | None = None
    ) -> Integers:
        """Returns the sum of max_norm g_k / |g_k| over the records that are ``taken``, in units of ``grid``.

        Weights do not multiply the sum, because the sampling that chose the records has used them (docs/theory/dpis.md,
        section 3)."""
        return dense.sum_clipped_dense_model_gradients(self._layers, max_norm, grid=grid, normalize=True, taken=taken)


class Model(Protocol):
    """A model: a differentiable loss of one record and a flat float64 vector of parameters. The model is public."""

    size: int
    """Length of the parameter vector."""

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Returns initial parameters, which depend on nothing private. ``uniform(n)`` draws n numbers from [0, 1)."""

    def compute_gradients(self, w: Vector, records: Records) -> ModelGradients:
        """Returns the gradient of each record's loss."""

    def compute_losses(self, w: Vector, records: Records) -> Array:
        """Returns each record's loss without its weight, as a new array of shape (n,).

        A loss is NaN if it cannot be computed. If the gradients' ``arithmetic`` is "exact", each loss depends on its
        record alone, to the last bit."""

    def compute_line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        """Returns an iterator for a line search. It yields ``compute_losses(w - step * direction, records)`` for each
        number in ``steps``.
        """
        return (self.compute_losses(w - step * direction, records) for step in steps)


def wrap_model_gradient_matrix(
    matrix: Array, valid: NDArray[np.bool_], weights: Vector | None = None
) -> ModelGradients:
    """Returns the gradients that are the rows of a (batch, size) matrix of float32 or float64."""
    finite = valid & np.isfinite(matrix).all(axis=1)
    if not finite.all():
        matrix = np.where(finite[:, None], matrix, matrix.dtype.type(0))
    ones = np.ones((len(matrix), 1), matrix.dtype)
    return ModelGradients(
        [DenseLayer(matrix, ones, dense.round_dense_inputs_to_units(matrix, False, finite), False)],
        "idealised",
        weights,
    )


class CallableModel(Model):
    """A model that is given by functions of (w, X, y), which compute the gradients and the losses of a batch. Here w
    are the parameters, X the features and y the targets.

    Parameters
    ----------
    size : length of the flat parameter vector.
    gradients : ``(w, X, y) -> (batch, size)``, where row k is the gradient of record k alone. Rows must not depend on
        one another (no batch normalisation), or else the sensitivity of clipped sums is wrong. Sums of rows are exact,
        but your own matrix products may round a row differently when other rows change. The guarantee then holds only
        in real arithmetic (``arithmetic`` is "idealised"), unless you compute rows one by one.
    losses : ``(w, X, y) -> (batch,)``; needed only by algorithms that compare losses (DP-AGD).
    initial : public starting point, zeros by default.

    The functions may return NumPy arrays, arrays with ``__dlpack__`` on the CPU, or arrays with ``.get()`` (CuPy).

    Raises ValueError if ``initial``, or what a function returns, has another shape, and TypeError if a function takes
    other arguments.

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, Records
    >>> def gradients(w, X, y):  # least squares
    ...     return (X @ w - y)[:, None] * X
    >>> model = CallableModel(1, gradients, losses=lambda w, X, y: (X @ w - y) ** 2 / 2)
    >>> records = Records(np.array([[1.0], [2.0]]), np.array([1.0, 0.0]))
    >>> model.compute_losses(np.array([2.0]), records).tolist()
    [0.5, 8.0]
    >>> model.compute_gradients(np.array([2.0]), records).compute_model_gradient_norms().round(6).tolist()
    [1.0, 8.0]
    """

    def __init__(
        self,
        size: int,
        gradients: Callable[[Vector, Array, NDArray[Any]], Any],
        losses: Callable[[Vector, Array, NDArray[Any]], Any] | None = None,
        initial: Vector | None = None,
    ) -> None:
        self.size = size
        self._gradients = _check.check_function_argument("gradients", gradients, "w, X, y")
        self._losses = _check.check_function_argument("losses", losses, "w, X, y", optional=True)
        self._initial = np.zeros(size) if initial is None else np.array(initial, dtype=np.float64)
        if self._initial.shape != (size,):
            raise ValueError(f"initial must have shape ({size},), got {self._initial.shape}")

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Returns a copy of ``initial``. The argument ``uniform`` is not used."""
        return np.copy(self._initial)

    def compute_gradients(self, w: Vector, records: Records) -> ModelGradients:
        """Returns the gradients of ``records`` at the parameters ``w``."""
        matrix = _copy_model_output_to_host(self._gradients(w, records.features, records.targets))
        if matrix.shape != (len(records), self.size):
            raise ValueError(f"gradients must return shape ({len(records)}, {self.size}), got {matrix.shape}")
        return wrap_model_gradient_matrix(matrix, records.valid, weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Array:
        """Returns the losses of ``records`` at the parameters ``w``, of shape (batch,). Invalid records have NaN."""
        if self._losses is None:
            raise ValueError("losses must be given to this model: the algorithm compares losses")
        values = _copy_model_output_to_host(self._losses(w, records.features, records.targets))
        if values.shape != (len(records),):
            raise ValueError(f"losses must return shape ({len(records)},), got {values.shape}")
        return np.where(records.valid, values, np.nan)


def _copy_model_output_to_host(array: Any) -> Array:
    """Returns a NumPy view or copy of an array that a user's function returned."""
    if hasattr(array, "get") and hasattr(array, "__cuda_array_interface__"):
        array = array.get()
    out = np.asarray(array)
    return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
