"""The gradients of records with respect to one parameter. They are held as factors of products, or as rows.

A row has all entries of the gradient of a record.

Norms are rounded up by the largest possible error of float32, also where terms cancel or squares underflow. Rounding up
adds about a millionth of the sum of the absolute values of a norm's terms (docs/theory/clipping.md, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...models import dense


class GradientFactors(Protocol):
    """The gradients of a batch of records with respect to one parameter."""

    way: str
    """Name of the way in which norms are computed. ``PrivateRun.ways_`` shows this name."""

    def bound_squared_factor_norms(self) -> Any:
        """Returns the squared norms of the gradients, rounded up, in float64, of shape (records,)."""

    def add_weighted_gradients_of_factors(self, weights: Any, total: Any) -> None:
        """Adds the sum of the records' gradients times their ``weights`` to ``total``.

        ``total`` has the shape of the parameter. A record of weight 0 adds nothing, even if its gradient is NaN.
        """

    def expand_gradient_factors(self) -> Any:
        """Returns the gradients, of shape (records, *shape)."""


@dataclass
class GradientRows:
    """The gradients as rows: ``values`` has the shape (records, *shape)."""

    values: Any
    way: str = "materialised"

    def bound_squared_factor_norms(self) -> Any:
        return _bound_squared_norms_of_factor_rows(self.values.reshape(len(self.values), -1))

    def add_weighted_gradients_of_factors(self, weights: Any, total: Any) -> None:
        flat = widen_half_gradient_factors(
            clear_unweighted_gradient_factors(self.values, weights).reshape(len(self.values), -1)
        )
        total.view(-1).add_(weights.to(flat.dtype) @ flat)

    def expand_gradient_factors(self) -> Any:
        return self.values


@dataclass
class OuterProducts:
    """The gradients as sums over positions t of the m x n matrices l_t r_t^T.

    ``right`` has the vectors r_t, in the shape (records, positions, n). ``left`` has the vectors l_t, in the shape
    (records, positions, m). If each l_t is a unit vector, ``left`` may instead have the index of the 1 in each l_t,
    in the shape (records, positions). The parameter has m n entries, in the layout of such a matrix.
    """

    left: Any
    right: Any
    m: int
    way: str = "ghost norm"

    @property
    def is_sparse(self) -> bool:
        return bool(self.left.ndim == 2)

    def bound_squared_factor_norms(self) -> Any:
        """Returns the sum over positions s, t of (l_s . l_t)(r_s . r_t), rounded up.

        This sum is the squared norm of the gradient (docs/theory/clipping.md, section 5).
        """
        if self.right.shape[1] == 1:
            right = _bound_squared_norms_of_factor_rows(self.right[:, 0])
            return right if self.is_sparse else _bound_squared_norms_of_factor_rows(self.left[:, 0]) * right
        return _bound_squared_ghost_norms([self])

    def add_weighted_gradients_of_factors(self, weights: Any, total: Any) -> None:
        """Adds the weighted gradients to ``total`` by one product of matrices.

        If ``left`` has indices, the weighted vectors r_t are added to the rows of ``total`` with these indices.
        """
        right = clear_unweighted_gradient_factors(self.right, weights)
        total = total.view(self.m, right.shape[2])
        right, weights = right.to(total.dtype), weights.to(total.dtype)[:, None, None]
        if self.is_sparse:
            total.index_add_(0, self.left.reshape(-1), (right * weights).reshape(-1, right.shape[2]))
            return
        left = clear_unweighted_gradient_factors(self.left, weights.view(-1)).to(total.dtype)
        if left.shape[2] < right.shape[2]:  # scales the smaller factor
            left = left * weights
        else:
            right = right * weights
        total.addmm_(left.reshape(-1, self.m).t(), right.reshape(-1, right.shape[2]))

    def expand_gradient_factors(self) -> Any:
        """Returns the gradients, in the wider type of both factors. Compiled code forms those in float32 on a CPU."""
        if not self.is_sparse:
            dtype = torch.promote_types(self.left.dtype, self.right.dtype)  # autocast may narrow one of the factors
            left, right = (each.detach().to(dtype) for each in (self.left, self.right))
            if is_compiled_gradient_type(right):
                return torch.from_numpy(
                    dense.form_dense_product_gradients(left.contiguous().numpy(), right.contiguous().numpy())
                )
            return left.transpose(1, 2) @ right
        found = self.right.new_zeros(len(self.right), self.m, self.right.shape[2])
        return found.scatter_add_(1, self.left[:, :, None].expand_as(self.right), self.right)


def is_compiled_gradient_type(x: Any) -> bool:
    """Tells whether compiled code of the library forms gradients from factors such as ``x``. PyTorch forms others."""
    return bool(x.dtype == torch.float32 and x.device.type == "cpu")


def compute_ghost_inner_products(one: OuterProducts, other: OuterProducts) -> Any:
    """Returns, for each record, the inner product of two gradients. The result has the shape (records,).

    An inner product is the sum over positions s, t of (l_s . l'_t)(r_s . r'_t). The vectors l_s and r_s are the factors
    in ``one``, and l'_t and r'_t are the factors in ``other``.
    """
    right = _widen_tensor_of_gradient_factors(one.right) @ _widen_tensor_of_gradient_factors(other.right).transpose(
        1, 2
    )
    if one.is_sparse and other.is_sparse:
        left = (one.left[:, :, None] == other.left[:, None, :]).to(right.dtype)
    elif one.is_sparse:
        index = one.left[:, :, None].expand(-1, -1, other.left.shape[1])
        left = _widen_tensor_of_gradient_factors(other.left).transpose(1, 2).gather(1, index)
    elif other.is_sparse:
        return compute_ghost_inner_products(other, one)
    else:
        left = _widen_tensor_of_gradient_factors(one.left) @ _widen_tensor_of_gradient_factors(other.left).transpose(
            1, 2
        )
    return (left * right).sum((1, 2)).double()


_ULP = 2.0**-24
"""Largest relative rounding error of one operation in float32."""
_SMALLEST = 2.0**-126
"""Smallest normal float32. The error of a product that underflows is at most this number."""


def _bound_squared_ghost_norms(parts: list[OuterProducts]) -> Any:
    """Returns an upper bound on |sum l_t r_t^T|^2, where the sum is over the positions t of all ``parts``.

    The bound holds even if inner products are rounded, cancel or underflow. (l_s . l_t) has m terms, and (r_s . r_t)
    has n terms. The error of their product is at most (m + n + a few) 2^-24 |l_s||l_t||r_s||r_t|. The sum of
    |l_s||l_t||r_s||r_t| over all s and t is the square of sum |l_t||r_t|. Underflow adds at most m or n times the
    smallest normal float to the error of an inner product.
    """
    m, n = (0 if all(part.is_sparse for part in parts) else parts[0].m), parts[0].right.shape[2]
    estimate = sum(compute_ghost_inner_products(part, part) for part in parts)
    for i, part in enumerate(parts):
        for other in parts[:i]:
            estimate = estimate + 2 * compute_ghost_inner_products(part, other)
    each = [_compute_row_norms_of_factors(part.right) for part in parts]
    rights = torch.cat(each, 1)
    ones = (
        torch.ones_like(lengths) if part.is_sparse else _compute_row_norms_of_factors(part.left)
        for part, lengths in zip(parts, each, strict=True)
    )
    lefts = torch.cat(list(ones), 1)
    terms, left, right = (lefts * rights).sum(1), lefts.sum(1), rights.sum(1)
    underflow = _SMALLEST * (m * right.square() + n * left.square() + (m + n + 1) * rights.shape[1] ** 2)
    return estimate.clamp(min=0) + (m + n + 16) * _ULP * terms.square() + underflow


def _compute_row_norms_of_factors(x: Any) -> Any:
    """Returns norms of rows in float64, of shape (records, positions), increased to allow for underflow of squares."""
    return (
        torch.linalg.vector_norm(x, dim=2, dtype=_widen_dtype_of_gradient_factors(x.dtype)).double()
        + (x.shape[2] * _SMALLEST) ** 0.5
    )


@dataclass
class SummedProducts:
    """The gradients with respect to a parameter that is used several times.

    Each part is ``OuterProducts`` in the same layout.
    """

    parts: list[OuterProducts]
    way: str = "ghost norm of several uses"

    def bound_squared_factor_norms(self) -> Any:
        return _bound_squared_ghost_norms(self.parts)

    def add_weighted_gradients_of_factors(self, weights: Any, total: Any) -> None:
        for part in self.parts:
            part.add_weighted_gradients_of_factors(weights, total)

    def expand_gradient_factors(self) -> Any:
        return sum(part.expand_gradient_factors() for part in self.parts)


def widen_half_gradient_factors(x: Any) -> Any:
    """Returns ``x`` in float32 if it is in half precision.

    In half precision, rounding may set the product of a gradient and its weight to zero, or double the product. The
    rounding of the weight alone may make the product exceed the norm bound.
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


