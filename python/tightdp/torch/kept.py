"""What a model holds beside what is trained stays as it is while records go through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .bits import Bits, bits

Copies = dict[tuple[str, str], tuple[Any, int, Bits, Any]]
"""Of buffers, by module and name: the buffer, its version, its bits and its copy."""


@contextmanager
def kept(
    model: Any,
    copies: Copies | None = None,
    *,
    values: bool = True,
) -> Iterator[None]:
    """Puts buffers back that changed meanwhile, and raises ValueError if any did, or a parameter or its gradient.

    A buffer with something of the records in it would be released without noise, and what one record leaves for the
    next makes the next depend on it. A parameter that was changed in place cannot be put back: the error says so.
    ``copies`` are those of the last time: what is still the same is not copied again. Tensors are compared by their
    bits, for what writes to their memory by another way does not count their version up. ``values=False`` spares
    parameters that: where PyTorch takes records side by side, nothing of theirs can be written there.
    """
    before: Copies = {}
    for path, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                now = buffer, buffer._version, bits(buffer)
                old = None if copies is None else copies.get((path, name))
                before[path, name] = old if old and old[0] is buffer and old[1:3] == now[1:] else (*now, buffer.clone())
    if copies is not None:
        copies.clear()
        copies.update(before)
    parameters = _parameters(model, values)
    grads = [(p, p.grad, _version(p.grad)) for p, *_ in parameters.values()]
    try:
        yield
    finally:
        buffers, accumulated, after = _put_back(model, before), _accumulated(grads), _parameters(model, values)
        changed = [name for name in parameters | after if not _same(parameters.get(name), after.get(name))]
        if changed:
            raise ValueError(
                f"model must not change its parameters while it computes: {changed[0]} was changed, and may hold what "
                f"no account covers. Do not release this model: make it anew"
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


def _parameters(model: Any, values: bool) -> dict[str, tuple[Any, int, Bits]]:
    return {name: (p, p._version, bits(p) if values else None) for name, p in model.named_parameters()}


def _same(one: tuple[Any, int, Bits] | None, other: tuple[Any, int, Bits] | None) -> bool:
    return one is not None and other is not None and one[0] is other[0] and one[1:] == other[1:]


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
            buffer, version, old, copy = before.get((path, name), (None, 0, None, None))
            same = buffer is None or (buffer._version == version and bits(buffer) == old)
            if now is buffer and same:
                continue
            changed.append(f"{path}.{name}".lstrip("."))
            module._buffers[name] = buffer
            if not same:
                with torch.no_grad():
                    buffer.copy_(copy)
    return changed
