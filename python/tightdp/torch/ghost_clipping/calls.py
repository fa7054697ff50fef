"""Computes PyTorch's functions that may use a trained parameter, and the factors of each record's gradient.

Each function ``use_...`` takes an array of the inputs of all records, and computes the PyTorch function of that name.
The factors of a gradient are arrays from which its norm and its entries follow (``factors.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .call_rules import ComputedCall, Parts, Rule, Unsupported, bind_torch_arguments
from .convolutions import use_convolution
from .factors import GradientRows, OuterProducts


def use_torch_linear(x: Any, weight: Any, bias: Any = None) -> ComputedCall:
    """Computes a linear layer, weight x + bias at every position."""
    rows = _flatten_positions_of_records(x)

    def find_gradient_factors(g: Any) -> Parts:
        g = _group_positions_by_record(g, x)
        found: Parts = [(weight, OuterProducts(g, _group_positions_by_record(rows, x), weight.shape[0]))]
        return found if bias is None else [*found, (bias, GradientRows(_sum_positions_of_gradient_factors(g)))]

    return ComputedCall(F.linear(rows, weight, bias), (*x.shape[1:-1], len(weight)), find_gradient_factors)


def use_matmul(x: Any, other: Any) -> ComputedCall:
    """Computes x W, where the parameter W is on the right."""
    rows = _flatten_positions_of_records(x)
    return ComputedCall(
        rows @ _check_matrix_for_ghost_clipping(other),
        (*x.shape[1:-1], other.shape[1]),
        _make_matrix_product_factors(x, rows, other),
    )


def use_addmm(x: Any, input: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> ComputedCall:
    """Computes b + x W, as ``torch.addmm`` does in GPT-2."""
    if beta != 1 or alpha != 1 or input.ndim != 1:
        raise Unsupported("addmm is supported with a vector to add, and with beta = alpha = 1")
    rows = _flatten_positions_of_records(x)
    product = _make_matrix_product_factors(x, rows, _check_matrix_for_ghost_clipping(mat2))

    def find_gradient_factors(g: Any) -> Parts:
        return [
            *product(g),
            (input, GradientRows(_sum_positions_of_gradient_factors(_group_positions_by_record(g, x)))),
        ]

    return ComputedCall(torch.addmm(input, rows, mat2), (*x.shape[1:-1], mat2.shape[1]), find_gradient_factors)


def _flatten_positions_of_records(x: Any) -> Any:
    """Returns ``x`` with all positions of all records along one axis."""
    return x.reshape(-1, x.shape[-1])


def _group_positions_by_record(rows: Any, x: Any) -> Any:
    return rows.reshape(len(x), -1, rows.shape[-1])


def _sum_positions_of_gradient_factors(g: Any) -> Any:
    """Returns the sum over the positions of each record, without a copy if there is one position."""
    return g[:, 0] if g.shape[1] == 1 else g.sum(1)


def _check_matrix_for_ghost_clipping(other: Any) -> Any:
    if not isinstance(other, torch.nn.Parameter) or other.ndim != 2:
        raise Unsupported("a product is supported with a matrix of parameters on its right")
    return other


def _make_matrix_product_factors(x: Any, rows: Any, other: Any) -> Callable[[Any], Parts]:
    return lambda g: [
        (other, OuterProducts(_group_positions_by_record(rows, x), _group_positions_by_record(g, x), other.shape[0]))
    ]


def use_embedding(
    x: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> ComputedCall:  # fmt: skip
    """Computes an embedding. The gradient of row i is the sum of the output's gradients at the positions of word i."""
    if max_norm is not None or scale_grad_by_freq:
        raise Unsupported("max_norm changes the table in place, and scale_grad_by_freq counts over the batch")

    def find_gradient_factors(g: Any) -> Parts:
        left, right = x.reshape(len(x), -1), g.reshape(len(x), -1, weight.shape[1])
        if padding_idx is not None:
            right = right.masked_fill((left == padding_idx % len(weight))[:, :, None], 0.0)
        return [(weight, OuterProducts(left, right, weight.shape[0]))]

    found = F.embedding(x, weight, padding_idx)
    return ComputedCall(found, found.shape[1:], find_gradient_factors)


