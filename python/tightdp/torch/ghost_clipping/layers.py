"""Refuses layers of PyTorch that one pass cannot clip, by their types, before any record is read."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.parametrize import ParametrizationList

# Alternatives that an error message proposes.
_EXACT = 'arithmetic="exact", which takes more modules, or "one-by-one", which takes any'
_INSTEAD: tuple[tuple[Any, str], ...] = (
    (torch.nn.PReLU, f"LeakyReLU, or {_EXACT}"),
    (torch.nn.modules.batchnorm._BatchNorm, f"GroupNorm, freeze its weight and bias, or use {_EXACT}"),
    (torch.nn.modules.instancenorm._InstanceNorm, f"GroupNorm with a group for each channel, or {_EXACT}"),
    (torch.nn.modules.conv._ConvTransposeNd, f"Upsample and a convolution, or {_EXACT}"),
    (torch.nn.Bilinear, _EXACT),
    (torch.nn.RNNBase, _EXACT),
    (torch.nn.RNNCellBase, _EXACT),
)
"""Types of layers with parameters in functions that one pass cannot compute (``calls.py``), and alternatives."""


def check_ghost_clipping_layers(model: Any) -> None:
    """Raises ValueError for a layer of PyTorch that has trained parameters and that one pass cannot clip.

    Other uses of parameters are checked when records go through the model (``recorder.py``).
    """
    for name, module in model.named_modules():
        if not any(p.requires_grad for p in module.parameters()):
            continue
        instead = _find_alternative_to_ghost_layer(module)
        if instead is not None:
            kind = ", ".join(type(each).__name__ for each in _list_layer_parametrizations(module) or (module,))
            raise ValueError(
                f"model must be made of layers that are clipped in one pass: {name or 'the model itself'} ({kind}) is "
                f"none. Use {instead}"
            )


def _find_alternative_to_ghost_layer(module: Any) -> str | None:
    """Returns an alternative to a layer that is known to be unsupported, and None for any other layer."""
    if any(type(each).__module__ == "torch.nn.utils.parametrizations" for each in _list_layer_parametrizations(module)):
        return _EXACT  # a user's own parametrizations may consist of functions that have rules
    if isinstance(module, torch.jit.ScriptModule):
        return f"it without torch.jit.script, or {_EXACT}"
    if not getattr(type(module).forward, "__module__", "").startswith("torch.nn.modules."):
        return None
    if isinstance(module, torch.nn.MultiheadAttention):
        other = module.bias_k is not None or module.add_zero_attn or not module._qkv_same_embed_dim
        return f"it without add_bias_kv, add_zero_attn, kdim and vdim, or {_EXACT}" if other else None
    return next((instead for kind, instead in _INSTEAD if isinstance(module, kind)), None)


def _list_layer_parametrizations(module: Any) -> tuple[Any, ...]:
    """Returns the modules in a list of parametrizations, such as ``weight_norm``, and () for other modules."""
    return tuple(module) if isinstance(module, ParametrizationList) else ()
