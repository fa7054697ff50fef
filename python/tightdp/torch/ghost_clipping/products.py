"""The exact sums from one backward pass. Records add products of integers to these sums
(docs/theory/exact-products.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch

from ...clipping_and_noise.noise import RandomSource
from ...models import dense
from ..gradient_sums.base_sums import IntegerSums, find_device_of_gradient_sums, make_integer_gradient_sums
from ..gradient_sums.sum_noise import release_gradient_sums_with_last_records
from ..plan.plan import Plan
from .clipping import OnePassSums
from .factors import GradientFactors, OuterProducts, SummedProducts
from .position_products import (
    PositionProducts,
    choose_position_product_digits,
    clip_position_products,
    is_product_sum_cheaper,
)

MOST_HELD_ENTRIES = 1 << 24
"""Largest number of entries of gradients in memory at once: 64 MB of float32. A single record's gradient may have
more."""
CACHED_ENTRIES = 1 << 22
"""The limit in place of ``MOST_HELD_ENTRIES`` if the gradients are of more than ``LEAST_PRODUCT_RECORDS`` records.
The entries, 16 MB of float32, stay in a cache until they are added. A convolutional network of 26,000 parameters
trained a sixth faster with this limit."""
MOST_RECORDS_WITHOUT_TOTALS = 1 << 14
"""Largest number of records that ``dense.write_noisy_dense_model_products`` adds without totals."""
LEAST_PRODUCT_RECORDS = 8
"""Smallest number of records for which a product of matrices is worthwhile. On a transformer of 3 million parameters,
fewer records at a time made a step a tenth longer."""


Layers = list[tuple[dense.Array, dense.Array]]
"""A pair (inputs, errors) for each of some parameters. An error is a gradient by (with respect to) the layer's output.
The product of a record's input and its error is the record's gradient by the parameter."""


class _LastRecords(NamedTuple):
    """The last records of a step, which are added in the pass that releases the sums."""

    numbers: list[int]
    """Numbers of the parameters."""
    layers: Layers
    taken: Any


class ProductSums(IntegerSums, OnePassSums):
    """The integer sums of clipped gradients. Gradients that are products of two vectors are not formed.

    To form a gradient means to compute its entries. A linear layer through which a record goes once has the gradient
    r x^T, where x is the layer's input and r the gradient by the layer's output. This gradient becomes a product of two
    vectors of integers. The norm of the record's clipped gradient is then at most the bound, in exact arithmetic. A
    linear layer through which a record goes at several positions has a sum of such products as its gradient. This sum
    is not formed either, if computing its norm takes less work than computing its entries. Any other gradient is
    formed, and is treated as the product of itself and 1.

    The totals have no memory until records are added to them. If all records of a step are added while the sums are
    released, the totals are never in memory. If the model is on a CUDA device, the device releases the sums. The device
    also clips and adds the gradients of a physical batch in which no gradient is a sum of products or sparse.
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        super().__init__(plan, parameters)
        self._totals = []
        self._last: _LastRecords | None = None
        self._device = find_device_of_gradient_sums(parameters)
        self._on_device: tuple[Any, list[Any]] | None = None  # sums of the records that the device added

    def clear_gradient_sums(self) -> None:
        super().clear_gradient_sums()
        self._last = self._on_device = None

    def integers(self) -> tuple[Any, list[Any]]:
        self._add_last_gradient_factors()
        if self._on_device is not None:
            self._flat.add_(self._on_device[0].to("cpu"))
            self._on_device = None
        return super().integers()

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        """Adds the last records and the noise, and returns estimates of the mean gradient, all in one pass.

        The estimates have the same bits as those that ``add_noise_to_gradient_sums`` and ``estimate_mean_gradient``
        give. If all parameters are in float32, the estimates are in float32. The totals are zero afterwards.
        """
        if self._device is not None:
            return self._release_gradient_sums_on_device(self._take_gradient_factor_sums(), source)
        if self._last is None:
            return self._release_gradient_sums_on_host(source)
        last, self._last = self._last, None
        single = all(p.dtype == torch.float32 for p in self._parameters.values())
        return release_gradient_sums_with_last_records(
            last, self._totals, list(self._parameters.values()), self._plan, source,
            torch.float32 if single else torch.float64,
        )  # fmt: skip

    def _take_gradient_factor_sums(self) -> Any:
        """Returns the sums over all records on the device, as one vector, and forgets them."""
        flat, _ = self._on_device or make_integer_gradient_sums(self._parameters, self._device)
        if self._totals:
            flat.add_(self._flat.to(flat.device))
        self._on_device, self._totals = None, []
        return flat

    def _add_last_gradient_factors(self) -> None:
        """Makes the totals if they do not exist yet, and adds the last records to them."""
        if not self._totals:
            self._flat, self._totals = make_integer_gradient_sums(self._parameters)
        last, self._last = self._last, None
        if last is not None:
            self._add_layers_of_gradient_factors(last.layers, [self._totals[i] for i in last.numbers], last.taken)

    @torch.no_grad()
    def _add_gradient_factors(
        self, factors: dict[int, GradientFactors], records: int, weights: Any, *, last: bool = False
    ) -> None:
        """Adds the clipped gradients of the records of positive weight, or of all records if ``weights`` is None.

        With ``last`` some of these records may be added when the sums are released.
        """
        step = self._choose_gradient_factor_records(factors, records)
        for start in range(0, records, step):
            some = slice(start, min(records, start + step))
            chosen = None if weights is None else weights[some] > 0
            whole = some == slice(0, records)
            sliced = factors if whole else {i: _slice_factors_by_record(each, some) for i, each in factors.items()}
            self._add_slice_of_gradient_factors(sliced, chosen, last=last and some.stop == records)
        names = list(self._parameters)
        self._ways |= {names[i]: _name_way_of_gradient_factors(each) for i, each in factors.items()}

    def _choose_gradient_factor_records(self, factors: dict[int, GradientFactors], records: int) -> int:
        """Returns the number of records whose gradients are added at a time.

        It is a power of two, at least ``records`` if all of them are added at once.
        """
        every = 1 << (records - 1).bit_length() if records else 1
        if self._count_gradient_factor_entries(factors, every) <= CACHED_ENTRIES:
            return every  # fewer records have no more entries, so the loop would end here
        step = 1
        while step < records and self._count_gradient_factor_entries(factors, 2 * step) <= (
            CACHED_ENTRIES if step >= LEAST_PRODUCT_RECORDS else MOST_HELD_ENTRIES
        ):
            step *= 2
        return step

    def _count_gradient_factor_entries(self, factors: dict[int, GradientFactors], records: int) -> int:
        """Returns the number of entries in the formed gradients of ``records`` records."""
        sizes = [p.numel() for p in self._parameters.values()]
        return sum(_count_entries_of_gradient_factors(each, sizes[i], records) for i, each in factors.items())

    def _add_slice_of_gradient_factors(self, factors: dict[int, GradientFactors], taken: Any, *, last: bool) -> None:
        """Clips the gradients of some records and adds them to the totals. ``taken`` is a mask of records, or None.

        The ``last`` records are kept for the release, unless some gradients are sums of products or sparse
        (``_is_sparse_embedding``).
        """
        dense_only = bool(factors) and not any(
            _is_sparse_embedding(each) or _is_sum_of_products(each) for each in factors.values()
        )
        if dense_only and self._device is not None:
            self._add_ghost_factors_on_device(factors, taken)
            return
        if last and dense_only:
            layers = _find_operands_of_gradient_factors(factors)
            if self._totals or len(layers[0][0]) <= MOST_RECORDS_WITHOUT_TOTALS:
                self._last = _LastRecords(list(factors), layers, taken)
                return
        self._add_last_gradient_factors()
        digits = choose_position_product_digits(self._plan.max_norm[0] / self._plan.planned_grid_step)
        sums = {
            i: PositionProducts(_join_uses_of_parameter(each), digits)
            for i, each in factors.items()
            if _is_sum_of_products(each)
        }
        factors = {i: each for i, each in factors.items() if i not in sums}
        totals = {i: self._totals[i] for i in factors}
        words = {}
        for i, each in factors.items():
            if _is_sparse_embedding(each):  # forms only rows of words that occur
                words[i], left = torch.unique(each.left, return_inverse=True)
                factors = factors | {i: OuterProducts(left, each.right, len(words[i]))}
                totals[i] = torch.zeros(len(words[i]), each.right.shape[2], dtype=torch.int64)
        if sums:
            self._add_gradient_factors_with_sums(
                sums, _find_operands_of_gradient_factors(factors), list(totals.values()), taken
            )
        else:
            self._add_layers_of_gradient_factors(
                _find_operands_of_gradient_factors(factors), list(totals.values()), taken
            )
        for i, some_words in words.items():
            self._totals[i].view(-1, totals[i].shape[1]).index_add_(0, some_words.to("cpu"), totals[i])

    def _add_ghost_factors_on_device(self, factors: dict[int, GradientFactors], taken: Any) -> None:
        """Clips and adds records on the CUDA device of the parameters, without waiting for it."""
        if self._on_device is None:
            self._on_device = make_integer_gradient_sums(self._parameters, self._device)
        layers = _find_tensors_of_gradient_factors(factors)
        totals = [self._on_device[1][i].view(r.shape[1], x.shape[1]) for i, (x, r) in layers.items()]
        dense.add_dense_model_products(
            list(layers.values()), self._plan.max_norm[0], totals, grid=self._plan.planned_grid_step, taken=taken
        )

    def _add_gradient_factors_with_sums(
        self, sums: dict[int, PositionProducts], layers: Layers, totals: list[Any], taken: Any
    ) -> None:
        """Clips and adds records whose gradients by some parameters are sums of products.

        The other gradients, ``layers``, get the same clip factors. Their norm is at most the part of the norm bound
        that the sums of products leave.
        """
        grid = self._plan.planned_grid_step
        squares = sum(each.estimate_norms_of_position_products() for each in sums.values())
        for inputs, errors in layers:
            squares = squares + _compute_squared_ghost_row_norms(inputs) * _compute_squared_ghost_row_norms(errors)
        if taken is not None:
            squares = torch.where(torch.from_numpy(taken), squares, torch.inf)
        clipped = clip_position_products(list(sums.values()), squares.sqrt(), self._plan.max_norm[0] / grid, 1 / grid)
        for i, each in sums.items():
            each.add_position_products_to(self._totals[i])
        factors = clipped.factors.numpy()
        with np.errstate(invalid="ignore"):  # ignores 0 times infinity, in records that are not taken below
            scaled = [(inputs, errors * factors[:, None].astype(errors.dtype)) for inputs, errors in layers]
        self._add_layers_of_gradient_factors(scaled, totals, factors > 0, clipped.rest.numpy() * grid)

    def _add_layers_of_gradient_factors(
        self, layers: Layers, totals: list[Any], taken: Any, max_norms: Any = None
    ) -> None:
        numbers, bound, grid = [total.numpy() for total in totals], self._plan.max_norm[0], self._plan.planned_grid_step
        if layers:
            dense.add_dense_model_products(layers, bound, numbers, grid=grid, taken=taken, max_norms=max_norms)


