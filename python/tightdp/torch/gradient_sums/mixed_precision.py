"""Functions whose arguments PyTorch widens by itself, but not under ``torch.func.vmap``: norm layers and losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_NORMS = {F.layer_norm, torch.layer_norm, F.instance_norm, torch.instance_norm}
"""Norm layers whose input autocast may make narrower than their weights."""
_LOSSES = {
    F.cross_entropy, F.nll_loss, F.l1_loss, F.poisson_nll_loss, F.binary_cross_entropy_with_logits,
    F.hinge_embedding_loss, F.cosine_embedding_loss,
}  # fmt: skip
"""Losses that autocast computes in float32. ``torch.func.vmap`` replaces them by their parts, which autocast does not
widen. The other losses of PyTorch keep their names, and so their arithmetic."""


class WideNorms(TorchFunctionMode):
    """Computes layer norms and instance norms in the widest type of their arguments.

    Autocast may make their input narrower than their weights, and then ``torch.func.vmap`` has no gradients. The result
    has the type of the input, as that of PyTorch's own functions, which compute in the wide type too.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _NORMS:
            return func(*args, **kwargs)
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        wide, narrow = reduce(torch.promote_types, [each.dtype for each in given]), given[0].dtype
        if all(each.dtype == wide for each in given):
            return func(*args, **kwargs)
        return _call_widened(func, args, kwargs, lambda each: each.to(wide)).to(narrow)


class WideLosses(TorchFunctionMode):
    """Computes losses in float32 under autocast.

    Without it the gradient of a record whose loss is small, a difference of numbers near 1, would be lost in bfloat16.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {})) if func not in _LOSSES else _call_widened(func, args, kwargs, _widen_half)


def _widen_half(x: Any) -> Any:
    """Returns ``x`` in float32 if it is in half precision and autocast is on."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if half and torch.is_autocast_enabled(x.device.type) else x


def _call_widened(func: Any, args: Any, kwargs: Any, widen: Callable[[Any], Any]) -> Any:
    """Calls a function after ``widen`` was applied to each tensor among its arguments."""

    def prepare_argument(each: Any) -> Any:
        return widen(each) if isinstance(each, torch.Tensor) else each

    named = {name: prepare_argument(each) for name, each in (kwargs or {}).items()}
    return func(*map(prepare_argument, args), **named)
