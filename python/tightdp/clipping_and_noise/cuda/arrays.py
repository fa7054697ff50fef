"""Descriptions of arrays of any library in the memory of a CUDA device, as the kernels need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._core import dlpack_array
from ..._support import device_probe as runtime
from ..arrays import is_torch_array as is_torch_array

SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Number of bytes of an entry of each type that gradients may have."""
_ENTRY_BYTES = {**SIZES, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}
"""Number of bytes of an entry of each type that some kernel reads or writes."""
_DLPACK_CUDA = (2, 13)
"""Device types kDLCUDA and kDLCUDAManaged of the DLPack standard."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """The address, shape and type of an array in device memory, as the kernels need them.

    Fields
    ------
    address : the address of the first entry
    shape : the length of each axis
    dtype : the name of the type of the entries, such as "float32"
    strides : the distances of neighbouring entries, in bytes
    device : the number of the device, or -1 for host memory
    writable : whether the array may be written to
    stream : the stream of pending work, or None
    owner : the object that keeps the memory alive, or None

    ``view`` returns the ``DeviceArray`` of an array in device memory. The constructor raises nothing.

    >>> from tightdp.cuda import DeviceArray
    >>> DeviceArray(4096, (2, 3), "float32", (12, 4), device=0).rows_contiguous
    True
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    """Distance between neighbouring entries along each axis, in bytes."""
    device: int
    writable: bool = True
    stream: int | None = None
    """Stream on which work on this array is queued, or None if the array names no stream. 1 is the default stream."""
    owner: Any = field(default=None, compare=False)
    """Object that keeps the memory alive, if the array's library made this object for this view alone."""

    @property
    def rows_contiguous(self) -> bool:
        """True if each row is contiguous in memory and aligned for its dtype."""
        expected = size = _ENTRY_BYTES.get(self.dtype, 8)
        if self.address % size or (self.shape and self.strides[0] % size):
            return False
        for n, stride in zip(self.shape[:0:-1], self.strides[:0:-1], strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True

    @property
    def row_size(self) -> int:
        """Number of entries of a row."""
        return math.prod(self.shape[1:])


def is_contiguous(a: DeviceArray) -> bool:
    """Returns whether the entries of ``a`` follow each other without gaps, and are aligned for their type."""
    return DeviceArray(a.address, (1, *a.shape), a.dtype, (0, *a.strides), a.device).rows_contiguous


def on_device(value: Any) -> bool:
    """Returns whether ``value``, or the first entry of a list ``value``, is an array in the memory of a CUDA device.

    Any other value gives False, and nothing raises an error.

    >>> import numpy as np
    >>> from tightdp.cuda import on_device
    >>> on_device(np.zeros(3))
    False
    """
    x = value[0] if isinstance(value, (list, tuple)) and len(value) > 0 else value
    if isinstance(x, np.ndarray):
        return False
    if is_torch_array(x):
        return bool(x.is_cuda)
    return _get_cuda_array_interface(x) is not None or _has_cuda_array_dlpack(x)


def view(
    label: str, x: Any, stream: Callable[[], int] = lambda: 0, accepted: Collection[str] = SIZES.keys()
) -> DeviceArray:
    """Returns the description of an array ``x`` in device memory.

    The array describes itself by torch's own attributes, ``__cuda_array_interface__`` (CuPy, Numba) or DLPack (JAX).
    ``stream()`` is the stream on which the array will be read. A library that passes an array by DLPack makes this
    stream wait for its own work on the array. ``accepted`` holds the names of accepted types. Raises TypeError, which
    names the array by ``label``, for an array of another type or in host memory.

    >>> import numpy as np
    >>> from tightdp.cuda import view
    >>> view("grads", np.zeros(3))
    Traceback (most recent call last):
    TypeError: grads must be in the memory of the device, as the first array is, got ndarray
    """
    interface = None
    if is_torch_array(x):
        size = x.element_size()
        dtype, strides = str(x.dtype).removeprefix("torch."), tuple(s * size for s in x.stride())
        found = DeviceArray(x.data_ptr(), tuple(x.shape), dtype, strides, x.device.index if x.is_cuda else -1)
    elif (interface := _get_cuda_array_interface(x)) is not None and (
        np.dtype(interface["typestr"]).name in accepted or not _has_cuda_array_dlpack(x)
    ):
        found = _describe_cuda_interface(x, interface)
    elif _has_cuda_array_dlpack(x):
        found = _describe_cuda_array_capsule(label, x, stream())
    else:
        raise TypeError(f"{label} must be in the memory of the device, as the first array is, got {type(x).__name__}")
    if found.dtype not in accepted:
        raise TypeError(f"{label} must be of dtype {', '.join(accepted)}, got {found.dtype}")
    if found.device < 0:
        raise TypeError(f"{label} must be in the memory of the device, as the first array is")
    return found


def _get_cuda_array_interface(x: Any) -> Any:
    try:  # other libraries may raise any error for arrays on the host, or of dtypes that NumPy does not know
        return getattr(x, "__cuda_array_interface__", None)
    except Exception:
        return None


def _describe_cuda_interface(x: Any, interface: Any) -> DeviceArray:
    """Describes an array by its CUDA array interface."""
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if not dtype.isnative:
        raise TypeError(f"arrays on a device must be in the native byte order, got {interface['typestr']}")
    dense = tuple(dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    address, read_only = interface["data"]
    module = runtime._get_module_of_device_probe()
    if module is not None and address:
        device = int(module.find_cuda_device(address))
    else:
        device = int(getattr(getattr(x, "device", None), "id", 0))
    strides = tuple(interface.get("strides") or dense)
    return DeviceArray(
        address or 0, shape, dtype.name, strides, device, not read_only, interface.get("stream"), interface
    )


def _has_cuda_array_dlpack(x: Any) -> bool:
    try:
        return int(x.__dlpack_device__()[0]) in _DLPACK_CUDA
    except Exception:
        return False


def _describe_cuda_array_capsule(label: str, x: Any, stream: int) -> DeviceArray:
    """Describes an array by its DLPack capsule, ready for work on ``stream``."""
    # DLPack numbers the default stream 1, and does not allow 0.
    order = stream or 1
    try:
        capsule = x.__dlpack__(stream=order, max_version=(1, 0))
    except TypeError:  # a library with the first version of DLPack
        capsule = x.__dlpack__(stream=order)
    found = dlpack_array(capsule)
    if found.device_type not in _DLPACK_CUDA:
        raise TypeError(
            f"{label} must be in the memory of the device, its capsule is of device type {found.device_type}"
        )
    # A capsule of the first version of DLPack does not say whether its array may be written to. JAX arrays must not be
    # written to.
    writable = found.read_only is False
    return DeviceArray(found.address, found.shape, found.dtype, found.strides, found.device, writable, owner=found)
