"""Integer products for layers that a record passes at several positions (docs/theory/exact-products.md, section 9).

A position is a place in a sequence, or one of several uses of a parameter. The gradient of a record is the sum over
positions t of l_t r_t^T. One of the vectors l_t and r_t has the inputs of the layer at position t, and the other has
the derivatives of the loss with respect to the layer's outputs there. This sum is not formed. Instead, l_t and r_t are
scaled and rounded to vectors of integers w_t and q_t. The squared norm of sum_t w_t q_t^T follows from the inner
products of these integer vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...models import dense
from .factors import OuterProducts

LARGEST_WEIGHT = (1 << 17) - 1
"""Largest absolute value of the integers w_t, to which larger integers are confined. Its product with
``LARGEST_ENTRY`` is below 2^32, as ``dense.add_integer_dense_product`` requires."""
LARGEST_ENTRY = (1 << 15) - 129
"""Largest absolute value of the integers q_t: the largest number of two signed digits of eight bits, 127 * 256 +
127."""
MOST_POSITIONS, MOST_LEFT, MOST_RIGHT = 1 << 12, 1 << 18, 1 << 22
"""Largest numbers of positions, of entries of l_t and of entries of r_t. Inner products of integers are then below
2^53, and exact in doubles."""
TRIES = 4
"""Number of clip factors that are tried for a record. The gradient of a record is multiplied by its clip factor. If the
integers exceed the norm bound with each of the factors, the record adds nothing."""
AIM = 1 - 2.0**-14
"""A clip factor is chosen such that the norm is about this fraction of the norm bound. The rest of the bound allows for
the rounding of w_t to integers."""
_CHECKED = 1 - 2.0**-40
"""Fraction of the squared norm bound that squared norms may reach. The rest allows for roundings in the comparison."""

Tensor = Any
"""A tensor in host memory."""


class ClippedPositions(NamedTuple):
    """The clip factors of records, and the parts of the norm bound that are left for other parameters."""

    factors: Tensor
    """Clip factors. A record with the factor 0 adds nothing."""
    rest: Tensor
    """Bounds in units of the grid, one for each record. The norm of what the record adds for other parameters must be
    at most its bound."""


def is_product_sum_cheaper(positions: int, left: int, right: int, *, on_device: bool = False) -> bool:
    """Tells whether a sum of products takes less time than a formed gradient. The shapes and the device decide.

    For T positions with m entries of l_t and n of r_t, inner products take time in proportion to T^2 (m + n). Rounding
    takes time in proportion to T (m + n). A formed gradient takes a product of floats, and its m n entries are written
    and read again. The constants of the formula were measured on one thread. For 64 positions of 768 x 256 entries,
    sums of products took 0.73 of the time of formed gradients. For 256 x 256 entries, next to the formula's limit, they
    took 1.03 to 1.23 of this time.

    For smaller gradients, which stay in a cache, and for factors that are ``on_device``, the limit is lower. Sums of
    products are computed on the host, to which such factors would have to be moved.
    """
    fits = positions <= MOST_POSITIONS and left <= MOST_LEFT and right <= MOST_RIGHT
    cost_of_entry = 16 if on_device or left * right < 1 << 16 else 64
    return fits and positions > 1 and positions * (positions + 64) * (left + right) <= cost_of_entry * left * right


def choose_position_product_digits(bound: float) -> int:
    """Returns the number of binary digits of |q_t|, for a norm bound of ``bound`` units of the grid.

    The bound limits the products w_t q_t^T, so more digits of q_t leave fewer digits for w_t. Therefore q_t gets the
    fewest digits with which |w_t| is at most about ``LARGEST_WEIGHT``, unless the products of positions cancel. For a
    bound of 2^29 units these are 14 digits. With 14 digits, the clipped gradients of records with 64 positions differed
    from the exact gradients by .2 to 1.4 %. With 15 digits they differed by .3 to 2.8 %.
    """
    return min(max(math.frexp(bound)[1] - 16, 8), dense.SHORT_DIGITS)


class PositionProducts:
    """The gradients of some records with respect to one parameter, as integers.

    The constructor computes the integers q_t. ``round_position_weights`` gets the clip factors and computes the
    integers w_t. The norms of the q_t are below 2^``digits``.
    """

    def __init__(self, factors: OuterProducts, digits: int) -> None:
        self._left = _widen_position_rows(factors.left)
        self._entries, self._steps, self._inner = _round_position_rows(_widen_position_rows(factors.right), digits)
        self._weights = torch.zeros(self._left.shape, dtype=torch.int32)

    def estimate_norms_of_position_products(self) -> Tensor:
        """Returns estimates of the squared norms of the records' gradients. They may be wrong where terms cancel.

        Each estimate depends on its own record alone. It is infinite if an l_t or an r_t of the record is not finite.
        """
        _, steps, inner = _round_position_rows(self._left, dense.SHORT_DIGITS)
        scale = 1 / (steps * self._steps)
        terms = inner * self._inner * scale[:, :, None] * scale[:, None, :]
        return torch.where(
            torch.isfinite(scale).all(1), _add_terms_of_position_products(terms).clamp(min=0.0), torch.inf
        )

    def find_finite_position_products(self) -> Tensor:
        """Returns a mask of the records whose r_t are all finite."""
        return (self._steps > 0).all(1)

    def round_position_weights(self, records: Tensor, factors: Tensor) -> Tensor:
        """Rounds F l_t / 2^e to the integers w_t, for some records, and returns upper bounds on |sum_t w_t q_t^T|^2.

        F is an entry of ``factors``: the clip factor of the record, divided by the grid. 2^e is the power of two by
        which r_t was multiplied before it was rounded to q_t. A record with F = 0 gets zeros.
        """
        scale = torch.where(factors[:, None] > 0, factors[:, None] / self._steps[records], 0.0)
        every = len(records) == len(self._left)
        weights = self._weights if every else torch.empty(len(records), *self._left.shape[1:], dtype=torch.int32)
        _scale_position_rows(self._left if every else self._left[records], scale, LARGEST_WEIGHT, weights)
        inner = torch.from_numpy(dense.compute_dense_model_inner_products(weights.numpy()))
        if not every:
            self._weights[records] = weights
        return bound_squared_product_norms(inner, self._inner if every else self._inner[records])

    def add_position_products_to(self, total: Tensor) -> None:
        """Adds the integers of all records to ``total``, which has an entry for each pair of entries of l_t and r_t."""
        weights, entries = self._weights.flatten(0, 1).numpy(), self._entries.flatten(0, 1).numpy()
        sums = total.view(weights.shape[1], entries.shape[1]).numpy()
        dense.add_integer_dense_product(weights, entries, sums, largest_product=float(LARGEST_WEIGHT * LARGEST_ENTRY))


def _widen_position_rows(rows: Tensor) -> Tensor:
    """Returns ``rows`` in host memory, in float32 or float64, with neighbouring entries of each vector."""
    return rows.detach().to("cpu", torch.promote_types(rows.dtype, torch.float32)).contiguous()


def _round_position_rows(rows: Tensor, digits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Multiplies each vector of ``rows`` by a power of two, and rounds its entries to integers of ``digits`` digits.

    Returns the integers in int16, the powers of two, and the inner products of each record's vectors of integers.
    ``rows`` has the shape (records, positions, n). A vector that is not finite gets zeros, and 0 instead of a power.
    """
    flat, integers = rows.view(-1, rows.shape[2]).numpy(), torch.empty(rows.shape, dtype=torch.int16)
    steps = dense.round_dense_model_rows_to_integers(flat, digits, LARGEST_ENTRY, integers.view(flat.shape).numpy())
    inner = torch.from_numpy(dense.compute_dense_model_inner_products(integers.numpy()))
    return integers, torch.from_numpy(steps).view(rows.shape[:2]), inner


