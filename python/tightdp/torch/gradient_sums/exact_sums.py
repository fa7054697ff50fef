"""The exact sums of clipped gradients over a step."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from ...clipping_and_noise.gradients import clipped_sum
from ..batches.batch_places import BatchPlaces, fill_batch_places
from ..plan.plan import Plan
from .base_sums import IntegerSums, find_device_of_gradient_sums, make_integer_gradient_sums
from .per_example_gradients import PerExampleGradients, check_vectorized_pass


class ExactSums(IntegerSums):
    """The integer sums of clipped gradients. The gradient of each record is formed, that is computed entry by entry.

    The gradient of each record becomes a vector of multiples of the plan's grid step. In exact arithmetic, the norm of
    this vector is at most the norm bound. Multiples add up without rounding, so the sums depend neither on how the
    batch is cut into physical batches nor on the order of addition (docs/theory/clipping.md, section 7).
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        self._device = find_device_of_gradient_sums(parameters)
        self._flat, totals = make_integer_gradient_sums(parameters, self._device)
        super().__init__(plan, parameters, totals)

    @property
    def gradient_ways(self) -> dict[str, str]:
        return dict.fromkeys(self._parameters, "one record after the other" if self.is_one_by_one else "vectorised")

    @property
    def is_one_by_one(self) -> bool:
        return self._plan.arithmetic == "one-by-one"

    def check(self, model: Any, loss_fn: Any, batch: Any, records: int) -> None:
        """Raises ValueError if ``torch.func.vmap`` is used and cannot take records through the model."""
        if not self.is_one_by_one:
            check_vectorized_pass(model, loss_fn, self._parameters, batch, records)

    def find_per_example_gradients(self, model: Any, loss_fn: Any, batch: Any, records: int) -> list[Any]:
        gradients = PerExampleGradients(model, loss_fn, self._parameters, vectorized=not self.is_one_by_one)
        return gradients.join_per_example_gradients(batch, records)

    def add(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None,
        *, last: bool = False,
    ) -> None:  # fmt: skip
        for rows, weights in self._yield_gradients_to_sum(model, loss_fn, batch, records, places):
            self._add_clipped_to_gradient_sums(rows, weights)

    def _yield_gradients_to_sum(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None
    ) -> Iterator[tuple[list[Any], Any]]:
        """Yields the gradients of some rows at a time, and the weights of these rows.

        A row has weight 1 if it is a record, and 0 if it is a copy in an empty place. Without ``places`` the weights
        are None.
        """
        batch, records, weights = fill_batch_places(
            None if self.is_one_by_one else places, batch, records
        )  # a batch of one record has the same shape with and without places
        start = 0
        for rows in self._yield_rows_for_gradient_sums(model, loss_fn, batch, records):
            end = start + len(rows[0])
            yield rows, None if weights is None else weights[start:end]
            start = end

    def _yield_rows_for_gradient_sums(self, model: Any, loss_fn: Any, batch: Any, records: int) -> Iterator[list[Any]]:
        """Yields the gradients of some records at a time, in one common type, on the device of the sums."""
        gradients = PerExampleGradients(model, loss_fn, self._parameters, vectorized=not self.is_one_by_one)
        for some in gradients.yield_per_example_gradients(batch, records):
            dtype = functools.reduce(torch.promote_types, [g.dtype for g in some])
            yield [g.detach().to(self._flat.device, dtype) for g in some]

    def _add_clipped_to_gradient_sums(self, rows: list[Any], weights: Any = None) -> None:
        """Clips the gradients of some records and adds them to the totals, without records of weight 0."""
        bounds = self._plan.max_norm if len(self._plan.max_norm) > 1 else self._plan.max_norm[0]
        self._clip_and_add_to_gradient_sums(rows, bounds, weights=weights)

    def _clip_and_add_to_gradient_sums(self, rows: list[Any], max_norm: Any, **settings: Any) -> None:
        clipped_sum(rows, max_norm, out=self._totals, accumulate=True, arithmetic="exact", **settings)
