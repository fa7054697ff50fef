"""A checked call of ``clipped_sum`` or ``clip_and_noise``: what is clipped to which bounds, and where sums go."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _check
from . import arrays, kernels
from .noise import RandomSource

Norms = npt.NDArray[np.float64]
Arithmetic = Literal["exact", "float"]

# The core multiplies in the rows' own precision. Below 2^-90 (float64: 2^-900) a weight times a bound is nothing
# (docs/theory/clipping.md, section 2): the least bounds leave weights room down to a hundredth. The largest leave a
# float32 sum of 10^13 clipped rows finite, and the square of a float64 norm.
_RANGES = {"float64": (1e-100, 1e100)}
_SINGLE_RANGE = (1e-25, 1e25)
exact_bound = _check.interval("[1e-30, 1e30]")
"""Range of norm bounds in the exact form: their grids, and the noise on them, are far from the ends of the doubles."""
check_stability = _check.interval("[1e-100, inf)")
"""Range of ``stability``, far over what a norm loses to squares that underflow (docs/theory/clipping.md, section 2)."""
LARGEST_WEIGHT = 2.0**32
"""Largest weight of an example in the exact form, where its integers stay under 2^62."""
_NAMES = {np.dtype(name): name for name in ("float32", "float64")}
"""NumPy takes microseconds to spell a dtype."""
_LARGEST_DEVIATION = {"float64": 1e307, "float32": 1e37}
"""Largest standard deviation of the noise: ten times it is finite."""
_FINE = 23
"""Binary digits of a bound over its grid, and one more: as many as a float32 has."""
_LARGEST_SIGMA = 39
"""log2 of the noise deviation that the exact sampler takes, in grid steps."""
_FAST_SIGMA = 30
"""log2 of the noise deviation, in grid steps, up to which it draws at full speed. Beyond, more and more draws are
settled one by one."""


@dataclass(slots=True)
class ClippingSettings:
    """Settings of ``clipped_sum``: how examples are clipped and where their sum goes."""

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
    """A checked call: groups of arrays with their bounds, and where the sums go."""

    found: arrays.Examples
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
        """L2 norm that one example adds at most, over all groups; rounded up."""
        return total_sensitivity(self.groups)

    def execute_run(self, deviation: float, rng: RandomSource | None, grid: float = 0.0) -> Norms:
        """Sums and normals of that deviation: in floating point, a stream a group; or with a ``grid`` sums of its
        multiples and rounded normals of at least that deviation, from one stream, column by column.

        Where ``outs`` are integers they are in units of the grid.
        """
        if rng is None or not deviation > 0:
            rng, deviation = None, 0.0
        elif grid:
            deviation = convert_to_steps(grid, deviation)
        stream = rng.stream() if rng is not None and grid else None
        starts = _list_starts(self.found.shapes) if len(self.groups) > 1 else None
        integers = get_dtype_name(self.outs[0]) == "int64"
        sums = [arrays.as_numpy(x) for x in self.outs]
        norms = np.empty((len(self.groups), self.found.batch))
        for (indices, bound), row in zip(self.groups, norms, strict=True):
            kernels.clipped_sum(
                [self.found.arrays[i] for i in indices],
                [sums[i] for i in indices],
                bound,
                self.normalize,
                self.stability,
                self.weights,
                self._select_columns(self.center, indices),
                self._select_columns(self.inverse_scale, indices),
                deviation,
                stream if rng is None or grid else rng.stream(),
                self.accumulate,
                row,
                grid,
                integers,
                None if starts is None else [starts[i] for i in indices],
            )
        return np.transpose(norms) if self.grouped else norms[0]

    def _select_columns(
        self, values: npt.NDArray[np.float64] | None, indices: list[int]
    ) -> npt.NDArray[np.float64] | None:
        """Selects those of ``values``, one for each column, that belong to some of the arrays."""
        if values is None or len(self.groups) == 1:  # of all arrays, in their order
            return values
        parts = np.split(values, _list_starts(self.found.shapes)[1:])
        return np.concatenate([parts[i] for i in indices])


def _list_starts(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The first column of each array."""
    return list(itertools.accumulate((math.prod(s) for s in shapes[:-1]), initial=0))


