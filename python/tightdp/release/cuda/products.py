"""Sums of integer outer products for arrays on a device."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..._support.device_probe import require_module
from .arrays import is_contiguous, view
from .libraries import find_cuda_library, get_cuda_stream


def add_integer_outer_product_on_device(weights: Any, inputs: Any, sums: Any) -> None:
    """Adds sum_k weights[k, o] inputs[k, j] modulo 2^64 to sums[o, j], for int32, int16 and int64 arrays on one device.

    The integers are not checked, because that would wait for the device. Those that exceed the limits of
    ``tightdp.models.dense.add_integer_outer_product`` are confined to them. The work is queued on the current stream of
    the library that owns ``weights``.
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
    copies = []  # must live until the kernels are queued
    for i, x in enumerate((weights, inputs)):
        owner.wait_for_stream(found[i].stream)
        if not is_contiguous(found[i]):
            copies.append(owner.make_contiguous(x))
            found[i] = view("a contiguous copy", copies[-1], order, (found[i].dtype,))
    owner.wait_for_stream(total.stream)
    require_module(w.device).add_integer_product(
        *(a.address for a in found), w.shape[0], *total.shape, w.device, owner.stream()
    )
    owner.keep_alive([a.owner for a in found])
