"""Clip every example's gradient, add them up, add noise.

Conventions: sums, not means; the noise multiplier is sigma over the L2 norm that one example can contribute; add or
remove one example. What is released is exact by default: every example becomes a vector of integers, integers add up in
any order, and the noise is the Gaussian mechanism's to the last bit. Proofs, orders of summation and rounding errors:
docs/theory/clipping.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy.typing as npt

from .. import _check
from . import clipping
from .clipping import Arithmetic, ClippingSettings, Norms
from .cuda import clipping as device
from .cuda.arrays import on_device
from .noise import RandomSource, resolve_source

Array = npt.NDArray[Any]


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
    arithmetic: Arithmetic = "float",
) -> tuple[Any, Norms]:
    """The sum of clipped examples, and every example's norm before clipping.

    Example k has L2 norm n_k over all its arrays and adds ``weights[k] * min(1, max_norm / n_k) * g_k``, so one example
    moves the sum by at most ``weights[k] * max_norm`` in L2 norm. Neither result is private: call ``clip_and_noise``,
    or sum exactly and ``add_noise``, and keep the norms to yourself.

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
    grads : array of shape (batch, *shape), or a list of them, one for each parameter
        NumPy arrays or anything with DLPack in host memory (torch, JAX), of float16, bfloat16, float32 or float64. They
        are read once where a few examples fit the second-level cache, and copied only if an example is not contiguous.
    max_norm : float, or one a group
        For float64 in [1e-100, 1e100], for the others in [1e-25, 1e25]; at most 1e25 also for an ``out`` of float32.
        Exact: in [1e-30, 1e30].
    weights : (batch,), optional
        Finite and >= 0; exact: in [0, 2^32].
    center, scale : one number for each column, optional
        Examples become (g - center) / scale before all else (AdaCliP, Pichapati et al. 2019), and the sum is of those.
        Both must come from public knowledge or past releases. ``scale`` > 0.
    groups : lists of indices into ``grads``, optional
        Each group is clipped to a bound of its own: ``max_norm`` has one entry a group. With a sequence for
        ``max_norm`` and no ``groups``, every array is a group (per-layer clipping). An example then moves the sum by at
        most the root of the sum of squared bounds; norms have shape (batch, groups).
    normalize : bool
        Multiply by ``max_norm / (n_k + stability)`` instead, whatever the norm (Bu et al. 2023, automatic clipping).
    stability : float in [1e-100, inf)
    out : array or list as ``grads`` without the batch axis, float32 or float64 (exact: int64), optional
        Where to put the sum. With ``accumulate`` the sum is added to what it holds: micro-batches.
    arithmetic : "float" or "exact"
        "float": sums of floats, whose roundings depend on the other examples; noise on them is the idealised form of a
        release. "exact": int64 sums of every clipped example's multiples of ``exact_grid(max_norm)``, truncated toward
        zero. In exact arithmetic one example moves their product with the grid by at most ``weights[k] * max_norm``,
        whatever the others are; they wrap modulo 2^64.

    Returns
    -------
    sum : float64 for float64 input, else float32 (exact: int64); a list for a list; torch tensors for torch tensors
    norms : float64 array of shape (batch,)

    The result does not depend on the number of threads or the processor's instruction set, nor an exact one on the
    order of the examples. Each clipped row, rounded to its dtype, has norm at most ``max_norm``; the sum of floats is
    that of real numbers up to rounding.

    >>> import numpy as np
    >>> total, norms = clipped_sum(np.array([[3.0, 4.0], [0.3, 0.4]]), max_norm=1.0)
    >>> total.round(6), norms
    (array([0.9, 1.2]), array([5. , 0.5]))
    """
    how = ClippingSettings(max_norm, weights, center, scale, groups, normalize, stability, out, accumulate, arithmetic)
    return _clip(grads, how, 0.0, None)


def _clip(grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None) -> tuple[Any, Norms]:
    """Clips and adds up on the device or the host, wherever the arrays are."""
    return (device.clip_on_device if on_device(grads) else clipping.clip_on_host)(grads, how, noise_multiplier, rng)


# A type checker knows the result where NumPy's arrays are given; of another library it depends on what is installed.
@overload
def clip_and_noise(
    grads: Array, max_norm: float | Sequence[float], noise_multiplier: float, *, weights: npt.ArrayLike | None = ...,
    center: Any = ..., scale: Any = ..., groups: Sequence[Sequence[int]] | None = ..., normalize: bool = ...,
    stability: float = ..., rng: RandomSource | None = ..., out: Any = ..., arithmetic: Arithmetic = ...,
) -> Array: ...  # fmt: skip
@overload
def clip_and_noise(
    grads: list[Array], max_norm: float | Sequence[float], noise_multiplier: float, *,
    weights: npt.ArrayLike | None = ..., center: Any = ..., scale: Any = ...,
    groups: Sequence[Sequence[int]] | None = ..., normalize: bool = ...,
    stability: float = ..., rng: RandomSource | None = ..., out: Any = ..., arithmetic: Arithmetic = ...,
) -> list[Array]: ...  # fmt: skip
@overload
def clip_and_noise(
    grads: Any, max_norm: float | Sequence[float], noise_multiplier: float, *, weights: npt.ArrayLike | None = ...,
    center: Any = ..., scale: Any = ..., groups: Sequence[Sequence[int]] | None = ..., normalize: bool = ...,
    stability: float = ..., rng: RandomSource | None = ..., out: Any = ..., arithmetic: Arithmetic = ...,
) -> Any: ...  # fmt: skip
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
    arithmetic: Arithmetic = "exact",
) -> Any:
    """``clipped_sum`` plus normal noise of standard deviation ``noise_multiplier * max_norm`` on every coordinate.

    With groups the deviation is ``noise_multiplier`` times the root of the sum of squared bounds. Weights do not change
    the noise: a weight over 1 makes the sensitivity that much larger, and you must account for it. With ``center`` and
    ``scale`` the released sum s is of transformed examples; AdaCliP's gradient is center + scale * s / B.

    The release is one of ``Gaussian(noise_multiplier)`` under add/remove of one example whose weight is at most 1
    (``PoissonSampled`` if the batch was), to the last bit: integer sums of the examples' multiples of a public grid,
    with normals on the real line rounded to it, sampled exactly (docs/theory/clipping.md, section 7). The values are
    then multiplied by the grid and rounded to the dtype of the result. The grid is a power of two that depends on
    ``max_norm`` and ``noise_multiplier`` alone: at most 2^-23 of what one example contributes, or 2^-29 of the noise.
    Each example loses less than one grid step in each coordinate.

    Parameters are those of ``clipped_sum``, and

    noise_multiplier : float in [0, inf)
    rng : SecureRandom (the default) or Philox
        The noise is the same whatever the number of threads, and for a list as for the flat array.
    arithmetic : "exact" or "float"
        "float": floating-point sums and noise, the idealised form. The charge leaves out two effects: rounding lets one
        example move the sum by more than ``max_norm``, and low bits of noisy floats reveal values (Mironov, CCS 2012).

    >>> import numpy as np
    >>> clip_and_noise(np.ones((8, 3), np.float32), 1.0, 0.5, rng=__import__("tightdp").Philox(1)).dtype
    dtype('float32')
    """
    multiplier = _check.nonnegative("noise_multiplier", noise_multiplier)
    how = ClippingSettings(max_norm, weights, center, scale, groups, normalize, stability, out, False, arithmetic)
    return _clip(grads, how, multiplier, resolve_source(rng))[0]


def exact_grid(max_norm: float | Sequence[float]) -> float:
    """Returns the grid of ``clipped_sum(..., arithmetic="exact")``: the power of two of which one example contributes
    2^23 or more, and less than 2^24.

    max_norm : float, or one a group, in [1e-30, 1e30]; ValueError otherwise

    A run of micro-batches has the same bits as ``clip_and_noise`` of all examples at once, if the noise multiplier is
    64 or less. Beyond that ``clip_and_noise`` may choose a coarser grid, and from 128 on it does: the charge is the
    same, the bits are not.

    >>> import numpy as np
    >>> import tightdp as dp
    >>> total = np.zeros(3, np.int64)
    >>> for part in np.split(np.ones((8, 3)), 4):
    ...     _ = dp.clipped_sum(part, 1.0, out=total, accumulate=True, arithmetic="exact")
    >>> release = dp.add_noise(total, 0.5 * 1.0, grid=dp.exact_grid(1.0), rng=dp.Philox(1)) * dp.exact_grid(1.0)
    >>> bool((release == dp.clip_and_noise(np.ones((8, 3)), 1.0, 0.5, rng=dp.Philox(1))).all())
    True
    """
    bounds = list(max_norm) if clipping.has_several_bounds(max_norm) else [max_norm]  # type: ignore[arg-type]
    if not bounds:
        raise ValueError("max_norm must hold at least one bound")
    checked = [clipping.exact_bound("max_norm", c) for c in bounds]
    return clipping.grid_of(clipping.total_sensitivity([([], c) for c in checked]))
