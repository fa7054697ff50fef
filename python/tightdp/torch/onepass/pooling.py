"""Max pooling of the images of all records at once, in the memory layout for which PyTorch is fast."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .record_axis import RecordAxis


def compute_max_pool2d(axis: RecordAxis, input: Any, *arguments: Any, **options: Any) -> Any:
    """Computes ``torch.nn.functional.max_pool2d`` of all records. On a CPU, the channels come last in memory, because
    PyTorch is much faster then."""

    def compute_pooled_images(x: Any) -> Any:
        """Returns the maxima of an array of images, and the positions of the maxima if they are requested."""
        images = x.flatten(0, -4)
        if images.device.type == "cpu":
            if images.requires_grad:  # the hook returns gradients to earlier layers in the usual layout
                images = images.view_as(images)
                images.register_hook(torch.Tensor.contiguous)
            images = images.contiguous(memory_format=torch.channels_last)
        found = F.max_pool2d(images, *arguments, **options)
        if isinstance(found, torch.Tensor):
            return found.contiguous().view(*x.shape[:-3], *found.shape[1:])
        return tuple(each.contiguous().view(*x.shape[:-3], *each.shape[1:]) for each in found)  # maxima and positions

    return axis.compute_on_arrays(compute_pooled_images, (input,))
