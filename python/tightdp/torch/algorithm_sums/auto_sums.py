"""Exact sums of gradients, computed by one backward pass where the form of the records allows one, and otherwise by
``torch.func``."""

from __future__ import annotations

from typing import Any

import torch

from ...clipping_and_noise.clipping import has_several_clipping_norms
from ..batches import collated_batch
from ..batches.batch_places import BatchPlaces, fill_batch_places
from ..ghost_clipping.factors import GradientFactors, GradientRows
from ..ghost_clipping.layers import check_ghost_clipping_layers
from ..ghost_clipping.products import ProductSums
from ..gradient_sums.per_example_gradients import PerExampleGradients, check_vectorized_pass
from ..plan.plan import Plan, SumArithmetic
from ..randomness.global_generators import find_device_of_model_generators, seed_model_pass


class AutoSums(ProductSums):
    """The sums of clipped gradients, as integer multiples of the step of the grid that ``ProductSums`` uses.

    Gradients are computed in one of two ways: by one backward pass, or by ``torch.func``. The form of a record (the
    structure, the types and the shapes of its tensors) decides between these ways. One backward pass is tried on a
    record of zeros of the same form. So the way, and with it the rounding of a record's gradient, depends neither
    on values nor on other records (docs/theory/exact-products.md, section 7).
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        super().__init__(plan, parameters)
        self._served: dict[Any, bool] = {}

    def check(self, model: Any, loss_fn: Any, batch: Any, records: int) -> None:
        if self._is_one_pass_auto_sum(model, loss_fn, batch, records):
            super().check(model, loss_fn, batch, records)
        else:
            check_vectorized_pass(model, loss_fn, self._parameters, batch, records)

    def find_per_example_gradients(self, model: Any, loss_fn: Any, batch: Any, records: int) -> list[Any]:
        if self._is_one_pass_auto_sum(model, loss_fn, batch, records):
            return super().find_per_example_gradients(model, loss_fn, batch, records)
        return PerExampleGradients(model, loss_fn, self._parameters).join_per_example_gradients(batch, records)

    def add(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None,
        *, last: bool = False,
    ) -> None:  # fmt: skip
        """Adds the clipped gradients of a physical batch, the records that go through the model together.

        The gradients are computed in the way that suits the form of these records.
        """
        if self._is_one_pass_auto_sum(model, loss_fn, batch, records):
            return super().add(model, loss_fn, batch, records, places, last=last)
        batch, records, weights = fill_batch_places(places, batch, records)
        start = 0
        for rows in PerExampleGradients(model, loss_fn, self._parameters).yield_per_example_gradients(batch, records):
            end = start + len(rows[0])
            factors: dict[int, GradientFactors] = {i: GradientRows(g.detach()) for i, g in enumerate(rows)}
            chosen = None if weights is None else weights[start:end]
            self._add_gradient_factors(factors, end - start, chosen, last=last and end == records)
            start = end
        self._ways |= dict.fromkeys(self._parameters, "vectorised")

    def _is_one_pass_auto_sum(self, model: Any, loss_fn: Any, batch: Any, records: int) -> bool:
        """Tells whether one pass can clip the gradients of records of this form."""
        tensors, rebuild = collated_batch.split_collated_batch(batch, records)
        form = repr(collated_batch.describe_batch_structure(batch)), tuple(tensor.shape[1:] for tensor in tensors)
        if form not in self._served:
            zeros = rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors])
            try:
                with seed_model_pass(find_device_of_model_generators(model), 0, 0):
                    super().check(model, loss_fn, zeros, 1)
                self._served[form] = True
            except Exception:  # the user's code fails on zeros, or one pass cannot clip this form
                self._served[form] = False
        return self._served[form]


def choose_algorithm_sum_arithmetic(arithmetic: SumArithmetic, name: str, max_norm: Any, model: Any) -> SumArithmetic:
    """Returns the arithmetic of the sums. For "auto", the algorithm ``name``, the norm bounds and the layers decide."""
    if arithmetic != "auto":
        return arithmetic
    try:
        check_ghost_clipping_layers(model)
    except ValueError:
        return "exact"
    return "exact" if name in ("adaclip", "dpis") or has_several_clipping_norms(max_norm) else "auto"
