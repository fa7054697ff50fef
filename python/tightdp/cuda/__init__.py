"""CUDA devices: what was found, clipping of arrays that live there, and composition. How to build: docs/cuda.md.

``clipped_sum`` and ``clip_and_noise`` come here by themselves for arrays in device memory. Work is queued on the
current stream of the array's library and the host does not wait. ``epsilon`` and ``delta`` are the ``prv`` engine with
its transforms on a device.
"""

from .arrays import DeviceArray, on_device, view
from .clipping import clip
from .composition import delta, epsilon
from .runtime import devices, required, status

__all__ = ["DeviceArray", "clip", "delta", "devices", "epsilon", "on_device", "required", "status", "view"]
