"""The sums of clipped gradients over a step. Each physical batch, of records that go through the model together, takes
one backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np
import torch

from ...clipping_and_noise import arrays, clipping
from ...clipping_and_noise.cuda.noisy_sums import release_floats_on_device
from ...clipping_and_noise.noise import RandomSource
from ..batches import collated_batch
from ..batches.batch_places import BatchPlaces, fill_batch_places
from ..gradient_sums.base_sums import GradientSums, find_device_of_gradient_sums, make_integer_gradient_sums
from ..plan.plan import Plan
from .call_rules import Unsupported
from .convolutions import ConvolutionFactors
from .factors import GradientFactors, plan_gradient_factors
from .graph_check import check_recorded_calls_complete
from .record_axis import RecordAxis, differentiate_losses_on_record_axis
from .recorder import CallRecorder, RecordedCall, refuse_unclippable_call

CLIPPING_SLACK = 2.0**-17
"""Relative amount by which the norm bound is lowered, to allow for the rounding of norms and sums in float32. It is 128
times 2^-24, where 2^-24 is the unit roundoff of float32."""
LONGEST_GRADIENT = 2.0**40
"""Largest norm of a gradient that is clipped, as a multiple of the norm bound. A longer gradient, or a gradient that is
not finite, counts as 0. The clip factor of a longer gradient could be too small for the full precision of float32, and
rounding might double it."""
CHECKED_RECORDS = 5
"""Number of records that go through the model before a step, to check that its gradients can be clipped."""
_LARGEST_SUM = 2.0**60
"""Largest absolute value of a sum, in steps of the grid on which noise is added. In a larger value, noise would be lost
to rounding."""


class OnePassSums(GradientSums):
    """The sums of clipped gradients in floating point."""

    def __init__(self, plan: Plan, parameters: dict[str, Any]) -> None:
        wide = [torch.promote_types(p.dtype, torch.float32) for p in parameters.values()]
        totals = [torch.zeros_like(p, dtype=w) for p, w in zip(parameters.values(), wide, strict=True)]
        super().__init__(plan, parameters, totals)
        self._ways: dict[str, str] = {}

    @property
    def gradient_ways(self) -> dict[str, str]:
        return self._ways

    def check(self, model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, records: int) -> None:
        """Raises ValueError if one pass cannot clip the gradients for some use of a parameter."""
        few = min(records, CHECKED_RECORDS)
        tensors, rebuild = collated_batch.split_collated_batch(batch, records)
        self._find_factors(model, loss_fn, rebuild([tensor[:few] for tensor in tensors]), few)

    def add(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None,
        *, last: bool = False,
    ) -> None:  # fmt: skip
        batch, records, weights = fill_batch_places(places, batch, records)
        self._add_gradient_factors(self._find_factors(model, loss_fn, batch, records), records, weights, last=last)

    def find_per_example_gradients(
        self, model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, records: int
    ) -> list[Any]:
        """Returns the gradient of each record by each parameter."""
        factors = self._find_factors(model, loss_fn, batch, records)
        with torch.no_grad():
            return [
                factors[i].expand_gradient_factors().reshape(records, *p.shape)
                if i in factors
                else p.new_zeros(records, *p.shape)
                for i, p in enumerate(self._parameters.values())
            ]

    def _find_factors(
        self, model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, records: int
    ) -> dict[int, GradientFactors]:
        """Returns the factors from which the records' gradients are computed (``factors.py``).

        Raises ValueError if the factors miss a part of a gradient.
        """
        axis = RecordAxis(records)
        recorder = CallRecorder(self._parameters, axis)

        def propagate_losses_for_ghost_clipping(losses: Any) -> Any:
            calls = recorder.stop_recording()
            check_recorded_calls_complete(losses, self._parameters, calls)
            return differentiate_losses_on_record_axis(losses, [call.edge for call in calls])

        try:
            found = axis.apply_along_record_axis(model, loss_fn, batch, propagate_losses_for_ghost_clipping, recorder)
        except Unsupported as why:  # in a derivative that the loss takes itself
            raise ValueError(
                f"model must be one that is clipped in one pass: loss_fn calls torch.func, and {why}. "
                'arithmetic="exact" takes more modules, and "one-by-one" any'
            ) from None
        with torch.no_grad():
            return self._collect_gradient_factors(recorder.calls, found)

    def _collect_gradient_factors(self, calls: list[RecordedCall], found: Any) -> dict[int, GradientFactors]:
        """Returns the factors of each parameter on which the losses depend, by the number of the parameter."""
        numbers = {id(p): i for i, p in enumerate(self._parameters.values())}
        uses: dict[int, list[GradientFactors]] = {}
        for call, g in zip(calls, found, strict=True):
            if g is None:
                continue
            try:
                parts = call.parts(g)
            except Unsupported as why:
                raise refuse_unclippable_call(call.kind, str(why)) from None
            for p, factors in parts:
                uses.setdefault(numbers[id(p)], []).append(factors)
        shapes = [p.shape for p in self._parameters.values()]
        return {i: plan_gradient_factors(uses[i], shapes[i]) for i in sorted(uses)}

    @torch.no_grad()
    def _add_gradient_factors(
        self, factors: dict[int, GradientFactors], records: int, weights: Any, *, last: bool = False
    ) -> None:
        """Clips the gradients of records and adds them to the totals, without records of weight 0."""
        bounds = self._plan.max_norm
        zero = torch.zeros(records, dtype=torch.float64, device=self._totals[0].device)
        if weights is not None:
            zero[torch.from_numpy(weights == 0).to(zero.device)] = math.inf  # so that these records count as 0
        if len(bounds) == 1:
            self._add_with_joint_ghost_norm(factors, bounds[0], zero)
        else:
            for i, each in factors.items():
                self._add_with_joint_ghost_norm({i: each}, bounds[i], zero)

    def _add_with_joint_ghost_norm(self, factors: dict[int, GradientFactors], bound: float, zero: Any) -> None:
        """Clips gradients by their norm over all parameters in ``factors``, and adds them.

        The sums of squares begin at ``zero``. The gradients with respect to the weight of the largest convolution come
        last. By then the squares of all other gradients are summed. These last gradients are formed, clipped, added and
        deleted for a few records at a time.
        """
        largest = max((each.weight.numel() for each in factors.values() if _is_streamed_convolution(each)), default=0)
        last = next(
            (i for i, each in factors.items() if _is_streamed_convolution(each) and each.weight.numel() == largest),
            None,
        )
        others = {i: each for i, each in factors.items() if i != last}
        squares = sum((each.bound_squared_factor_norms() for each in others.values()), zero)
        if last is None:
            weights = self._weigh_gradients_for_ghost_clipping(squares.sqrt(), bound)
        else:
            weights = torch.cat(
                list(self._add_streamed_ghost_clipped(factors[last], squares, bound, self._totals[last]))
            )
        for i, each in others.items():
            each.add_weighted_gradients_of_factors(weights, self._totals[i])
        names = list(self._parameters)
        self._ways |= {names[i]: each.way for i, each in factors.items()}

    def _add_streamed_ghost_clipped(self, convolved: Any, squares: Any, bound: float, total: Any) -> Iterator[Any]:
        """Adds the gradients of a convolution piece by piece, and yields the clip factors of each piece.

        ``squares`` has, for each record, the squared norm of its gradient by all other parameters.
        """
        start = 0
        for rows in convolved.yield_convolution_gradient_pieces():
            found = rows.bound_squared_factor_norms()
            weights = self._weigh_gradients_for_ghost_clipping(
                (squares[start : start + len(found)] + found).sqrt(), bound
            )
            rows.add_weighted_gradients_of_factors(weights, total)
            start += len(found)
            yield weights

    def _weigh_gradients_for_ghost_clipping(self, norms: Any, bound: float) -> Any:
        """Returns the clip factors for these norms. The factor is 0 for a norm that is too large to be clipped."""
        weights = (bound * (1 - CLIPPING_SLACK) / norms).clamp(max=1.0)
        return torch.where(norms <= LONGEST_GRADIENT * bound, weights, torch.zeros_like(weights))

    def convert_to_floats(self) -> list[Any]:
        return [total.to("cpu", torch.float64, copy=True) for total in self._totals]

    def integers(self) -> tuple[Any, list[Any]]:
        """Returns the sums, truncated to whole grid steps, both as one vector and in the shapes of the parameters.

        A sum that is not finite counts as 0. Absolute values above 2^60 steps are set to 2^60 steps
        (``_LARGEST_SUM``).
        """
        flat, parts = make_integer_gradient_sums(self._parameters)
        for part, total in zip(parts, self.convert_to_floats(), strict=True):
            part.copy_(
                (total / self._plan.planned_grid_step).nan_to_num_(0.0, 0.0, 0.0).clamp_(-_LARGEST_SUM, _LARGEST_SUM)
            )
        return flat, parts

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        """Adds noise to the sums, and returns them divided by the divisor of the plan.

        If the model is on a CUDA device, so are the results, with the same bits.
        """
        device, grid = find_device_of_gradient_sums(self._parameters), self._plan.planned_grid_step
        rows = [total.to(device or "cpu")[None] for total in self._totals]
        rows = rows if len({r.dtype for r in rows}) == 1 else [r.double() for r in rows]
        bound = _LARGEST_SUM * grid
        if device is not None:
            noisy = release_floats_on_device(rows, self._plan.noise_deviation, grid=grid, largest=bound, rng=source)
            # PyTorch would multiply by the reciprocal of a divisor in host memory, and so get other bits.
            divisor = torch.full((), self._plan.divisor, dtype=noisy[0].dtype, device=device)
            return [x[0].div_(divisor) for x in noisy]
        found = arrays.view_examples_to_clip("sums", rows)
        outs = [np.empty(shape, found.out_dtype) for shape in found.shapes]
        every = list(range(len(outs)))
        run = clipping.ClippingRun(found, outs, [(every, bound)])
        run.write_noisy_sums(self._plan.noise_deviation, source, grid)
        return [torch.from_numpy(out).div_(self._plan.divisor) for out in outs]


def _is_streamed_convolution(factors: GradientFactors) -> TypeGuard[ConvolutionFactors]:
    """Tells whether these are factors of a convolution whose gradients are formed piece by piece."""
    return isinstance(factors, ConvolutionFactors) and factors.is_streamed