def _is_product_of_gradient_factors(factors: GradientFactors) -> bool:
    """Tells whether the gradient of each record is a product of two vectors."""
    return isinstance(factors, OuterProducts) and not factors.is_sparse and factors.right.shape[1] == 1


def _is_sum_of_products(factors: GradientFactors) -> bool:
    """Tells whether the gradient of each record is a sum of products that is not formed."""
    parts: Sequence[Any] = factors.parts if isinstance(factors, SummedProducts) else [factors]
    first = parts[0]
    if not isinstance(first, OuterProducts) or any(part.is_sparse for part in parts):
        return False
    positions, width = sum(part.right.shape[1] for part in parts), first.right.shape[2]
    return is_product_sum_cheaper(positions, first.m, width, on_device=first.right.is_cuda)


def _join_uses_of_parameter(factors: Any) -> OuterProducts:
    """Returns the gradients by a parameter as one sum over the positions of all uses of the parameter."""
    if isinstance(factors, OuterProducts):
        return factors
    parts = factors.parts
    return OuterProducts(torch.cat([p.left for p in parts], 1), torch.cat([p.right for p in parts], 1), parts[0].m)


def _name_way_of_gradient_factors(factors: GradientFactors) -> str:
    return (
        "product"
        if _is_product_of_gradient_factors(factors)
        else "sum of products"
        if _is_sum_of_products(factors)
        else "materialised"
    )


