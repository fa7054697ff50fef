"""Computes attention for all records at once: ``nn.MultiheadAttention`` from linear layers, and PyTorch's attention
kernel in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .call_rules import Unsupported
from .record_axis import RecordAxis

Linear = Callable[[Any, Any, Any], Any]
"""Function that computes a linear layer from (input, weight, bias)."""


def compute_self_attention(
    linear: Linear, query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
    in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any,
    out_proj_bias: Any, training: bool = True, key_padding_mask: Any = None, need_weights: bool = True,
    attn_mask: Any = None, use_separate_proj_weight: bool = False, q_proj_weight: Any = None,
    k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Returns the result of ``torch.nn.functional.multi_head_attention_forward`` for self-attention.

    Arguments and results have the shape (positions, records, width), whatever ``batch_first`` is. Inside this function
    the axis of records comes first.
    """
    if query is not key or key is not value or use_separate_proj_weight:
        raise Unsupported("only self-attention is supported: attention(x, x, x), with one matrix for all three")
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        raise Unsupported("it is supported without add_bias_kv and add_zero_attn")
    if query.ndim != 3:
        raise Unsupported("its input has no axis of records")
    positions, records, width = query.shape
    x = query.transpose(0, 1)
    projected = linear(x, in_proj_weight, in_proj_bias)
    q, k, v = projected.view(records, positions, 3, num_heads, width // num_heads).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // num_heads)
    if attn_mask is not None:
        by_head = attn_mask.view(records, num_heads, *attn_mask.shape[1:]) if attn_mask.ndim == 3 else attn_mask
        scores = _apply_attention_mask(scores, by_head)
    if key_padding_mask is not None:
        scores = _apply_attention_mask(scores, key_padding_mask[:, None, None, :])
    weights = scores.softmax(-1)
    mixed = torch.nn.functional.dropout(weights, dropout_p, training) @ v
    out = linear(mixed.transpose(1, 2).reshape(records, positions, width), out_proj_weight, out_proj_bias)
    shown = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
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
        return _compute_attention_with_dropout(query, key, value, attn_mask, dropout_p, is_causal, **options)
    tensors = [query, key, value]
    if attn_mask is not None:
        tensors.append(attn_mask.expand(*query.shape[:-1], key.shape[-2]))

    def compute_attention_arrays(*arrays: Any) -> Any:
        q, k, v, *masks = (x.flatten(0, -4) if query.ndim > 3 else x for x in arrays)
        mask = masks[0] if masks else None
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, **options)
        return found.view(axis.records, *query.shape[:-1], value.shape[-1])

    return axis.compute_on_arrays(compute_attention_arrays, tuple(tensors))


def _compute_attention_with_dropout(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Returns what PyTorch's kernel would return, from products and a softmax, with dropout drawn for each record."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        scores = _apply_attention_mask(scores, ~attn_mask if attn_mask.dtype == torch.bool else attn_mask)
    nothing = (scores == -math.inf).all(
        -1, keepdim=True
    )  # positions with nothing to attend to, where PyTorch's result is 0
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    return torch.nn.functional.dropout(weights, dropout_p) @ value
