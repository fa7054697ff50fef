"""Records side by side in a model, each of them alone: no operation of PyTorch can mix them.

``torch.func.vmap`` shows the model a batch of one record, and computes every operation for all records at once. So row
k of whatever the model computes is a function of record k, in every batch (docs/theory/clipping.md, section 5). This
file alone goes to the arrays of all records behind a tensor of one, and makes one of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import behind, checks, examples
from ..materialized import SIGNS, place
from ..side_by_side import side_by_side
from .uses import Unsupported


def take(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, records: int, then: Callable[[Any], Any]) -> Any:
    """What ``then`` makes of the losses of all records, shape (records,), each computed as if it were the whole batch.

    ``then`` is called while records are still apart, for what PyTorch computes a second time on its way back.
    """
    tensors, rebuild = examples.split(batch, records)
    found = []

    def single(*one: Any) -> Any:
        losses = loss_fn(model, rebuild([tensor.unsqueeze(0) for tensor in one]))
        if not isinstance(losses, torch.Tensor) or losses.shape != (1,):
            checks.check_losses(losses.new_empty(losses.shape) if isinstance(losses, torch.Tensor) else losses, 1)
        found.append(then(checks.check_losses(array_of(losses[0], records), records)))
        return losses

    try:
        with side_by_side():
            torch.func.vmap(single, randomness="different")(*tensors)
    except (RuntimeError, NotImplementedError) as error:
        if not any(sign in str(error) for sign in SIGNS):
            raise
        raise ValueError(
            f"model must be one that torch.func.vmap takes records through, each alone, for one pass: "
            f"{place(model, error)} cannot be, because what it computes depends on values of the batch, or PyTorch "
            f"says why not: {error}. arithmetic='one-by-one' takes any module"
        ) from error
    return found[0]


def gradients(losses: Any, of: list[Any]) -> Any:
    """``torch.autograd.grad`` of the sum of the losses, None for what they do not depend on.

    It calls PyTorch's engine itself, which what is computed a second time, such as checkpointed activations, is then
    recomputed under the mode that recorded it.
    """
    if not of:
        return ()
    total = losses.sum()
    return behind.engine_run_backward(
        (total,), (torch.ones_like(total),), False, False, tuple(of), allow_unreachable=True, accumulate_grad=False
    )


def is_of_records(x: Any) -> bool:
    """Whether there is one such tensor for each record."""
    return bool(behind.is_batchedtensor(x))


def has_gradient(x: Any) -> bool:
    """Whether a tensor depends on what is trained; PyTorch says no of a tensor of one record, whatever is behind it."""
    while behind.is_functorch_wrapped_tensor(x):
        x = behind.get_unwrapped(x)
    return bool(x.requires_grad)


def array_of(x: Any, records: int) -> Any:
    """The tensors of all records, along a new first axis; what all records share is repeated, without memory."""
    if not is_of_records(x):
        return shared(x).expand(records, *x.shape)
    _check_level()
    return behind.get_unwrapped(x).movedim(behind.maybe_get_bdim(x), 0)


def shared(x: Any) -> Any:
    """A tensor that does not depend on records."""
    if isinstance(x, torch.Tensor) and behind.is_functorch_wrapped_tensor(x):
        raise Unsupported("an argument other than its input depends on the records, or on another torch.func transform")
    return x


def tensor_of(array: Any) -> Any:
    """The tensor of one record, of an array whose first axis is that of the records."""
    _check_level()
    return behind.add_batch_dim(array, 0, _OURS)


_OURS = 1
"""The level of the vmap above: the outermost."""


def _check_level() -> None:
    if behind.maybe_current_level() != _OURS:
        raise Unsupported("it is inside another torch.func transform")
