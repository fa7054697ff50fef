"""Checks the arguments of ``clipped_sum`` and ``clip_and_noise``, and computes both functions in host memory."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .._support import _check
from . import arrays, kernels
from .noise import RandomSource

Norms = npt.NDArray[np.float64]
Arithmetic = Literal["exact", "float"]

# Ranges of max_norm, by the type of the rows. A weight times a norm bound counts as 0 if it is below 2^-90, or below
# 2^-900 for float64 (docs/theory/clipping.md, section 2). Even with the smallest norm bounds, a weight of a hundredth
# does not count as 0. With the largest norm bounds, a float32 sum of 10^13 clipped rows and the square of a float64
# norm are finite.
_RANGES = {"float64": (1e-100, 1e100)}
_SINGLE_RANGE = (1e-25, 1e25)
exact_bound = _check.build_argument_check("[1e-30, 1e30]")
"""Check of the range of norm bounds with exact arithmetic. The grids and the noise that belong to such bounds are far
from overflow and underflow."""
check_stability = _check.build_argument_check("[1e-100, inf)")
"""Check of the range of ``stability``. The smallest ``stability`` is far larger than the error of a norm whose squares
underflow (docs/theory/clipping.md, section 2)."""
LARGEST_WEIGHT = 2.0**32
"""Largest weight of an example with exact arithmetic. With such a weight, the example's integers stay below 2^62."""
_NAMES = {np.dtype(name): name for name in ("float32", "float64")}
"""Names of dtypes. Looking up a name here is faster than asking NumPy, which takes microseconds."""
_LARGEST_DEVIATION = {"float64": 1e307, "float32": 1e37}
"""Largest standard deviation of the noise. Noise of ten times this deviation is still finite."""
_FINE = 23
"""Binary logarithm, rounded down, of the norm bound divided by the step of the grid of sums. The bound then has 24
binary digits in units of the grid, as many as a float32 has."""
_LARGEST_SIGMA = 39
"""log2 of the largest noise deviation that the exact sampler accepts, in grid steps."""
_FAST_SIGMA = 30
"""log2 of the largest noise deviation, in grid steps, for which the exact sampler draws at full speed. With larger
deviations, more and more random numbers are drawn one by one."""


@dataclass(slots=True)
class ClippingSettings:
    """The settings of ``clipped_sum``: how examples are clipped and where their sum is written."""

    max_norm: float | Sequence[float]
    weights: Any = None
    center: Any = None
    scale: Any = None
    groups: Sequence[Sequence[int]] | None = None
    normalize: bool = False
    stability: float = 0.01
    out: Any = None
    accumulate: bool = False
    arithmetic: Arithmetic = "exact"

    def check_accumulate(self) -> None:
        if self.accumulate and self.out is None:
            raise ValueError("accumulate adds to out, so out must be given")


@dataclass(slots=True)
class ClippingRun:
    """The checked arguments of a call: arrays in groups with their bounds, and the arrays that the sums are written
    to."""

    found: arrays.ExamplesToClip
    outs: list[Any]
    groups: list[tuple[list[int], float]]
    grouped: bool = False
    weights: npt.NDArray[np.float64] | None = None
    center: npt.NDArray[np.float64] | None = None
    inverse_scale: npt.NDArray[np.float64] | None = None
    normalize: bool = False
    stability: float = 0.01
    accumulate: bool = False

    @property
    def sensitivity(self) -> float:
        """Largest L2 norm of the contribution of one example to the sums of all groups, rounded up."""
        return bound_clipped_sum_sensitivity(self.groups)

    def write_noisy_sums(self, deviation: float, rng: RandomSource | None, grid: float = 0.0) -> Norms:
        """Writes the sums, plus normal noise of standard deviation ``deviation``, to ``outs``. Returns the norms.

        Without a ``grid``, sums and noise are in floating point, and each group has its own random stream. With a grid,
        the sums are multiples of the grid. The noise then consists of rounded normals of at least this deviation, from
        one stream for all columns. If ``outs`` are integers, they are in units of the grid.
        """
        if rng is None or not deviation > 0:
            rng, deviation = None, 0.0
        elif grid:
            deviation = convert_deviation_to_grid(grid, deviation)
        stream = rng.stream() if rng is not None and grid else None
        starts = _list_first_columns_to_clip(self.found.shapes) if len(self.groups) > 1 else None
        integers = get_dtype_of_sums(self.outs[0]) == "int64"
        sums = [arrays.as_host_array_of_examples(x) for x in self.outs]
        norms = np.empty((len(self.groups), self.found.batch))
        for (indices, bound), row in zip(self.groups, norms, strict=True):
            kernels.clipped_sum(
                [self.found.arrays[i] for i in indices],
                [sums[i] for i in indices],
                max_norm=bound,
                normalize=self.normalize,
                stability=self.stability,
                weights=self.weights,
                center=self._select_clipping_columns(self.center, indices),
                inverse_scale=self._select_clipping_columns(self.inverse_scale, indices),
                deviation=deviation,
                stream=stream if rng is None or grid else rng.stream(),
                accumulate=self.accumulate,
                norms=row,
                grid=grid,
                integers=integers,
                noise_indices=None if starts is None else [starts[i] for i in indices],
            )
        return np.transpose(norms) if self.grouped else norms[0]

    def _select_clipping_columns(
        self, values: npt.NDArray[np.float64] | None, indices: list[int]
    ) -> npt.NDArray[np.float64] | None:
        """Selects the numbers of the arrays ``indices`` from ``values``, which has one number for each column."""
        if values is None or len(self.groups) == 1:  # a single group has all arrays, in their order
            return values
        parts = np.split(values, _list_first_columns_to_clip(self.found.shapes)[1:])
        return np.concatenate([parts[i] for i in indices])


