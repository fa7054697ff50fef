"""The base classes of all sums of clipped gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..._support.device_probe import devices
from ...clipping_and_noise.noise import RandomSource
from ..batches.batch_places import BatchPlaces
from ..plan.plan import Plan
from .sum_noise import add_noise_to_gradient_sums, release_gradient_sums_on_cuda


class GradientSums:
    """The sums of clipped gradients over a step, with a tensor for each parameter. A step may add several physical
    batches, each of records that go through the model together."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], totals: list[Any]) -> None:
        self._plan, self._parameters, self._totals = plan, parameters, totals
        self._kinds = _identify_parameters_of_gradient_sums(parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters for which the sums were made, by name."""
        return self._parameters

    def has_gradient_sums_for(self, parameters: dict[str, Any]) -> bool:
        """Tells whether the sums were made for these parameters."""
        return _identify_parameters_of_gradient_sums(parameters) == self._kinds

    def set_gradient_sum_plan(self, plan: Plan) -> None:
        """Uses ``plan`` from now on. This plan may differ from the earlier plan only in its noise and its divisor."""
        self._plan = plan

    def clear_gradient_sums(self) -> None:
        """Sets the sums to zero before the next step."""
        for total in self._totals:
            total.zero_()

    @property
    def gradient_ways(self) -> dict[str, str]:
        """Dict from each parameter's name to the way in which its gradients, or their norms, were computed last."""
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

        If ``places`` is given, the records are laid out in a physical batch of fixed shape. The gradient of each record
        is then computed in the row that is the record's place (``BatchPlaces``). ``last`` says that no code of the user
        runs between this call and the release. Nobody can change the batch's tensors in this time, so the gradients may
        also be added later, during the release.
        """
        raise NotImplementedError

    def find_per_example_gradients(self, model: Any, loss_fn: Any, batch: Any, records: int) -> list[Any]:
        """Returns the unclipped gradients of some records, a tensor of shape (records, *shape) for each parameter."""
        raise NotImplementedError

    def convert_to_floats(self) -> list[Any]:
        """Returns the sums as floats, without noise. Like the records, these sums must not be published."""
        raise NotImplementedError

    def integers(self) -> tuple[Any, list[Any]]:
        """Returns the sums in units of the plan's grid step, both as one vector and in the shapes of the parameters."""
        raise NotImplementedError

    def estimate_mean_gradient(self, totals: list[Any]) -> Iterable[Any]:
        """Yields estimates of the mean gradient, in float64, from noisy integer sums.

        The estimates are made one after the other, so that only one of them takes memory.
        """
        scale = self._plan.planned_grid_step / self._plan.divisor
        return (total.to(torch.float64).mul_(scale) for total in totals)

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        """Adds noise to the sums and returns estimates of the mean gradient, in float32 or float64.

        The estimates are the noisy sums divided by the plan's divisor. Call this once a step, after the step was
        charged.
        """
        raise NotImplementedError


def _identify_parameters_of_gradient_sums(parameters: dict[str, Any]) -> list[Any]:
    """Returns the identity, type and device of each parameter. ``model.to`` may change the type and the device."""
    return [(id(p), p.dtype, p.device) for p in parameters.values()]


class IntegerSums(GradientSums):
    """The sums as integer multiples of the plan's grid step, with exact noise on the same grid."""

    _flat: Any
    """Vector of all totals. The totals are views of its memory (``make_integer_gradient_sums``)."""
    _device: Any
    """CUDA device on which the sums are released (``find_device_of_gradient_sums``), or None."""

    def convert_to_floats(self) -> list[Any]:
        _, totals = self.integers()
        return [total.to(torch.float64) * self._plan.planned_grid_step for total in totals]

    def integers(self) -> tuple[Any, list[Any]]:
        """Returns the sums in host memory, or a copy there if the sums are on a CUDA device."""
        flat = self._flat.to("cpu")
        return flat, view_gradient_sums_as_parameters(flat, self._parameters)

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        if self._device is not None:
            return self._release_gradient_sums_on_device(self._flat, source)
        return self._release_gradient_sums_on_host(source)

    def _release_gradient_sums_on_host(self, source: RandomSource) -> Iterable[Any]:
        _, totals = self.integers()
        add_noise_to_gradient_sums(totals, self._plan.noise_deviation, self._plan.planned_grid_step, source)
        return self.estimate_mean_gradient(totals)

    def _release_gradient_sums_on_device(self, flat: Any, source: RandomSource) -> list[Any]:
        """Returns estimates of the mean gradient on the device of ``flat``, which has all sums.

        The estimates have the same bits as on the host, and are in float32 if all parameters are in float32.
        """
        single = all(p.dtype == torch.float32 for p in self._parameters.values())
        released = release_gradient_sums_on_cuda(flat, "float32" if single else "float64", self._plan, source)
        return view_gradient_sums_as_parameters(released, self._parameters)


def find_device_of_gradient_sums(parameters: dict[str, Any]) -> Any:
    """Returns the CUDA device that holds all parameters, if there is one and this build has CUDA kernels, and None
    otherwise. The sums are released on this device.
    """
    found = {p.device for p in parameters.values()}
    return found.pop() if len(found) == 1 and next(iter(found)).type == "cuda" and devices() else None


def make_integer_gradient_sums(parameters: dict[str, Any], device: Any = None) -> tuple[Any, list[Any]]:
    """Returns a vector of zeros, and consecutive views of its memory in the shapes of the parameters."""
    flat = torch.zeros(sum(p.numel() for p in parameters.values()), dtype=torch.int64, device=device or "cpu")
    return flat, view_gradient_sums_as_parameters(flat, parameters)


def view_gradient_sums_as_parameters(flat: Any, parameters: dict[str, Any]) -> list[Any]:
    """Returns consecutive views of a vector's memory in the shapes of the parameters."""
    parts = torch.split(flat, [p.numel() for p in parameters.values()])
    return [part.view(p.shape) for part, p in zip(parts, parameters.values(), strict=True)]
