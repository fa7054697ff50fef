"""Clipped sums of outer products, in integers. A record's contribution depends on that record alone, and the norm of
the contribution is bounded in exact arithmetic (docs/theory/exact-products.md).

The gradient of a dense layer at one record is r x^T. Here x are the inputs of the layer, and r are its errors, that is
the derivatives of the loss by the layer's outputs. A linear model has one layer, and a perceptron has several. Any
gradient vector x can be given as a layer with r = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core import RandomStream
from .._core import dense as kernels
from ..clipping_and_noise.cuda.arrays import on_device
from ..clipping_and_noise.cuda.products import add_integer_outer_product_on_device, add_outer_products_on_device
from .contribution_grid import choose_contribution_grid

Array = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

DIGITS = 37
"""Number of binary digits of ``max_norm`` in units of the grid. A record's inputs and its errors have about half of
these digits each (docs/theory/exact-products.md, section 3)."""
ROW_DIGITS = 20
"""Number of binary digits of the norm of a record's inputs."""
PRODUCT_DIGITS = 29
"""Number of binary digits of ``max_norm`` in units of the grid of ``add_dense_model_products``. With these digits, the
kernel's partial sums stay below 2^31 (docs/theory/exact-products.md, section 8)."""
SHORT_DIGITS = 15
"""Number of binary digits of the norm of a record's inputs in ``add_dense_model_products``, for a layer with several
outputs."""
MANY = 2.0**24
"""Number of records up to which no clipped sum reaches 2^63 units of the grid. For a larger public number of records,
the grid is coarser."""
CENTER_UNIT = 2.0**22
"""Unit of clip factors (``kCenterUnit`` of the kernel). For a record's clip factor F, the kernel multiplies the centre
by the integer round(2^22 F)."""
PAD = 16
"""Number of columns that the kernel processes together, one in each vector lane, if there is a centre or a scale."""


class DenseRowUnits(NamedTuple):
    """The integer forms q = round(step x) of rows x. If the layer has a bias, a 1 is appended to x."""

    steps: Vector
    """The factor ``step`` of each row: a power of two, or 0 for a row that contributes nothing."""
    squares: Vector
    """|q|^2 of each row."""


class DenseLayer(NamedTuple):
    """A layer's inputs (n, columns) and errors (n, outputs) for the n records of a batch, both of the same dtype."""

    inputs: Array
    errors: Array
    units: DenseRowUnits
    bias: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.errors.shape[1], self.inputs.shape[1] + self.bias


def round_dense_inputs_to_units(
    rows: Array, bias: bool, valid: NDArray[np.bool_] | None = None, digits: int = ROW_DIGITS
) -> DenseRowUnits:
    """Returns the integer form q of each row, with 2^(digits - 1) <= |q| < 2^digits. Each q depends on its row alone.

    With 0 digits the rows are not rounded. Steps are then 1 or 0, and squares are at least |x|^2.
    """
    steps, squares = kernels.row_units(np.ascontiguousarray(rows), bias, digits)
    if valid is not None and not valid.all():
        steps[~valid] = squares[~valid] = 0
    return DenseRowUnits(steps, squares)


def apply_dense_affine_map(inputs: Array, table: Array, bias: Array | None) -> Array:
    """Returns inputs table^T + bias. The bits of each row do not depend on the other rows."""
    table = np.ascontiguousarray(table, dtype=inputs.dtype)
    moved = None if bias is None else np.ascontiguousarray(bias, dtype=inputs.dtype)
    result: Array = kernels.affine(np.ascontiguousarray(inputs), table, moved)
    return result


def choose_dense_gradient_grid(
    max_norm: float, center: Vector | None = None, scale: Vector | None = None, records: float = 0.0
) -> float:
    """Returns the grid of a clipped sum, a power of two that depends on public and released values alone. ``records``
    is the public number of records."""
    largest = max_norm * (1.0 if scale is None else float(np.max(scale)))
    largest += 0.0 if center is None else float(np.max(np.abs(center)))
    return choose_contribution_grid(largest * max(1.0, records / MANY), DIGITS)


