"""Computes attention for all records at once: ``nn.MultiheadAttention`` from linear layers, and PyTorch's attention
kernel in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .call_rules import Unsupported, bind_torch_arguments
from .record_axis import RecordAxis

Linear = Callable[[Any, Any, Any], Any]
"""Function that computes a linear layer from (input, weight, bias)."""


def compute_self_attention(linear: Linear, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Returns the result of ``torch.nn.functional.multi_head_attention_forward`` for self-attention.

    ``args`` and ``kwargs`` are the arguments of that function. Tensors and results have the shape (positions, records,
    width), whatever ``batch_first`` is. Inside this function the axis of records comes first.
    """
    call = bind_torch_arguments(F.multi_head_attention_forward, args, kwargs)
    query, heads = call.query, call.num_heads
    if query is not call.key or query is not call.value or call.use_separate_proj_weight:
        raise Unsupported("only self-attention is supported: attention(x, x, x), with one matrix for all three")
    added = (call.bias_k, call.bias_v, call.static_k, call.static_v)
    if call.add_zero_attn or any(tensor is not None for tensor in added):
        raise Unsupported("it is supported without add_bias_kv and add_zero_attn")
    if query.ndim != 3:
        raise Unsupported("its input has no axis of records")
    positions, records, width = query.shape
    x = query.transpose(0, 1)
    projected = linear(x, call.in_proj_weight, call.in_proj_bias)
    q, k, v = projected.view(records, positions, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
    if call.attn_mask is not None:
        mask = call.attn_mask
        scores = _apply_attention_mask(scores, mask.view(records, heads, *mask.shape[1:]) if mask.ndim == 3 else mask)
    if call.key_padding_mask is not None:
        scores = _apply_attention_mask(scores, call.key_padding_mask[:, None, None, :])
    weights = scores.softmax(-1)
    mixed = F.dropout(weights, call.dropout_p, call.training) @ v
    out = linear(mixed.transpose(1, 2).reshape(records, positions, width), call.out_proj_weight, call.out_proj_bias)
    shown = (weights.mean(1) if call.average_attn_weights else weights) if call.need_weights else None
    return out.transpose(0, 1), shown


def _apply_attention_mask(scores: Any, mask: Any) -> Any:
    return scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def compute_attention_kernel(
    axis: RecordAxis, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Computes attention of all records by one call of PyTorch's kernel.

    ``torch.func.vmap`` would call the kernel for each record. The kernel treats the entries along its first axis
    independently. The records are put along this axis, together with any axes that a record has before the axis of
    heads. The kernel cannot draw dropout separately for each record. So attention with dropout is computed from
    products and a softmax.
    """
    if dropout_p > 0:
        if is_causal:
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        return _compute_attention_with_dropout((query, key, value), attn_mask, dropout_p, **options)
    tensors = [query, key, value]
    if attn_mask is not None:
        tensors.append(attn_mask.expand(*query.shape[:-1], key.shape[-2]))

    def compute_attention_arrays(*arrays: Any) -> Any:
        q, k, v, *masks = (x.flatten(0, -4) if query.ndim > 3 else x for x in arrays)
        mask = masks[0] if masks else None
        found = F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, **options)
        return found.view(axis.records, *query.shape[:-1], value.shape[-1])

    return axis.compute_along_record_axis(compute_attention_arrays, tuple(tensors))


def _compute_attention_with_dropout(
    inputs: tuple[Any, Any, Any], attn_mask: Any, dropout_p: float, scale: float | None = None, enable_gqa: bool = False
) -> Any:
    """Returns the result of PyTorch's kernel, from products, a softmax and separate dropout for each record.

    ``inputs`` are query, key and value.
    """
    query, key, value = inputs
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = _apply_attention_mask(scores, ~attn_mask if attn_mask.dtype == torch.bool else attn_mask)
    nothing = (scores == -math.inf).all(
        -1, keepdim=True
    )  # positions with nothing to attend to, where PyTorch's result is 0
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    return F.dropout(weights, dropout_p) @ value
