"""Uses CUDA devices: lists them, describes arrays in their memory, and composes on them. See docs/cuda.md.

``tightdp.clipped_sum`` and ``tightdp.clip_and_noise`` take arrays in device memory. Their work is queued on the current
stream of the array's library, and the host does not wait for it. The functions ``epsilon`` and ``delta`` of this module
use the ``prv`` engine, whose Fourier transforms run on a device.
"""

from __future__ import annotations

from dataclasses import replace

from ._support import _check
from ._support.device_probe import devices, parse_probed_device_number, require_module, status
from .accounting.engines.prv.device import build_prv_on_device as _prv_on
from .accounting.engines.prv.engine import Prv
from .accounting.questions.question import Question
from .bound import Bound
from .clipping_and_noise.cuda.arrays import DeviceArray, on_device, view
from .composition import Composable
from .options import DELTA_ERROR, EPS_ERROR, Neighbors

__all__ = ["DeviceArray", "delta", "devices", "epsilon", "on_device", "require_module", "status", "view"]

_MAX_BYTES = 1 << 32
"""Default limit on the device memory of a computation, 4 GiB. Devices for data centres have about 20 times as much."""


def epsilon(
    run: Composable,
    delta: float,
    *,
    neighbors: Neighbors = "add_or_remove",
    eps_error: float = EPS_ERROR,
    delta_error: float = DELTA_ERROR,
    max_bytes: int = _MAX_BYTES,
    device: str = "cuda",
) -> Bound:
    """Returns bounds on epsilon(delta), as ``run.epsilon(delta, engine="prv")`` does, on a CUDA device through CuPy.

    ``delta``, ``neighbors``, ``eps_error`` and ``delta_error`` are as in ``run.epsilon``, and ``device`` is "cuda" or
    "cuda:N". The bounds are certified as on the host, if cuFFT is as accurate as docs/theory/fft.md, section 4,
    assumes. The rounding term of the error budget is about five times as large as on the host. Raises ValueError if the
    computation needs more than ``max_bytes`` of the device's memory, RuntimeError if there is no device, and
    ImportError if CuPy is missing.

    >>> from tightdp import cuda
    >>> cuda.epsilon(dp.Gaussian(1.0) * 10, 1e-5)  # doctest: +SKIP
    """
    return _build_question_of_cuda_module(
        run, neighbors, eps_error, delta_error, max_bytes, _build_engine_of_cuda_module(device)
    ).epsilon(delta)


def delta(
    run: Composable,
    epsilon: float,
    *,
    neighbors: Neighbors = "add_or_remove",
    eps_error: float = EPS_ERROR,
    delta_error: float = DELTA_ERROR,
    max_bytes: int = _MAX_BYTES,
    device: str = "cuda",
) -> Bound:
    """Returns bounds on delta(epsilon), as ``run.delta(epsilon, engine="prv")`` does, on a CUDA device.

    ``epsilon`` is a finite number, in nats. The other arguments, ``run``, ``neighbors``, ``eps_error``,
    ``delta_error``, ``max_bytes`` and ``device``, are those of ``tightdp.cuda.epsilon``, which raises the same errors.

    >>> from tightdp import cuda
    >>> cuda.delta(dp.Gaussian(1.0) * 10, 5.0)  # doctest: +SKIP
    Bound(lower=0.146..., upper=0.148..., engine='prv')
    """
    return _build_question_of_cuda_module(
        run, neighbors, eps_error, delta_error, max_bytes, _build_engine_of_cuda_module(device)
    ).delta(epsilon)


def _build_engine_of_cuda_module(device: str) -> Prv:
    place = parse_probed_device_number(device)
    if place is None:
        raise ValueError(f'device must be "cuda" or "cuda:N", got {device!r}: engine "prv" is that of the host')
    return _prv_on(place)


def _build_question_of_cuda_module(
    run: Composable, neighbors: Neighbors, eps_error: float, delta_error: float, max_bytes: int, engine: Prv
) -> Question:
    asked = Question.from_question_options(
        run._to_composition(), neighbors, "prv", eps_error=eps_error, delta_error=delta_error
    )
    request = replace(asked.request, max_bytes=_check.check_count_argument("max_bytes", max_bytes))
    return asked._replace(engine=engine, request=request)