MOST_ROW_ENTRIES = 1 << 23
"""Largest number of entries of the rows for one parameter: 32 MB of float32. For more entries, norms are computed from
factors."""


def plan_gradient_factors(parts: list[GradientFactors], shape: Any) -> GradientFactors:
    """Joins the gradients of all uses of one parameter, as factors or as rows, whichever takes fewer multiplications.

    For each record, computing norms from factors takes positions^2 (m + n) multiplications. Forming rows takes
    positions m n multiplications. Here m and n are the lengths of the vectors of ``OuterProducts``.
    """
    outer = [part for part in parts if isinstance(part, OuterProducts)]
    if len(outer) < len(parts):
        return parts[0] if len(parts) == 1 else _add_rows_of_gradient_factors(parts, shape)
    records, width = outer[0].right.shape[0], outer[0].right.shape[2]
    positions, widths = sum(part.right.shape[1] for part in outer), width + (0 if outer[0].is_sparse else outer[0].m)
    alone = len(outer) == 1 and positions == 1
    if alone or positions * widths <= shape.numel() or records * shape.numel() > MOST_ROW_ENTRIES:
        return outer[0] if len(outer) == 1 else SummedProducts(outer)
    return _add_rows_of_gradient_factors(parts, shape)


def _add_rows_of_gradient_factors(parts: list[GradientFactors], shape: Any) -> GradientRows:
    """Returns the gradients with respect to a parameter, summed over all uses of the parameter."""
    rows = parts[0].expand_gradient_factors()
    for part in parts[1:]:
        rows = rows + part.expand_gradient_factors().reshape(rows.shape)
    return GradientRows(rows.reshape(len(rows), *shape))


