"""Checks that buffers, parameters and their gradients do not change while records go through a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

Copies = dict[tuple[str, str], tuple[Any, int, Any]]
"""Buffers by the path of their module and their name. An entry has the buffer, its version and a copy of its values."""


@contextmanager
def check_model_unchanged(model: Any, copies: Copies | None = None, *, values: bool = True) -> Iterator[None]:
    """Restores buffers that the ``with`` body changed. Raises ValueError for changed buffers, parameters or gradients.

    A changed buffer may depend on records. It would be released without noise, and would make the gradients of later
    records depend on earlier records. A parameter that was changed in place cannot be restored, and the error says so.
    ``copies`` has the copies from earlier calls, so that an unchanged buffer is not copied again. Values are compared
    as well as versions, because a write that bypasses PyTorch does not increase the version of a tensor. With
    ``values=False``, only the versions of parameters are compared. The versions suffice under ``torch.func.vmap``,
    where no value of a record can be written to a parameter.
    """
    copies = {} if copies is None else copies
    for place, buffer in _list_model_buffers(model).items():
        known = copies.get(place)
        if known is None or known[0] is not buffer or not _is_unchanged_buffer(*known):
            copies[place] = buffer, buffer._version, buffer.clone()
    before, parameters = (
        {place: copies[place] for place in _list_model_buffers(model)},
        _note_frozen_parameter_versions(model, values),
    )
    grads = [(p, p.grad, _read_frozen_gradient_version(p.grad)) for p, *_ in parameters.values()]
    try:
        yield
    finally:
        buffers, accumulated, after = (
            _restore_model_buffers(model, before),
            _remove_gradients_from_frozen_state(grads),
            _note_frozen_parameter_versions(model, values),
        )
        changed = [
            name
            for name in parameters | after
            if not _is_frozen_parameter_unchanged(parameters.get(name), after.get(name))
        ]
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


def _list_model_buffers(model: Any) -> dict[tuple[str, str], Any]:
    """Returns the buffers of a model, by the path of their module and their name."""
    return {
        (path, name): buffer
        for path, module in model.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    }


def _restore_model_buffers(model: Any, before: Copies) -> list[str]:
    """Restores changed buffers and removes new ones. Returns the names of these buffers."""
    changed = []
    for path, module in model.named_modules():
        for name, now in list(module._buffers.items()):
            buffer, version, copy = before.get((path, name), (None, 0, None))
            same = buffer is None or _is_unchanged_buffer(buffer, version, copy)
            if now is buffer and same:
                continue
            changed.append(f"{path}.{name}".lstrip("."))
            module._buffers[name] = buffer
            if not same:
                with torch.no_grad():
                    buffer.copy_(copy)
    return changed


def _remove_gradients_from_frozen_state(before: list[tuple[Any, Any, Any]]) -> bool:
    """Removes changed or new gradients of parameters. Returns whether there were any."""
    changed = [p for p, grad, version in before if p.grad is not grad or _read_frozen_gradient_version(grad) != version]
    for p in changed:
        p.grad = None
    return bool(changed)


def _note_frozen_parameter_versions(model: Any, values: bool) -> dict[str, tuple[Any, int, int]]:
    return {name: (p, p._version, _sum_frozen_tensor_words(p) if values else 0) for name, p in model.named_parameters()}


def _is_frozen_parameter_unchanged(one: tuple[Any, int, int] | None, other: tuple[Any, int, int] | None) -> bool:
    return one is not None and other is not None and one[0] is other[0] and one[1:] == other[1:]


def _read_frozen_gradient_version(grad: Any) -> int:
    return 0 if grad is None else int(grad._version)


def _is_unchanged_buffer(x: Any, version: int, copy: Any) -> bool:
    """Tells whether a buffer equals its copy. For a sparse buffer, only the version is compared."""
    if x._version != version or x.layout is not torch.strided:
        return bool(x._version == version)
    return bool(torch.equal(_view_frozen_tensor_bytes(x), _view_frozen_tensor_bytes(copy)))


def _sum_frozen_tensor_words(p: Any) -> int:
    """Returns a checksum of a parameter's memory, from the sum of its 64-bit words and the sum of the remaining bytes.

    If the memory does not begin at a multiple of 8 bytes, all bytes are added one by one.
    """
    flat = _view_frozen_tensor_bytes(p)
    whole = len(flat) // 8 * 8 if flat.data_ptr() % 8 == 0 else 0
    return int(flat[:whole].view(torch.int64).sum()) ^ int(flat[whole:].sum())


def _view_frozen_tensor_bytes(x: Any) -> Any:
    """Returns the values of a tensor as bytes. For a sharded tensor, the bytes are those of this rank's shard."""
    x = x.detach()
    x = x.to_local() if hasattr(x, "to_local") else x
    return x.contiguous().view(-1).view(torch.uint8)