def _compute_squared_ghost_row_norms(rows: dense.Array) -> Any:
    """Returns squared norms of rows, rounded up, and infinity for a row that is not finite.

    Each squared norm depends on its own row alone. The gradient of an embedding has zeros for words that the record
    does not have. These zeros do not change the bits of the squared norm.
    """
    units = dense.round_dense_inputs_to_units(rows, False, digits=0)
    return torch.from_numpy(np.where(units.steps > 0, units.squares, np.inf))


def _is_sparse_embedding(factors: GradientFactors) -> TypeGuard[OuterProducts]:
    """Tells whether the rows of words that do not occur may be left out of an embedding's gradient.

    The kernel adds squares in 16 lanes. If the length of a row is a multiple of 16, leaving out a row does not move the
    entries of other rows to other lanes. So the rounded sums stay the same.
    """
    return isinstance(factors, OuterProducts) and factors.is_sparse and factors.right.shape[2] % 16 == 0


def _count_entries_of_gradient_factors(factors: GradientFactors, size: int, records: int) -> int:
    """Returns the number of entries of formed gradients by a parameter of ``size`` entries, over all records.

    A sum of products is not formed. For such a sum, the function counts the integers of the factors and their inner
    products instead.
    """
    if _is_sum_of_products(factors):
        joined = _join_uses_of_parameter(_slice_factors_by_record(factors, slice(0, 1)))
        positions, width = joined.right.shape[1:]
        return records * int(positions * (joined.m + width) + 2 * positions**2)
    if _is_sparse_embedding(factors):
        size = min(size, records * factors.right[0].numel())
    return 0 if _is_product_of_gradient_factors(factors) else records * size