def sum_clipped_dense_model_gradients(
    layers: Sequence[DenseLayer],
    max_norm: float,
    center: Vector | None = None,
    scale: Vector | None = None,
    *,
    grid: float | None = None,
    normalize: bool = False,
    taken: NDArray[np.bool_] | None = None,
    weights: Vector | None = None,
) -> Integers:
    """Returns sum_k m_k modulo 2^64, where m_k is a vector of integers for record k.

    The vector m_k times the grid is about g_k min(1, max_norm / |g_k|), where g_k is the gradient of record k.

    ``grid`` is ``choose_dense_gradient_grid(...)`` or coarser. With ``center`` a or ``scale`` b, m_k times the grid is
    about (g_k - a) min(1, max_norm / |(g_k - a)/b|). The bound |m_k grid / b| <= max_norm holds exactly for every
    record. With ``normalize``, gradients of smaller norm are also scaled to norm max_norm. ``weights`` in [0, 1]
    multiply the clipped gradients. Records that are not ``taken``, or whose gradient is not finite, add 0.
    """
    grid = grid or choose_dense_gradient_grid(max_norm, center, scale)
    out = np.zeros(sum(math.prod(layer.shape) for layer in layers), np.int64)
    bound, norm, moved = max_norm / grid, 0.0, None
    if center is not None or scale is not None:
        bound, (norm, moved) = max_norm, _prepare_dense_model_center_and_scale(layers, grid, center, scale)
    _run_dense_model_kernel(
        layers, moved, bound, 1 / grid, norm, normalize=normalize, taken=taken, weights=weights, out=out
    )
    return out


def choose_dense_product_grid(max_norm: float) -> float:
    """Returns the finest grid of ``add_dense_model_products``, a power of two."""
    return choose_contribution_grid(max_norm, PRODUCT_DIGITS)


def add_dense_model_products(
    layers: Sequence[tuple[Array, Array]],
    max_norm: float,
    totals: Sequence[Integers],
    *,
    grid: float,
    taken: NDArray[np.bool_] | None = None,
    max_norms: Vector | None = None,
) -> None:
    """Adds sum_k m_k modulo 2^64 to ``totals``, where m_k is a vector of integers for record k.

    These integers have fewer digits than those of ``sum_clipped_dense_model_gradients``. The vector m_k times the grid
    is about g_k min(1, max_norm / |g_k|), where g_k is the gradient of record k.

    Each layer is a pair (inputs (n, columns), errors (n, outputs)) of one dtype. A layer's total has one number for
    each output and column. The bound |m_k grid| <= max_norm holds exactly for every record, where m_k covers all
    layers. Records that are not ``taken``, or whose gradient is not finite, add 0. ``grid`` is
    ``choose_dense_product_grid(max_norm)`` or coarser. With ``max_norms``, in [0, max_norm], each record has its own
    bound. Inputs, errors and totals may be on a CUDA device, which adds the same integers. Source:
    docs/theory/exact-products.md, section 7.
    """
    if on_device(totals):
        own = None if max_norms is None else max_norms / grid
        add_outer_products_on_device(layers, totals, max_norm / grid, 1 / grid, taken=taken, bounds=own)
        return
    found = _round_dense_model_products(layers)
    bounds = None if max_norms is None else np.ascontiguousarray(max_norms / grid)
    kernels.add_products(
        found, max_norm / grid, 1 / grid, _mask_taken_dense_records(taken), _flatten_dense_arrays(totals), bounds
    )


