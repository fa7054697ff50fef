"""Replaces batch norms, which mix the records of a batch, by GroupNorm."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..._support import _check

_BATCH_NORMS: Any = torch.nn.modules.batchnorm._BatchNorm
"""Base class of all batch norms."""


def replace_batch_norm(model: Any, groups: int = 32) -> Any:
    """Replaces each batch norm of a model by a GroupNorm. Changes the model in place, and returns the model.

    The new layers use the weight and bias parameters of the old layers, so an existing optimizer stays valid. The
    running statistics of the old layers are dropped, because they describe the batches of earlier training. A model
    that was trained with these statistics has to be trained again. The number of groups is the largest common divisor
    of ``groups`` and the number of channels that leaves at least two channels in each group. A layer of one channel has
    one group.

    If the model itself is a batch norm, the new layer is returned. Raises TypeError unless the model is a module.
    Raises ValueError for a lazy batch norm, which learns its number of channels only from the first batch.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 48, 3), torch.nn.BatchNorm2d(48), torch.nn.ReLU())
    >>> replace_batch_norm(model)[1].num_groups
    16
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    groups = _check.check_count_argument("groups", groups)
    made = {
        id(module): _make_group_norm(name, module, groups)
        for name, module in model.named_modules()
        if isinstance(module, _BATCH_NORMS)
    }
    for module in list(model.modules()):
        for name, child in list(module._modules.items()):
            if id(child) in made:
                setattr(module, name, made[id(child)])
    return made.get(id(model), model)


def _make_group_norm(name: str, old: Any, groups: int) -> Any:
    channels = old.num_features
    if not channels:
        raise ValueError(f"model must know its channels: {name or 'it'} ({type(old).__name__}) waits for a first batch")
    new = torch.nn.GroupNorm(_count_groups_of_group_norm(groups, channels), channels, old.eps, affine=False)
    new.affine, new.weight, new.bias = old.affine, old.weight, old.bias
    return new.train(old.training)


def _count_groups_of_group_norm(groups: int, channels: int) -> int:
    """Returns the largest common divisor that leaves at least two channels in a group, or 1 for a single channel.

    If a group has one channel and the array has no axes besides records and channels, GroupNorm maps every value to 0.
    """
    common = math.gcd(groups, channels)
    return max((d for d in range(1, common + 1) if common % d == 0 and d < channels), default=1)
