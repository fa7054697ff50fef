"""Max pooling of the images of all records at once, in ways that are faster than PyTorch's usual one on a CPU."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from .convolutions import repeat_for_convolution_axes
from .record_axis import RecordAxis

MOST_WINDOW_SIDES = 4
"""Largest height plus width of a window that is pooled axis by axis. PyTorch's own function is faster for larger
windows, because its time depends less on their size."""


class _PoolingCall(NamedTuple):
    """The arguments of ``torch.nn.functional.max_pool2d`` after the input."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False
    return_indices: bool = False

    def find_plain_windows(self) -> list[tuple[int, int]] | None:
        """Returns (size, stride) of a window along both axes, or None if the windows are large or not plain."""
        sizes, strides, padding, dilation = (
            repeat_for_convolution_axes(given, 2)
            for given in (self.kernel_size, self.stride or self.kernel_size, self.padding, self.dilation)
        )
        plain = padding == [0, 0] and dilation == [1, 1] and not self.ceil_mode and not self.return_indices
        return list(zip(sizes, strides, strict=True)) if plain and 2 < sum(sizes) <= MOST_WINDOW_SIDES else None


def compute_max_pool2d(axis: RecordAxis, input: Any, *arguments: Any, **options: Any) -> Any:
    """Computes ``torch.nn.functional.max_pool2d`` of all records.

    On a CPU, small windows are pooled along one axis after the other. For other windows, the channels come last in
    memory, because PyTorch is much faster then.
    """
    windows = _PoolingCall(*arguments, **options).find_plain_windows()

    def compute_pooled_images(x: Any) -> Any:
        """Returns the maxima of an array of images, and the positions of the maxima if they are requested."""
        images = x.flatten(0, -4)
        if images.device.type == "cpu" and windows is not None:
            found = images
            for place, (size, stride) in zip((-1, -2), reversed(windows), strict=True):
                if (size, stride) != (1, 1):
                    found = _MaximaAlongAxis.apply(found, place, size, stride)
            return found.view(*x.shape[:-3], *found.shape[1:])
        if images.device.type == "cpu":
            if images.requires_grad:  # the hook returns gradients to earlier layers in the usual layout
                images = images.view_as(images)
                images.register_hook(torch.Tensor.contiguous)
            images = images.contiguous(memory_format=torch.channels_last)
        found = F.max_pool2d(images, *arguments, **options)
        if isinstance(found, torch.Tensor):
            return found.contiguous().view(*x.shape[:-3], *found.shape[1:])
        return tuple(each.contiguous().view(*x.shape[:-3], *each.shape[1:]) for each in found)  # maxima and positions

    return axis.compute_along_record_axis(compute_pooled_images, (input,))


class _MaximaAlongAxis(torch.autograd.Function):
    """The maxima of windows along one axis. The gradient goes to the first maximum of each window, as in PyTorch.

    Pooling along the last axis and then along the axis before it therefore has the gradients of PyTorch's pooling.
    Among equal maxima of a window, PyTorch's pooling chooses the first row that has one, and in this row the first
    column.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, axis: int, size: int, stride: int) -> Any:
        windows = x.unfold(axis, size, stride).unbind(-1)
        found = functools.reduce(torch.maximum, windows[1:], windows[0]).contiguous()
        ctx.save_for_backward(x, found)
        ctx.windows = axis, size, stride
        return found

    @staticmethod
    def backward(ctx: Any, left: Any) -> Any:
        """Returns the gradient with respect to the input.

        ``left`` is at first the gradient with respect to the maximum of each window. The code looks at the entries of
        all windows, one position after the other. The first entry that equals the maximum takes the gradient, and
        ``left`` then becomes 0 for this window.
        """
        x, found = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        entries, shares = (each.unfold(*ctx.windows).unbind(-1) for each in (x, gradient))
        for entry, share in zip(entries[:-1], shares, strict=False):
            # The comparison writes ones and zeros as floats. Boolean masks and torch.where take several times as long.
            here = torch.eq(entry, found, out=torch.empty_like(left)).mul_(left)
            share.add_(here)
            left = left - here
        shares[-1].add_(left)
        return gradient, None, None, None