def write_noisy_dense_model_products(
    layers: Sequence[tuple[Array, Array]],
    max_norm: float,
    totals: Sequence[Integers],
    out: Sequence[Array],
    *,
    grid: float,
    deviation: float,
    stream: RandomStream | None,
    first: Sequence[int],
    divisor: float = 1.0,
    taken: NDArray[np.bool_] | None = None,
) -> None:
    """Writes (totals + sum_k m_k + noise) grid / divisor to the arrays ``out``, which are float32 or float64.

    The integers m_k, and the arguments that are not explained here, are as in ``add_dense_model_products``.

    Sums and noise are added in one pass. The noise is normal with standard deviation ``deviation`` in units of the
    grid, rounded to integers. ``first`` has, for each layer, the index in ``stream`` of the layer's first normal.
    Without a stream no noise is added. ``totals`` are zero afterwards, so that no record is released twice. For up to
    2^14 records, ``totals`` may be an empty list, which stands for zeros. Source: docs/theory/exact-products.md,
    section 8.
    """
    kernels.release_products(
        _round_dense_model_products(layers),
        max_norm / grid,
        1 / grid,
        _mask_taken_dense_records(taken),
        _flatten_dense_arrays(totals),
        stream,
        deviation,
        grid / divisor,
        list(first),
        _flatten_dense_arrays(out),
    )


def add_integer_dense_product(
    weights: NDArray[np.int32], inputs: NDArray[np.int16], sums: Integers, *, largest_product: float
) -> None:
    """Adds sum_k weights[k, o] inputs[k, j] modulo 2^64 to sums[o, j], for given arrays of integers.

    Each |weight| must be at most 2^23 - 2^15 - 2^7 - 1. Each |input| must be at most 2^15 - 129. The product of a
    weight and an input must be at most ``largest_product`` in absolute value, and ``largest_product`` at most 2^32.
    All arrays may be on one CUDA device, which then adds the same integers. Source:
    docs/theory/exact-products.md, section 8.
    """
    if on_device(weights):
        add_integer_outer_product_on_device(weights, inputs, sums)
        return
    kernels.add_integer_product(weights, inputs, largest_product, sums)


def round_scaled_dense_model_rows(rows: Array, factors: Vector, most: int, out: NDArray[Any]) -> None:
    """Writes the integers nearest to factors[k] rows[k, j], confined to ``most``, to ``out``, an array of int16 or
    int32.

    A row with the factor 0 gets zeros, even if it is not finite.
    """
    kernels.scale_rows(np.ascontiguousarray(rows), factors, most, out)


def round_dense_model_rows_to_integers(rows: Array, digits: int, most: int, out: NDArray[np.int16]) -> Vector:
    """Multiplies each row by a power of two, and writes the nearest integers, confined to ``most``, to ``out``.

    Returns the powers of two, which are the steps of ``round_dense_inputs_to_units``. A row that is not finite gets
    zeros, and 0 instead of a power.
    """
    return kernels.round_rows(np.ascontiguousarray(rows), digits, most, out)


def compute_dense_model_inner_products(integers: NDArray[Any]) -> Vector:
    """Returns, for each record k, the inner products of its rows ``integers[k, s]`` and ``integers[k, t]``.

    The integers are in int16 or int32. The inner products of their absolute values must be at most 2^53. The results
    are then exact.
    """
    return kernels.multiply_positions(integers)


