"""CUDA devices: what was found, and clipping of arrays that live there. How to build and what was run: docs/cuda.md.

``clipped_sum`` and ``clip_and_noise`` come here by themselves for arrays in device memory. Work is queued on the
current stream of the array's library and the host does not wait.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import _check
from .noise import RandomSource

_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def _module() -> ModuleType | None:
    try:
        from . import _cuda  # type: ignore[attr-defined, unused-ignore]
    except ImportError:  # not built, or for another machine
        return None
    return _cuda  # type: ignore[no-any-return, unused-ignore]


def devices() -> list[str]:
    """Names and compute capabilities of the devices that this build can use; empty where there is none."""
    module = _module()
    if module is None:
        return []
    return ["{} (compute capability {}.{})".format(*module.describe(i)[:3]) for i in range(module.device_count())]


def status() -> str:
    """One line: the devices found, or why there is none."""
    if _module() is None:
        return "not built (docs/cuda.md)"
    return ", ".join(devices()) or "built, no device found"


def required() -> Any:
    """The compiled module, for a caller that asked for a device. RuntimeError where there is none."""
    if not devices():
        raise RuntimeError(f"CUDA: {status()}")
    return _module()


def on_device(value: Any) -> bool:
    """Whether ``value``, or the first of a list, is an array in the memory of a CUDA device."""
    x = value[0] if isinstance(value, (list, tuple)) and len(value) > 0 else value
    if isinstance(x, np.ndarray):
        return False
    if _is_torch(x):
        return bool(x.is_cuda)
    try:  # other libraries raise what they like for arrays of the host
        return hasattr(x, "__cuda_array_interface__")
    except Exception:
        return False


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """What the kernels need to know of an array in device memory."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    """In bytes."""
    device: int

    @property
    def rows_contiguous(self) -> bool:
        expected = _SIZES[self.dtype]
        for n, stride in zip(self.shape[:0:-1], self.strides[:0:-1], strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True

    @property
    def row_size(self) -> int:
        return math.prod(self.shape[1:])


def view(label: str, x: Any) -> DeviceArray:
    """Through torch's own attributes or ``__cuda_array_interface__`` (CuPy, Numba, JAX)."""
    if _is_torch(x):
        dtype = str(x.dtype).removeprefix("torch.")
        size = x.element_size()
        index = x.device.index if x.is_cuda else -1
        found = DeviceArray(x.data_ptr(), tuple(x.shape), dtype, tuple(s * size for s in x.stride()), index)
    elif hasattr(x, "__cuda_array_interface__"):
        interface = x.__cuda_array_interface__
        shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"]).name
        size = np.dtype(interface["typestr"]).itemsize
        dense = tuple(size * math.prod(shape[i + 1 :]) for i in range(len(shape)))
        strides = tuple(interface.get("strides") or dense)
        index = int(getattr(getattr(x, "device", None), "id", 0))
        found = DeviceArray(interface["data"][0] or 0, shape, dtype, strides, index)
    else:
        raise TypeError(f"{label} must be in the memory of the device, as the first array is, got {type(x).__name__}")
    if found.dtype not in _SIZES:
        raise TypeError(f"{label} must be of dtype {', '.join(_SIZES)}, got {found.dtype}")
    if found.device < 0:
        raise TypeError(f"{label} must be in the memory of the device, as the first array is")
    return found