def _list_first_columns_to_clip(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns the number of the first column of each array."""
    return list(itertools.accumulate((math.prod(s) for s in shapes[:-1]), initial=0))


@functools.lru_cache(256)
def convert_deviation_to_grid(grid: float, deviation: float) -> float:
    """Returns deviation / grid, and at most 2^39.

    ``deviation`` is a product that was rounded to a double. The result is at least the exact product / grid, unless the
    result is 2^39.
    """
    return min(math.nextafter(deviation, math.inf) / grid, 2.0**_LARGEST_SIGMA)


def clip_examples_on_host(
    grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None
) -> tuple[Any, Norms]:
    """Returns the sum and the norms of arrays in host memory.

    Without ``rng``, no noise is added, and an exact sum consists of integers.
    """
    exact = is_clipping_arithmetic_exact(how.arithmetic)
    run = prepare_clip_and_noise_call(grads, how, exact=exact, integers=exact and rng is None)
    deviation = 0.0
    if rng is not None:
        deviation = compute_clip_and_noise_deviation(noise_multiplier, run.sensitivity, get_dtype_of_sums(run.outs[0]))
    norms = run.write_noisy_sums(
        deviation, rng, find_clip_and_noise_grid(run.sensitivity, noise_multiplier) if exact else 0.0
    )
    return arrays.convert_clipped_sums_to_arrays(run.found, run.outs), norms


def prepare_clip_and_noise_call(
    grads: Any, how: ClippingSettings, *, exact: bool, integers: bool = False
) -> ClippingRun:
    """Checks the arguments of a call, and returns the run. With ``integers``, the sums are int64, in units of the
    grid."""
    found = arrays.view_examples_to_clip("grads", grads)
    w = arrays.check_weights_for_clipping(how.weights, found.batch)
    outs = arrays.prepare_arrays_of_sums(found, how.out, integers=integers)
    floats = None if exact else get_range_of_max_norm(found.dtype, get_dtype_of_sums(outs[0]))
    parts: list[tuple[list[int], float]]
    if how.groups is None and type(how.max_norm) is float:
        parts = _build_one_clipping_group(len(found.shapes), how.max_norm, floats)
    else:
        parts = group_clipping_norms(len(found.shapes), how.max_norm, how.groups)
        check_clipping_norms(parts, floats)
    if w is not None:
        check_clipping_norms(parts, floats, float(w.max(initial=1.0)))
    a = None if how.center is None else arrays.check_columns_for_clipping("center", how.center, found)
    inverse: npt.NDArray[np.float64] | None = None
    if how.scale is not None:
        b = arrays.check_columns_for_clipping("scale", how.scale, found)
        if not (b >= 1e-300).all():
            raise ValueError("scale must be in [1e-300, inf)")
        inverse = 1.0 / b
    if (a is None) != (inverse is None):
        a = np.zeros(found.columns) if a is None else a
        inverse = np.ones(found.columns) if inverse is None else inverse
    grouped = how.groups is not None or has_several_clipping_norms(how.max_norm)
    how.check_accumulate()
    return ClippingRun(
        found,
        outs,
        parts,
        grouped,
        w,
        a,
        inverse,
        bool(how.normalize),
        check_stability("stability", how.stability),
        how.accumulate,
    )


def check_clipping_norms(
    groups: list[tuple[list[int], float]], floats: tuple[float, float] | None, largest_weight: float = 1.0
) -> None:
    """Raises ValueError unless every bound is in the range ``floats``, or in the range of exact arithmetic if
    ``floats`` is None.

    In floating point, a bound times ``largest_weight`` must not exceed the range either. In exact arithmetic,
    ``largest_weight`` must be at most 2^32.
    """
    if floats is None and not largest_weight <= LARGEST_WEIGHT:
        raise ValueError("weights must be in [0, 2^32]")  # the message does not name the weight, which may be private
    for _, bound in groups:
        if floats is None:
            exact_bound("max_norm", bound)
        elif not floats[0] <= bound or not bound * largest_weight <= floats[1]:
            accepted = f"[{floats[0]:g}, {floats[1]:g}]"
            raise ValueError(f"max_norm, times the largest weight, must be in {accepted}, got {bound!r}")


@functools.lru_cache(256)
def _build_one_clipping_group(
    arrays: int, max_norm: float, floats: tuple[float, float] | None
) -> list[tuple[list[int], float]]:
    """Returns one checked group of all arrays. Results are cached, because every training step calls this function, and
    a check takes microseconds."""
    parts = group_clipping_norms(arrays, max_norm, None)
    check_clipping_norms(parts, floats)
    return parts


def compute_clip_factors(norms: Norms, bound: float) -> Norms:
    """Returns min(1, bound / norm) of each example. Subnormal factors, whose relative rounding error has no bound, are
    replaced by 0."""
    with np.errstate(divide="ignore", over="ignore"):
        factors = np.minimum(1.0, bound / norms)
    factors[factors < 2.0**-1022] = 0.0
    return factors


def is_clipping_arithmetic_exact(arithmetic: str) -> bool:
    if arithmetic not in ("exact", "float"):
        raise ValueError(f'arithmetic must be "exact" or "float", got {arithmetic!r}')
    return arithmetic == "exact"


@functools.lru_cache(256)
def find_clip_and_noise_grid(bound: float, noise_multiplier: float = 1.0) -> float:
    """Returns the grid step for sums that one example moves by at most ``bound``.

    The step is the power of two for which bound / step is in [2^23, 2^24). It is a larger power of two if the deviation
    of the noise would otherwise reach 2^30 steps.
    """
    fine = math.frexp(bound)[1] - 1 - _FINE
    return math.ldexp(1.0, max(fine, math.frexp(max(noise_multiplier, 1.0) * bound)[1] - _FAST_SIGMA))


def bound_clipped_sum_sensitivity(groups: list[tuple[list[int], float]]) -> float:
    """Returns the largest L2 distance by which one example of weight 1 moves the sums of all groups, rounded up."""
    if len(groups) == 1:
        return groups[0][1]
    return math.hypot(*(bound for _, bound in groups)) * (1 + 2.0**-50)


def get_dtype_of_sums(array: Any) -> str:
    return _NAMES.get(array.dtype) or str(array.dtype).removeprefix("torch.")


def get_range_of_max_norm(dtype: str, out_dtype: str) -> tuple[float, float]:
    """Returns the range of ``max_norm`` for rows of ``dtype`` whose sum is of ``out_dtype``."""
    low, high = _RANGES.get(dtype, _SINGLE_RANGE)
    return low, high if out_dtype == "float64" else _SINGLE_RANGE[1]


def compute_clip_and_noise_deviation(multiplier: float, sensitivity: float, out_dtype: str) -> float:
    """Returns the standard deviation of the noise. Raises ValueError if it is too large for sums of ``out_dtype``."""
    deviation, most = multiplier * sensitivity, _LARGEST_DEVIATION[out_dtype]
    if not deviation <= most:
        raise ValueError(f"noise_multiplier, times max_norm, must be at most {most:g}, got {deviation!r}")
    return deviation


def find_largest_release_deviation(dtype: str, grid: float) -> float:
    """Returns the largest deviation of noise on a sum of type ``dtype``. Integers are in units of ``grid``."""
    return math.ldexp(grid, _LARGEST_SIGMA) if dtype == "int64" else _LARGEST_DEVIATION[dtype]


def check_release_grid(value: Any) -> float:
    """Returns ``grid``, a checked power of two in [2^-900, 2^900]."""
    x = _check.positive("grid", value)
    if math.frexp(x)[0] != 0.5 or not 2.0**-900 <= x <= 2.0**900:
        raise ValueError(f"grid must be a power of two in [2^-900, 2^900], got {value!r}")
    return x


def has_several_clipping_norms(max_norm: Any) -> bool:
    """Tells whether ``max_norm`` is a sequence of bounds, one for each group."""
    if isinstance(max_norm, np.ndarray):
        return max_norm.ndim > 0
    return isinstance(max_norm, Sequence) and not isinstance(max_norm, (str, bytes, bytearray))


def group_clipping_norms(
    arrays: int, max_norm: float | Sequence[float], groups: Sequence[Sequence[int]] | None
) -> list[tuple[list[int], float]]:
    """Returns the indices of the arrays in each group, with the norm bound. ``arrays`` is the number of arrays."""
    every = list(range(arrays))
    if groups is None and not has_several_clipping_norms(max_norm):
        return [(every, _check.positive("max_norm", max_norm))]
    if groups is None:
        groups = [[i] for i in every]
    try:
        indices = [sorted(_check.check_count_argument("groups", i, least=0) for i in group) for group in groups]
    except TypeError:
        raise TypeError(f"groups must be lists of indices in [0, {len(every)}), got {groups!r}") from None
    if sorted(i for group in indices for i in group) != every or not all(indices):
        raise ValueError(f"groups must hold each index in [0, {len(every)}) once, got {groups!r}")
    bounds: list[Any] = list(max_norm) if has_several_clipping_norms(max_norm) else [max_norm]  # type: ignore[arg-type]
    if len(bounds) != len(indices):
        raise ValueError(f"max_norm must have one entry for each group, {len(indices)}, got {len(bounds)}")
    return list(zip(indices, [_check.positive("max_norm", c) for c in bounds], strict=True))
