"""Converts per-example arrays of any library to the form that the compiled core reads.

Sums are converted back to arrays of the same library. A column is one coordinate of all examples.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import describe_rows
from .._support import _check

_DTYPES = "float16, bfloat16, float32 or float64"
_NAMES = {np.dtype(name): name for name in ("float16", "float32", "float64")}
"""Names of dtypes. Looking up a name here is faster than asking NumPy, which takes microseconds."""


@dataclass(slots=True)  # not frozen, because making a frozen object takes three times as long
class ExamplesToClip:
    """Per-example arrays of shape (batch, *shape), one for each parameter. An array is not copied if each of its rows
    is contiguous in memory."""

    arrays: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    batch: int
    dtype: str
    is_list: bool
    torch: bool
    """True if results are returned as torch tensors."""

    @property
    def columns(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def out_dtype(self) -> npt.DTypeLike:
        return np.float64 if self.dtype == "float64" else np.float32


def view_examples_to_clip(name: str, value: Any) -> ExamplesToClip:
    """Checks ``value`` and returns a view of it.

    ``value`` is one array of shape (batch, *shape), or a list of such arrays of one dtype.
    """
    is_list = isinstance(value, (list, tuple))
    given = list(value) if is_list else [value]
    if not given:
        raise ValueError(f"{name} must hold at least one array")
    arrays: list[Any] = []
    shapes: list[tuple[int, ...]] = []
    batches: list[int] = []
    dtypes: list[str] = []
    for i, x in enumerate(given):
        label = f"{name}[{i}]" if is_list else name
        x, shape, dtype = _view_array_to_clip(label, x)
        if dtype is None:
            raise TypeError(f"{label} must be of dtype {_DTYPES}, got {getattr(x, 'dtype', '?')}")
        if len(shape) < (1 if is_list else 2):
            raise ValueError(f"{label} must have a batch axis and at least one other, got shape {shape}")
        arrays.append(x)
        shapes.append(shape[1:])
        batches.append(shape[0])
        dtypes.append(dtype)
    if batches.count(batches[0]) < len(batches):
        raise ValueError(f"{name} must agree in their first axis, the batch, got {batches}")
    if dtypes.count(dtypes[0]) < len(dtypes):
        raise TypeError(f"{name} must be of one dtype, got {sorted(set(dtypes))}")
    found = ExamplesToClip(tuple(arrays), tuple(shapes), batches[0], dtypes[0], is_list, is_torch_array(given[0]))
    if found.columns == 0:
        raise ValueError(f"{name} must have at least one column")
    return found


def _view_array_to_clip(label: str, x: Any) -> tuple[Any, tuple[int, ...], str | None]:
    """Returns an array in host memory that the kernels can read, its shape, and the name of its dtype.

    The name is None if the kernels do not support the dtype.
    """
    x = as_host_array_of_examples(x)
    if isinstance(x, np.ndarray):
        if x.ndim == 0:
            return x, (), "float64"
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{label} must be an array without a mask: fill it, or leave those examples out")
        if x.flags.c_contiguous and x.dtype in _NAMES:
            return x, x.shape, _NAMES[x.dtype]
    elif isinstance(x, (list, tuple, str, bytes)) or not hasattr(x, "__dlpack__"):
        raise TypeError(f"{label} must be an array (NumPy, or any with __dlpack__), got {type(x).__name__}")
    elif int(x.__dlpack_device__()[0]) not in (1, 3):  # DLPack's numbers of host memory, ordinary and pinned
        raise TypeError(f"{label} must be in the memory of the host")
    elif getattr(x, "requires_grad", False):
        x = x.detach()  # because DLPack refuses tensors that are part of an autograd graph
    try:
        shape, dtype, contiguous, _ = describe_rows(x)
    except (BufferError, RuntimeError) as why:  # raised for sparse, quantized, nested or conjugated tensors
        raise TypeError(f"{label} must be a dense array of plain numbers: {why}") from None
    if not contiguous and dtype is not None:
        x = x.contiguous() if hasattr(x, "contiguous") else np.ascontiguousarray(np.asarray(x))
    return x, shape, dtype


def as_host_array_of_examples(x: Any) -> Any:
    """Returns a torch tensor's memory as a NumPy array. Reading the shape and type of a NumPy array is five times as
    fast as reading those of a tensor.

    Other values are returned unchanged. Tensors of bfloat16, and tensors outside host memory, are returned unchanged
    too, because NumPy cannot hold them. The kernels read these tensors by DLPack.
    """
    if not isinstance(x, np.ndarray) and is_torch_array(x):
        try:
            return (x.detach() if x.requires_grad else x).numpy()
        except (RuntimeError, TypeError):  # raised for bfloat16, other devices, sparse tensors, and within torch.func
            return x
    return x


def is_torch_array(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def prepare_arrays_of_sums(found: ExamplesToClip, out: Any, name: str = "out", *, integers: bool = False) -> list[Any]:
    """Returns the arrays that the sums are written to: the arrays of ``out``, after checks, or new arrays.

    Their dtype is float32 or float64, or int64 with ``integers``.
    """
    if out is None:
        return [np.empty(shape, np.int64 if integers else found.out_dtype) for shape in found.shapes]
    accepted = ["int64"] if integers else ["float32", "float64"]
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if isinstance(out, (list, tuple)) != found.is_list or len(given) != len(found.shapes):
        raise ValueError(f"{name} must have the form of grads: {len(found.shapes)} array(s)")
    for x, shape in zip(given, found.shapes, strict=True):
        wanted = f"a writable, contiguous {' or '.join(accepted)} array of shape {shape}"
        if not (isinstance(x, np.ndarray) or hasattr(x, "__dlpack__")):
            raise TypeError(f"{name} must be {wanted}, got {type(x).__name__}")
        if getattr(x, "requires_grad", False):
            raise ValueError(f"{name} must be {wanted}, got a tensor that requires gradient")
        view = as_host_array_of_examples(x)
        has, dtype, contiguous, writable = describe_rows(view)
        # ``contiguous`` allows gaps between rows, and no gaps inside of a row.
        dense = contiguous and (view if isinstance(view, np.ndarray) else np.from_dlpack(view)).flags.c_contiguous
        shown = dtype or str(getattr(x, "dtype", "?")).removeprefix("torch.")
        if has != shape or shown not in accepted or not dense or not writable:
            flaws = ("" if dense else ", strided") + ("" if writable else ", read-only")
            raise ValueError(f"{name} must be {wanted}, got shape {has} of {shown}{flaws}")
    if len({str(x.dtype) for x in given}) > 1:
        raise ValueError(f"{name} must be of one dtype")
    return given


def convert_clipped_sums_to_arrays(found: ExamplesToClip, outs: list[Any]) -> Any:
    """Returns the sums as arrays of the caller's library."""
    if found.torch:
        torch = sys.modules["torch"]
        outs = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in outs]
    return outs if found.is_list else outs[0]


