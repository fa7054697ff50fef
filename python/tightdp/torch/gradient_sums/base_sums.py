"""The base classes of all sums of clipped gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...release.noise import RandomSource
from ..batches.batch_places import BatchPlaces
from ..plan.plan import Plan
from .sum_noise import add_noise_to_step_sums


class GradientSums:
    """The sums of clipped gradients over all physical batches of a step. There is a tensor for each parameter."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], totals: list[Any]) -> None:
        self._plan, self._parameters, self._totals = plan, parameters, totals
        self._kinds = _identify_model_parameters(parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters for which the sums were made, by name."""
        return self._parameters

    def is_made_for(self, parameters: dict[str, Any]) -> bool:
        """Tells whether the sums were made for these parameters."""
        return _identify_model_parameters(parameters) == self._kinds

    def follow_plan(self, plan: Plan) -> None:
        """Uses ``plan`` from now on. It may differ from the earlier plan only in its noise and its divisor."""
        self._plan = plan

    def clear_totals(self) -> None:
        """Sets the sums to zero before the next step."""
        for total in self._totals:
            total.zero_()

    @property
    def gradient_ways(self) -> dict[str, str]:
        """The way in which gradients, or their norms, were computed last, by the name of the parameter."""
        raise NotImplementedError

    @property
    def is_one_by_one(self) -> bool:
        """Whether records go through the model one after the other, as in plain PyTorch."""
        return False

    def check(self, model: Any, loss_fn: Any, batch: Any, records: int) -> None:
        """Takes some records through the model before a step is charged, to check that gradients can be clipped."""
        raise NotImplementedError

    def add(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None,
        *, last: bool = False,
    ) -> None:  # fmt: skip
        """Adds the clipped gradients of a physical batch. A record whose gradient is not finite adds zeros.

        With ``places`` each record's gradient is computed at the record's place in a physical batch of fixed shape.
        ``last`` says that no code of the user's runs before the sums are released. Then the sums may add this batch
        when they are released, because nobody can change its tensors until then.
        """
        raise NotImplementedError

    def find_gradients(self, model: Any, loss_fn: Any, batch: Any, records: int) -> list[Any]:
        """Returns the unclipped gradients of some records, a tensor of shape (records, *shape) for each parameter."""
        raise NotImplementedError

    def convert_to_floats(self) -> list[Any]:
        """Returns the sums as floats, without noise. They are as private as the records."""
        raise NotImplementedError

    def integers(self) -> tuple[Any, list[Any]]:
        """Returns the sums as multiples of the plan's grid step: as one vector, and in the shapes of the parameters."""
        raise NotImplementedError

    def estimate_mean_gradient(self, totals: list[Any]) -> Iterable[Any]:
        """Yields estimates of the mean gradient, in float64, from noisy integer sums.

        The estimates are made one after the other, so that only one of them takes memory.
        """
        scale = self._plan.grid_step / self._plan.divisor
        return (total.to(torch.float64).mul_(scale) for total in totals)

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        """Adds noise to the sums and returns estimates of the mean gradient, in float32 or float64.

        The estimates are the noisy sums divided by the plan's divisor. Call this once a step, after the step was
        charged.
        """
        raise NotImplementedError


def _identify_model_parameters(parameters: dict[str, Any]) -> list[Any]:
    """Returns the identity, type and device of each parameter. ``model.to`` may change the type and the device."""
    return [(id(p), p.dtype, p.device) for p in parameters.values()]


class IntegerSums(GradientSums):
    """The sums as integer multiples of the plan's grid step, with exact noise on the same grid."""

    _flat: Any
    """Vector of all totals. The totals are views of its memory (``make_integer_gradient_sums``)."""

    def convert_to_floats(self) -> list[Any]:
        return [total.to(torch.float64) * self._plan.grid_step for total in self._totals]

    def integers(self) -> tuple[Any, list[Any]]:
        return self._flat, self._totals

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        add_noise_to_step_sums(self._totals, self._plan.noise_deviation, self._plan.grid_step, source)
        return self.estimate_mean_gradient(self._totals)


def make_integer_gradient_sums(parameters: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Returns a vector of zeros, and consecutive views of its memory in the shapes of the parameters."""
    sizes = [p.numel() for p in parameters.values()]
    flat = torch.zeros(sum(sizes), dtype=torch.int64)
    parts = torch.split(flat, sizes)
    return flat, [part.view(p.shape) for part, p in zip(parts, parameters.values(), strict=True)]
