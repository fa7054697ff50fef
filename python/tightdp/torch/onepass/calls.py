"""Functions of PyTorch that a trained parameter may go through, and what records' gradients by it are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..examples import shown
from .convolutions import convolution
from .factors import Outer, Rows
from .uses import Parts, Rule, Unsupported


def by_record(x: Any, records: int, what: str) -> Any:
    """(records, positions, features) of an array whose first axis is that of the records, or of all their positions."""
    if x.ndim < 2 or records == 0 or x.shape[0] % records:
        raise Unsupported(f"the first axis of {what}, of shape {shown(x)}, is not that of the records")
    return x.reshape(records, -1, x.shape[-1])


def linear(records: int, input: Any, weight: Any, bias: Any = None) -> Callable[[Any], Parts]:
    def parts(g: Any) -> Parts:
        g = by_record(g, records, "an output")
        found: Parts = [(weight, Outer(g, by_record(input, records, "an input"), weight.shape[0]))]
        return found if bias is None else [*found, (bias, Rows(g.sum(1)))]

    return parts


def matmul(records: int, input: Any, other: Any) -> Callable[[Any], Parts]:
    """x W, with the parameter on the right."""
    if not isinstance(other, torch.nn.Parameter) or other.ndim != 2:
        raise Unsupported("a product is supported with a matrix of parameters on its right")

    def parts(g: Any) -> Parts:
        left = by_record(input, records, "an input")
        return [(other, Outer(left, by_record(g, records, "an output"), other.shape[0]))]

    return parts


def addmm(
    records: int, input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1
) -> Callable[[Any], Parts]:
    """beta b + alpha x W, as GPT-2 has it."""
    if beta != 1 or alpha != 1 or input.ndim != 1:
        raise Unsupported("addmm is supported with a vector to add, and without factors")
    product = matmul(records, mat1, mat2)

    def parts(g: Any) -> Parts:
        return [*product(g), (input, Rows(by_record(g, records, "an output").sum(1)))]

    return parts


def embedding(
    records: int, input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Callable[[Any], Parts]:  # fmt: skip
    if max_norm is not None or scale_grad_by_freq:
        raise Unsupported("max_norm changes the table in place, and scale_grad_by_freq counts over the batch")
    if input.ndim == 0 or len(input) % records:
        raise Unsupported(f"indices of shape {shown(input)} have no axis of the records")

    def parts(g: Any) -> Parts:
        left, right = input.reshape(records, -1), g.reshape(records, -1, weight.shape[1])
        if padding_idx is not None:
            right = right.masked_fill((left == padding_idx % len(weight))[:, :, None], 0.0)
        return [(weight, Outer(left, right, weight.shape[0]))]

    return parts


def layer_norm(
    records: int, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Callable[[Any], Parts]:
    return _scaled(records, len(normalized_shape), weight, bias, lambda: F.layer_norm(input, normalized_shape, eps=eps))


def rms_norm(
    records: int, input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Callable[[Any], Parts]:
    return _scaled(records, len(normalized_shape), weight, None, lambda: F.rms_norm(input, normalized_shape, eps=eps))


def _scaled(records: int, axes: int, weight: Any, bias: Any, normal: Callable[[], Any]) -> Callable[[Any], Parts]:
    """weight * normal + bias, over the last ``axes``."""

    def parts(g: Any) -> Parts:
        shape = g.shape[g.ndim - axes :]
        if g.ndim <= axes or len(g) % records:
            raise Unsupported(f"an output of shape {shown(g)} has no axis of the records")
        found: Parts = []
        if weight is not None:
            found.append((weight, Rows((g * normal()).reshape(records, -1, *shape).sum(1))))
        if bias is not None:
            found.append((bias, Rows(g.reshape(records, -1, *shape).sum(1))))
        return found

    return parts


def group_norm(
    records: int, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Callable[[Any], Parts]:
    def parts(g: Any) -> Parts:
        if len(g) != records:
            raise Unsupported(f"an output of shape {shown(g)} has no axis of the records")
        flat = g.reshape(records, g.shape[1], -1)
        found: Parts = []
        if weight is not None:
            normal = F.group_norm(input, num_groups, eps=eps).reshape_as(flat)
            found.append((weight, Rows((flat * normal).sum(2))))
        return found if bias is None else [*found, (bias, Rows(flat.sum(2)))]

    return parts


RULES: dict[Any, Rule] = {
    F.linear: linear,
    F.embedding: embedding,
    F.layer_norm: layer_norm,
    F.group_norm: group_norm,
    F.rms_norm: rms_norm,
    torch.conv1d: convolution,
    torch.conv2d: convolution,
    torch.conv3d: convolution,
    torch.matmul: matmul,
    torch.mm: matmul,
    torch.addmm: addmm,
    torch.Tensor.matmul: matmul,
    torch.Tensor.mm: matmul,
    torch.Tensor.__matmul__: matmul,
}
