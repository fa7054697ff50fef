"""Convolutions of one, two or three axes, and their gradients with respect to the weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from ...models import dense
from . import factors
from .call_rules import ComputedCall, Parts, Unsupported
from .factors import GradientRows, OuterProducts

PIECE_ENTRIES = 1 << 19
"""Largest number of entries of gradients that are formed at once. These 2 MB of float32 stay in a cache until they are
added."""


@dataclass
class ConvolutionFactors:
    """The gradients of the records' losses with respect to the weight of a convolution of ``input``.

    ``g`` holds the gradients with respect to the output. The gradient of one record is called a row. ``way`` says how
    rows are used:

    - "materialised": all rows are kept from the computation of norms until sums are computed.
    - "materialised, some at a time": norms come from the rows of a few records at a time, because all rows would be too
      large for memory.
    - "ghost norm": norms come from patches of the input, which takes less computation than the rows.

    In the last two ways, PyTorch's own backward convolution computes sums. ``yield_convolution_gradient_pieces``
    computes the rows of a few records at a time, so that each piece can be added to a sum before the next piece is
    computed.
    """

    input: Any
    g: Any
    weight: Any
    settings: Any
    """Stride, padding and dilation, each as a list with a number for each axis."""
    groups: int
    way: str = "materialised"
    kept: GradientRows | None = None

    def __post_init__(self) -> None:
        entries, positions = self.weight.numel(), self.g[0, 0].numel()
        products = positions * (self.weight.shape[0] + entries // self.weight.shape[0])
        patches = self.groups == 1 and self.weight.ndim == 4
        large = len(self.g) * entries > factors.MOST_ROW_ENTRIES
        if patches and products <= (entries if large else entries // 4):
            self.way = "ghost norm"
        elif large:
            self.way = "materialised, some at a time"

    @property
    def is_streamed(self) -> bool:
        """Whether ``yield_convolution_gradient_pieces`` may compute rows, as in all ways but "ghost norm"."""
        return self.way != "ghost norm"

    def yield_convolution_gradient_pieces(self) -> Iterator[GradientRows]:
        """Yields the gradient rows of a few records at a time."""
        step = max(1, PIECE_ENTRIES // self.weight.numel())
        for x, g in zip(self.input.split(step), self.g.split(step), strict=True):
            yield GradientRows(self._compute_convolution_gradient_rows(x, g))

    def bound_squared_factor_norms(self) -> Any:
        """Returns squared norms, rounded up, computed in the given ``way``. The way "materialised" keeps the rows."""
        if self.way == "materialised":
            self.kept = GradientRows(self.expand_gradient_factors())
            return self.kept.bound_squared_factor_norms()
        if self.way == "ghost norm":
            stride, padding, dilation = self.settings
            x = F.unfold(self.input, self.weight.shape[2:], dilation, padding, stride)
            return OuterProducts(
                self.g.flatten(2).transpose(1, 2), x.transpose(1, 2), self.weight.shape[0]
            ).bound_squared_factor_norms()
        return torch.cat([rows.bound_squared_factor_norms() for rows in self.yield_convolution_gradient_pieces()])

    def add_weighted_gradients_of_factors(self, weights: Any, total: Any) -> None:
        """Adds the weighted sum of the records' gradients to ``total``, by one convolution where rows are not kept."""
        if self.kept is not None:
            self.kept.add_weighted_gradients_of_factors(weights, total)
            return
        x, g = (
            factors.clear_unweighted_gradient_factors(self.input, weights),
            factors.clear_unweighted_gradient_factors(self.g, weights),
        )
        total += self._compute_weight_gradient(
            x, g * weights.to(g.dtype).view(-1, *(1,) * (g.ndim - 1)), self.weight, self.groups
        )

    def expand_gradient_factors(self) -> Any:
        return self._compute_convolution_gradient_rows(self.input, self.g)

    def _compute_convolution_gradient_rows(self, x: Any, g: Any) -> Any:
        """Returns the gradients of some records.

        Compiled code forms the gradients of a convolution without groups whose arrays are float32 and on a CPU. Other
        gradients come from one convolution of PyTorch that has a group for each record.
        """
        records, (outputs, *rest) = len(g), self.weight.shape
        if self.groups == 1 and factors.is_compiled_gradient_type(g):
            images, errors = (each.detach().contiguous().numpy() for each in (x, g))
            return torch.from_numpy(
                dense.form_dense_model_convolution_gradients(images, errors, rest[1:], *self.settings)
            )
        each = self.weight.new_empty(1).expand(records * outputs, *rest)  # only the shape of this array matters
        found = self._compute_weight_gradient(x.flatten(0, 1)[None], g.flatten(0, 1)[None], each, records * self.groups)
        return found.view(records, outputs, *rest)

    def _compute_weight_gradient(self, x: Any, g: Any, weight: Any, groups: int) -> Any:
        """Returns the gradient with respect to the weight, as PyTorch's backward convolution computes it."""
        stride, padding, dilation = self.settings
        zeros, mask = [0] * len(stride), [False, True, False]
        return torch.ops.aten.convolution_backward(
            g, x, weight, None, stride, padding, dilation, False, zeros, groups, mask
        )[1]


def use_convolution(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> ComputedCall:
    """Computes a convolution of one, two or three axes of the images of all records."""
    axes = weight.ndim - 2
    if isinstance(padding, str):
        raise Unsupported("padding must be numbers")
    if x.ndim == axes + 3 and x.shape[1] != 1:
        raise Unsupported("a record must hold one image for a convolution, and this record holds several")
    batched = x.ndim == axes + 3
    images = x.squeeze(1) if batched else x  # unlike x[:, 0], whose gradient is copied
    settings = (
        repeat_for_convolution_axes(stride, axes),
        repeat_for_convolution_axes(padding, axes),
        repeat_for_convolution_axes(dilation, axes),
    )
    found = _CONVOLUTIONS[axes](images, weight, bias, *settings, groups)

    def find_gradient_factors(g: Any) -> Parts:
        g = factors.widen_half_gradient_factors(g)
        held = ConvolutionFactors(images.detach().to(g.dtype), g, weight.detach().to(g.dtype), settings, groups)
        return [(weight, held)] if bias is None else [(weight, held), (bias, GradientRows(g.flatten(2).sum(2)))]

    return ComputedCall(found, (1, *found.shape[1:]) if batched else found.shape[1:], find_gradient_factors)


_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
"""PyTorch's convolutions, by their number of axes."""


def repeat_for_convolution_axes(x: Any, axes: int) -> list[int]:
    """Returns a list with one number for each axis. ``x`` is a number for all axes, or a sequence of numbers.

    The sequence has a single number for all axes, or one number for each axis.
    """
    found = list(x) if isinstance(x, (tuple, list)) else [x]
    return found * axes if len(found) == 1 else found
