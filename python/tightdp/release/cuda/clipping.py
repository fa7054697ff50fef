"""``clipped_sum`` and ``clip_and_noise`` for arrays on a device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..._support.device_probe import require_module
from .. import clipping
from ..clipping import ClippingSettings
from ..noise import RandomSource
from .arrays import SIZES, DeviceArray, view
from .libraries import find_cuda_library, get_cuda_stream


def clip_examples_on_device(
    grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None
) -> tuple[Any, Any]:
    """Returns the sum and the norms of arrays on a device, as arrays on that device.

    Weights, centre and scale in host memory are checked here. Values on the device are not checked here, because that
    would wait for the device. Instead, an example adds nothing if its weight is not in [0, inf), or if its weight times
    max_norm exceeds the range of max_norm. With exact arithmetic, an example adds nothing if its weight is not in
    [0, 2^32]. Without ``rng`` no noise is added, and an exact sum is of integers.
    """
    exact = clipping.is_arithmetic_exact(how.arithmetic)
    integers = exact and rng is None
    is_list = isinstance(grads, (list, tuple))
    given = list(grads) if is_list else [grads]
    order = partial(get_cuda_stream, given[0])
    arrays = [view(f"grads[{i}]" if is_list else "grads", x, order) for i, x in enumerate(given)]
    for a in arrays:
        if len(a.shape) < (1 if is_list else 2):
            raise ValueError(f"grads must have a batch axis and at least one other, got shape {a.shape}")
    for field in ("dtype", "device"):
        if len({getattr(a, field) for a in arrays}) > 1:
            raise TypeError(f"grads must be of one {field}, got {[getattr(a, field) for a in arrays]}")
    if len({a.shape[0] for a in arrays}) > 1:
        raise ValueError(f"grads must agree in their first axis, the batch, got {[a.shape[0] for a in arrays]}")
    how.check_accumulate()

    first, batch = arrays[0], arrays[0].shape[0]
    owner = find_cuda_library(given[0], first.device)
    for i, a in enumerate(arrays):
        if not a.rows_contiguous:
            given[i] = owner.make_contiguous(given[i])
            arrays[i] = view("grads", given[i])
        owner.wait_for_stream(a.stream)
    shapes = [a.shape[1:] for a in arrays]
    columns = sum(a.row_size for a in arrays)
    if columns == 0:
        raise ValueError("grads must have at least one column")
    w = owner.check_doubles("weights", how.weights, (batch,), 0.0, clipping.LARGEST_WEIGHT if exact else math.inf)
    middle = owner.check_doubles("center", how.center, (columns,), -math.inf, math.inf)
    width = owner.check_doubles("scale", how.scale, (columns,), 1e-300, math.inf)
    inverse = None if width is None else 1.0 / width
    if (middle is None) != (inverse is None):
        middle = owner.make_full(columns, 0.0) if middle is None else middle
        inverse = owner.make_full(columns, 1.0) if inverse is None else inverse
    out_dtype = "float64" if first.dtype == "float64" else "float32"
    accepted = ("int64",) if integers else ("float32", "float64")
    made = "int64" if integers else out_dtype
    outs = _check_cuda_outputs(how.out, shapes, is_list, first.device, order, accepted) or [
        owner.make_empty(s, made) for s in shapes
    ]
    parts = clipping.group_clipping_norms(len(shapes), how.max_norm, how.groups)
    norms = owner.make_empty((len(parts), batch), "float64")
    seen = [view("out", x, order, accepted) for x in outs]
    clipping.check_clipping_norms(parts, None if exact else clipping.get_range_of_max_norm(first.dtype, seen[0].dtype))
    sensitivity = clipping.bound_clipped_sum_sensitivity(parts)
    deviation = 0.0 if integers else clipping.compute_release_deviation(noise_multiplier, sensitivity, seen[0].dtype)
    grid, stream = 0.0, None
    if exact:
        # The groups share one stream, indexed by column, so the noise equals that of the host for any grouping.
        grid = clipping.find_grid_of_sums(sensitivity, noise_multiplier)
        if rng is not None and deviation > 0:
            deviation, stream = clipping.convert_deviation_to_grid(grid, deviation), rng.stream_for_device()
    kernels = require_module(first.device)
    at, ends = view("norms", norms), np.cumsum([0] + [a.row_size for a in arrays])
    for g, (indices, bound) in enumerate(parts):
        a = middle if middle is None or len(parts) == 1 else owner.take_columns(middle, ends, indices)
        b = inverse if inverse is None or len(parts) == 1 else owner.take_columns(inverse, ends, indices)
        kernels.clipped_sum(
            [
                (arrays[i].address, arrays[i].strides[0], arrays[i].row_size, seen[i].address, start)
                for i, start in zip(indices, _list_cuda_noise_starts(exact, arrays, indices), strict=True)
            ],
            batch,
            first.dtype,
            seen[0].dtype,
            bound,
            bool(how.normalize),
            clipping.check_stability("stability", how.stability),
            0 if w is None else view("weights", w).address,
            0 if a is None else view("center", a).address,
            0 if b is None else view("scale", b).address,
            deviation,
            stream if exact else rng.stream_for_device() if rng is not None and deviation > 0 else None,
            bool(how.accumulate),
            at.address + 8 * g * batch,
            grid,
            first.device,
            owner.stream(),
        )
    owner.keep_alive([a.owner for a in (*arrays, *seen)])
    grouped = how.groups is not None or clipping.has_several_clipping_norms(how.max_norm)
    return (outs if is_list else outs[0]), (norms.T if grouped else norms[0])


def _list_cuda_noise_starts(exact: bool, arrays: list[DeviceArray], indices: list[int]) -> list[int]:
    """Returns the index in the stream at which the noise of each array of a group starts.

    With exact arithmetic, columns are counted over all arrays, and otherwise over the arrays of the group."""
    counted = range(len(arrays)) if exact else indices
    starts = dict(zip(counted, itertools.accumulate((arrays[i].row_size for i in counted), initial=0), strict=False))
    return [starts[i] for i in indices]


def _check_cuda_outputs(
    out: Any,
    shapes: list[tuple[int, ...]],
    is_list: bool,
    device: int,
    order: Callable[[], int],
    accepted: tuple[str, ...] = ("float32", "float64"),
) -> list[Any] | None:
    """Checks the arrays that the sums are written to. Returns None if ``out`` is None, and new ones must be made."""
    if out is None:
        return None
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if isinstance(out, (list, tuple)) != is_list or len(given) != len(shapes):
        raise ValueError(f"out must be as grads are: {len(shapes)} array(s)")
    found = [view("out", x, order, (*SIZES, "int64")) for x in given]
    for a, shape in zip(found, shapes, strict=True):
        whole = DeviceArray(a.address, (1, *a.shape), a.dtype, (0, *a.strides), a.device)
        if a.shape != shape or a.dtype not in accepted or not whole.rows_contiguous or a.device != device:
            wanted = f"a contiguous {' or '.join(accepted)} array of shape {shape} on the same device"
            raise ValueError(f"out must be {wanted}, got shape {a.shape} of {a.dtype}")
        if not a.writable:
            raise ValueError("out must be an array that may be written: this one is read-only, or does not say")
    if len({a.dtype for a in found}) > 1:
        raise ValueError("out must be of one dtype")
    return given
