"""The ``prv`` engine with its cells, transforms and powers on a device: ``tightdp.cuda.epsilon`` and ``delta``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _check
from . import spectral
from .runtime import required

if TYPE_CHECKING:
    from ..accounting.bound import Bound
    from ..accounting.composable import Composable
    from ..accounting.options import Neighbors, Options

_MAX_BYTES = 1 << 32


def epsilon(
    run: Composable,
    delta: float,
    *,
    neighbors: Neighbors = "add_or_remove",
    eps_error: float = 0.01,
    delta_error: float = 1e-10,
    max_bytes: int = _MAX_BYTES,
    device: int = 0,
) -> Bound:
    """Bounds on epsilon(delta) as of ``run.epsilon(delta, engine="prv")``, composed on a CUDA device through CuPy.

    Parameters as there; ``max_bytes`` of the device's memory at most, else ValueError. The bounds hold as those of the
    host do, given what docs/theory/fft.md, section 4, assumes of cuFFT; their rounding term is about five
    times as large.
    RuntimeError where there is no device, ImportError where there is no CuPy.
    """
    from ..accounting import queries

    asked = _options(neighbors, eps_error, delta_error, max_bytes, backend(device))
    return queries.epsilon(run._composition(), _check.open_unit("delta", delta), asked)


def delta(
    run: Composable,
    epsilon: float,
    *,
    neighbors: Neighbors = "add_or_remove",
    eps_error: float = 0.01,
    delta_error: float = 1e-10,
    max_bytes: int = _MAX_BYTES,
    device: int = 0,
) -> Bound:
    """Bounds on delta(epsilon) likewise."""
    from ..accounting import queries

    asked = _options(neighbors, eps_error, delta_error, max_bytes, backend(device))
    return queries.delta(run._composition(), _check.real("epsilon", epsilon), asked)


def _options(neighbors: Neighbors, eps_error: float, delta_error: float, max_bytes: int, where: _Cupy) -> Options:
    from ..accounting.engines.base import Request
    from ..accounting.engines.prv import Prv
    from ..accounting.options import NEIGHBORS, Options

    _check.choice("neighbors", neighbors, NEIGHBORS)
    request = Request(
        eps_error=_check.positive("eps_error", eps_error),
        delta_error=_check.open_unit("delta_error", delta_error),
        max_bytes=_check.count("max_bytes", max_bytes),
    )
    engine = Prv(f"prv on {where.name}", where.compose, spectral.BYTES_A_POINT)
    return Options(neighbors, engine, request)


def backend(device: int) -> _Cupy:
    """The device's arrays; RuntimeError or ImportError where it or CuPy is missing."""
    kernels = required(device)
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("composition on a device needs CuPy: pip install cupy-cuda13x (or -cuda12x)") from None
    return _Cupy(cupy, kernels, device)


class _Cupy:
    """The arrays of one device."""

    def __init__(self, cupy: Any, kernels: Any, device: int) -> None:
        self.xp, self._kernels, self._device = cupy, kernels, device
        self.name = f"cuda:{device}"

    def compose(self, *arguments: Any) -> Any:
        """``spectral.compose`` on that device."""
        with self.xp.cuda.Device(self._device):
            return spectral.compose(self, *arguments)

    def cells(self, law: spectral.Law, h: float, first: int, count: int) -> Any:
        out = self.xp.empty(count)
        stream = int(self.xp.cuda.get_current_stream().ptr)
        self._kernels.prv_cells(law, h, first, count, int(out.data.ptr), self._device, stream)
        return out

    def host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)
