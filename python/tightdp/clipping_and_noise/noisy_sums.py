"""Noise for sums that were computed before, such as the sums of several micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support import _check
from . import arrays, clipping
from .noise import RandomSource, resolve_random_source


def add_noise(total: Any, deviation: float, *, grid: float | None = None, rng: RandomSource | None = None) -> Any:
    """Adds N(0, deviation^2) to every entry, in place, and returns ``total``. Call this function after the last
    micro-batch.

    total : a contiguous array, or a list of such arrays. An int64 array holds multiples of ``grid``, as
        ``clipped_sum(..., out=, arithmetic="exact")`` computes them. Other arrays are of float32 or float64.
    deviation : standard deviation of the noise, in the units of the sum. ``deviation / grid`` must be at most 2^39.
    grid : for int64 arrays, ``exact_grid(max_norm)``, a power of two
    rng : SecureRandom (the default) or Philox

    The noise on integers is a real-valued normal of at least this deviation, rounded to the grid. This rounded
    normal is sampled exactly. ``total * grid`` is then a release of ``Gaussian(deviation / max_norm)``
    (docs/theory/clipping.md, section 7). Noise on floats is idealised: the charge covers neither the roundings of sums
    nor the low bits of noisy floats.

    Raises TypeError for arrays of other types, and ValueError for a number out of its range.

    >>> import numpy as np
    >>> total = np.zeros(3, np.int64)
    >>> dp.add_noise(total, 2.0, grid=dp.exact_grid(1.0), rng=dp.Philox(1)) is total
    True
    """
    sigma = _check.nonnegative("deviation", deviation)
    rng = resolve_random_source(rng)
    parts = list(total) if isinstance(total, (list, tuple)) else [total]
    dtypes = {clipping.get_dtype_of_sums(x) if hasattr(x, "dtype") else "?" for x in parts}
    if dtypes not in ({"float32"}, {"float64"}, {"int64"}):
        raise TypeError(f"total must hold int64, float32 or float64 arrays, of one dtype, got {sorted(dtypes)}")
    dtype, exact = dtypes.pop(), grid is not None
    if exact != (dtype == "int64"):
        raise ValueError(f"grid must be given for int64 totals, and for no others, got {grid!r} for {dtype}")
    step = clipping.check_release_grid(grid) if exact else 1.0
    most = clipping.find_largest_release_deviation(dtype, step)
    if not sigma <= most:
        raise ValueError(f"deviation must be in [0, {most:g}] for {dtype}, got {sigma!r}")
    rows = [np.empty((0, *x.shape), np.float64 if exact else dtype) for x in parts]
    found = arrays.view_examples_to_clip("total", rows)
    outs = arrays.prepare_arrays_of_sums(found, parts, "total", integers=exact)
    run = clipping.ClippingRun(found, outs, [(list(range(len(parts))), 1.0)], accumulate=True)
    run.write_noisy_sums(sigma, rng, step if exact else 0.0)
    return total
