"""Convolutions of one, two or three axes: gradients of records, and sums of them, by convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from . import factors
from .factors import Outer, Rows
from .uses import Parts, Unsupported


@dataclass
class Convolved:
    """Gradients by the weight of a convolution of ``input``, from those of its output ``g``.

    The rows of all records are one convolution with a group for each record. Where they would not fit, norms come from
    patches of the input, or from some rows at a time, and sums from the convolution that PyTorch takes itself.
    """

    input: Any
    g: Any
    weight: Any
    settings: Any
    """Stride, padding and dilation, a list of a number for each axis."""
    groups: int
    way: str = "materialised"
    kept: Rows | None = None

    def squares(self) -> Any:
        records, entries = len(self.g), self.weight.numel()
        positions, widths = self.g[0, 0].numel(), self.weight.shape[0] + entries // self.weight.shape[0]
        patches = self.groups == 1 and self.weight.ndim == 4 and positions * widths <= entries
        if records * entries <= factors.HELD and not (patches and 4 * positions * widths <= entries):
            self.kept = Rows(self.rows())
            return self.kept.squares()
        if patches:
            self.way = "ghost norm"
            stride, padding, dilation = self.settings
            x = F.unfold(self.input, self.weight.shape[2:], dilation, padding, stride)
            return Outer(self.g.flatten(2).transpose(1, 2), x.transpose(1, 2), self.weight.shape[0]).squares()
        self.way = "materialised, some at a time"
        step = max(1, factors.HELD // entries)
        pieces = zip(self.input.split(step), self.g.split(step), strict=True)
        return torch.cat([Rows(self._rows(x, g)).squares() for x, g in pieces])

    def add_weighted(self, weights: Any, total: Any) -> None:
        if self.kept is not None:
            self.kept.add_weighted(weights, total)
            return
        x, g = factors.cleared(self.input, weights), factors.cleared(self.g, weights)
        total += self._backward(x, g * weights.to(g.dtype).view(-1, *(1,) * (g.ndim - 1)), self.weight, self.groups)

    def rows(self) -> Any:
        return self._rows(self.input, self.g)

    def _rows(self, x: Any, g: Any) -> Any:
        records, weight = len(g), self.weight.detach()
        each = weight.expand(records, *weight.shape).flatten(0, 1)
        found = self._backward(x.flatten(0, 1)[None], g.flatten(0, 1)[None], each, records * self.groups)
        return found.view(records, *weight.shape)

    def _backward(self, x: Any, g: Any, weight: Any, groups: int) -> Any:
        stride, padding, dilation = self.settings
        zeros, mask = [0] * len(stride), [False, True, False]
        return torch.ops.aten.convolution_backward(
            g, x, weight, None, stride, padding, dilation, False, zeros, groups, mask
        )[1]


def convolution(
    records: int, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Callable[[Any], Parts]:  # fmt: skip
    axes = weight.ndim - 2
    if isinstance(padding, str):
        raise Unsupported("padding must be numbers")
    if input.ndim != axes + 2 or len(input) != records:
        raise Unsupported(f"the first axis of an input, of shape {tuple(input.shape)}, is not that of the records")
    settings = (_each(stride, axes), _each(padding, axes), _each(dilation, axes))

    def parts(g: Any) -> Parts:
        x = input.detach().to(g.dtype)
        found: Parts = [(weight, Convolved(x, g, weight.detach().to(g.dtype), settings, groups))]
        return found if bias is None else [*found, (bias, Rows(g.flatten(2).sum(2)))]

    return parts


def _each(x: Any, axes: int) -> list[int]:
    found = list(x) if isinstance(x, (tuple, list)) else [x]
    return found * axes if len(found) == 1 else found
