"""Exact sums from one backward pass: each record adds a product of integers (docs/theory/exact-products.md)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeGuard

import numpy as np
import torch

from ...models import dense
from ..batches.batch_places import Places, fill_places
from ..gradient_sums.base_sums import IntegerSums, make_integer_sums
from ..plan.plan import Plan
from .clipping import OnePassSums
from .factors import Factors, OuterProducts, SummedProducts

MOST_HELD_ENTRIES = 1 << 24
"""Largest number of entries of gradient rows at once (64 MB of float32), unless a single record needs more."""
CACHED_ENTRIES = 1 << 22
"""Largest number of entries of rows at once for more than ``LEAST_PRODUCT_RECORDS`` records: 16 MB of float32, which a
cache holds until they are added. Measured on a convolutional network of 26,000 parameters: a sixth faster."""
LEAST_PRODUCT_RECORDS = 8
"""Number of records from which a product of matrices pays. Measured on a transformer of 3 million parameters: with
fewer records at a time a step takes a tenth longer."""


class ProductSums(IntegerSums, OnePassSums):
    """Integer sums of clipped gradients. A gradient that is a product of two vectors is not formed.

    A linear layer that a record goes through once has the gradient r x^T. It becomes a product of integers whose norm
    is at most the bound, in exact arithmetic. Any other gradient is formed, and is the product of itself and 1.
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        super().__init__(plan, parameters)
        self._flat, self._totals = make_integer_sums(parameters)

    def add(self, model: Any, loss_fn: Any, batch: Any, records: int, places: Places | None = None) -> None:
        batch, records, weights = fill_places(places, batch, records)
        self._ways |= self._add_products(self._find_factors(model, loss_fn, batch, records), records, weights)

    @torch.no_grad()
    def _add_products(self, factors: dict[int, Factors], records: int, weights: Any) -> dict[str, str]:
        """Adds the records whose weight is not 0, by default all. Returns the way of each parameter, by name."""
        step = 1
        while step < records and self._count_entries(factors, 2 * step) <= (
            CACHED_ENTRIES if step >= LEAST_PRODUCT_RECORDS else MOST_HELD_ENTRIES
        ):
            step *= 2
        for start in range(0, records, step):
            some = slice(start, min(records, start + step))
            chosen = None if weights is None else weights[some] > 0
            self._add_slice({i: _slice_records(each, some) for i, each in factors.items()}, chosen)
        names = list(self._parameters)
        return {names[i]: "product" if _is_product(each) else "materialised" for i, each in factors.items()}

    def _count_entries(self, factors: dict[int, Factors], records: int) -> int:
        """Returns the number of entries in the gradient rows of so many records."""
        return sum(_count_formed_entries(each, self._totals[i].numel(), records) for i, each in factors.items())

    def _add_slice(self, factors: dict[int, Factors], taken: Any) -> None:
        """Clips the gradients of some records and adds those that ``taken`` says, by default all, to the totals."""
        totals = {i: self._totals[i] for i in factors}
        words = {}
        for i, each in factors.items():
            if _is_sparse(each):  # only the rows of words that occur are formed
                words[i], left = torch.unique(each.left, return_inverse=True)
                factors = factors | {i: OuterProducts(left, each.right, len(words[i]))}
                totals[i] = torch.zeros(len(words[i]), each.right.shape[2], dtype=torch.int64)
        layers = [_find_operands(each) for each in factors.values()]
        if len({operand.dtype for layer in layers for operand in layer}) > 1:
            layers = [(inputs.astype(np.float64), errors.astype(np.float64)) for inputs, errors in layers]
        numbers = [total.numpy() for total in totals.values()]
        dense.add_products(layers, self._plan.max_norm[0], numbers, grid=self._plan.grid_step, taken=taken)
        for i, some_words in words.items():
            self._totals[i].view(-1, totals[i].shape[1]).index_add_(0, some_words.to("cpu"), totals[i])


def _is_product(factors: Factors) -> bool:
    """Tells whether each record's gradient is a product of two vectors."""
    return isinstance(factors, OuterProducts) and not factors.is_sparse and factors.right.shape[1] == 1


def _is_sparse(factors: Factors) -> TypeGuard[OuterProducts]:
    """Tells whether an embedding may leave out words that do not occur.

    With rows of a multiple of 16 entries, all others are added up in the same lanes as before.
    """
    return isinstance(factors, OuterProducts) and factors.is_sparse and factors.right.shape[2] % 16 == 0


def _count_formed_entries(factors: Factors, size: int, records: int) -> int:
    """Returns the entries of the rows that are formed of one parameter with ``size`` entries, for so many records."""
    if _is_sparse(factors):
        size = min(size, records * factors.right[0].numel())
    return 0 if _is_product(factors) else records * size


def _slice_records(factors: Factors, some: slice) -> Factors:
    """Returns the factors of some of the records."""
    if isinstance(factors, SummedProducts):
        return SummedProducts([_slice_records(part, some) for part in factors.parts])  # type: ignore[misc]
    held: Any = factors
    changed = {f.name: getattr(held, f.name)[some] for f in dataclasses.fields(held) if f.name in _BY_RECORD}
    return dataclasses.replace(held, **changed)  # type: ignore[no-any-return]


_BY_RECORD = {"values", "left", "right", "input", "g"}
"""Fields of factors whose first axis is that of the records."""


def _find_operands(factors: Factors) -> tuple[dense.Array, dense.Array]:
    """Returns inputs and errors, whose products are the gradients."""
    if isinstance(factors, OuterProducts) and _is_product(factors):
        return _to_numpy(factors.right[:, 0]), _to_numpy(factors.left[:, 0])
    rows = factors.gradient_rows()
    inputs = _to_numpy(rows.reshape(len(rows), -1))
    return inputs, np.ones((len(inputs), 1), inputs.dtype)


def _to_numpy(x: Any) -> dense.Array:
    found: dense.Array = x.detach().to("cpu", torch.promote_types(x.dtype, torch.float32)).contiguous().numpy()
    return found
