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
PIECE_ENTRIES = 1 << 18
"""Largest number of entries of images that are pooled at a time: 1 MB of float32."""

_Windows = list[tuple[int, int, int]]
"""The axes along which images are pooled, in order, each with the size and the stride of the windows."""


class _PoolingCall(NamedTuple):
    """The arguments of ``torch.nn.functional.max_pool2d`` after the input."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    ceil_mode: bool = False
    return_indices: bool = False

    def find_plain_windows(self) -> _Windows | None:
        """Returns (axis, size, stride) of a window along each axis, the last axis first, without axes along which every
        entry is a window. Returns None if the windows are large or not plain."""
        sizes, strides, padding, dilation = (
            repeat_for_convolution_axes(given, 2)
            for given in (self.kernel_size, self.stride or self.kernel_size, self.padding, self.dilation)
        )
        plain = padding == [0, 0] and dilation == [1, 1] and not self.ceil_mode and not self.return_indices
        if not plain or not 2 < sum(sizes) <= MOST_WINDOW_SIDES:
            return None
        found = ((axis, sizes[axis], strides[axis]) for axis in (-1, -2))
        return [window for window in found if window[1:] != (1, 1)]


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
            found = _PooledMaxima.apply(images, windows)
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


class _PooledMaxima(torch.autograd.Function):
    """The maxima of windows along the last axis, and then along the axis before it.

    The gradient goes to the first maximum of each window, as in PyTorch's pooling. Among equal maxima of a window,
    PyTorch's pooling chooses the first row that has one, and in this row the first column. A few images are pooled at a
    time, so that what is computed in between stays in a cache. The backward pass computes the maxima along the last
    axis again, because keeping them would take as much memory as the images.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, windows: _Windows) -> Any:
        pieces = [_find_maxima_along_axes(images, windows)[-1] for images in _split_images(x)]
        found = pieces[0].contiguous() if len(pieces) == 1 else torch.cat(pieces)
        ctx.save_for_backward(x, found)
        ctx.windows = windows
        return found

    @staticmethod
    def backward(ctx: Any, given: Any) -> Any:
        """Returns the gradient with respect to the images, whose maxima have the gradient ``given``."""
        x, found = ctx.saved_tensors
        gradient, start = torch.zeros_like(x), 0
        for images in _split_images(x):
            some = slice(start, start + len(images))
            maxima = [*_find_maxima_along_axes(images, ctx.windows)[:-1], found[some]]
            left = given[some]
            for i in reversed(range(len(maxima))):
                share = torch.zeros_like(maxima[i - 1]) if i else gradient[some]
                _share_gradient_of_maxima(left, maxima[i - 1] if i else images, maxima[i], share, ctx.windows[i])
                left = share
            start = some.stop
        return gradient, None


def _split_images(x: Any) -> Any:
    """Returns ``x`` in pieces of a few images each."""
    return x.split(max(1, PIECE_ENTRIES // max(1, x[:1].numel())))


def _find_maxima_along_axes(x: Any, windows: _Windows) -> list[Any]:
    """Returns the maxima of windows along the first axis in ``windows``, then their maxima along the next one."""
    found = []
    for window in windows:
        entries = x.unfold(*window).unbind(-1)
        x = functools.reduce(torch.maximum, entries[1:], entries[0])
        found.append(x)
    return found


def _share_gradient_of_maxima(left: Any, x: Any, maxima: Any, gradient: Any, window: tuple[int, int, int]) -> None:
    """Adds the gradient by the ``maxima`` of windows of ``x``, which is ``left``, to the gradient by ``x``.

    The code looks at the entries of all windows, one position after the other. The first entry that equals the maximum
    takes the gradient, and ``left`` then becomes 0 for this window.
    """
    entries, shares = (each.unfold(*window).unbind(-1) for each in (x, gradient))
    for entry, share in zip(entries[:-1], shares, strict=False):
        # The comparison writes ones and zeros as floats. Boolean masks and torch.where take several times as long.
        here = torch.eq(entry, maxima, out=torch.empty_like(left)).mul_(left)
        share.add_(here)
        left = left - here
    shares[-1].add_(left)
