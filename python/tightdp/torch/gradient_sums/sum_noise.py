"""The functions that add noise to the sums of PyTorch runs. No other code adds noise to these sums."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from ...clipping_and_noise.clipping import convert_deviation_to_grid
from ...clipping_and_noise.cuda import noisy_sums
from ...clipping_and_noise.kernels import add_rounded_normals
from ...clipping_and_noise.noise import RandomSource
from ...clipping_and_noise.noisy_sums import add_noise
from ...models import dense
from ..plan.plan import Plan


def add_noise_to_gradient_sums(totals: list[Any], deviation: float, grid: float, source: RandomSource) -> None:
    """Adds the noise of a step to its integer sums, in place. The sums are in units of ``grid``."""
    add_noise(totals, deviation, grid=grid, rng=source)


def add_rank_noise_to_gradient_sums(stream: Any, deviation: float, flat: Any, start: int, end: int) -> None:
    """Adds one process's share of the noise of a step.

    The share is the noise of the entries from ``start`` to ``end``. The other processes add no noise to these entries.
    """
    add_rounded_normals(stream, deviation, flat[start:end].numpy(), start)


def release_gradient_sums_on_cuda(flat: Any, dtype: str, plan: Plan, source: RandomSource) -> Any:
    """Adds the noise of a step to its integer sums ``flat`` on their CUDA device. Returns the noisy sums times grid /
    divisor. Entries get the same noise as in ``add_noise_to_gradient_sums``."""
    return noisy_sums.release_integers_on_device(
        flat, dtype, plan.noise_deviation, grid=plan.planned_grid_step, divisor=plan.divisor, rng=source
    )


def release_gradient_sums_with_last_records(
    last: Any, totals: list[Any], parameters: list[Any], plan: Plan, source: RandomSource, dtype: Any
) -> list[Any]:
    """Adds the last records of a step and its noise, and returns estimates of the mean gradient, all in one pass.

    ``last`` holds the indices ``numbers`` of some parameters, a layer for each of them, and the mask ``taken`` of the
    records to add. A layer is a pair of arrays with a row for each record. The outer product of a record's two rows is
    its gradient by the parameter. ``totals`` holds the sums over the other records of the step, and is zero afterwards.
    ``totals`` is an empty list if the step has no other records. Entries are numbered consecutively over all
    parameters, and get the same noise as in ``add_noise_to_gradient_sums``.
    """
    deviation = convert_deviation_to_grid(plan.planned_grid_step, plan.noise_deviation)
    stream = source.stream()
    outs = [torch.empty(p.shape, dtype=dtype) for p in parameters]
    starts = list(itertools.accumulate((out.numel() for out in outs), initial=0))
    dense.write_noisy_dense_model_products(
        last.layers, plan.max_norm[0], [totals[i].numpy() for i in last.numbers] if totals else [],
        [outs[i].numpy() for i in last.numbers], grid=plan.planned_grid_step, deviation=deviation, stream=stream,
        first=[starts[i] for i in last.numbers], divisor=plan.divisor, taken=last.taken,
    )  # fmt: skip
    for i in set(range(len(outs))) - set(last.numbers):  # parameters that these records do not use
        total = totals[i].view(-1) if totals else torch.zeros(outs[i].numel(), dtype=torch.int64)
        add_rounded_normals(stream, deviation, total.numpy(), starts[i])
        outs[i].view(-1).copy_(total.double().mul_(plan.planned_grid_step / plan.divisor))
        total.zero_()
    return outs
