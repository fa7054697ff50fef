"""Integer sums on a CUDA device, for models whose parameters are there (docs/theory/exact-products.md, section 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..._support.device_probe import devices
from ...models import dense

Tensor = Any


def can_add_on_device(parameters: Iterable[Tensor]) -> bool:
    """Tells whether all parameters are on a CUDA device, and this build has its kernels."""
    return bool(devices()) and all(p.is_cuda for p in parameters)


class DeviceTotals:
    """The integer sums over some records of a step, by the numbers of parameters. They have no memory at first."""

    def __init__(self) -> None:
        self._totals: dict[int, Tensor] = {}

    @property
    def has_records(self) -> bool:
        """Whether records were added since the sums were cleared or moved."""
        return bool(self._totals)

    def clear_totals(self) -> None:
        """Forgets the sums."""
        self._totals.clear()

    def add_records(self, layers: dict[int, tuple[Tensor, Tensor]], max_norm: float, grid: float, taken: Any) -> None:
        """Clips the gradients of records and adds them, without waiting for the device.

        ``layers`` has the inputs and the errors by each parameter, whose products are the records' gradients.
        """
        totals = []
        for i, (inputs, errors) in layers.items():
            shape = errors.shape[1], inputs.shape[1]
            if i not in self._totals:
                self._totals[i] = torch.zeros(shape[0] * shape[1], dtype=torch.int64, device=inputs.device)
            totals.append(self._totals[i].view(shape))
        dense.add_outer_products(list(layers.values()), max_norm, totals, grid=grid, taken=taken)

    def move_to(self, totals: list[Tensor]) -> None:
        """Adds the sums to ``totals`` in host memory, and forgets them."""
        for i, total in self._totals.items():
            totals[i].view(-1).add_(total.to("cpu"))
        self._totals.clear()