def form_dense_product_gradients(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns, for each record k, the sum over positions t of left[k, t] right[k, t]^T.

    ``left`` has the shape (records, positions, m), ``right`` the shape (records, positions, n), and the result the
    shape (records, m, n). The bits of a record's sum depend on the record alone. Source:
    docs/theory/exact-products.md, section 9.
    """
    return kernels.form_product_gradients(np.ascontiguousarray(left), np.ascontiguousarray(right))


def form_dense_model_convolution_gradients(
    images: NDArray[np.float32],
    errors: NDArray[np.float32],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> NDArray[np.float32]:
    """Returns each record's gradient by the weights of a convolution, in the shape (records, outputs, channels, ...).

    ``images`` has the shape (records, channels, ...), and ``errors`` the shape (records, outputs, ...). There are one
    to three axes of an image, and each of the other arguments has a number for each axis. The image has ``padding``
    zeros at both ends of an axis. The bits of a gradient depend on its own record alone. Source:
    docs/theory/exact-products.md, section 9.
    """
    ones = (1,) * (3 - len(kernel))
    zeros = (0,) * len(ones)
    found = kernels.form_convolution_gradients(
        _add_image_axes(images), _add_image_axes(errors), (*ones, *kernel), (*ones, *stride), (*zeros, *padding),
        (*ones, *dilation),
    )  # fmt: skip
    return found.reshape(len(found), errors.shape[1], images.shape[1], *kernel)


def _add_image_axes(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns arrays of one, two or three axes for each record and channel as arrays of three axes."""
    ones = (1,) * (5 - images.ndim)
    return np.ascontiguousarray(images).reshape(*images.shape[:2], *ones, *images.shape[2:])


def _round_dense_model_products(layers: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array, Vector, Vector]]:
    """Returns what the kernel reads for each layer: inputs, errors, and the steps and squares of the inputs."""
    found = []
    for inputs, errors in layers:
        rows = np.ascontiguousarray(inputs)
        digits = 0 if errors.shape[1] == 1 else SHORT_DIGITS
        found.append((rows, np.ascontiguousarray(errors), *round_dense_inputs_to_units(rows, False, digits=digits)))
    return found


def _mask_taken_dense_records(taken: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
    return None if taken is None else taken.astype(np.uint8)


def _flatten_dense_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Returns views of the arrays as vectors."""
    return [array.reshape(-1) for array in arrays]


def compute_dense_model_gradient_norms(layers: Sequence[DenseLayer]) -> Vector:
    """Returns the norm of each record's gradient, never rounded down.

    Each norm depends on its own record alone. The norm is 0 for a record that contributes nothing."""
    out = np.zeros(len(layers[0].errors))
    _run_dense_model_kernel(layers, None, 1.0, 1.0, 0.0, found=out)
    return out


Moved = list[tuple[Vector, Vector, Vector]]


def _prepare_dense_model_center_and_scale(
    layers: Sequence[DenseLayer], grid: float, center: Vector | None, scale: Vector | None
) -> tuple[float, Moved]:
    """Returns an upper bound on |center / scale|, and for each layer the three arrays that the kernel reads.

    The arrays are the centre in integers, grid / scale rounded up, and the column sums of the squares of grid / scale.
    """
    size = sum(math.prod(layer.shape) for layer in layers)
    a = np.zeros(size) if center is None else np.rint(center / (grid * CENTER_UNIT))
    inverse = np.nextafter(grid / (np.ones(size) if scale is None else scale), np.inf)
    found, begin = [], 0
    for layer in layers:
        outputs, width = layer.shape
        padded = -(-width // PAD) * PAD
        tables = np.zeros((2, outputs, padded))
        for table, values in zip(tables, (a, inverse), strict=True):
            table[:, :width] = values[begin : begin + outputs * width].reshape(outputs, width)
        found.append((tables[0], tables[1], (tables[1] ** 2).sum(axis=0)))
        begin += outputs * width
    norm = float(np.linalg.norm(a * inverse)) * CENTER_UNIT * (1 + 1e-9)
    return norm, found


def _run_dense_model_kernel(
    layers: Sequence[DenseLayer],
    moved: Moved | None,
    bound: float,
    inverse_grid: float,
    center_norm: float,
    *,
    normalize: bool = False,
    taken: NDArray[np.bool_] | None = None,
    weights: Vector | None = None,
    found: Vector | None = None,
    out: Integers | None = None,
) -> None:
    """Calls the compiled kernel, which writes the norms of gradients to ``found``, or adds the sum of the clipped
    gradients to ``out``."""
    given = [
        (
            np.ascontiguousarray(layer.inputs),
            np.ascontiguousarray(layer.errors),
            layer.units.steps,
            layer.units.squares,
            layer.bias,
            None if moved is None else moved[i],
        )
        for i, layer in enumerate(layers)
    ]
    shares = None if weights is None else np.ascontiguousarray(weights)
    kernels.outer_sum(
        given, bound, inverse_grid, center_norm, normalize, _mask_taken_dense_records(taken), shares, found, out
    )
