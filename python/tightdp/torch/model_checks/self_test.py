"""Tests of a model on the first records of a run, for errors that the types of its modules do not show.

They release nothing, and their errors are meant for whoever holds the data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from ..batches import collated_batch
from ..randomness.global_generators import run_uncompiled
from . import model_checks
from .frozen_state import check_unchanged

TRIED_RECORDS = 4
"""Number of records whose gradients are computed and compared, three times each."""
FINE, COARSE = 2.0**-8, 2.0**-4
"""Largest relative differences of a gradient when a model's operations are done in another order. The first is for
float32 on the host, where some terms cancel. The second is for half precision and for devices, whose products may have
as few digits."""
_LAST_BITS, _OTHER_ORDER = 2.0**-20, 1e-4
"""Largest relative differences of a gradient when the same operations are repeated. The first is for the host, where
memory may be aligned in other ways. The second is for devices, whose threads add in any order."""

Gradient = list[Any]
"""The gradient of one record, a tensor for each parameter."""
Pass = Callable[[Any], Gradient]
"""Takes a batch of one record through the model, with the same coins each time."""
PlainPass = Callable[..., tuple[Gradient, float]]
"""Takes a record, and the number of a seed (0 by default), by plain back-propagation; returns the rounding too."""


def check_first_record(model: Any, loss_fn: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """Raises ValueError if a parameter takes no part in the loss, or if the model keeps what it saw.

    A model is called on zeros first: it may make something at first use, such as a table, which then does not depend on
    records. Whatever it keeps afterwards is refused.
    """
    tensors, rebuild = collated_batch.split_records(batch, records)
    with check_unchanged(model), run_uncompiled(), suppress(Exception):
        loss_fn(model, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors]))
    with check_unchanged(model), run_uncompiled():
        found, _ = find_plain_gradient(model, loss_fn, parameters, rebuild([tensor[:1] for tensor in tensors]))
    model_checks.check_used(name for name, gradient in zip(parameters, found, strict=True) if gradient is None)


def find_plain_gradient(model: Any, loss_fn: Any, parameters: dict[str, Any], one: Any) -> tuple[list[Any], float]:
    """Returns the gradient of a record by plain back-propagation, and how much of it another order may change.

    The gradient has None for a parameter that takes no part in the loss.
    """
    losses = model_checks.check_losses(loss_fn(model, one), 1)
    rounding = _estimate_rounding(losses)
    return list(torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)), rounding


def _estimate_rounding(losses: Any) -> float:
    """Returns ``COARSE`` if the losses are on a device or something was cast on the way to them; otherwise ``FINE``."""
    ahead, seen = [losses.grad_fn], {None}
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        dtype = getattr(getattr(node, "variable", None), "dtype", None)
        if "ToCopy" in node.name() or dtype in (torch.float16, torch.bfloat16):
            return COARSE
        ahead += (each for each, _ in node.next_functions)
    return FINE if losses.device.type == "cpu" else COARSE


def take_singles(batch: Any, records: int) -> list[Any]:
    """Returns a few records, each as a batch of one. If there is a single record, one of zeros is added."""
    tensors, rebuild = collated_batch.split_records(batch, records)
    found = [rebuild([tensor[i : i + 1] for tensor in tensors]) for i in range(min(records, TRIED_RECORDS))]
    return found if len(found) > 1 else [*found, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors])]


def check_gradients_repeat(find: Pass, singles: list[Any], order: list[int]) -> list[Gradient | None]:
    """Returns the gradient of each record, None of one that is not finite.

    ValueError unless a record has the same gradient, with the same coins, whenever its turn comes in ``order``. On a
    device whose sums depend on the order in which threads come, it may differ by a little.
    """
    found: dict[int, Gradient | None] = {}
    for i in order:
        now = _keep_if_finite(find(singles[i]))
        before = found.setdefault(i, now)
        if (now is None) != (before is None) or (now and before and not _is_repeated(now, before)):
            raise ValueError(
                "model and loss_fn must keep nothing from one record to the next: a record had another gradient after "
                "other records went through them, with the same coins. Compute what they need from the record alone, "
                "or before the step"
            )
    return [found[i] for i in range(len(singles))]


def check_against_autograd(
    find: Pass, find_plain: PlainPass, model: Any, singles: list[Any], found: list[Gradient | None], arithmetic: str
) -> None:
    """Raises ValueError if the gradients of all records differ too much from those of plain back-propagation.

    ``find_plain`` takes a record through the model alone, with the same coins. Where coins are drawn in another order,
    the comparison is made again with modules in eval mode; it is left out where they still are drawn there. One record
    that agrees is enough: the gradient of another may be all rounding.
    """
    distance = _find_least_distance(found, map(find_plain, singles))
    if distance and any(_has_random_gradient(find_plain, one) for one in singles):
        with _set_eval_flags(model):
            if any(_has_random_gradient(find_plain, one) for one in singles):
                return
            distance = _find_least_distance([_keep_if_finite(find(one)) for one in singles], map(find_plain, singles))
    if distance:
        others = '"exact" or "one-by-one"' if arithmetic != "exact" else '"one-by-one"'
        raise ValueError(
            f'loss_fn must have the gradients that torch.autograd finds: by arithmetic="{arithmetic}" those of all '
            f"records that were looked at differ, by {distance:.2g} of their lengths. One pass follows no derivatives "
            f"that the loss takes by torch.func (grad, jvp, jacrev), and torch.func no parameters that the loss does "
            f"not get from the model it is given. Take them from there, or use arithmetic={others}"
        )


def warn_of_no_gradient(found: list[Gradient | None]) -> None:
    """Warns if no record that was looked at has a gradient."""
    if all(gradient is None or not any(bool(g.any()) for g in gradient) for gradient in found):
        warnings.warn(
            "the gradients of all records that were looked at are zero or not finite: the model would learn from noise "
            "alone. loss_fn gets one record at a time, so a loss that compares the records of a batch, centres or "
            "mixes them is constant",
            stacklevel=2,
        )


def _keep_if_finite(gradient: Gradient) -> Gradient | None:
    return gradient if all(bool(g.isfinite().all()) for g in gradient) else None


def _is_repeated(one: Gradient, other: Gradient) -> bool:
    """Tells whether two gradients of one record differ by no more than a repetition of the same operations may."""
    little = _LAST_BITS if one[0].device.type == "cpu" else _OTHER_ORDER
    return _gradient_distance(one, other) <= little * _gradient_length(one)


def _find_least_distance(one: list[Gradient | None], other: Iterable[tuple[Gradient, float]]) -> float:
    """Returns the smallest distance of a record's two gradients, relative to the longer one.

    It is 0 if the distance is within the rounding for one of the records, or if no record has gradients to compare.
    """
    found = []
    for a, (b, rounding) in zip(one, other, strict=True):
        if a and _keep_if_finite(b) and max(_gradient_length(a), _gradient_length(b)) > 0:
            distance = _gradient_distance(a, b) / max(_gradient_length(a), _gradient_length(b))
            found.append(distance if distance > rounding else 0.0)
    return min(found, default=0.0)


def _gradient_distance(one: Gradient, other: Gradient) -> float:
    return _gradient_length([a - b for a, b in zip(one, other, strict=True)])


def _gradient_length(gradient: Gradient) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(g, dtype=torch.float64)) for g in gradient))


def _has_random_gradient(find_plain: PlainPass, one: Any) -> bool:
    """Tells whether a record's gradient changes with the seed."""
    first, second = (_keep_if_finite(find_plain(one, number)[0]) for number in (0, 1))
    return first is not None and second is not None and not _is_repeated(first, second)


@contextmanager
def _set_eval_flags(model: Any) -> Iterator[None]:
    """Puts modules in eval mode for the body, without calling a method of theirs, and restores each afterwards."""
    before = {module: module.training for module in model.modules()}
    try:
        for module in before:
            module.training = False
        yield
    finally:
        for module, training in before.items():
            module.training = training
