"""Sums of outer products in integers, for arrays on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..._support.device_probe import require_module
from .arrays import DeviceArray, is_contiguous, view
from .libraries import find_cuda_library, get_cuda_stream


def add_integer_outer_product_on_device(weights: Any, inputs: Any, sums: Any) -> None:
    """Adds sum_k weights[k, o] inputs[k, j] modulo 2^64 to sums[o, j], for int32, int16 and int64 arrays on one device.

    The integers are not checked, because a check would wait for the device. Integers beyond a limit that
    ``tightdp.models.dense.add_integer_dense_product`` states are replaced by this limit. The work is queued on the
    current stream of the library that owns ``weights``.
    """
    order = partial(get_cuda_stream, weights)
    found = [
        view(label, x, order, (dtype,))
        for label, x, dtype in (("weights", weights, "int32"), ("inputs", inputs, "int16"), ("sums", sums, "int64"))
    ]
    w, q, total = found
    if len({a.device for a in found}) > 1:
        raise TypeError(f"weights, inputs and sums must be on one device, got {[a.device for a in found]}")
    if len(w.shape) != 2 or len(q.shape) != 2 or w.shape[0] != q.shape[0]:
        raise ValueError(f"weights and inputs must be matrices with as many rows, got {w.shape} and {q.shape}")
    if total.shape != (w.shape[1], q.shape[1]) or not is_contiguous(total) or not total.writable:
        wanted = f"a contiguous array of shape {(w.shape[1], q.shape[1])} that may be written"
        raise ValueError(f"sums must be {wanted}, got shape {total.shape}")
    owner = find_cuda_library(weights, w.device)
    operands = [_make_cuda_operand_contiguous(owner, x, order, found[i]) for i, x in enumerate((weights, inputs))]
    owner.wait_for_stream(total.stream)
    require_module(w.device).add_integer_product(
        *(view("weights", x, order, ("int32", "int16")).address for x in operands), total.address, w.shape[0],
        *total.shape, w.device, owner.stream(),
    )  # fmt: skip
    owner.keep_cuda_owners_alive([a.owner for a in found])


def add_outer_products_on_device(
    layers: Sequence[tuple[Any, Any]],
    totals: Sequence[Any],
    bound: float,
    inverse_grid: float,
    *,
    taken: Any,
    bounds: Any,
) -> None:
    """Adds the clipped gradients of records to ``totals``, as ``tightdp.models.dense.add_dense_model_products`` does.

    Inputs and errors are float32 or float64 arrays on one device, all of one type, and totals are int64 arrays there.
    ``bounds`` may hold a norm bound for each record. ``bound`` and ``bounds`` are in units of the grid. ``taken``
    tells which records are added. ``taken`` and ``bounds`` may be None, and may be in host memory. The work is queued
    on the current stream of the library that owns the totals.
    """
    order = partial(get_cuda_stream, totals[0])
    sums = [view("totals", total, order, ("int64",)) for total in totals]
    device, rows = sums[0].device, layers[0][0].shape[0]
    owner = find_cuda_library(totals[0], device)
    found, kept = [], []
    if len(layers) != len(totals):
        raise ValueError(f"totals must be as many as layers, {len(layers)}, got {len(totals)}")
    for (inputs, errors), total in zip(layers, sums, strict=True):
        pair = []
        for label, x in (("inputs", inputs), ("errors", errors)):
            seen = view(label, x, order, ("float32", "float64"))
            if len(seen.shape) != 2 or seen.shape[0] != rows or seen.device != device:
                raise ValueError(f"{label} must be matrices of {rows} rows on device {device}, got shape {seen.shape}")
            kept.append(_make_cuda_operand_contiguous(owner, x, order, seen))
            pair.append(view(label, kept[-1], order))
        columns, outputs = pair[0].shape[1], pair[1].shape[1]
        if total.shape != (outputs, columns) or not is_contiguous(total) or not total.writable:
            wanted = f"contiguous arrays of shape {(outputs, columns)} that may be written"
            raise ValueError(f"totals must be {wanted}, got shape {total.shape}")
        owner.wait_for_stream(total.stream)
        found.append((pair[0].address, pair[1].address, columns, outputs, total.address, pair[0].dtype, pair[1].dtype))
    kinds = {dtype for layer in found for dtype in layer[5:]}
    if len(kinds) > 1:
        raise TypeError(f"inputs and errors must be of one dtype, got {sorted(kinds)}")
    flags = None if taken is None else owner.as_flags(taken)
    own = owner.check_cuda_doubles("max_norms", bounds, (rows,), 0.0, bound)
    require_module(device).add_products(
        [layer[:5] for layer in found],
        rows,
        kinds == {"float64"},
        bound,
        inverse_grid,
        0 if flags is None else view("taken", flags, order, ("uint8",)).address,
        0 if own is None else view("max_norms", own, order).address,
        device,
        owner.stream(),
    )
    owner.keep_cuda_owners_alive([a.owner for a in sums])


def _make_cuda_operand_contiguous(owner: Any, x: Any, order: Callable[[], int], seen: DeviceArray) -> Any:
    """Waits for the queued work on ``x``, and returns ``x`` or a contiguous copy of it."""
    owner.wait_for_stream(seen.stream)
    return x if is_contiguous(seen) else owner.make_cuda_rows_contiguous(x)