def use_embedding_bag(*args: Any, **kwargs: Any) -> ComputedCall:
    """Computes sums or means of the embeddings in each bag of words.

    The gradient by the embedding of a word is the gradient by the output for its bag. For means, this gradient is
    divided by the number of words in the bag.
    """
    call = bind_torch_arguments(F.embedding_bag, args, kwargs)
    x, weight, padding_idx = call.input, call.weight, call.padding_idx
    if call.offsets is not None or x.ndim < 3:
        raise Unsupported("bags are supported as the rows of an input with two axes, without offsets")
    if call.mode not in ("sum", "mean") or call.per_sample_weights is not None:
        raise Unsupported("bags are supported as sums and means without weights")
    if call.max_norm is not None or call.scale_grad_by_freq:
        raise Unsupported("max_norm changes the table in place, and scale_grad_by_freq counts over the batch")
    words = x.reshape(-1, x.shape[-1])
    found = F.embedding_bag(words, weight, mode=call.mode, padding_idx=padding_idx)
    counted = torch.ones_like(words) if padding_idx is None else (words != padding_idx % len(weight)).long()
    share = counted if call.mode == "sum" else counted / counted.sum(1, keepdim=True).clamp(min=1)

    def find_gradient_factors(g: Any) -> Parts:
        each = (g[:, None, :] * share[:, :, None].to(g.dtype)).reshape(len(x), -1, weight.shape[1])
        return [(weight, OuterProducts(x.reshape(len(x), -1), each, weight.shape[0]))]

    return ComputedCall(found, (*x.shape[1:-1], weight.shape[1]), find_gradient_factors)


def use_layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> ComputedCall:
    """Computes a layer norm over the last axes."""
    found = F.layer_norm(x, normalized_shape, weight, bias, eps)
    return _compute_norm_layer_call(
        found, normalized_shape, weight, bias, lambda: F.layer_norm(x, normalized_shape, eps=eps)
    )


def use_rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> ComputedCall:
    """Computes a root mean square norm over the last axes."""
    found = F.rms_norm(x, normalized_shape, weight, eps)
    return _compute_norm_layer_call(
        found, normalized_shape, weight, None, lambda: F.rms_norm(x, normalized_shape, eps=eps)
    )


def _compute_norm_layer_call(found: Any, shape: Any, weight: Any, bias: Any, normal: Callable[[], Any]) -> ComputedCall:
    """Returns the computed call of a norm layer whose output is ``found``.

    The output is weight * normal() + bias, where ``normal()`` is the normalised input. ``shape`` is that of the last
    axes.
    """

    def find_gradient_factors(g: Any) -> Parts:
        each: Parts = []
        if weight is not None:
            each.append((weight, GradientRows((g * normal()).reshape(len(g), -1, *shape).sum(1))))
        if bias is not None:
            each.append((bias, GradientRows(g.reshape(len(g), -1, *shape).sum(1))))
        return each

    return ComputedCall(found, found.shape[1:], find_gradient_factors)


def use_ghost_group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> ComputedCall:
    """Computes a group norm, whose weight and bias have one entry for each channel."""
    if x.ndim < 3:
        raise Unsupported("an input of it has no axis of channels")
    images = x.flatten(0, 1)

    def find_gradient_factors(g: Any) -> Parts:
        shape = (len(x), -1, x.shape[2], g[0, 0].numel())
        found: Parts = []
        if weight is not None:
            normal = F.group_norm(images, num_groups, eps=eps)
            found.append((weight, GradientRows((g * normal).reshape(shape).sum((1, 3)))))
        return found if bias is None else [*found, (bias, GradientRows(g.reshape(shape).sum((1, 3))))]

    return ComputedCall(F.group_norm(images, num_groups, weight, bias, eps), x.shape[1:], find_gradient_factors)


RULES: dict[Any, tuple[Rule, int, str]] = {
    F.linear: (use_torch_linear, 0, "input"),
    F.embedding: (use_embedding, 0, "input"),
    F.embedding_bag: (use_embedding_bag, 0, "input"),
    F.layer_norm: (use_layer_norm, 0, "input"),
    F.group_norm: (use_ghost_group_norm, 0, "input"),
    F.rms_norm: (use_rms_norm, 0, "input"),
    torch.conv1d: (use_convolution, 0, "input"),
    torch.conv2d: (use_convolution, 0, "input"),
    torch.conv3d: (use_convolution, 0, "input"),
    torch.matmul: (use_matmul, 0, "input"),
    torch.mm: (use_matmul, 0, "input"),
    torch.addmm: (use_addmm, 1, "mat1"),
    torch.Tensor.matmul: (use_matmul, 0, "self"),
    torch.Tensor.mm: (use_matmul, 0, "self"),
    torch.Tensor.__matmul__: (use_matmul, 0, "self"),
}
"""Rules by function. Each rule comes with the position and the name of the argument that depends on the records."""
