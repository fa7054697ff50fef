"""Runs ``spectral.compose_prv_by_transforms`` on a device (GPU), with the arrays of CuPy."""

from __future__ import annotations

from typing import Any

from ...._support.device_probe import require_module
from . import spectral
from .engine import Prv


def build_prv_on_device(device: int) -> Prv:
    """Returns a "prv" engine that computes cells, transforms and powers on a device.

    Raises RuntimeError if the device is missing, and ImportError if CuPy is missing.
    """
    where = build_prv_backend(device)
    return Prv(f"prv on {where.name}", where.compose, spectral.BYTES_A_POINT)


def build_prv_backend(device: int) -> _Cupy:
    """Returns CuPy on one device, as the array library of ``spectral``.

    Raises RuntimeError if the device is missing, and ImportError if CuPy is missing.
    """
    kernels = require_module(device)
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        hint = "composition on a device needs CuPy: pip install cupy-cuda13x (or -cuda12x)"
        raise ImportError(f"{hint}: {error}") from error
    return _Cupy(cupy, kernels, device)


class _Cupy:
    """The array library CuPy on one device, a ``spectral.PrvBackend``."""

    def __init__(self, cupy: Any, kernels: Any, device: int) -> None:
        self.xp, self._kernels, self._device = cupy, kernels, device
        self.name = f"cuda:{device}"

    def compose(self, *arguments: Any) -> Any:
        """Runs ``spectral.compose_prv_by_transforms`` on the device."""
        with self.xp.cuda.Device(self._device):
            return spectral.compose_prv_by_transforms(self, *arguments)

    def compute_prv_cells(self, loss: spectral.Loss, h: float, first: int, count: int) -> Any:
        out = self.xp.empty(count)
        stream = int(self.xp.cuda.get_current_stream().ptr)
        self._kernels.prv_cells(loss, h, first, count, int(out.data.ptr), self._device, stream)
        return out

    def copy_to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)
