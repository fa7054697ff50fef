"""The exact sums from one backward pass, to which records add products of integers (docs/theory/exact-products.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch

from ...models import dense
from ...release.noise import RandomSource
from ..batches.batch_places import Places, fill_places
from ..gradient_sums.base_sums import IntegerSums, make_integer_sums
from ..gradient_sums.sum_noise import release_with_products
from ..plan.plan import Plan
from .clipping import OnePassSums
from .factors import Factors, OuterProducts, SummedProducts

MOST_HELD_ENTRIES = 1 << 24
"""Largest number of entries of gradients in memory at once: 64 MB of float32. A single record may need more."""
CACHED_ENTRIES = 1 << 22
"""Largest number of entries of gradients in memory at once, if they are of more than ``LEAST_PRODUCT_RECORDS`` records.
These 16 MB of float32 stay in a cache until they are added. A convolutional network of 26,000 parameters trained a
sixth faster with this limit."""
MOST_RECORDS_WITHOUT_TOTALS = 1 << 14
"""Largest number of records that ``dense.release_outer_products`` adds without totals."""
LEAST_PRODUCT_RECORDS = 8
"""Smallest number of records for which a product of matrices is worthwhile. On a transformer of 3 million parameters,
fewer records at a time made a step a tenth longer."""


class _LastRecords(NamedTuple):
    """The last records of a step, which are added in the pass that releases the sums."""

    numbers: list[int]
    """Numbers of the parameters."""
    layers: list[tuple[dense.Array, dense.Array]]
    """Inputs and errors for each of these parameters."""
    taken: Any


class ProductSums(IntegerSums, OnePassSums):
    """The integer sums of clipped gradients. Gradients that are products of two vectors are not formed.

    A linear layer through which a record goes once has the gradient r x^T, where x is the layer's input and r the
    gradient by its output. It becomes a product of vectors of integers. The record's clipped gradient then has at most
    the bound as its norm, in exact arithmetic. Any other gradient is formed, and is treated as its product with 1.

    The totals have no memory until records are added to them. If all records of a step are added while the sums are
    released, the totals are never in memory.
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        super().__init__(plan, parameters)
        self._totals = []
        self._last: _LastRecords | None = None

    def clear_totals(self) -> None:
        super().clear_totals()
        self._last = None

    def convert_to_floats(self) -> list[Any]:
        self._settle_totals()
        return super().convert_to_floats()

    def integers(self) -> tuple[Any, list[Any]]:
        self._settle_totals()
        return super().integers()

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        """Adds the last records and the noise, and returns estimates of the mean gradient, all in one pass.

        The estimates have the same bits as those that ``add_noise_to_sums`` and ``estimate_mean_gradient`` return, or
        are in float32 if all parameters are. The totals are zero afterwards.
        """
        if self._last is None:
            self._settle_totals()
            return super().release_mean_gradient(source)
        last, self._last = self._last, None
        single = all(p.dtype == torch.float32 for p in self._parameters.values())
        return release_with_products(
            last, self._totals, list(self._parameters.values()), self._plan, source,
            torch.float32 if single else torch.float64,
        )  # fmt: skip

    def _settle_totals(self) -> None:
        """Makes the totals if they do not exist yet, and adds the last records to them."""
        if not self._totals:
            self._flat, self._totals = make_integer_sums(self._parameters)
        last, self._last = self._last, None
        if last is not None:
            self._add_layers(last.layers, [self._totals[i] for i in last.numbers], last.taken)

    def add(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: Places | None = None, *, last: bool = False
    ) -> None:
        batch, records, weights = fill_places(places, batch, records)
        factors = self._find_factors(model, loss_fn, batch, records)
        self._ways |= self._add_products(factors, records, weights, last=last)

    @torch.no_grad()
    def _add_products(
        self, factors: dict[int, Factors], records: int, weights: Any, *, last: bool = False
    ) -> dict[str, str]:
        """Adds the clipped gradients of records of positive weight, by default of all records.

        With ``last`` some of these records may be added when the sums are released. Returns the way in which gradients
        were computed, by the name of the parameter.
        """
        step = 1
        while step < records and self._count_entries(factors, 2 * step) <= (
            CACHED_ENTRIES if step >= LEAST_PRODUCT_RECORDS else MOST_HELD_ENTRIES
        ):
            step *= 2
        for start in range(0, records, step):
            some = slice(start, min(records, start + step))
            chosen = None if weights is None else weights[some] > 0
            sliced = {i: _slice_records(each, some) for i, each in factors.items()}
            self._add_slice(sliced, chosen, last=last and some.stop == records)
        names = list(self._parameters)
        return {names[i]: "product" if _is_product(each) else "materialised" for i, each in factors.items()}

    def _count_entries(self, factors: dict[int, Factors], records: int) -> int:
        """Returns the number of entries in the formed gradients of ``records`` records."""
        sizes = [p.numel() for p in self._parameters.values()]
        return sum(_count_formed_entries(each, sizes[i], records) for i, each in factors.items())

    def _add_slice(self, factors: dict[int, Factors], taken: Any, *, last: bool) -> None:
        """Clips the gradients of some records and adds them to the totals. ``taken`` is a mask of records, or None.

        The ``last`` records are kept for the release, unless some gradients are formed for the words that occur.
        """
        if last and factors and not any(map(_is_sparse, factors.values())):
            layers = _find_layers(factors)
            if self._totals or len(layers[0][0]) <= MOST_RECORDS_WITHOUT_TOTALS:
                self._last = _LastRecords(list(factors), layers, taken)
                return
        self._settle_totals()
        totals = {i: self._totals[i] for i in factors}
        words = {}
        for i, each in factors.items():
            if _is_sparse(each):  # forms only rows of words that occur
                words[i], left = torch.unique(each.left, return_inverse=True)
                factors = factors | {i: OuterProducts(left, each.right, len(words[i]))}
                totals[i] = torch.zeros(len(words[i]), each.right.shape[2], dtype=torch.int64)
        self._add_layers(_find_layers(factors), list(totals.values()), taken)
        for i, some_words in words.items():
            self._totals[i].view(-1, totals[i].shape[1]).index_add_(0, some_words.to("cpu"), totals[i])

    def _add_layers(self, layers: list[tuple[dense.Array, dense.Array]], totals: list[Any], taken: Any) -> None:
        numbers = [total.numpy() for total in totals]
        dense.add_outer_products(layers, self._plan.max_norm[0], numbers, grid=self._plan.grid_step, taken=taken)


