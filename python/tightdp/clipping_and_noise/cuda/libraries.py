"""Interfaces to the libraries that own arrays on a device. Such a library makes new arrays and has a current stream."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np

from .arrays import is_torch_array, on_device


def find_cuda_library(x: Any, device: int) -> Any:
    """Returns the interface to the library that owns the array ``x``, for work on the device with number ``device``."""
    return _TorchCudaLibrary(x.device) if is_torch_array(x) else _CupyCudaLibrary(device)


def get_cuda_stream(x: Any) -> int:
    """Returns the current stream of the library that owns ``x``.

    Unlike the method ``stream`` of the interfaces below, this function needs no device number.
    """
    if is_torch_array(x):
        return int(sys.modules["torch"].cuda.current_stream(x.device).cuda_stream)
    return int(_import_cupy().cuda.get_current_stream().ptr)


class _CudaLibrary:
    """The interface to a library that owns arrays."""

    def check_cuda_doubles(self, name: str, value: Any, shape: tuple[int], low: float, high: float) -> Any:
        """Returns a vector as float64 on the device, or None for None. Checks the vector's shape, and the range of its
        entries if they are not on the device."""
        if value is None:
            return None
        if isinstance(value, (list, tuple)) and len(value) > 0 and hasattr(value[0], "shape"):
            value = (
                self.concatenate_parts(list(value))
                if on_device(value[0])
                else np.concatenate([np.asarray(v, np.float64).reshape(-1) for v in value])
            )
        if not on_device(value):
            value = np.ascontiguousarray(np.asarray(value, np.float64)).reshape(-1)
            if not (np.isfinite(value).all() and (value >= low).all() and (value <= high).all()):
                raise ValueError(f"{name} must be finite and in [{low:g}, {high:g}]")
        value = self.as_doubles(value)
        if tuple(value.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
        return value

    def take_columns(self, value: Any, ends: Any, indices: list[int]) -> Any:
        return self.concatenate_parts([value[int(ends[i]) : int(ends[i + 1])] for i in indices])

    def concatenate_parts(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def as_doubles(self, value: Any) -> Any:
        raise NotImplementedError

    def as_flags(self, value: Any) -> Any:
        """Returns a vector of truth values as bytes on the device."""
        raise NotImplementedError

    def wait_for_stream(self, stream: int | None) -> None:
        """Makes the current stream wait for the work that is queued on ``stream``."""

    def keep_cuda_owners_alive(self, owners: list[Any]) -> None:
        """Keeps the owners of views alive until the work that is queued on the current stream is done."""


class _TorchCudaLibrary(_CudaLibrary):
    def __init__(self, device: Any) -> None:
        self._torch, self._device = sys.modules["torch"], device

    def make_empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=self._device)

    def make_full(self, n: int, value: float) -> Any:
        return self._torch.full((n,), value, dtype=self._torch.float64, device=self._device)

    def as_doubles(self, value: Any) -> Any:
        return self._torch.as_tensor(value, dtype=self._torch.float64, device=self._device).reshape(-1).contiguous()

    def as_flags(self, value: Any) -> Any:
        return self._torch.as_tensor(value, device=self._device).reshape(-1).to(self._torch.uint8)

    def concatenate_parts(self, parts: list[Any]) -> Any:
        return self._torch.cat([p.reshape(-1) for p in parts])

    def make_cuda_rows_contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def stream(self) -> int:
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)


class _CupyCudaLibrary(_CudaLibrary):
    """The interface to CuPy, for its own arrays and for arrays that other libraries (Numba, JAX) share with it."""

    # Events of the device, each with the owners of DLPack memory that must live until the event has happened.
    _kept: ClassVar[list[tuple[Any, list[Any]]]] = []

    def __init__(self, device: int) -> None:
        self._cupy, self._device = _import_cupy(), device

    def _use_device(self) -> Any:
        return self._cupy.cuda.Device(self._device)

    def _convert_to_own(self, x: Any) -> Any:
        if isinstance(x, self._cupy.ndarray) or not on_device(x) or hasattr(x, "__cuda_array_interface__"):
            return self._cupy.asarray(x)
        return self._cupy.from_dlpack(x)

    def make_empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        with self._use_device():
            return self._cupy.empty(shape, dtype)

    def make_full(self, n: int, value: float) -> Any:
        with self._use_device():
            return self._cupy.full(n, value, "float64")

    def as_doubles(self, value: Any) -> Any:
        with self._use_device():
            return self._cupy.ascontiguousarray(self._convert_to_own(value).astype("float64", copy=False).reshape(-1))

    def as_flags(self, value: Any) -> Any:
        with self._use_device():
            return self._convert_to_own(value).reshape(-1).astype("uint8")

    def concatenate_parts(self, parts: list[Any]) -> Any:
        with self._use_device():
            return self._cupy.concatenate([self._convert_to_own(p).reshape(-1) for p in parts])

    def make_cuda_rows_contiguous(self, x: Any) -> Any:
        with self._use_device():
            try:
                return self._cupy.ascontiguousarray(self._convert_to_own(x))
            except (TypeError, ValueError, BufferError) as error:  # bfloat16, which CuPy does not support
                raise ValueError(f"grads must hold each example in one run of memory: {error}") from None

    def stream(self) -> int:
        with self._use_device():
            return int(self._cupy.cuda.get_current_stream().ptr)

    def wait_for_stream(self, stream: int | None) -> None:
        if stream is None or stream == (self.stream() or 1):
            return
        with self._use_device():
            done = self._cupy.cuda.Event(disable_timing=True)
            done.record(self._cupy.cuda.ExternalStream(0 if stream == 1 else stream))
            self._cupy.cuda.get_current_stream().wait_event(done)

    def keep_cuda_owners_alive(self, owners: list[Any]) -> None:
        self._kept[:] = [(event, held) for event, held in self._kept if not event.done]
        held = [owner for owner in owners if owner is not None]
        if held:
            with self._use_device():
                done = self._cupy.cuda.Event(disable_timing=True)
                done.record()
            self._kept.append((done, held))


def _import_cupy() -> Any:
    try:
        import cupy  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise ImportError("arrays on a device that are not torch's need cupy for their results") from None
    return cupy
