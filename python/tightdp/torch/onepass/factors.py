"""The gradients of records by one parameter, kept as products of factors or as rows.

Every method is about a batch of records. Norms are rounded up by the most that float32 may lose, also where terms
cancel or squares underflow: by about a millionth of the sum of a record's terms without their signs
(docs/theory/clipping.md, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch


class Factors(Protocol):
    """Gradients of a batch of records by one parameter."""

    way: str
    """Name of the way in which norms are computed, which ``PrivateRun.ways_`` shows."""

    def squared_norms(self) -> Any:
        """Returns squared norms, rounded up, shape (records,), in float64."""

    def add_weighted(self, weights: Any, total: Any) -> None:
        """Adds the sum of records' gradients times their ``weights`` to ``total``, of the parameter's shape.

        A record of weight 0 adds nothing, whatever its gradient.
        """

    def gradient_rows(self) -> Any:
        """Returns the gradients, shape (records, *shape)."""


@dataclass
class GradientRows:
    """Gradients as they are, shape (records, *shape)."""

    values: Any
    way: str = "materialised"

    def squared_norms(self) -> Any:
        return _bound_squared_norms(self.values.reshape(len(self.values), -1))

    def add_weighted(self, weights: Any, total: Any) -> None:
        flat = widen_half(clear_unweighted(self.values, weights).reshape(len(self.values), -1))
        total.view(-1).add_(weights.to(flat.dtype) @ flat)

    def gradient_rows(self) -> Any:
        return self.values


@dataclass
class OuterProducts:
    """Sums over positions t of products l_t r_t^T, laid out as the parameter.

    ``left`` has shape (records, positions, m), or (records, positions) of indices of ones in m places; ``right`` has
    shape (records, positions, n). The parameter has m n entries.
    """

    left: Any
    right: Any
    m: int
    way: str = "ghost norm"

    @property
    def is_sparse(self) -> bool:
        return bool(self.left.ndim == 2)

    def squared_norms(self) -> Any:
        """Returns sum_st (l_s . l_t)(r_s . r_t), rounded up (docs/theory/clipping.md, section 5)."""
        if self.right.shape[1] == 1:
            right = _bound_squared_norms(self.right[:, 0])
            return right if self.is_sparse else _bound_squared_norms(self.left[:, 0]) * right
        return _bound_squared_sum([self])

    def add_weighted(self, weights: Any, total: Any) -> None:
        """Adds the weighted gradients as one product of matrices, or to the rows of the indices."""
        right = clear_unweighted(self.right, weights)
        total = total.view(self.m, right.shape[2])
        right, weights = right.to(total.dtype), weights.to(total.dtype)[:, None, None]
        if self.is_sparse:
            total.index_add_(0, self.left.reshape(-1), (right * weights).reshape(-1, right.shape[2]))
            return
        left = clear_unweighted(self.left, weights.view(-1)).to(total.dtype)
        if left.shape[2] < right.shape[2]:  # the smaller one is scaled
            left = left * weights
        else:
            right = right * weights
        total.addmm_(left.reshape(-1, self.m).t(), right.reshape(-1, right.shape[2]))

    def gradient_rows(self) -> Any:
        if not self.is_sparse:
            dtype = torch.promote_types(self.left.dtype, self.right.dtype)  # autocast narrows the error alone
            return self.left.transpose(1, 2).to(dtype) @ self.right.to(dtype)
        found = self.right.new_zeros(len(self.right), self.m, self.right.shape[2])
        return found.scatter_add_(1, self.left[:, :, None].expand_as(self.right), self.right)


def compute_inner_products(one: OuterProducts, other: OuterProducts) -> Any:
    """Returns inner products of records' gradients, shape (records,): sum_st (l_s . l'_t)(r_s . r'_t)."""
    right = _widen_tensor(one.right) @ _widen_tensor(other.right).transpose(1, 2)
    if one.is_sparse and other.is_sparse:
        left = (one.left[:, :, None] == other.left[:, None, :]).to(right.dtype)
    elif one.is_sparse:
        index = one.left[:, :, None].expand(-1, -1, other.left.shape[1])
        left = _widen_tensor(other.left).transpose(1, 2).gather(1, index)
    elif other.is_sparse:
        return compute_inner_products(other, one)
    else:
        left = _widen_tensor(one.left) @ _widen_tensor(other.left).transpose(1, 2)
    return (left * right).sum((1, 2)).double()


_ULP = 2.0**-24
"""Largest relative rounding error of one operation in float32."""
_SMALLEST = 2.0**-126
"""Smallest normal float32: a product that underflows errs by at most as much."""


def _bound_squared_sum(parts: list[OuterProducts]) -> Any:
    """Returns an upper bound on |sum l_t r_t^T|^2 over all parts, although inner products round, cancel or underflow.

    A product of (l_s . l_t), m terms, and (r_s . r_t), n terms, errs by (m + n + few) units of |l_s||l_t||r_s||r_t|,
    and the sum of these units over all s, t is the square of sum |l_t||r_t|. Underflow adds at most m or n times the
    smallest float.
    """
    m, n = (0 if all(part.is_sparse for part in parts) else parts[0].m), parts[0].right.shape[2]
    estimate = sum(compute_inner_products(part, part) for part in parts)
    for i, part in enumerate(parts):
        for other in parts[:i]:
            estimate = estimate + 2 * compute_inner_products(part, other)
    each = [_row_norms(part.right) for part in parts]
    rights = torch.cat(each, 1)
    ones = (
        torch.ones_like(lengths) if part.is_sparse else _row_norms(part.left)
        for part, lengths in zip(parts, each, strict=True)
    )
    lefts = torch.cat(list(ones), 1)
    terms, left, right = (lefts * rights).sum(1), lefts.sum(1), rights.sum(1)
    underflow = _SMALLEST * (m * right.square() + n * left.square() + (m + n + 1) * rights.shape[1] ** 2)
    return estimate.clamp(min=0) + (m + n + 16) * _ULP * terms.square() + underflow


def _row_norms(x: Any) -> Any:
    """Returns norms of rows, shape (records, positions), in float64, with an allowance for squares that underflow."""
    return torch.linalg.vector_norm(x, dim=2, dtype=_widen_dtype(x.dtype)).double() + (x.shape[2] * _SMALLEST) ** 0.5


@dataclass
class SummedProducts:
    """Gradients of a parameter that is used several times, each ``OuterProducts`` in the same layout."""

    parts: list[OuterProducts]
    way: str = "ghost norm of several uses"

    def squared_norms(self) -> Any:
        return _bound_squared_sum(self.parts)

    def add_weighted(self, weights: Any, total: Any) -> None:
        for part in self.parts:
            part.add_weighted(weights, total)

    def gradient_rows(self) -> Any:
        return sum(part.gradient_rows() for part in self.parts)


def widen_half(x: Any) -> Any:
    """Returns ``x`` in float32 if it is in half precision.

    In half precision a gradient times its weight may vanish or double, or exceed the bound by the weight's rounding.
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


MOST_ROW_ENTRIES = 1 << 23
"""Largest number of entries of one parameter's gradient rows: 32 MB of float32. If there are more, norms come from
factors."""


def plan_factors(parts: list[Factors], shape: Any) -> Factors:
    """Joins all uses of one parameter, in the way that takes fewer products.

    For each record, norms from factors take positions^2 (m + n) products, and rows take positions m n.
    """
    outer = [part for part in parts if isinstance(part, OuterProducts)]
    if len(outer) < len(parts):
        return parts[0] if len(parts) == 1 else _add_rows(parts, shape)
    records, width = outer[0].right.shape[0], outer[0].right.shape[2]
    positions, widths = sum(part.right.shape[1] for part in outer), width + (0 if outer[0].is_sparse else outer[0].m)
    alone = len(outer) == 1 and positions == 1
    if alone or positions * widths <= shape.numel() or records * shape.numel() > MOST_ROW_ENTRIES:
        return outer[0] if len(outer) == 1 else SummedProducts(outer)
    return _add_rows(parts, shape)


def _add_rows(parts: list[Factors], shape: Any) -> GradientRows:
    """Returns the sum of the rows of all uses of a parameter."""
    rows = parts[0].gradient_rows()
    for part in parts[1:]:
        rows = rows + part.gradient_rows().reshape(rows.shape)
    return GradientRows(rows.reshape(len(rows), *shape))


_RUN = 64
"""Number of squares that are added in float32, which may round by as many units. Longer sums are added in float64."""


def _bound_squared_norms(flat: Any) -> Any:
    """Returns squared norms of rows, rounded up, in float64: (records, n) to (records,)."""
    whole = flat.shape[1] // _RUN * _RUN
    pieces = [flat[:, :whole].unflatten(1, (-1, _RUN)), flat[:, None, whole:]]
    found = sum(_row_norms(piece).square().sum(1) for piece in pieces if piece.numel())
    return found * (1 + 2 * min(_RUN, flat.shape[1]) * _ULP)


def _widen_tensor(x: Any) -> Any:
    return x.to(_widen_dtype(x.dtype))


def _widen_dtype(dtype: Any) -> Any:
    return torch.promote_types(dtype, torch.float32)


def clear_unweighted(x: Any, weights: Any) -> Any:
    """Returns ``x`` with zeros for records of weight 0, because 0 times NaN would be NaN."""
    if bool((weights > 0).all()):
        return x
    return torch.where((weights > 0).view(-1, *(1,) * (x.ndim - 1)), x, torch.zeros((), dtype=x.dtype))
