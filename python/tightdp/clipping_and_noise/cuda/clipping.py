"""``clipped_sum`` and ``clip_and_noise`` for arrays on a device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..._core import RandomStream
from ..._support.device_probe import require_module
from .. import clipping
from ..clipping import ClippingSettings
from ..noise import RandomSource
from .arrays import SIZES, DeviceArray, is_contiguous, view
from .libraries import find_cuda_library, get_cuda_stream


def clip_examples_on_device(
    grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None
) -> tuple[Any, Any]:
    """Clips per-example arrays on a device. Returns their sum and the norms of the examples, as arrays on that device.

    Weights, centre and scale in host memory are checked here. Values on the device are not checked here, because the
    host would have to wait for the device. Instead, an example adds nothing if its weight is not in [0, inf), or if its
    weight times max_norm exceeds the range of max_norm. With exact arithmetic, an example adds nothing if its weight is
    not in [0, 2^32]. Without ``rng`` no noise is added, and an exact sum consists of integers.
    """
    exact = clipping.is_clipping_arithmetic_exact(how.arithmetic)
    integers, is_list = exact and rng is None, isinstance(grads, (list, tuple))
    given = list(grads) if is_list else [grads]
    get_stream = partial(get_cuda_stream, given[0])
    arrays = _view_cuda_examples(given, is_list, get_stream)
    how.check_accumulate()
    first, batch = arrays[0], arrays[0].shape[0]
    owner = find_cuda_library(given[0], first.device)
    _make_cuda_rows_contiguous(owner, given, arrays)
    shapes = [a.shape[1:] for a in arrays]
    columns = sum(a.row_size for a in arrays)
    if columns == 0:
        raise ValueError("grads must have at least one column")
    w, middle, inverse = _check_cuda_vectors(owner, how, batch, columns)
    accepted = ("int64",) if integers else ("float32", "float64")
    made = "int64" if integers else "float64" if first.dtype == "float64" else "float32"
    outs = _check_cuda_outputs(how.out, shapes, is_list, first.device, get_stream, accepted)
    outs = outs or [owner.make_empty(s, made) for s in shapes]
    parts = clipping.group_clipping_norms(len(shapes), how.max_norm, how.groups)
    norms = owner.make_empty((len(parts), batch), "float64")
    seen = [view("out", x, get_stream, accepted) for x in outs]
    clipping.check_clipping_norms(parts, None if exact else clipping.get_range_of_max_norm(first.dtype, seen[0].dtype))
    sensitivity = clipping.bound_clipped_sum_sensitivity(parts)
    deviation, grid, stream = _plan_cuda_noise(exact, rng, noise_multiplier, sensitivity, seen[0].dtype)
    kernels = require_module(first.device)
    at, ends = view("norms", norms), np.cumsum([0] + [a.row_size for a in arrays])
    for g, (indices, bound) in enumerate(parts):
        a, b = (x if x is None or len(parts) == 1 else owner.take_columns(x, ends, indices) for x in (middle, inverse))
        kernels.clipped_sum(
            _list_cuda_rows(exact, arrays, seen, indices),
            rows=batch,
            dtype=first.dtype,
            out_dtype=seen[0].dtype,
            max_norm=bound,
            deviation=deviation,
            noise=stream if exact else rng.stream_for_device() if rng is not None and deviation > 0 else None,
            norms=at.address + 8 * g * batch,
            grid=grid,
            device=first.device,
            stream=owner.stream(),
            normalize=bool(how.normalize),
            stability=clipping.check_stability("stability", how.stability),
            weights=0 if w is None else view("weights", w).address,
            center=0 if a is None else view("center", a).address,
            inverse_scale=0 if b is None else view("scale", b).address,
            accumulate=bool(how.accumulate),
        )
    owner.keep_cuda_owners_alive([a.owner for a in (*arrays, *seen)])
    grouped = how.groups is not None or clipping.has_several_clipping_norms(how.max_norm)
    return (outs if is_list else outs[0]), (norms.T if grouped else norms[0])


def _view_cuda_examples(given: list[Any], is_list: bool, get_stream: Callable[[], int]) -> list[DeviceArray]:
    """Checks the per-example arrays and returns their descriptions.

    The arrays must agree in their type, device and batch. ``get_stream`` returns the stream on which they will be read.
    """
    arrays = [view(f"grads[{i}]" if is_list else "grads", x, get_stream) for i, x in enumerate(given)]
    for a in arrays:
        if len(a.shape) < (1 if is_list else 2):
            raise ValueError(f"grads must have a batch axis and at least one other, got shape {a.shape}")
    for field in ("dtype", "device"):
        if len({getattr(a, field) for a in arrays}) > 1:
            raise TypeError(f"grads must be of one {field}, got {[getattr(a, field) for a in arrays]}")
    if len({a.shape[0] for a in arrays}) > 1:
        raise ValueError(f"grads must agree in their first axis, the batch, got {[a.shape[0] for a in arrays]}")
    return arrays


def _make_cuda_rows_contiguous(owner: Any, given: list[Any], arrays: list[DeviceArray]) -> None:
    """Replaces arrays with gaps in their rows by copies, and waits for the work that is queued on the arrays."""
    for i, a in enumerate(arrays):
        if not a.rows_contiguous:
            given[i] = owner.make_cuda_rows_contiguous(given[i])
            arrays[i] = view("grads", given[i])
        owner.wait_for_stream(a.stream)


def _check_cuda_vectors(owner: Any, how: ClippingSettings, batch: int, columns: int) -> tuple[Any, Any, Any]:
    """Returns the weights, the centre and the inverse scale on the device, each None if the call has none.

    If only the centre or only the scale is given, the other one is filled with zeros or ones.
    """
    most = clipping.LARGEST_WEIGHT if clipping.is_clipping_arithmetic_exact(how.arithmetic) else math.inf
    w = owner.check_cuda_doubles("weights", how.weights, (batch,), 0.0, most)
    middle = owner.check_cuda_doubles("center", how.center, (columns,), -math.inf, math.inf)
    width = owner.check_cuda_doubles("scale", how.scale, (columns,), 1e-300, math.inf)
    inverse = None if width is None else 1.0 / width
    if (middle is None) != (inverse is None):
        middle = owner.make_full(columns, 0.0) if middle is None else middle
        inverse = owner.make_full(columns, 1.0) if inverse is None else inverse
    return w, middle, inverse


def _plan_cuda_noise(
    exact: bool, rng: RandomSource | None, noise_multiplier: float, sensitivity: float, dtype: str
) -> tuple[float, float, RandomStream | None]:
    """Returns the deviation of the noise, the grid of the sums and the random stream of the noise.

    Without exact arithmetic the grid is 0, and each group of arrays (``group_clipping_norms``) draws its own
    stream. With exact arithmetic the deviation is in units of the grid. The groups then share one stream, indexed by
    column, so the noise equals that of the host for any grouping.
    """
    integers = exact and rng is None
    deviation = 0.0 if integers else clipping.compute_clip_and_noise_deviation(noise_multiplier, sensitivity, dtype)
    if not exact:
        return deviation, 0.0, None
    grid = clipping.find_clip_and_noise_grid(sensitivity, noise_multiplier)
    if rng is None or not deviation > 0:
        return deviation, grid, None
    return clipping.convert_deviation_to_grid(grid, deviation), grid, rng.stream_for_device()


def _list_cuda_rows(
    exact: bool, arrays: list[DeviceArray], sums: list[DeviceArray], indices: list[int]
) -> list[tuple[int, int, int, int, int]]:
    """Describes the arrays of a group for the kernel: where the rows, their sum and their noise begin.

    The noise of an array begins at the index of its first column in the random stream. With exact arithmetic, columns
    are counted over all arrays, and otherwise over the arrays of the group.
    """
    counted = range(len(arrays)) if exact else indices
    starts = dict(zip(counted, itertools.accumulate((arrays[i].row_size for i in counted), initial=0), strict=False))
    return [(arrays[i].address, arrays[i].strides[0], arrays[i].row_size, sums[i].address, starts[i]) for i in indices]


def _check_cuda_outputs(
    out: Any,
    shapes: list[tuple[int, ...]],
    is_list: bool,
    device: int,
    get_stream: Callable[[], int],
    accepted: tuple[str, ...] = ("float32", "float64"),
) -> list[Any] | None:
    """Checks the arrays ``out`` that the sums are written to, and returns them as a list.

    Returns None if ``out`` is None. The caller must then make new arrays.
    """
    if out is None:
        return None
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if isinstance(out, (list, tuple)) != is_list or len(given) != len(shapes):
        raise ValueError(f"out must have the form of grads: {len(shapes)} array(s)")
    found = [view("out", x, get_stream, (*SIZES, "int64")) for x in given]
    for a, shape in zip(found, shapes, strict=True):
        if a.shape != shape or a.dtype not in accepted or not is_contiguous(a) or a.device != device:
            wanted = f"a contiguous {' or '.join(accepted)} array of shape {shape} on the same device"
            raise ValueError(f"out must be {wanted}, got shape {a.shape} of {a.dtype}")
        if not a.writable:
            raise ValueError("out must be an array that may be written: this one is read-only, or does not say")
    if len({a.dtype for a in found}) > 1:
        raise ValueError("out must be of one dtype")
    return given
