"""Clip every example's gradient, add them up, add noise.

Conventions: sums, not means; the noise multiplier is sigma over the L2 norm that one example can contribute; add or
remove one example. Proofs, orders of summation and rounding errors: docs/theory/clipping.md.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _check, _core, cuda
from .noise import RandomSource, source

Norms = npt.NDArray[np.float64]

# The core multiplies in the rows' own precision: a bound outside would under- or overflow there.
_RANGES = {"float64": (1e-100, 1e100)}
_SINGLE_RANGE = (1e-25, 1e25)
_NAMES = {np.dtype(name): name for name in ("float32", "float64")}
"""NumPy takes microseconds to spell a dtype."""
_LARGEST_DEVIATION = {"float64": 1e307, "float32": 1e37}
"""Of the noise: ten of it are finite."""


def clipped_sum(
    grads: Any,
    max_norm: float | Sequence[float],
    *,
    weights: npt.ArrayLike | None = None,
    center: Any = None,
    scale: Any = None,
    groups: Sequence[Sequence[int]] | None = None,
    normalize: bool = False,
    stability: float = 0.01,
    out: Any = None,
    accumulate: bool = False,
) -> tuple[Any, Norms]:
    """The sum of clipped examples, and every example's norm before clipping.

    Example k has L2 norm n_k over all its arrays and adds ``weights[k] * min(1, max_norm / n_k) * g_k``, so one example
    moves the sum by at most ``weights[k] * max_norm`` in L2 norm. Neither result is private: add noise to the sum (or
    call ``clip_and_noise``), and keep the norms to yourself.

    =================================================  =========================================
    example                                            adds
    =================================================  =========================================
    norm 0, or weight 0                                zeros
    an infinity or NaN in it                           zeros, and its norm is returned as inf
    norm over the largest double                       zeros, and its norm is returned as inf
    weights[k] max_norm / n_k under 2^-126, or for     zeros
    float64 under 2^-1022, or weights[k] max_norm
    under 2^-90 (float64: 2^-900)
    empty batch                                        nothing: the sum is zero
    =================================================  =========================================

    Parameters
    ----------
    grads : array of shape (batch, *shape), or a list of them, one a parameter
        NumPy arrays or anything with DLPack in host memory (torch, JAX), of float16, bfloat16, float32 or float64. Read
        once where a few examples fit the second-level cache, and copied only where an example is not one run in memory.
    max_norm : float, or one a group
        For float64 in [1e-100, 1e100], for the others in [1e-25, 1e25]; at most 1e25 also for an ``out`` of float32.
    weights : (batch,), optional
        Finite and >= 0.
    center, scale : one number a column, optional
        Examples become (g - center) / scale before all else (AdaCliP, Pichapati et al. 2019), and the sum is of those.
        Both must come from public knowledge or past releases. ``scale`` > 0.
    groups : lists of indices into ``grads``, optional
        Each group is clipped to a bound of its own: ``max_norm`` has one entry a group. With a sequence for
        ``max_norm`` and no ``groups``, every array is a group (per-layer clipping). An example then moves the sum by at
        most the root of the sum of squared bounds; norms have shape (batch, groups).
    normalize : bool
        Multiply by ``max_norm / (n_k + stability)`` instead, whatever the norm (Bu et al. 2023, automatic clipping).
    out : array or list as ``grads`` without the batch axis, float32 or float64, optional
        Where to put the sum. With ``accumulate`` the sum is added to what it holds: micro-batches.

    Returns
    -------
    sum : float64 for float64 input, else float32; a list for a list; torch tensors for torch tensors
    norms : float64 array of shape (batch,)

    The result does not depend on the number of threads or the processor's instruction set. Each clipped row, rounded to
    its dtype, has norm at most ``max_norm``; the sum is that of real numbers up to rounding.

    >>> import numpy as np
    >>> total, norms = clipped_sum(np.array([[3.0, 4.0], [0.3, 0.4]]), max_norm=1.0)
    >>> total.round(6), norms
    (array([0.9, 1.2]), array([5. , 0.5]))
    """
    if cuda.on_device(grads):
        return cuda.clip(
            grads,
            max_norm,
            noise_multiplier=0.0,
            rng=None,
            weights=weights,
            center=center,
            scale=scale,
            groups=groups,
            normalize=normalize,
            stability=stability,
            out=out,
            accumulate=accumulate,
        )
    run = _prepare(grads, max_norm, weights, center, scale, groups, normalize, stability, out, accumulate)
    norms = run.execute(0.0, None)
    return _arrays.delivered(run.found, run.outs), norms


def clip_and_noise(
    grads: Any,
    max_norm: float | Sequence[float],
    noise_multiplier: float,
    *,
    weights: npt.ArrayLike | None = None,
    center: Any = None,
    scale: Any = None,
    groups: Sequence[Sequence[int]] | None = None,
    normalize: bool = False,
    stability: float = 0.01,
    rng: RandomSource | None = None,
    out: Any = None,
) -> Any:
    """``clipped_sum`` plus normal noise of standard deviation ``noise_multiplier * max_norm`` on every coordinate.

    With groups the deviation is ``noise_multiplier`` times the root of the sum of squared bounds. Weights do not change
    the noise: with a weight over 1 the sensitivity is that much larger, and yours to account for. With ``center`` and
    ``scale`` the released sum s is of transformed examples; AdaCliP's gradient is center + scale * s / B.

    The release is one of ``Gaussian(noise_multiplier)`` under add/remove of one example whose weight is at most 1
    (``PoissonSampled`` if the batch was), idealising floating point: see ``RandomSource.normal`` and ``exact_release``.

    Parameters are those of ``clipped_sum``, and

    noise_multiplier : float in [0, inf)
    rng : SecureRandom (the default) or Philox
        The noise is the same whatever the number of threads, and for a list as for the flat array.

    >>> import numpy as np
    >>> clip_and_noise(np.ones((8, 3), np.float32), 1.0, 0.5, rng=__import__("tightdp").Philox(1)).dtype
    dtype('float32')
    """
    multiplier = _check.nonnegative("noise_multiplier", noise_multiplier)
    rng = source(rng)
    if cuda.on_device(grads):
        return cuda.clip(
            grads,
            max_norm,
            noise_multiplier=multiplier,
            rng=rng,
            weights=weights,
            center=center,
            scale=scale,
            groups=groups,
            normalize=normalize,
            stability=stability,
            out=out,
            accumulate=False,
        )[0]
    run = _prepare(grads, max_norm, weights, center, scale, groups, normalize, stability, out, False)
    run.execute(noise_deviation(multiplier, run.sensitivity, _dtype(run.outs[0])), rng)
    return _arrays.delivered(run.found, run.outs)


def add_noise(total: Any, deviation: float, *, rng: RandomSource | None = None) -> Any:
    """Adds N(0, deviation^2) to every entry, in place, and returns ``total``: the end of a run of micro-batches.

    total : a contiguous float32 or float64 array, or a list of them, such as ``clipped_sum(..., out=)`` filled.
    """
    sigma = _check.nonnegative("deviation", deviation)
    rng = source(rng)
    parts = list(total) if isinstance(total, (list, tuple)) else [total]
    dtypes = [_dtype(x) if hasattr(x, "dtype") else "?" for x in parts]
    if not parts or set(dtypes) not in ({"float32"}, {"float64"}):
        raise TypeError(f"total must hold float32 or float64 arrays, got {dtypes}")
    most = _LARGEST_DEVIATION[dtypes[0]]
    if not sigma <= most:
        raise ValueError(f"deviation must be in [0, {most:g}] for {dtypes[0]}, got {sigma!r}")
    rows = [np.empty((0, *x.shape), dtypes[0]) for x in parts]
    found = _arrays.examples("total", rows)
    outs = _arrays.outputs(found, parts, "total")
    stream = rng.stream() if sigma > 0 else None
    _core.clipped_sum(rows, outs, 1.0, False, 0.01, None, None, None, sigma, stream, True, None)
    return total


@dataclass(slots=True)
class _Run:
    """A checked call: groups of arrays with their bounds, and where the sums go."""

    found: _arrays.Examples
    outs: list[Any]
    groups: list[tuple[list[int], float]]
    grouped: bool
    weights: npt.NDArray[np.float64] | None
    center: npt.NDArray[np.float64] | None
    inverse_scale: npt.NDArray[np.float64] | None
    normalize: bool
    stability: float
    accumulate: bool

    @property
    def sensitivity(self) -> float:
        return self.groups[0][1] if len(self.groups) == 1 else math.hypot(*(bound for _, bound in self.groups))

    def execute(self, deviation: float, rng: RandomSource | None) -> Norms:
        norms = np.empty((len(self.groups), self.found.batch))
        for (indices, bound), row in zip(self.groups, norms, strict=True):
            columns = self._columns(indices)
            _core.clipped_sum(
                [self.found.arrays[i] for i in indices],
                [self.outs[i] for i in indices],
                bound,
                self.normalize,
                self.stability,
                self.weights,
                None if self.center is None else self.center[columns],
                None if self.inverse_scale is None else self.inverse_scale[columns],
                deviation,
                rng.stream() if rng is not None and deviation > 0 else None,
                self.accumulate,
                row,
            )
        return norms.T if self.grouped else norms[0]

    def _columns(self, indices: list[int]) -> Any:
        if len(indices) == len(self.found.shapes):
            return slice(None)
        ends = np.cumsum([0] + [int(np.prod(s, dtype=np.int64)) for s in self.found.shapes])
        return np.concatenate([np.arange(ends[i], ends[i + 1]) for i in indices])


def _prepare(
    grads: Any,
    max_norm: float | Sequence[float],
    weights: npt.ArrayLike | None,
    center: Any,
    scale: Any,
    groups: Sequence[Sequence[int]] | None,
    normalize: bool,
    stability: float,
    out: Any,
    accumulate: bool,
) -> _Run:
    found = _arrays.examples("grads", grads)
    w = _arrays.weights_vector(weights, found.batch)
    largest = 1.0 if w is None or w.size == 0 else max(1.0, float(w.max()))
    outs = _arrays.outputs(found, out)
    low, high = bound_range(found.dtype, _dtype(outs[0]))
    parts = group_bounds(len(found.shapes), max_norm, groups)
    for _, bound in parts:
        if not low <= bound or not bound * largest <= high:
            raise ValueError(f"max_norm, times the largest weight, must be in [{low:g}, {high:g}], got {bound!r}")
    a = None if center is None else _arrays.columns_vector("center", center, found)
    inverse: npt.NDArray[np.float64] | None = None
    if scale is not None:
        b = _arrays.columns_vector("scale", scale, found)
        if not (b >= 1e-300).all():
            raise ValueError("scale must be in [1e-300, inf)")
        inverse = 1.0 / b
    if (a is None) != (inverse is None):
        a = np.zeros(found.columns) if a is None else a
        inverse = np.ones(found.columns) if inverse is None else inverse
    if accumulate and out is None:
        raise ValueError("accumulate adds to out, so out must be given")
    return _Run(
        found=found,
        outs=outs,
        groups=parts,
        grouped=groups is not None or several(max_norm),
        weights=w,
        center=a,
        inverse_scale=inverse,
        normalize=bool(normalize),
        stability=_check.positive("stability", stability),
        accumulate=bool(accumulate),
    )


def _dtype(array: Any) -> str:
    return _NAMES.get(array.dtype) or str(array.dtype).removeprefix("torch.")


def bound_range(dtype: str, out_dtype: str) -> tuple[float, float]:
    """The range of ``max_norm`` for rows of ``dtype`` whose sum is of ``out_dtype``."""
    low, high = _RANGES.get(dtype, _SINGLE_RANGE)
    return low, high if out_dtype == "float64" else _SINGLE_RANGE[1]


def noise_deviation(multiplier: float, sensitivity: float, out_dtype: str) -> float:
    """The standard deviation of the noise, or ValueError where a sum of ``out_dtype`` cannot hold it."""
    deviation, most = multiplier * sensitivity, _LARGEST_DEVIATION[out_dtype]
    if not deviation <= most:
        raise ValueError(f"noise_multiplier, times max_norm, must be at most {most:g}, got {deviation!r}")
    return deviation


def several(max_norm: Any) -> bool:
    """Whether ``max_norm`` is a sequence of bounds, one a group."""
    return max_norm.ndim > 0 if isinstance(max_norm, np.ndarray) else isinstance(max_norm, Sequence)


def group_bounds(
    arrays: int, max_norm: float | Sequence[float], groups: Sequence[Sequence[int]] | None
) -> list[tuple[list[int], float]]:
    """(indices, bound) of each group of ``arrays`` arrays."""
    every = list(range(arrays))
    if groups is None and not several(max_norm):
        return [(every, _check.positive("max_norm", max_norm))]
    if groups is None:
        groups = [[i] for i in every]
    try:
        indices = [[operator.index(i) for i in group] for group in groups]
    except TypeError:
        raise TypeError(f"groups must be lists of indices in [0, {len(every)}), got {groups!r}") from None
    if sorted(i for group in indices for i in group) != every or not all(indices):
        raise ValueError(f"groups must hold each index in [0, {len(every)}) once, got {groups!r}")
    bounds: list[Any] = list(max_norm) if several(max_norm) else [max_norm]  # type: ignore[arg-type]
    if len(bounds) != len(indices):
        raise ValueError(f"max_norm must have one entry a group, {len(indices)}, got {len(bounds)}")
    return list(zip(indices, [_check.positive("max_norm", c) for c in bounds], strict=True))
