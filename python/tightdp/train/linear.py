"""Linear models. The gradient of one record is an outer product r x^T of a residual and the features, so its norm
is |r| |x| and a weighted sum of gradients is one matrix product: no per-example gradient is ever formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .model import Gradients, Vector
from .records import Array, Records


class Loss(Protocol):
    """A loss of scores z of shape (..., n, outputs) and targets, class indices of shape (n,)."""

    outputs: int
    lipschitz: float
    """Largest norm of the residual."""
    curvature: float
    """Largest eigenvalue of the second derivative by z; infinite where the loss has kinks."""

    def value(self, z: Array, targets: NDArray[np.intp]) -> Array:
        """Loss per record, shape (..., n)."""

    def residual(self, z: Array, targets: NDArray[np.intp]) -> Array:
        """Derivative by z, shape (..., n, outputs)."""


class Logistic:
    """log(1 + exp(-y z)) with y = 2 target - 1."""

    outputs, lipschitz, curvature = 1, 1.0, 0.25

    def value(self, z: Array, targets: NDArray[np.intp]) -> Array:
        return _softplus(z[..., 0] * _signs(1 - targets, z))

    def residual(self, z: Array, targets: NDArray[np.intp]) -> Array:
        return _sigmoid(z) - targets[:, None].astype(z.dtype)


class Multinomial:
    """log(sum_j exp(z_j)) - z_target."""

    lipschitz, curvature = math.sqrt(2.0), 0.5

    def __init__(self, classes: int) -> None:
        self.outputs = classes

    def value(self, z: Array, targets: NDArray[np.intp]) -> Array:
        top: Array = z.max(axis=-1)
        chosen = z[..., np.arange(len(targets)), targets]
        value: Array = np.log(np.exp(z - top[..., None]).sum(axis=-1)) + (top - chosen)
        return value

    def residual(self, z: Array, targets: NDArray[np.intp]) -> Array:
        p: Array = np.exp(z - z.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        p[..., np.arange(len(targets)), targets] -= 1
        return p


class Hinge:
    """max(0, 1 - y z), or its Huberised form of width ``h``: quadratic for |1 - y z| <= h, else the hinge.

    With more than two classes the sum over one-against-the-rest problems, y = 1 for the record's own class and -1 for
    the others. With h = 0 the derivative at the kink is taken as 0. Huberised: Chapelle (2007), "Training a support
    vector machine in the primal"; smooth with curvature 1/(2h), which output and objective perturbation need.
    """

    def __init__(self, classes: int = 2, h: float = 0.0) -> None:
        self.outputs = 1 if classes == 2 else classes
        self.h = h
        self.lipschitz = math.sqrt(self.outputs)
        self.curvature = 1 / (2 * h) if h else math.inf

    def _own(self, z: Array, targets: NDArray[np.intp]) -> Array:
        """y of each score, shape (n, outputs)."""
        return _signs(targets[:, None] == (1 if self.outputs == 1 else np.arange(self.outputs)), z)

    def value(self, z: Array, targets: NDArray[np.intp]) -> Array:
        gap = 1 - self._own(z, targets) * z
        if self.h:
            inside = (gap + self.h) ** 2 / (4 * self.h)
            losses: Array = np.where(gap > self.h, gap, np.where(gap < -self.h, 0 * gap, inside))
        else:
            losses = np.maximum(gap, 0)
        return losses[..., 0] if self.outputs == 1 else np.asarray(losses.sum(axis=-1))

    def residual(self, z: Array, targets: NDArray[np.intp]) -> Array:
        y = self._own(z, targets)
        gap = 1 - y * z
        slope = np.clip((gap + self.h) / (2 * self.h), 0, 1) if self.h else (gap > 0).astype(z.dtype)
        return np.where(np.isnan(gap), gap, -y * slope)


class LinearModel:
    """w . x (+ b) with a loss; parameters are (outputs, features [+ 1]) row by row, the intercept last."""

    def __init__(self, features: int, loss: Loss, *, intercept: bool = True) -> None:
        self.loss, self.intercept = loss, intercept
        self._shape = (loss.outputs, features + intercept)
        self.size = loss.outputs * (features + intercept)

    def start(self, uniform: Callable[[int], Vector]) -> Vector:
        return np.zeros(self.size)

    def scores(self, w: Vector, features: Array) -> Array:
        """Margins z, shape (n, outputs), in the dtype of the features."""
        m = w.reshape(self._shape).astype(features.dtype, copy=False)
        if not self.intercept:
            return features @ m.T
        return features @ m[:, :-1].T + m[:, -1]

    def gradients(self, w: Vector, records: Records) -> Gradients:
        z = self._remembered(w, records)
        return Outer(self.loss.residual(z, records.targets), records, self.intercept)

    def losses(self, w: Vector, records: Records) -> Array:
        return self._losses(self._remembered(w, records), records)

    def line_losses(self, w: Vector, direction: Vector, steps: Vector, records: Records) -> Iterator[Array]:
        z, dz = self._remembered(w, records), self.scores(direction, records.features)
        for step in steps.astype(z.dtype):
            yield self._losses(z - step * dz, records)

    def _losses(self, z: Array, records: Records) -> Array:
        values = np.asarray(self.loss.value(z, records.targets))
        if not records.valid.all():
            values[..., ~records.valid] = np.nan
        return values

    def _remembered(self, w: Vector, records: Records) -> Array:
        """``scores``, kept with the records for the next question about the same parameters."""
        memo = records.memo
        if memo is None or not np.array_equal(memo[0], w):
            records.memo = memo = (w.copy(), self.scores(w, records.features))
        return memo[1]


class Outer(Gradients):
    """Gradients r_k x_k^T of a linear layer: residuals (n, outputs) and the features."""

    def __init__(self, residual: Array, records: Records, intercept: bool) -> None:
        self._finite = records.valid & np.isfinite(residual).all(axis=1)
        if not self._finite.all():
            residual = np.where(self._finite[:, None], residual, residual.dtype.type(0))
        self._r, self._records, self._intercept = residual, records, intercept
        self.size = residual.shape[1] * (records.features.shape[1] + intercept)

    def finite(self) -> NDArray[np.bool_]:
        return self._finite

    def squared_norms(self, center: Vector | None, scale: Vector | None) -> Vector:
        # Rounded up by more than the products and sums below can lose: a norm that comes out low would let a record
        # contribute more than it is charged for.
        slack = (self._records.features.shape[1] + self._r.shape[1] + 8) * np.finfo(self._r.dtype).eps
        with np.errstate(over="ignore", invalid="ignore"):
            if center is None and scale is None:
                norms = np.einsum("ij,ij->i", self._r, self._r, dtype=np.float64)
                norms *= self._records.squared_norms + self._intercept
                norms *= 1 + slack
            else:
                norms = self._transformed(center, scale, slack)
        return np.where(self._finite, np.where(np.isnan(norms), np.inf, norms), 0.0)

    def _transformed(self, center: Vector | None, scale: Vector | None, slack: float) -> Vector:
        """sum_ij ((r_i x_j - a_ij) / b_ij)^2 = r^2 . (B x^2) - 2 r . (A x) + const, with B = 1/b^2 and A = a/b^2.

        The three terms may cancel: the slack is taken of the sum of their absolute values.
        """
        outputs, size = self._r.shape[1], self.size
        a = (np.zeros(size) if center is None else center).reshape(outputs, -1)
        inverse = (np.ones(size) if scale is None else scale**-2.0).reshape(outputs, -1)
        r, x, squares = self._r.astype(np.float64), self._records.features, self._records.squares
        square = np.einsum("ij,ij->i", r * r, _times(squares, inverse, self._intercept))
        cross = np.einsum("ij,ij->i", r, _times(x, a * inverse, self._intercept))
        bound = np.einsum("ij,ij->i", abs(r), _times(abs(x), abs(a) * inverse, self._intercept))
        constant = float((a * a * inverse).sum())
        exact = square - 2 * cross + constant
        norms: Vector = np.maximum(exact, 0.0) + slack * (square + 2 * bound + constant)
        return norms

    def weighted_sum(self, weights: Vector) -> Vector:
        wr = (self._r * weights[:, None]).astype(self._r.dtype, copy=False)
        total = np.asarray(wr.T @ self._records.features, dtype=np.float64)
        if self._intercept:
            total = np.column_stack([total, wr.sum(axis=0, dtype=np.float64)])
        return total.reshape(-1)


def _times(x: Array, m: Vector, intercept: bool) -> Vector:
    """[x, 1] m^T in float64."""
    m = m.astype(np.float64, copy=False)
    if not intercept:
        return np.asarray(x @ m.T, dtype=np.float64)
    return np.asarray(x @ m[:, :-1].T + m[:, -1], dtype=np.float64)


def _signs(positive: NDArray[Any], z: Array) -> Array:
    """1 where ``positive`` holds and -1 elsewhere, in z's dtype."""
    return np.where(positive, z.dtype.type(1), z.dtype.type(-1))


def _softplus(z: Array) -> Array:
    """log(1 + e^z) without overflow, to an absolute error of one rounding of 1, which is that of the sums it goes into.
    ``log`` is several times faster than ``log1p`` where NumPy has it in SIMD."""
    e = np.exp(-np.abs(z))
    e += 1
    return np.asarray(np.log(e, out=e) + np.maximum(z, 0))


def _sigmoid(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1, e) / (1 + e))
