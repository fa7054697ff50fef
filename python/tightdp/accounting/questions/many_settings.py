"""Bounds on epsilon for many settings of DP-SGD at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._core import Stop, check_arithmetic, contour_epsilon_batch
from ..._support import _check, device_probe
from ...bound import Bound, Curve
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled
from ..engines.contour import LEAST, MOST, TOLERANCE
from .question import Question

WIDTH = 1e-4
"""Default relative width of the bounds for the few settings that the contour engine declines. With this width, the grid
engine needs a tenth of the grid points that it needs with 1e-6."""


def epsilon_batch(
    noise_multiplier: ArrayLike,
    sampling_probability: ArrayLike,
    steps: ArrayLike,
    delta: ArrayLike,
    *,
    width: float = WIDTH,
    threads: int | None = None,
    device: str = "cpu",
) -> Curve:
    """Returns bounds on epsilon of ``steps`` Poisson-subsampled Gaussians, for each element, as arrays (lower, upper).

    The arguments broadcast against each other. Noise multipliers are in (0, inf), sampling probabilities in (0, 1] and
    deltas in (0, 1). Numbers of steps are whole numbers up to 2^53. Neighbours add or remove one record.

    The work is shared by ``threads`` threads, by default one for each core. The result does not depend on the number of
    threads. With ``device="cuda"`` (or ``"cuda:1"``) the GPU computes the bounds, except for settings that exceed its
    limits, which the threads compute. The bounds of the GPU are certified too. Nearly all bounds have a relative width
    of 1e-9 or less. Settings whose bounds are wider than ``width`` are computed again as by ``Composition.epsilon``
    with that width. Each of these settings takes some milliseconds.

    Parameters
    ----------
    noise_multiplier : numbers in (0, inf).
    sampling_probability : numbers in (0, 1].
    steps : whole numbers in [1, 2^53].
    delta : numbers in (0, 1).
    width : the relative width that is aimed at, > 0.
    threads : the number of threads, an integer >= 1.
    device : "cpu", or the name of a CUDA device.

    Raises ValueError for a number out of its range, or for arrays that do not broadcast together.

    >>> import tightdp as dp
    >>> lower, upper = dp.epsilon_batch([1.0, 2.0], 0.01, 1000, 1e-5)
    >>> upper.round(6)
    array([1.828237, 0.62203 ])
    """
    check_arithmetic()
    tiny = float(np.nextafter(0, 1))
    sigma = _check.check_bounded_array_argument("noise_multiplier", noise_multiplier, tiny)
    q = _check.check_bounded_array_argument("sampling_probability", sampling_probability, tiny, 1.0)
    count = _check.check_count_array_argument("steps", steps)
    target = _check.check_bounded_array_argument("delta", delta, tiny, float(np.nextafter(1, 0)))
    threads = _check.check_count_argument("threads", _count_own_cores() if threads is None else threads)
    asked = Question.from_question_options(Composition(), width=width)
    number = device_probe.parse_probed_device_number(device)
    shape, (sigma, q, count, target) = _broadcast_many_settings(sigma, q, count, target)
    lower, upper = _bound_many_settings_by_contour(sigma, q, count, target, threads, number)
    narrow = np.isfinite(upper)
    narrow[narrow] = (upper[narrow] - lower[narrow]) <= asked.request.width * upper[narrow]

    def ask_question_of_single_setting(i: int) -> Bound:
        run = PoissonSampled(Gaussian(float(sigma[i])), float(q[i])) * int(count[i])
        return asked.replace_composition_of_question(run).epsilon(float(target[i]))

    rest = np.flatnonzero(~narrow)
    found = _ask_many_settings_in_threads(ask_question_of_single_setting, rest, threads)
    for i, bound in zip(rest, found, strict=True):
        lower[i], upper[i] = max(lower[i], bound.lower), min(upper[i], bound.upper)
    return Curve(lower.reshape(shape), upper.reshape(shape))


def _count_own_cores() -> int:
    """Returns the number of cores that this process may use. If the system does not tell, returns the number of all
    cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _bound_many_settings_by_contour(
    sigma: NDArray[np.float64],
    q: NDArray[np.float64],
    count: NDArray[np.float64],
    target: NDArray[np.float64],
    threads: int,
    number: int | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the contour engine's bounds on epsilon of each setting.

    If ``number`` is not None, the CUDA device of this number computes the bounds that it can, and the ``threads``
    compute the others. Settings that the engine does not serve have the bounds 0 and infinity.
    """
    safe = (sigma >= LEAST) & (sigma <= MOST) & (q < 1)
    lower, upper = np.zeros(sigma.size), np.full(sigma.size, np.inf)
    if number is not None:
        found = device_probe.require_module().epsilon_batch(
            sigma[safe], q[safe], count[safe], target[safe], TOLERANCE, number
        )
        lower[safe], upper[safe] = found[0], found[1]
        safe &= ~np.isfinite(upper)
    found = contour_epsilon_batch(sigma[safe], q[safe], count[safe], target[safe], TOLERANCE, threads)
    lower[safe], upper[safe] = found[0], found[1]
    return lower, upper


def _broadcast_many_settings(*settings: NDArray[np.float64]) -> tuple[tuple[int, ...], Iterator[NDArray[np.float64]]]:
    """Returns the common shape of the arguments, and each argument broadcast to that shape and flattened."""
    try:
        columns = np.broadcast_arrays(*settings)
    except ValueError:
        shapes = [array.shape for array in settings]
        raise ValueError(f"steps and the other arguments must broadcast together, got shapes {shapes}") from None
    return columns[0].shape, (np.ascontiguousarray(column).ravel() for column in columns)


def _ask_many_settings_in_threads(ask: Callable[[int], Bound], places: NDArray[np.intp], threads: int) -> list[Bound]:
    """Returns ``ask`` of each index in ``places``, in order. An error in one thread, or a signal, makes all threads
    stop soon."""
    from concurrent.futures import ThreadPoolExecutor  # not at the top, because this import is slow

    stop = Stop()
    with ThreadPoolExecutor(threads, initializer=stop.watch) as pool:  # the engines release the interpreter's lock
        try:
            return list(pool.map(ask, places))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
