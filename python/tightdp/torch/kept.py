"""What a model holds beside what is trained stays as it is while records go through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .memory import changed as left_in
from .memory import held

Copies = dict[tuple[str, str], tuple[Any, int, Any]]
"""Of buffers, by module and name: the buffer, its version and its copy."""


@contextmanager
def kept(model: Any, loss_fn: Any, copies: Copies | None = None) -> Iterator[None]:
    """Puts buffers back that changed meanwhile, and raises ValueError if any did, or a parameter, its gradient, or what
    Python objects hold (``memory.py``).

    A buffer with something of the records in it would be released without noise, and what one record leaves for the
    next makes the next depend on it. A parameter that was changed in place cannot be put back: the error says so.
    ``copies`` are those of the last time: what is still the same is not copied again, for every change counts its
    version up.
    """
    before: Copies = {}
    for path, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                old = None if copies is None else copies.get((path, name))
                same = old is not None and old[0] is buffer and old[1] == buffer._version
                before[path, name] = old if same and old else (buffer, buffer._version, buffer.clone())
    if copies is not None:
        copies.clear()
        copies.update(before)
    versions = [(name, p, p._version) for name, p in model.named_parameters()]
    grads = [(p, p.grad, _version(p.grad)) for _, p, _ in versions]
    memory = held(model, loss_fn)
    try:
        yield
    finally:
        buffers, accumulated = _put_back(model, before), _accumulated(grads)
        changed = [name for name, p, version in versions if p._version != version]
        if changed:
            raise ValueError(
                f"model must not change its parameters while it computes: {changed[0]} was changed in place, and may "
                f"hold what no account covers. Do not release this model: make it anew"
            )
        if buffers:
            raise ValueError(
                f"model must keep nothing of the records it sees: its buffer {buffers[0]} changes with them, which no "
                f"account covers. Freeze it, or put the module in eval mode"
            )
        if accumulated:
            raise ValueError(
                "loss_fn must not call backward: what it left in the gradients of parameters has no noise, and was "
                "taken away. Return the losses"
            )
        left = left_in(memory, held(model, loss_fn))
        if left is not None:
            raise ValueError(
                f"model and loss_fn must keep nothing from one record to the next: {left} changes while records go "
                f"through them, which no account covers. Compute it from the record, or before the step"
            )


def _accumulated(before: list[tuple[Any, Any, Any]]) -> bool:
    """Whether a parameter has another gradient than before; such a one is taken away."""
    changed = [p for p, grad, version in before if p.grad is not grad or _version(grad) != version]
    for p in changed:
        p.grad = None
    return bool(changed)


def _version(grad: Any) -> int:
    return 0 if grad is None else int(grad._version)


def _put_back(model: Any, before: Copies) -> list[str]:
    """The names of buffers that had changed, or were not there."""
    changed = []
    for path, module in model.named_modules():
        for name, now in list(module._buffers.items()):
            buffer, version, copy = before.get((path, name), (None, 0, None))
            if now is buffer and (buffer is None or buffer._version == version):
                continue
            changed.append(f"{path}.{name}".lstrip("."))
            module._buffers[name] = buffer
            if buffer is not None and buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(copy)
    return changed
