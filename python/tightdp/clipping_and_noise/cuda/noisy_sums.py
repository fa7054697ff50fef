"""Noise for sums that were computed on a device before, such as the sums of a training step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..._support.device_probe import require_module
from ..clipping import convert_deviation_to_grid
from ..noise import RandomSource
from .arrays import is_contiguous, view
from .libraries import find_cuda_library, get_cuda_stream


def release_integers_on_device(
    sums: Any, dtype: str, deviation: float, *, grid: float, divisor: float, rng: RandomSource
) -> Any:
    """Returns (sums + noise) grid / divisor in float32 or float64, without waiting for the device.

    ``sums`` is a contiguous int64 array on a device. Sums and noise are integers in units of ``grid``. Multiplied by
    ``grid``, the noise consists of normals of standard deviation ``deviation``, each rounded to a multiple of
    ``grid``. Entry i gets the i-th draw of one random stream. The result has the same bits as that of
    ``tightdp.models.dense.write_noisy_dense_model_products``. Source: docs/theory/exact-products.md, section 8.
    """
    order = partial(get_cuda_stream, sums)
    totals = view("sums", sums, order, ("int64",))
    if not is_contiguous(totals):
        raise ValueError("sums must be a contiguous array")
    owner = find_cuda_library(sums, totals.device)
    owner.wait_for_stream(totals.stream)
    out = owner.make_empty(totals.shape, dtype)
    if 0 in totals.shape:
        return out
    require_module(totals.device).release_sums(
        sums=totals.address,
        count=math.prod(totals.shape),
        out=view("out", out).address,
        full=dtype == "float64",
        scale=grid / divisor,
        deviation=convert_deviation_to_grid(grid, deviation),
        noise=rng.stream_for_device(),
        device=totals.device,
        stream=owner.stream(),
    )
    owner.keep_cuda_owners_alive([totals.owner])
    return out


def release_floats_on_device(
    sums: Sequence[Any], deviation: float, *, grid: float, largest: float, rng: RandomSource
) -> list[Any]:
    """Returns ``sums``, rounded to multiples of ``grid``, plus rounded normals, without waiting for the device.

    ``sums`` are float arrays of one type on one device. All arrays together are clipped to the norm ``largest``, and
    then rounded towards 0. Entries are numbered consecutively over all arrays, and entry i gets the i-th draw of one
    random stream. The host's clipping kernel returns the same bits for one row that holds all entries.
    """
    order = partial(get_cuda_stream, sums[0])
    rows = [view("sums", x, order) for x in sums]
    device, dtype = rows[0].device, rows[0].dtype
    owner = find_cuda_library(sums[0], device)
    for x in rows:
        if not is_contiguous(x) or (x.device, x.dtype) != (device, dtype):
            raise ValueError("sums must be contiguous arrays of one type on one device")
        owner.wait_for_stream(x.stream)
    kind = "float64" if dtype == "float64" else "float32"
    outs = [owner.make_empty(x.shape, kind) for x in rows]
    sizes = [math.prod(x.shape) for x in rows]
    starts = itertools.accumulate(sizes, initial=0)
    norm = owner.make_empty((1,), "float64")
    require_module(device).clipped_sum(
        [
            (x.address, 0, n, view("out", out).address, first)
            for x, n, out, first in zip(rows, sizes, outs, starts, strict=False)
        ],
        rows=1,
        dtype=dtype,
        out_dtype=kind,
        max_norm=largest,
        deviation=convert_deviation_to_grid(grid, deviation),
        noise=rng.stream_for_device(),
        norms=view("norms", norm).address,
        grid=grid,
        device=device,
        stream=owner.stream(),
    )
    owner.keep_cuda_owners_alive([x.owner for x in rows])
    return outs