def _slice_factors_by_record(factors: GradientFactors, some: slice) -> GradientFactors:
    """Returns the factors for the records in the slice ``some``."""
    if isinstance(factors, SummedProducts):
        return SummedProducts([_slice_factors_by_record(part, some) for part in factors.parts])  # type: ignore[misc]
    held: Any = factors
    changed = {f.name: getattr(held, f.name)[some] for f in dataclasses.fields(held) if f.name in _BY_RECORD}
    return dataclasses.replace(held, **changed)  # type: ignore[no-any-return]


_BY_RECORD = {"values", "left", "right", "input", "g"}
"""Names of the fields of factors whose first axis is the axis of records."""


def _find_operands_of_gradient_factors(factors: dict[int, GradientFactors]) -> Layers:
    """Returns inputs and errors for each parameter, all in one floating-point type and in host memory."""
    return [
        (inputs.cpu().numpy(), errors.cpu().numpy())
        for inputs, errors in _find_tensors_of_gradient_factors(factors).values()
    ]


def _find_tensors_of_gradient_factors(factors: dict[int, GradientFactors]) -> dict[int, tuple[Any, Any]]:
    """Returns inputs and errors for each parameter, all in one floating-point type, on the device of the factors."""
    layers = {i: _split_gradient_factors(each) for i, each in factors.items()}
    kinds = {operand.dtype for layer in layers.values() for operand in layer}
    dtype = torch.float32 if kinds <= {torch.float32} else torch.float64
    return {i: (x.to(dtype).contiguous(), r.to(dtype).contiguous()) for i, (x, r) in layers.items()}


def _split_gradient_factors(factors: GradientFactors) -> tuple[Any, Any]:
    """Returns inputs and errors, the vectors whose products are the gradients, in float32 or float64."""
    if isinstance(factors, OuterProducts) and _is_product_of_gradient_factors(factors):
        return _widen_rows_of_gradient_factors(factors.right[:, 0]), _widen_rows_of_gradient_factors(factors.left[:, 0])
    rows = factors.expand_gradient_factors()
    inputs = _widen_rows_of_gradient_factors(rows.reshape(len(rows), -1))
    return inputs, inputs.new_ones(len(inputs), 1)


def _widen_rows_of_gradient_factors(x: Any) -> Any:
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
