"""A look at the first records of a run: what the types of modules do not tell.

It releases nothing, and its errors are meant for whoever holds the data.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from . import checks, examples
from .draws import uncompiled
from .kept import kept


def probe(model: Any, loss_fn: Any, optimizer: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """ValueError if a parameter takes no part in the loss, or if the model keeps what it saw.

    What a model makes at first use, such as a table, it makes of zeros, so that it is none of records. Whatever is kept
    afterwards is refused.
    """
    tensors, rebuild = examples.split(batch, records)
    with kept(model, loss_fn, optimizer=optimizer, memory=False), uncompiled(), suppress(Exception):
        loss_fn(model, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors]))
    with kept(model, loss_fn, optimizer=optimizer), uncompiled():
        losses = checks.check_losses(loss_fn(model, rebuild([tensor[:1] for tensor in tensors])), 1)
    found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    checks.check_used(name for name, gradient in zip(parameters, found, strict=True) if gradient is None)
