"""Loads the compiled CUDA module, and lists the devices that it finds."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

_MODULE = "tightdp._cuda"
"""Name of the compiled module."""


@cache
def _load_module_of_device_probe() -> ModuleType | ImportError | None:
    """Returns the compiled module, the error if loading the module fails, or None if it was not built."""
    if importlib.util.find_spec(_MODULE) is None:
        return None
    try:
        return importlib.import_module(_MODULE)
    except ImportError as failure:
        return failure


def _get_module_of_device_probe() -> ModuleType | None:
    """Returns the compiled module, or None if it was not built or fails to load."""
    loaded = _load_module_of_device_probe()
    return loaded if isinstance(loaded, ModuleType) else None


@cache
def _describe_probed_devices() -> tuple[str, ...]:
    """Returns the name and the compute capability of each device, as one text for each device.

    The texts are cached, because the driver takes a millisecond to describe a device.
    """
    module = _get_module_of_device_probe()
    if module is None:
        return ()
    return tuple("{} (compute capability {}.{})".format(*module.describe(i)[:3]) for i in range(module.device_count()))


def devices() -> list[str]:
    """Returns names and compute capabilities of the devices that this build can use.

    >>> from tightdp import cuda
    >>> isinstance(cuda.devices(), list)
    True
    """
    return list(_describe_probed_devices())


def status() -> str:
    """Returns one line: the devices found, or the reason why none was found.

    >>> from tightdp import cuda
    >>> isinstance(cuda.status(), str)
    True
    """
    loaded = _load_module_of_device_probe()
    if loaded is None:
        return "not built (docs/cuda.md)"
    if isinstance(loaded, ImportError):
        return f"broken: the module was built and does not load: {loaded}"
    return ", ".join(devices()) or "built, no device found"


def parse_probed_device_number(device: str) -> int | None:
    """Returns the number N of "cuda:N", 0 for "cuda", and None for "cpu"."""
    if device == "cpu":
        return None
    kind, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind != "cuda" or not (index.isdigit() or not colon):
        raise ValueError(f'device must be "cpu", "cuda" or "cuda:N", got {device!r}')
    return int(index or 0)


def require_module(device: int = 0) -> Any:
    """Returns the compiled module. Raises RuntimeError unless the device with the number ``device`` was found.

    >>> from tightdp import cuda
    >>> cuda.require_module(0)  # doctest: +SKIP
    <module 'tightdp._cuda' ...>
    """
    found = _describe_probed_devices()
    if not found:
        raise RuntimeError(f"CUDA: {status()}")
    if not 0 <= device < len(found):
        raise RuntimeError(f"CUDA: device {device} was asked for, found {len(found)}: {status()}")
    return _get_module_of_device_probe()
