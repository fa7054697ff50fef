"""Pooling of all records' images at once, in the layout in which PyTorch is fast."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .record_axis import RecordAxis


def compute_max_pool2d(axis: RecordAxis, input: Any, *arguments: Any, **options: Any) -> Any:
    """Computes ``torch.nn.functional.max_pool2d`` of all records. On a processor it takes a tenth of the time."""

    def compute_images(x: Any) -> Any:
        """Returns the maxima of an array of images, and their places if these are asked for."""
        images = x.flatten(0, -4)
        if images.device.type == "cpu":
            if images.requires_grad:  # the layers before get gradients in their own layout
                images = images.view_as(images)
                images.register_hook(torch.Tensor.contiguous)
            images = images.contiguous(memory_format=torch.channels_last)
        found = F.max_pool2d(images, *arguments, **options)
        if isinstance(found, torch.Tensor):
            return found.contiguous().view(*x.shape[:-3], *found.shape[1:])
        return tuple(each.contiguous().view(*x.shape[:-3], *each.shape[1:]) for each in found)  # and their places

    return axis.compute_on_arrays(compute_images, (input,))
