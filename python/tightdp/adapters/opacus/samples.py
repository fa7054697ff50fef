"""A change to Opacus' hooks that avoids copies of per-example gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

_Sampler = Callable[[Any, Any, Any], Mapping[Any, Any]]
"""Opacus' functions of a layer, its activations and its back-propagated gradients."""


def keep_per_example_gradients(hooks: Any) -> None:
    """Makes Opacus' hooks keep the gradients that their samplers return, without a copy into zeros.

    Opacus still copies gradients that others are added to, and gradients that lack examples at the end, as those of
    packed sequences do. It also copies gradients that share their memory, which a later addition in place would change.
    """
    if "GRAD_SAMPLERS" not in vars(hooks):
        hooks.GRAD_SAMPLERS = {
            layer: functools.partial(_keep_current_gradients, sampler)
            for layer, sampler in getattr(hooks, "GRAD_SAMPLERS", {}).items()
        }


def _keep_current_gradients(sampler: _Sampler, layer: Any, activations: Any, backprops: Any) -> dict[Any, Any]:
    """Sets the current gradients where Opacus' copy would equal them, and returns the others, for it to copy."""
    shared = {x.untyped_storage().data_ptr() for x in (*activations, backprops)}
    rest = {}
    for parameter, gradient in sampler(layer, activations, backprops).items():
        memory = gradient.untyped_storage().data_ptr()
        whole = gradient.shape[0] == layer.max_batch_len and gradient.is_contiguous() and memory not in shared
        if whole and parameter.requires_grad and not hasattr(parameter, "_current_grad_sample"):
            parameter._current_grad_sample = gradient
            shared.add(memory)
        else:
            rest[parameter] = gradient
    return rest