@functools.lru_cache(256)
def convert_to_steps(grid: float, deviation: float) -> float:
    """``deviation`` over ``grid``, and at most 2^39; below that, at least the real product that it was rounded from."""
    return min(math.nextafter(deviation, math.inf) / grid, 2.0**_LARGEST_SIGMA)


def clip_on_host(
    grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None
) -> tuple[Any, Norms]:
    """Sum and norms of arrays in host memory. Without ``rng`` nothing is released: an exact sum is then of integers."""
    exact = is_exact(how.arithmetic)
    run = prepare_run(grads, how, exact=exact, integers=exact and rng is None)
    deviation = 0.0
    if rng is not None:
        deviation = compute_noise_deviation(noise_multiplier, run.sensitivity, get_dtype_name(run.outs[0]))
    norms = run.execute_run(deviation, rng, grid_of(run.sensitivity, noise_multiplier) if exact else 0.0)
    return arrays.convert_outputs(run.found, run.outs), norms


def prepare_run(grads: Any, how: ClippingSettings, *, exact: bool, integers: bool = False) -> ClippingRun:
    """``integers``: the sums are int64, in units of the grid."""
    found = arrays.view_examples("grads", grads)
    w = arrays.check_weights_vector(how.weights, found.batch)
    outs = arrays.prepare_outputs(found, how.out, integers=integers)
    floats = None if exact else bound_range(found.dtype, get_dtype_name(outs[0]))
    parts: list[tuple[list[int], float]]
    if how.groups is None and type(how.max_norm) is float:
        parts = _build_one_group(len(found.shapes), how.max_norm, floats)
    else:
        parts = group_bounds(len(found.shapes), how.max_norm, how.groups)
        check_norm_bounds(parts, floats)
    if w is not None:
        check_norm_bounds(parts, floats, float(w.max(initial=1.0)))
    a = None if how.center is None else arrays.check_columns_vector("center", how.center, found)
    inverse: npt.NDArray[np.float64] | None = None
    if how.scale is not None:
        b = arrays.check_columns_vector("scale", how.scale, found)
        if not (b >= 1e-300).all():
            raise ValueError("scale must be in [1e-300, inf)")
        inverse = 1.0 / b
    if (a is None) != (inverse is None):
        a = np.zeros(found.columns) if a is None else a
        inverse = np.ones(found.columns) if inverse is None else inverse
    grouped = how.groups is not None or has_several_bounds(how.max_norm)
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


def check_norm_bounds(
    groups: list[tuple[list[int], float]], floats: tuple[float, float] | None, largest_weight: float = 1.0
) -> None:
    """Raises ValueError unless every bound is in the range of the exact form, or in that of ``floats``."""
    if floats is None and not largest_weight <= LARGEST_WEIGHT:
        raise ValueError("weights must be in [0, 2^32]")  # not which: weights may be private
    for _, bound in groups:
        if floats is None:
            exact_bound("max_norm", bound)
        elif not floats[0] <= bound or not bound * largest_weight <= floats[1]:
            accepted = f"[{floats[0]:g}, {floats[1]:g}]"
            raise ValueError(f"max_norm, times the largest weight, must be in {accepted}, got {bound!r}")


@functools.lru_cache(256)
def _build_one_group(arrays: int, max_norm: float, floats: tuple[float, float] | None) -> list[tuple[list[int], float]]:
    """Returns one checked group, and remembers it: training asks at every step, and a check takes microseconds."""
    parts = group_bounds(arrays, max_norm, None)
    check_norm_bounds(parts, floats)
    return parts


def clip_factors(norms: Norms, bound: float) -> Norms:
    """min(1, bound / norm) of each example; 0 where that is subnormal, and its rounding could be by any factor."""
    with np.errstate(divide="ignore", over="ignore"):
        factors = np.minimum(1.0, bound / norms)
    factors[factors < 2.0**-1022] = 0.0
    return factors


