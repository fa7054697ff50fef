"""A look at the first records of a run: what the types of modules do not tell.

It releases nothing, and its errors are meant for whoever holds the data.
"""

from __future__ import annotations

from typing import Any

import torch

from . import checks, examples


def probe(model: Any, loss_fn: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """ValueError if a parameter takes no part in the loss, or if the model keeps anything of what it saw."""
    tensors, rebuild = examples.split(batch, records)
    buffers = dict(model.named_buffers())
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    with torch.random.fork_rng(devices=[]):
        losses = checks.check_losses(loss_fn(model, rebuild([tensor[:1] for tensor in tensors])), 1)
    changed = [name for name, buffer in buffers.items() if not _same(buffer, before[name])]
    for name in changed:
        with torch.no_grad():
            buffers[name].copy_(before[name])
    if changed:
        raise ValueError(
            f"model must keep nothing of the records it sees: its buffer {changed[0]} changes with them, which no "
            f"account covers. Freeze it, or put the module in eval mode"
        )
    found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    checks.check_used(name for name, gradient in zip(parameters, found, strict=True) if gradient is None)


def _same(one: Any, other: Any) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())  # NaN is the same as NaN
