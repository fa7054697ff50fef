"""Exact sums out of one backward pass: what a record adds is a product of integers (docs/theory/exact-products.md)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from ...release.gradients import add_noise
from ...release.noise import RandomSource
from ...train.models import dense
from ..padded import Places
from ..plan import Plan
from ..sums import integers_of
from .clipping import OnePassSums
from .factors import Factors, Outer, Sum

HELD = 1 << 24
"""Entries of rows that are held at once: 64 MB of float32, or those of a single record."""


class ProductSums(OnePassSums):
    """Integer sums of clipped gradients, which are not formed where they are products of two vectors.

    A linear layer that a record goes through once has the gradient r x^T. It becomes a product of integers whose norm
    is at most the bound, in exact arithmetic. Any other gradient is a row, and the product of it and 1.
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        super().__init__(plan, parameters)
        self._flat, self._totals = integers_of(parameters)
        self._taken: Any = None

    def add(self, model: Any, loss_fn: Any, batch: Any, records: int, places: Places | None = None) -> None:
        if places is not None:
            batch, records = places.filled(batch, records), places.size
        self._taken = None if places is None else places.weights() > 0
        super().add(model, loss_fn, batch, records)

    @torch.no_grad()
    def _add(self, factors: dict[int, Factors], records: int) -> None:
        rows = sum(self._totals[i].numel() for i, each in factors.items() if not _is_product(each))
        step = max(1, HELD // max(1, rows))
        for start in range(0, records, step):
            some = slice(start, min(records, start + step))
            self._add_some({i: _part(each, some) for i, each in factors.items()}, some)
        names = list(self._parameters)
        self._ways |= {names[i]: "product" if _is_product(each) else "materialised" for i, each in factors.items()}

    def _add_some(self, factors: dict[int, Factors], some: slice) -> None:
        layers = [_layer(each) for each in factors.values()]
        if len({layer.inputs.dtype for layer in layers}) > 1:
            layers = [_wide(layer) for layer in layers]
        taken = None if self._taken is None else self._taken[some]
        found = dense.clipped_sum(layers, self._plan.max_norm[0], grid=self._plan.grid, taken=taken)
        sizes = [self._totals[i].numel() for i in factors]
        for i, part in zip(factors, torch.split(torch.from_numpy(found), sizes), strict=True):
            self._totals[i] += part.view_as(self._totals[i])

    def values(self) -> list[Any]:
        return [total.to(torch.float64) * self._plan.grid for total in self._totals]

    def integers(self) -> tuple[Any, list[Any]]:
        return self._flat, self._totals

    def release(self, source: RandomSource) -> list[Any]:
        add_noise(self._totals, self._plan.deviation, grid=self._plan.grid, rng=source)
        return self.estimates(self._totals)


def _is_product(factors: Factors) -> bool:
    return isinstance(factors, Outer) and not factors.sparse and factors.right.shape[1] == 1


def _part(factors: Factors, some: slice) -> Factors:
    """The same of some of the records."""
    if isinstance(factors, Sum):
        return Sum([_part(part, some) for part in factors.parts])  # type: ignore[misc]
    held: Any = factors
    changed = {f.name: getattr(held, f.name)[some] for f in dataclasses.fields(held) if f.name in _BY_RECORD}
    return dataclasses.replace(held, **changed)  # type: ignore[no-any-return]


_BY_RECORD = {"values", "left", "right", "input", "g"}
"""Fields of factors whose first axis is that of the records."""


def _layer(factors: Factors) -> dense.Layer:
    if isinstance(factors, Outer) and _is_product(factors):
        inputs, errors = _array(factors.right[:, 0]), _array(factors.left[:, 0])
    else:
        rows = factors.rows()
        inputs = _array(rows.reshape(len(rows), -1))
        errors = np.ones((len(inputs), 1), inputs.dtype)
    if inputs.dtype != errors.dtype:
        inputs, errors = inputs.astype(np.float64), errors.astype(np.float64)
    return dense.Layer(inputs, errors, dense.units(inputs, False), False)


def _wide(layer: dense.Layer) -> dense.Layer:
    inputs = layer.inputs.astype(np.float64)
    return dense.Layer(inputs, layer.errors.astype(np.float64), dense.units(inputs, False), False)


def _array(x: Any) -> dense.Array:
    found: dense.Array = x.detach().to("cpu", torch.promote_types(x.dtype, torch.float32)).contiguous().numpy()
    return found