def check_columns_for_clipping(name: str, value: Any, found: ExamplesToClip) -> npt.NDArray[np.float64]:
    """Checks and flattens one finite number for each column. ``value`` is an array of the parameter's shape, a list of
    such arrays, or a flat vector."""
    if isinstance(value, (list, tuple)) and found.is_list:
        if len(value) != len(found.shapes):
            raise ValueError(f"{name} must hold {len(found.shapes)} arrays, got {len(value)}")
        parts = [_check.check_array_argument(name, v) for v in value]
        for v, shape in zip(parts, found.shapes, strict=True):
            if v.shape != shape:
                raise ValueError(f"{name} must have shapes {list(found.shapes)}, got {v.shape}")
        flat = np.concatenate([v.reshape(-1) for v in parts])
    else:
        flat = _check.check_array_argument(name, value)
        if flat.shape != (found.columns,) and not (not found.is_list and flat.shape == found.shapes[0]):
            raise ValueError(f"{name} must have shape {(found.columns,)}, one number for each column, got {flat.shape}")
        flat = flat.reshape(-1)
    if not np.isfinite(flat).all():
        raise ValueError(f"{name} must be finite")
    return np.ascontiguousarray(flat)


def check_weights_for_clipping(value: Any, batch: int) -> npt.NDArray[np.float64] | None:
    """Checks weights, one finite number >= 0 for each example, and returns them as float64."""
    if value is None:
        return None
    weights = np.asarray(value)
    if weights.dtype != np.bool_:  # booleans are weights of 0 and 1
        weights = _check.check_array_argument("weights", weights, "finite numbers in [0, inf)")
    weights = np.ascontiguousarray(weights, np.float64)
    if weights.shape != (batch,):
        raise ValueError(f"weights must have shape {(batch,)}, one number for each example, got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("weights must be finite and in [0, inf)")
    return weights
