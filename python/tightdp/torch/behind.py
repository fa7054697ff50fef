"""Functions of PyTorch that have no public name: what is behind a tensor of ``torch.func``, and its engine.

They are those of torch 2.13, with which the tests run. Of another version that lacks one, nothing is used: importing
this fails.
"""

from __future__ import annotations

import torch

try:
    from torch._C._functorch import (
        _add_batch_dim,
        get_unwrapped,
        is_batchedtensor,
        is_functorch_wrapped_tensor,
        maybe_current_level,
        maybe_get_bdim,
    )
    from torch.autograd.graph import _engine_run_backward
except ImportError as error:
    raise ImportError(
        f"tightdp.torch needs torch 2.13, whose inner functions it knows, got {torch.__version__}: {error}"
    ) from None

add_batch_dim, engine_run_backward = _add_batch_dim, _engine_run_backward

__all__ = [
    "add_batch_dim",
    "engine_run_backward",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "maybe_current_level",
    "maybe_get_bdim",
]