def _is_product(factors: Factors) -> bool:
    """Tells whether the gradient of each record is a product of two vectors."""
    return isinstance(factors, OuterProducts) and not factors.is_sparse and factors.right.shape[1] == 1


def _is_sparse(factors: Factors) -> TypeGuard[OuterProducts]:
    """Tells whether the rows of words that do not occur may be left out of an embedding's gradient.

    The kernel adds squares in 16 lanes. If a row has a multiple of 16 entries, the other rows stay in their lanes.
    """
    return isinstance(factors, OuterProducts) and factors.is_sparse and factors.right.shape[2] % 16 == 0


def _count_formed_entries(factors: Factors, size: int, records: int) -> int:
    """Returns the number of entries of formed gradients by a parameter of ``size`` entries, over all records."""
    if _is_sparse(factors):
        size = min(size, records * factors.right[0].numel())
    return 0 if _is_product(factors) else records * size


def _slice_records(factors: Factors, some: slice) -> Factors:
    """Returns the factors for the records in the slice ``some``."""
    if isinstance(factors, SummedProducts):
        return SummedProducts([_slice_records(part, some) for part in factors.parts])  # type: ignore[misc]
    held: Any = factors
    changed = {f.name: getattr(held, f.name)[some] for f in dataclasses.fields(held) if f.name in _BY_RECORD}
    return dataclasses.replace(held, **changed)  # type: ignore[no-any-return]


_BY_RECORD = {"values", "left", "right", "input", "g"}
"""Names of the fields of factors whose first axis is the axis of records."""


def _find_layers(factors: dict[int, Factors]) -> list[tuple[dense.Array, dense.Array]]:
    """Returns inputs and errors for each parameter, all in one floating-point type."""
    layers = [_find_operands(each) for each in factors.values()]
    if len({operand.dtype for layer in layers for operand in layer}) > 1:
        layers = [(inputs.astype(np.float64), errors.astype(np.float64)) for inputs, errors in layers]
    return layers


def _find_operands(factors: Factors) -> tuple[dense.Array, dense.Array]:
    """Returns inputs and errors, the vectors whose products are the gradients."""
    if isinstance(factors, OuterProducts) and _is_product(factors):
        return _to_numpy(factors.right[:, 0]), _to_numpy(factors.left[:, 0])
    rows = factors.gradient_rows()
    inputs = _to_numpy(rows.reshape(len(rows), -1))
    return inputs, np.ones((len(inputs), 1), inputs.dtype)


def _to_numpy(x: Any) -> dense.Array:
    found: dense.Array = x.detach().to("cpu", torch.promote_types(x.dtype, torch.float32)).contiguous().numpy()
    return found
