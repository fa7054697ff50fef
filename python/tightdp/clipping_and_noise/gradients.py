"""The public functions that clip every example's gradient, add the gradients up, and add noise.

Results are sums, and not means. The noise multiplier is the noise's standard deviation divided by the largest L2 norm
that one example can contribute. Neighbours differ by adding or removing one example. A release is exact by default:
every example becomes a vector of integers, so the sum does not depend on the order of the examples. The noise is that
of the Gaussian mechanism to the last bit. Proofs, orders of summation and rounding errors are in
docs/theory/clipping.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy.typing as npt

from .._support import _check
from . import clipping
from .clipping import Arithmetic, ClippingSettings, Norms
from .cuda import clipping as device
from .cuda.arrays import on_device
from .noise import RandomSource, resolve_random_source

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
    """Returns the sum of clipped examples, and every example's norm before clipping.

    Let g_k be the gradient of example k over all arrays, and n_k its L2 norm. The example adds
    ``weights[k] * min(1, max_norm / n_k) * g_k``, so it moves the sum by at most ``weights[k] * max_norm`` in L2 norm.
    Neither result is private. For a private sum call ``clip_and_noise``, or sum with ``arithmetic="exact"`` and call
    ``add_noise``. Do not publish the norms. In the table, the first limit is 2^-1022 for float64, and 2^-126 for other
    types. The second limit is 2^-900 for float64, and 2^-90 for other types.

    =================================================  =========================================
    example                                            adds
    =================================================  =========================================
    norm 0, or weight 0                                zeros
    an infinity or NaN in it                           zeros, and its norm is returned as inf
    norm over the largest double                       zeros, and its norm is returned as inf
    weights[k] max_norm / n_k under the first limit    zeros
    weights[k] max_norm under the second limit         zeros
    empty batch                                        nothing: the sum is zero
    =================================================  =========================================

    Parameters
    ----------
    grads : array of shape (batch, *shape), or a list of them, one for each parameter
        Arrays of NumPy or of a library with DLPack (torch, JAX), in host memory, of float16, bfloat16, float32 or
        float64. An array is copied only if an example is not contiguous. Each example is read from memory once if a few
        examples fit into the processor's second-level cache.
    max_norm : float, or a sequence with one for each group
        In [1e-100, 1e100] for float64, and in [1e-25, 1e25] for other types. If ``out`` is of float32, ``max_norm`` is
        at most 1e25 too. With exact arithmetic, it is in [1e-30, 1e30].
    weights : (batch,), optional
        Finite and >= 0. With exact arithmetic, in [0, 2^32].
    center, scale : one number for each column (coordinate of an example), optional
        Every example g is first replaced by (g - center) / scale (AdaCliP, Pichapati et al. 2019). Both must be public
        or computed from past releases. ``scale`` > 0.
    groups : lists of indices into ``grads``, optional
        Each group of arrays is clipped to its own bound, the group's entry in ``max_norm``. If ``max_norm`` is a
        sequence and ``groups`` is None, every array is a group (per-layer clipping). An example then moves the sum by
        at most the root of the sum of squared bounds, and norms have shape (batch, groups).
    normalize : bool
        If true, the factor is ``max_norm / (n_k + stability)`` for any norm (Bu et al. 2023, automatic clipping).
    stability : float in [1e-100, inf).
    out : array or list as ``grads`` without the batch axis, float32 or float64 (exact: int64), optional
        Array that the sum is written to. With ``accumulate`` the sum is added to the array, as micro-batches need.
    arithmetic : "float" or "exact"
        "float": sums of floats, whose roundings depend on the other examples. Noise on such sums is idealised.
        "exact": int64 sums, modulo 2^64. Every clipped example is truncated toward zero to multiples of
        ``exact_grid(max_norm)``, and the sum is in units of this grid. With exact arithmetic one example moves the sum
        times the grid by at most ``weights[k] * max_norm``, whatever the other examples are.

    Returns
    -------
    sum : in float64 for float64 input, and in float32 for other input. With exact arithmetic it is in int64. The sum is
        a list if ``grads`` is a list, and consists of torch tensors if ``grads`` does.
    norms : float64 array of shape (batch,)

    The result does not depend on the number of threads or the processor's instruction set. An exact sum does not depend
    on the order of the examples either. Each clipped row, rounded to its dtype, has norm at most ``max_norm``. A sum of
    floats equals the sum of real numbers up to rounding.

    Raises ValueError or TypeError for an argument out of its range. The error names the argument.

    >>> import numpy as np
    >>> total, norms = clipped_sum(np.array([[3.0, 4.0], [0.3, 0.4]]), max_norm=1.0)
    >>> total.round(6), norms
    (array([0.9, 1.2]), array([5. , 0.5]))
    """
    how = ClippingSettings(max_norm, weights, center, scale, groups, normalize, stability, out, accumulate, arithmetic)
    return _clip_examples(grads, how, 0.0, None)


def _clip_examples(
    grads: Any, how: ClippingSettings, noise_multiplier: float, rng: RandomSource | None
) -> tuple[Any, Norms]:
    """Clips examples and adds them up, on the device or on the host, depending on where the arrays are."""
    return (device.clip_examples_on_device if on_device(grads) else clipping.clip_examples_on_host)(
        grads, how, noise_multiplier, rng
    )


# The first two overloads tell type checkers the result's type for NumPy's arrays. For arrays of other libraries it is
# Any, because these libraries may not be installed.
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
    """Returns ``clipped_sum`` plus normal noise of deviation ``noise_multiplier * max_norm`` on every coordinate.

    With groups the deviation is ``noise_multiplier`` times the root of the sum of squared bounds. Weights do not change
    the noise. A weight above 1 multiplies the sensitivity, and you must account for this. With ``center`` and ``scale``
    the released sum s is that of the transformed examples. The gradient of AdaCliP is then center + scale * s / B,
    where B is the expected batch size.

    If neighbours differ by adding or removing one example of weight at most 1, the release is that of
    ``Gaussian(noise_multiplier)``, to the last bit. If the batch was a Poisson sample, charge ``PoissonSampled``. Every
    example is truncated to multiples of a public grid, and integers are added up. The noise consists of real normal
    numbers that are rounded to the grid and sampled exactly (docs/theory/clipping.md, section 7). The values are then
    multiplied by the grid and rounded to the dtype of the result. The grid step is a power of two that depends on
    ``max_norm`` and ``noise_multiplier`` alone. It is at most 2^-23 of the largest contribution of one example, unless
    the noise is large. With large noise the step may be larger, but it is at most 2^-29 of the deviation of the noise.
    Truncation changes each coordinate of each example by less than one grid step.

    The arguments ``grads``, ``max_norm``, ``weights``, ``center``, ``scale``, ``groups``, ``normalize``, ``stability``
    and ``out`` are those of ``clipped_sum``. The other parameters follow.

    noise_multiplier : float in [0, inf)
    rng : SecureRandom (the default) or Philox.
        The noise does not depend on the number of threads, nor on whether the columns are in one array or in a list.
    arithmetic : "exact" or "float"
        "float": floating-point sums and noise, the idealised form. The charge leaves out two effects. Rounding lets one
        example move the sum by more than ``max_norm``, and low bits of noisy floats reveal values (Mironov, CCS 2012).

    Raises ValueError or TypeError for an argument out of its range. The error names the argument.

    >>> import numpy as np
    >>> clip_and_noise(np.ones((8, 3), np.float32), 1.0, 0.5, rng=__import__("tightdp").Philox(1)).dtype
    dtype('float32')
    """
    multiplier = _check.nonnegative("noise_multiplier", noise_multiplier)
    how = ClippingSettings(max_norm, weights, center, scale, groups, normalize, stability, out, False, arithmetic)
    return _clip_examples(grads, how, multiplier, resolve_random_source(rng))[0]


def exact_grid(max_norm: float | Sequence[float]) -> float:
    """Returns the grid of ``clipped_sum(..., arithmetic="exact")``, a power of two.

    The largest contribution of one example is at least 2^23 and less than 2^24 steps of this grid.

    max_norm : float, or a sequence with one for each group, in [1e-30, 1e30]. Raises ValueError otherwise.

    If the noise multiplier is 64 or less, the sum of micro-batches plus noise has the same bits as ``clip_and_noise``
    of all examples together. For larger noise multipliers ``clip_and_noise`` may choose a coarser grid, and from 128 on
    it always does. The bits then differ, and the charge is the same.

    >>> import numpy as np
    >>> import tightdp as dp
    >>> total = np.zeros(3, np.int64)
    >>> for part in np.split(np.ones((8, 3)), 4):
    ...     _ = dp.clipped_sum(part, 1.0, out=total, accumulate=True, arithmetic="exact")
    >>> release = dp.add_noise(total, 0.5 * 1.0, grid=dp.exact_grid(1.0), rng=dp.Philox(1)) * dp.exact_grid(1.0)
    >>> bool((release == dp.clip_and_noise(np.ones((8, 3)), 1.0, 0.5, rng=dp.Philox(1))).all())
    True
    """
    bounds = list(max_norm) if clipping.has_several_clipping_norms(max_norm) else [max_norm]  # type: ignore[arg-type]
    if not bounds:
        raise ValueError("max_norm must hold at least one bound")
    checked = [clipping.exact_bound("max_norm", c) for c in bounds]
    return clipping.find_clip_and_noise_grid(clipping.bound_clipped_sum_sensitivity([([], c) for c in checked]))