_RUN = 64
"""Number of squares that are added in float32, with a relative error of at most 64 * 2^-24. The results are added in
float64."""


def _bound_squared_norms_of_factor_rows(flat: Any) -> Any:
    """Returns the squared norms of the rows of ``flat``, which has the shape (records, n), rounded up, in float64."""
    whole = flat.shape[1] // _RUN * _RUN
    pieces = [flat[:, :whole].unflatten(1, (-1, _RUN)), flat[:, None, whole:]]
    found = sum(_compute_row_norms_of_factors(piece).square().sum(1) for piece in pieces if piece.numel())
    return found * (1 + 2 * min(_RUN, flat.shape[1]) * _ULP)


def _widen_tensor_of_gradient_factors(x: Any) -> Any:
    return x.to(_widen_dtype_of_gradient_factors(x.dtype))


def _widen_dtype_of_gradient_factors(dtype: Any) -> Any:
    return torch.promote_types(dtype, torch.float32)


def clear_unweighted_gradient_factors(x: Any, weights: Any) -> Any:
    """Returns ``x`` with zeros for records of weight 0, because 0 times NaN would be NaN."""
    if not weights.is_cuda and bool((weights > 0).all()):  # asking a device would make the host wait
        return x
    return torch.where((weights > 0).view(-1, *(1,) * (x.ndim - 1)), x, x.new_zeros(()))
