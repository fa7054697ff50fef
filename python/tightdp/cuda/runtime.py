"""The compiled module and the devices it finds."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def _module() -> ModuleType | None:
    try:
        from .. import _cuda  # type: ignore[attr-defined, unused-ignore]
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


def required(device: int = 0) -> Any:
    """The compiled module, for a caller that asked for a device. RuntimeError where there is none of that number."""
    found = devices()
    if not found:
        raise RuntimeError(f"CUDA: {status()}")
    if not 0 <= device < len(found):
        raise RuntimeError(f"CUDA: device {device} was asked for, found {len(found)}: {status()}")
    return _module()
