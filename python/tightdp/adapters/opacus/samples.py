"""Changes Opacus' hooks so that per-example gradients are not copied."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

_Sampler = Callable[[Any, Any, Any], Mapping[Any, Any]]
"""Type of Opacus' functions that compute per-example gradients. Their arguments are a layer, its activations and its
back-propagated gradients."""


def keep_opacus_grad_samples(hooks: Any) -> None:
    """Makes Opacus' hooks keep the gradients that their samplers return, instead of adding them to an array of zeros.

    Gradients are still copied in four cases:

    - The parameter has gradients already, to which the new gradients are added.
    - The gradients are of fewer examples than the batch has, as with packed sequences.
    - The gradients are not contiguous in memory.
    - The gradients share memory with other tensors. A later addition in place would change these tensors.

    Gradients of a parameter that requires no gradient are passed on to Opacus, which drops them.
    """
    if "GRAD_SAMPLERS" not in vars(hooks):
        hooks.GRAD_SAMPLERS = {
            layer: functools.partial(_keep_current_opacus_samples, sampler)
            for layer, sampler in getattr(hooks, "GRAD_SAMPLERS", {}).items()
        }


def _keep_current_opacus_samples(sampler: _Sampler, layer: Any, activations: Any, backprops: Any) -> dict[Any, Any]:
    """Stores the gradients that Opacus need not copy. Returns the other gradients, which Opacus copies or drops."""
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