def is_exact(arithmetic: str) -> bool:
    if arithmetic not in ("exact", "float"):
        raise ValueError(f'arithmetic must be "exact" or "float", got {arithmetic!r}')
    return arithmetic == "exact"


@functools.lru_cache(256)
def grid_of(bound: float, noise_multiplier: float = 1.0) -> float:
    """The grid of sums that one example moves by at most ``bound``: a power of two, of which the bound has 2^23 or more
    but less than 2^24; coarser where the noise would exceed 2^30 of it."""
    fine = math.frexp(bound)[1] - 1 - _FINE
    return math.ldexp(1.0, max(fine, math.frexp(max(noise_multiplier, 1.0) * bound)[1] - _FAST_SIGMA))


def total_sensitivity(groups: list[tuple[list[int], float]]) -> float:
    """Returns how far one example of weight 1 moves the sums of all groups in L2 norm, rounded up."""
    if len(groups) == 1:
        return groups[0][1]
    return math.hypot(*(bound for _, bound in groups)) * (1 + 2.0**-50)


def get_dtype_name(array: Any) -> str:
    return _NAMES.get(array.dtype) or str(array.dtype).removeprefix("torch.")


def bound_range(dtype: str, out_dtype: str) -> tuple[float, float]:
    """The range of ``max_norm`` for rows of ``dtype`` whose sum is of ``out_dtype``."""
    low, high = _RANGES.get(dtype, _SINGLE_RANGE)
    return low, high if out_dtype == "float64" else _SINGLE_RANGE[1]


def compute_noise_deviation(multiplier: float, sensitivity: float, out_dtype: str) -> float:
    """The standard deviation of the noise, or ValueError where a sum of ``out_dtype`` cannot hold it."""
    deviation, most = multiplier * sensitivity, _LARGEST_DEVIATION[out_dtype]
    if not deviation <= most:
        raise ValueError(f"noise_multiplier, times max_norm, must be at most {most:g}, got {deviation!r}")
    return deviation


def find_largest_deviation(dtype: str, grid: float) -> float:
    """Returns the largest deviation of noise on a sum of that dtype. Integers are in units of ``grid``."""
    return math.ldexp(grid, _LARGEST_SIGMA) if dtype == "int64" else _LARGEST_DEVIATION[dtype]


def check_power_of_two(name: str, value: Any) -> float:
    """A power of two in [2^-900, 2^900]."""
    x = _check.positive(name, value)
    if math.frexp(x)[0] != 0.5 or not 2.0**-900 <= x <= 2.0**900:
        raise ValueError(f"{name} must be a power of two in [2^-900, 2^900], got {value!r}")
    return x


def has_several_bounds(max_norm: Any) -> bool:
    """Tells whether ``max_norm`` is a sequence of bounds, one a group."""
    if isinstance(max_norm, np.ndarray):
        return max_norm.ndim > 0
    return isinstance(max_norm, Sequence) and not isinstance(max_norm, (str, bytes, bytearray))


def group_bounds(
    arrays: int, max_norm: float | Sequence[float], groups: Sequence[Sequence[int]] | None
) -> list[tuple[list[int], float]]:
    """(indices, bound) of each group of ``arrays`` arrays."""
    every = list(range(arrays))
    if groups is None and not has_several_bounds(max_norm):
        return [(every, _check.positive("max_norm", max_norm))]
    if groups is None:
        groups = [[i] for i in every]
    try:
        indices = [sorted(_check.count("groups", i, least=0) for i in group) for group in groups]
    except TypeError:
        raise TypeError(f"groups must be lists of indices in [0, {len(every)}), got {groups!r}") from None
    if sorted(i for group in indices for i in group) != every or not all(indices):
        raise ValueError(f"groups must hold each index in [0, {len(every)}) once, got {groups!r}")
    bounds: list[Any] = list(max_norm) if has_several_bounds(max_norm) else [max_norm]  # type: ignore[arg-type]
    if len(bounds) != len(indices):
        raise ValueError(f"max_norm must have one entry for each group, {len(indices)}, got {len(bounds)}")
    return list(zip(indices, [_check.positive("max_norm", c) for c in bounds], strict=True))
