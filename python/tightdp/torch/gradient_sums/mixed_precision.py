"""Computes norm layers and losses in wide types under ``torch.func.vmap``, as PyTorch does without ``vmap``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_NORMS = {F.layer_norm, torch.layer_norm, F.instance_norm, torch.instance_norm}
"""Functions that compute norm layers."""
_LOSSES = {
    F.cross_entropy, F.nll_loss, F.l1_loss, F.poisson_nll_loss, F.binary_cross_entropy_with_logits,
    F.hinge_embedding_loss, F.cosine_embedding_loss,
}  # fmt: skip
"""Losses that autocast computes in float32. ``torch.func.vmap`` decomposes these losses into operations that autocast
does not widen. The other losses of PyTorch are not decomposed, so autocast widens them as usual."""


class WideNorms(TorchFunctionMode):
    """A context that computes layer norms and instance norms in the widest type of their arguments.

    Under autocast, the input of a norm layer may have a narrower type than the layer's weights. ``torch.func.vmap``
    cannot compute gradients then. As in PyTorch's own functions, the computation uses the wide type and the result has
    the type of the input.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _NORMS:
            return func(*args, **kwargs)
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        wide, narrow = reduce(torch.promote_types, [each.dtype for each in given]), given[0].dtype
        if all(each.dtype == wide for each in given):
            return func(*args, **kwargs)
        return _call_with_wide_tensors(func, args, kwargs, lambda each: each.to(wide)).to(narrow)


class WideLosses(TorchFunctionMode):
    """A context that computes losses in float32 under autocast.

    If the loss of a record is small, the gradient of the loss is a small difference of numbers near 1. In bfloat16 this
    difference would be lost.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (
            func(*args, **(kwargs or {}))
            if func not in _LOSSES
            else _call_with_wide_tensors(func, args, kwargs, _widen_half_in_mixed_precision)
        )


def _widen_half_in_mixed_precision(x: Any) -> Any:
    """Returns ``x`` in float32 if it is in half precision and autocast is on."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if half and torch.is_autocast_enabled(x.device.type) else x


def _call_with_wide_tensors(func: Any, args: Any, kwargs: Any, widen: Callable[[Any], Any]) -> Any:
    """Calls a function with ``widen`` applied to each tensor among the arguments."""

    def widen_in_mixed_precision(each: Any) -> Any:
        return widen(each) if isinstance(each, torch.Tensor) else each

    named = {name: widen_in_mixed_precision(each) for name, each in (kwargs or {}).items()}
    return func(*map(widen_in_mixed_precision, args), **named)
