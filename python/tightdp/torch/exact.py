"""Exact clipped sums of a step, and what is released of them."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..release.gradients import add_noise, clipped_sum
from ..release.noise import RandomSource
from .materialized import Gradients, vectorizes
from .plan import Plan


class ExactSums:
    """Integer sums of clipped gradients, a tensor for each parameter, over all physical batches of a step.

    Each record becomes a vector of multiples of the plan's grid whose norm is at most the bound, in exact arithmetic,
    so the sums do not depend on how the batch is cut or in what order it is added (docs/theory/clipping.md, section 7).
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        self._plan, self._parameters = plan, parameters
        self._flat, self._totals = integers_of(parameters)
        self._vectorized: bool | None = None

    @property
    def ways(self) -> dict[str, str]:
        """How each parameter's gradients were computed last."""
        if self._vectorized is None:
            return {}
        return dict.fromkeys(self._parameters, "vectorised" if self._vectorized else "one record after the other")

    def serves(self, parameters: dict[str, Any]) -> bool:
        """Whether these are the parameters it was made for."""
        return list(map(id, parameters.values())) == list(map(id, self._parameters.values()))

    def clear(self) -> None:
        for total in self._totals:
            total.zero_()

    def add(self, model: Any, loss_fn: Any, batch: Any, records: int) -> None:
        """Adds the clipped gradients of a physical batch. A record whose gradient is not finite adds zeros."""
        if self._vectorized is None:
            self._vectorized = vectorizes(model, loss_fn, self._parameters, batch, records)
        gradients = Gradients(model, loss_fn, self._parameters, vectorized=self._vectorized)
        for some in gradients.of(batch, records):
            self._add(some)

    def _add(self, gradients: list[Any]) -> None:
        dtype = functools.reduce(torch.promote_types, [g.dtype for g in gradients])
        rows = [g.detach().to("cpu", dtype) for g in gradients]
        clipped_sum(rows, self._bounds, out=self._totals, accumulate=True, arithmetic="exact")

    @property
    def _bounds(self) -> float | tuple[float, ...]:
        return self._plan.max_norm if len(self._plan.max_norm) > 1 else self._plan.max_norm[0]

    def values(self) -> list[Any]:
        """The sums as floats: as private as the records."""
        return [total.to(torch.float64) * self._plan.grid for total in self._totals]

    def integers(self) -> tuple[Any, list[Any]]:
        """The sums in steps of the plan's grid, as one vector and in the shapes of the parameters."""
        return self._flat, self._totals

    def release(self, source: RandomSource) -> list[Any]:
        """The sums with noise, over the expected batch size: an estimate of the mean gradient, in float32 or float64.

        To be called once, after the mechanism was charged.
        """
        add_noise(self._totals, self._plan.deviation, grid=self._plan.grid, rng=source)
        return estimates(self._plan, self._totals)


def integers_of(parameters: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Zeros, as one vector and in the shapes of the parameters one after the other: the same memory."""
    sizes = [p.numel() for p in parameters.values()]
    flat = torch.zeros(sum(sizes), dtype=torch.int64)
    parts = torch.split(flat, sizes)
    return flat, [part.view(p.shape) for part, p in zip(parts, parameters.values(), strict=True)]


def estimates(plan: Plan, totals: list[Any]) -> list[Any]:
    """Of the mean gradient, from noisy integer sums."""
    scale = plan.grid / plan.batch_size
    return [total.to(torch.float64) * scale for total in totals]