def clip(
    grads: Any,
    max_norm: float | Sequence[float],
    *,
    noise_multiplier: float,
    rng: RandomSource | None,
    weights: Any,
    center: Any,
    scale: Any,
    groups: Sequence[Sequence[int]] | None,
    normalize: bool,
    stability: float,
    out: Any,
    accumulate: bool,
) -> tuple[Any, Any]:
    """``clipped_sum`` and ``clip_and_noise`` (gradients.py) for arrays on a device -> sum, norms, both there.

    What the host holds of weights, centre and scale is checked as ever; arrays already on the device are not waited
    for: an example whose weight is not in [0, inf), or times max_norm is over the range of max_norm, adds nothing.
    """
    from .gradients import group_bounds

    is_list = isinstance(grads, (list, tuple))
    given = list(grads) if is_list else [grads]
    arrays = [view(f"grads[{i}]" if is_list else "grads", x) for i, x in enumerate(given)]
    for a in arrays:
        if len(a.shape) < (1 if is_list else 2):
            raise ValueError(f"grads must have a batch axis and at least one other, got shape {a.shape}")
    for field in ("dtype", "device"):
        if len({getattr(a, field) for a in arrays}) > 1:
            raise TypeError(f"grads must be of one {field}, got {[getattr(a, field) for a in arrays]}")
    if len({a.shape[0] for a in arrays}) > 1:
        raise ValueError(f"grads must agree in their first axis, the batch, got {[a.shape[0] for a in arrays]}")
    if accumulate and out is None:
        raise ValueError("accumulate adds to out, so out must be given")
    library = _library(given[0])
    for i, a in enumerate(arrays):
        if not a.rows_contiguous:
            given[i] = library.contiguous(given[i])
            arrays[i] = view("grads", given[i])
    first, batch = arrays[0], arrays[0].shape[0]
    shapes = [a.shape[1:] for a in arrays]
    columns = sum(a.row_size for a in arrays)
    if columns == 0:
        raise ValueError("grads must have at least one column")
    w = library.doubles("weights", weights, (batch,), 0.0, math.inf)
    middle = library.doubles("center", center, (columns,), -math.inf, math.inf)
    width = library.doubles("scale", scale, (columns,), 1e-300, math.inf)
    inverse = None if width is None else 1.0 / width
    if (middle is None) != (inverse is None):
        middle = library.full(columns, 0.0) if middle is None else middle
        inverse = library.full(columns, 1.0) if inverse is None else inverse
    out_dtype = "float64" if first.dtype == "float64" else "float32"
    outs = _outputs(out, shapes, is_list, first.device) or [library.empty(s, out_dtype) for s in shapes]
    parts = group_bounds(len(shapes), max_norm, groups)
    for _, bound in parts:
        low, high = (1e-100, 1e100) if first.dtype == "float64" else (1e-25, 1e25)
        if not low <= bound <= high:
            raise ValueError(f"max_norm must be in [{low:g}, {high:g}], got {bound!r}")
    deviation = noise_multiplier * math.hypot(*(bound for _, bound in parts))
    norms = library.empty((len(parts), batch), "float64")
    seen = [view("out", x) for x in outs]
    at, ends = view("norms", norms), np.cumsum([0] + [a.row_size for a in arrays])
    for g, (indices, bound) in enumerate(parts):
        a = middle if middle is None or len(parts) == 1 else library.columns(middle, ends, indices)
        b = inverse if inverse is None or len(parts) == 1 else library.columns(inverse, ends, indices)
        required().clipped_sum(
            [(arrays[i].address, arrays[i].strides[0], arrays[i].row_size, seen[i].address) for i in indices],
            batch,
            first.dtype,
            seen[0].dtype == "float64",
            bound,
            bool(normalize),
            _check.positive("stability", stability),
            0 if w is None else view("weights", w).address,
            0 if a is None else view("center", a).address,
            0 if b is None else view("scale", b).address,
            deviation,
            rng.stream() if rng is not None and deviation > 0 else None,
            bool(accumulate),
            at.address + 8 * g * batch,
            first.device,
            library.stream(),
        )
    grouped = groups is not None or isinstance(max_norm, (Sequence, np.ndarray))
    return (outs if is_list else outs[0]), (norms.T if grouped else norms[0])


def _outputs(out: Any, shapes: list[tuple[int, ...]], is_list: bool, device: int) -> list[Any] | None:
    if out is None:
        return None
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if isinstance(out, (list, tuple)) != is_list or len(given) != len(shapes):
        raise ValueError(f"out must be as grads are: {len(shapes)} array(s)")
    found = [view("out", x) for x in given]
    for a, shape in zip(found, shapes, strict=True):
        whole = DeviceArray(a.address, (1, *a.shape), a.dtype, (0, *a.strides), a.device)
        if a.shape != shape or a.dtype not in ("float32", "float64") or not whole.rows_contiguous or a.device != device:
            raise ValueError(f"out must be a contiguous float32 or float64 array of shape {shape} on the same device")
    if len({a.dtype for a in found}) > 1:
        raise ValueError("out must be of one dtype")
    return given


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _library(x: Any) -> Any:
    return _Torch(x.device) if _is_torch(x) else _Cupy()


class _Library:
    """What is asked of the library that owns the arrays: new ones on the same device, and the current stream."""

    def doubles(self, name: str, value: Any, shape: tuple[int], low: float, high: float) -> Any:
        if value is None:
            return None
        if isinstance(value, (list, tuple)) and len(value) > 0 and hasattr(value[0], "shape"):
            value = (
                self.concatenated(list(value))
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

    def columns(self, value: Any, ends: Any, indices: list[int]) -> Any:
        return self.concatenated([value[int(ends[i]) : int(ends[i + 1])] for i in indices])

    def concatenated(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def as_doubles(self, value: Any) -> Any:
        raise NotImplementedError


class _Torch(_Library):
    def __init__(self, device: Any) -> None:
        self._torch, self._device = sys.modules["torch"], device

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=self._device)

    def full(self, n: int, value: float) -> Any:
        return self._torch.full((n,), value, dtype=self._torch.float64, device=self._device)

    def as_doubles(self, value: Any) -> Any:
        return self._torch.as_tensor(value, dtype=self._torch.float64, device=self._device).reshape(-1).contiguous()

    def concatenated(self, parts: list[Any]) -> Any:
        return self._torch.cat([p.reshape(-1) for p in parts])

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def stream(self) -> int:
        return int(self._torch.cuda.current_stream(self._device).cuda_stream)


class _Cupy(_Library):
    """CuPy's own arrays, and what others (Numba, JAX) share with it."""

    def __init__(self) -> None:
        try:
            import cupy  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise ImportError("arrays on a device that are not torch's need cupy for their results") from None
        self._cupy = cupy

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._cupy.empty(shape, dtype)

    def full(self, n: int, value: float) -> Any:
        return self._cupy.full(n, value, "float64")

    def as_doubles(self, value: Any) -> Any:
        return self._cupy.ascontiguousarray(self._cupy.asarray(value, "float64").reshape(-1))

    def concatenated(self, parts: list[Any]) -> Any:
        return self._cupy.concatenate([self._cupy.asarray(p).reshape(-1) for p in parts])

    def contiguous(self, x: Any) -> Any:
        return self._cupy.ascontiguousarray(self._cupy.asarray(x))

    def stream(self) -> int:
        return int(self._cupy.cuda.get_current_stream().ptr)
