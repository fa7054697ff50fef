"""Norm layers whose input is narrower than their weights, as under autocast, where ``torch.func.vmap`` has no gradients
of PyTorch's own functions for them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

_NORMS = {F.layer_norm, torch.layer_norm, F.instance_norm, torch.instance_norm}


class WideNorms(TorchFunctionMode):
    """Computes layer norms and instance norms in the widest type of what they are given.

    The result has the type of the input, as that of PyTorch has, whose functions compute in the wide type too.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in _NORMS:
            return func(*args, **kwargs)
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        wide, narrow = reduce(torch.promote_types, [each.dtype for each in given]), given[0].dtype
        if all(each.dtype == wide for each in given):
            return func(*args, **kwargs)

        def widen(each: Any) -> Any:
            return each.to(wide) if isinstance(each, torch.Tensor) else each

        return func(*map(widen, args), **{name: widen(each) for name, each in kwargs.items()}).to(narrow)