def _scale_position_rows(rows: Tensor, factors: Tensor, most: int, out: Tensor) -> None:
    """Multiplies each vector of ``rows`` by its factor, and writes the nearest integers to ``out``."""
    width = rows.shape[2]
    dense.round_scaled_dense_model_rows(
        rows.view(-1, width).numpy(), factors.view(-1).numpy(), most, out.view(-1, width).numpy()
    )


def _add_terms_of_position_products(terms: Tensor) -> Tensor:
    """Returns, for each record k, the sum of all entries of ``terms[k]``.

    PyTorch's own sum is not used, because its order depends on the number of records and of threads.
    """
    rows = terms.flatten(1).numpy()
    return torch.from_numpy(dense.apply_dense_affine_map(rows, np.ones((1, rows.shape[1])), None)[:, 0])


def bound_squared_product_norms(left: Tensor, right: Tensor) -> Tensor:
    """Returns upper bounds on |sum_t w_t q_t^T|^2, from exact inner products <w_s, w_t> and <q_s, q_t> of each record.

    The squared norm is the sum over s and t of <w_s, w_t> <q_s, q_t>. This sum is rounded, and its terms may cancel.
    For T positions the error of the sum is at most a little more than T^2 2^-53 (sum_t |w_t||q_t|)^2. The returned
    bound is the sum plus about twice this number.
    """
    positions = left.shape[1]
    lengths = (left.diagonal(dim1=1, dim2=2) * right.diagonal(dim1=1, dim2=2)).sqrt()
    return (
        _add_terms_of_position_products(left * right)
        + (positions**2 + 8) * 2.0**-52 * _add_terms_of_position_products(lengths).square()
    )


def clip_position_products(
    layers: Sequence[PositionProducts], norms: Tensor, bound: float, inverse_grid: float
) -> ClippedPositions:
    """Chooses a clip factor for each record. The norm of the record's integers in all ``layers`` is at most ``bound``.

    ``norms`` are estimates of the norms of the whole gradients. With bad estimates, the norms of the integers may be
    far below the bound, but never above. ``bound`` is in units of the grid.
    """
    finite = torch.isfinite(norms)
    for layer in layers:
        finite = finite & layer.find_finite_position_products()
    factors = (AIM * bound / inverse_grid / norms.clamp(min=1e-300)).clamp(max=1.0)
    factors = torch.where(finite, factors, 0.0)
    squares = torch.zeros(len(norms), dtype=torch.float64)
    left = torch.arange(len(norms))
    for attempt in range(TRIES + 1):
        if attempt == TRIES:
            factors[left] = 0.0
        found = sum(layer.round_position_weights(left, factors[left] * inverse_grid) for layer in layers)
        found = found * (1 + len(layers) * 2.0**-52)  # allows for the rounding of the additions
        squares[left] = found
        left = left[~(found <= bound**2 * _CHECKED)]
        if not len(left):
            break
        factors[left] *= (AIM * bound / squares[left].sqrt()).clamp(max=AIM).nan_to_num(0.0)
    rest = (bound**2 * _CHECKED - squares).clamp(min=0.0).sqrt() * (1 - 2.0**-50)
    return ClippedPositions(factors, rest)
