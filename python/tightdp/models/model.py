"""Models as the oracle uses them: per-example gradients and losses, in a form that need not be materialised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from . import dense
from .dense import Integers, Layer
from .dense import Vector as Vector
from .records import Array, Records

Arithmetic = Literal["exact", "idealised"]


class Gradients:
    """The gradients g_k of a batch at one parameter vector, as outer products of layers that follow one another in it.

    What a record adds to a sum is a vector of integers that depends on the record's own layers alone, of norm at most
    the bound in exact arithmetic (docs/theory/exact-products.md). An invalid record, or one whose gradient is not
    finite, has norm 0 and adds 0. ``arithmetic`` says whether the layers themselves are functions of the record alone
    to the last bit: "exact", or "idealised" where a user's callable computes them. ``weights`` in [0, 1] multiply what
    was clipped, so that they change no bound; None for all 1.
    """

    def __init__(
        self, layers: Sequence[Layer], arithmetic: Arithmetic = "exact", weights: Vector | None = None
    ) -> None:
        self.arithmetic: Arithmetic = arithmetic
        self._layers, self._weights = layers, weights

    def compute_norms(self) -> Vector:
        """|g_k|, shape (batch,), never rounded down; 0 for a record that does not contribute."""
        return dense.compute_norms(self._layers)

    def clip_norms(self, max_norm: float) -> Vector:
        """min(|g_k|, max_norm) times the weight of record k, shape (batch,); 0 for a norm past the doubles."""
        norms = self.compute_norms()
        clipped = np.where(norms < np.inf, np.minimum(norms, max_norm), 0.0)
        return clipped if self._weights is None else clipped * self._weights

    def sum_clipped(
        self, max_norm: float, center: Vector | None = None, scale: Vector | None = None, *, grid: float | None = None
    ) -> Integers:
        """sum_k weight_k (g_k - center) min(1, max_norm / |(g_k - center) / scale|) in units of a grid
        (``dense.grid_for`` the same arguments, or what that returns for some number of records), shape (size,), modulo
        2^64."""
        return dense.sum_clipped_products(self._layers, max_norm, center, scale, grid=grid, weights=self._weights)

    def sum_unit_gradients(self, max_norm: float, taken: NDArray[np.bool_], *, grid: float | None = None) -> Integers:
        """sum of max_norm g_k / |g_k| over the records ``taken``, in units of the grid, whatever their weights: these
        decide who is taken (docs/theory/dpis.md, section 3)."""
        return dense.sum_clipped_products(self._layers, max_norm, grid=grid, normalize=True, taken=taken)


class Model(Protocol):
    """A differentiable loss of one record. Parameters are one flat float64 vector; all else is public."""

    size: int
    """Length of the parameter vector."""

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        """Initial parameters; they depend on nothing private. ``uniform(n)`` draws from [0, 1)."""

    def compute_gradients(self, w: Vector, records: Records) -> Gradients:
        """The gradient of each record's loss."""

    def compute_losses(self, w: Vector, records: Records) -> Array:
        """Each record's loss without its weight, a fresh array of shape (n,), a function of the record alone to the
        last bit where ``arithmetic`` of the gradients is "exact"; NaN where it cannot be computed."""

    def compute_line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        """``compute_losses`` at ``w - step * direction`` for each step, for a line search."""
        return (self.compute_losses(w - step * direction, records) for step in steps)


def wrap_gradient_matrix(
    matrix: Array, valid: NDArray[np.bool_], arithmetic: Arithmetic = "idealised", weights: Vector | None = None
) -> Gradients:
    """Gradients given as a plain (batch, size) matrix of float32 or float64."""
    finite = valid & np.isfinite(matrix).all(axis=1)
    if not finite.all():
        matrix = np.where(finite[:, None], matrix, matrix.dtype.type(0))
    ones = np.ones((len(matrix), 1), matrix.dtype)
    return Gradients(
        [Layer(matrix, ones, dense.round_rows_to_units(matrix, False, finite), False)], arithmetic, weights
    )


class CallableModel(Model):
    """Any model, given as functions of (w, X, y) over a batch.

    Parameters
    ----------
    size : length of the flat parameter vector
    gradients : ``(w, X, y) -> (batch, size)``, row k the gradient of record k alone. Rows must not depend on one
        another (no batch normalisation): the sensitivity of every clipped sum depends on this. Sums of rows are exact,
        but a product of matrices may round a row differently when its neighbours change. So for the rows themselves the
        guarantee is that of real arithmetic (``arithmetic`` is "idealised"), unless you compute them one by one.
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

    def make_initial_parameters(self, uniform: Callable[[int], Vector]) -> Vector:
        return np.copy(self._initial)

    def compute_gradients(self, w: Vector, records: Records) -> Gradients:
        matrix = _copy_to_host(self._gradients(w, records.features, records.targets))
        if matrix.shape != (len(records), self.size):
            raise ValueError(f"gradients must return shape ({len(records)}, {self.size}), got {matrix.shape}")
        return wrap_gradient_matrix(matrix, records.valid, weights=records.weights)

    def compute_losses(self, w: Vector, records: Records) -> Array:
        if self._losses is None:
            raise ValueError("losses must be given to this model: the algorithm compares losses")
        values = _copy_to_host(self._losses(w, records.features, records.targets))
        if values.shape != (len(records),):
            raise ValueError(f"losses must return shape ({len(records)},), got {values.shape}")
        return np.where(records.valid, values, np.nan)


def _copy_to_host(array: Any) -> Array:
    """A NumPy view or copy of what a user's function returned."""
    if hasattr(array, "get") and hasattr(array, "__cuda_array_interface__"):
        array = array.get()
    out = np.asarray(array)
    return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)
