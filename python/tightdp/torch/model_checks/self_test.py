"""Tests of a model on the first records of a run. They find errors that the types of the model's modules do not show.

The tests release nothing. Their error messages are meant for a person who may see the data.
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
from .frozen_state import check_model_unchanged

TRIED_RECORDS = 4
"""Number of records whose gradients are computed three times each and compared."""
FINE, COARSE = 2.0**-8, 2.0**-4
"""Largest relative differences of a gradient if a model's operations are computed in another order. The first is for
float32 on the host, and allows for terms that cancel. The second is for half precision and for devices, where products
may have as few digits as in half precision."""
_LAST_BITS, _OTHER_ORDER = 2.0**-20, 1e-4
"""Largest relative differences of a gradient if the same operations are repeated. The first is for the host, where the
alignment of memory may differ. The second is for devices, whose threads add in any order."""

KEEPS_NOTHING = "model and loss_fn must keep nothing from one record to the next"
"""Beginning of the error about a model or a loss that carries something from a record to another one."""

PROJECTIONS, PROJECTED_COLUMNS, PROJECTED_ROWS = 16, 1 << 10, 1 << 6
"""Number of projections of a gradient, and the size of the matrices into which a gradient is cut for them. A projection
is the sum over all rows of a row times a random weight. Lengths are off by a few percent if an error is in many rows,
and by a factor of up to about 3 if it is in one row. Errors in a gradient exceed the tolerances above many times."""

Gradient = list[Any]
"""Gradient of one record, or projections of it, as a tensor for each parameter."""
Pass = Callable[[Any], Gradient]
"""Function that returns the gradient for a batch of one record, with the same coins (seeds) in each call."""
PlainPass = Callable[..., tuple[Gradient, float]]
"""Function that returns a record's gradient by plain back-propagation, and the gradient's relative rounding error. The
arguments are the record and the number of a seed, by default 0."""


def check_model_on_first_record(model: Any, loss_fn: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """Raises ValueError if the loss does not depend on a parameter, or if the model keeps something of a record.

    The model is called on zeros first. At this first call the model may make something, such as a table, that does not
    depend on records. If it keeps something from a later call, an error is raised.
    """
    tensors, rebuild = collated_batch.split_collated_batch(batch, records)
    with check_model_unchanged(model), run_uncompiled(), suppress(Exception):
        loss_fn(model, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors]))
    with check_model_unchanged(model), run_uncompiled():
        found, _ = find_autograd_gradient_for_self_test(
            model, loss_fn, parameters, rebuild([tensor[:1] for tensor in tensors])
        )
    model_checks.check_model_parameters_used(
        name for name, gradient in zip(parameters, found, strict=True) if gradient is None
    )


def find_autograd_gradient_for_self_test(
    model: Any, loss_fn: Any, parameters: dict[str, Any], one: Any
) -> tuple[list[Any], float]:
    """Returns the gradient of a record by plain back-propagation, and a bound on its relative rounding error.

    The bound is on the change of the gradient if operations are computed in another order. The gradient has None for a
    parameter on which the loss does not depend.
    """
    losses = model_checks.check_loss_tensor_of_model(loss_fn(model, one), 1)
    rounding = _estimate_self_test_rounding(losses)
    return list(torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)), rounding


def _estimate_self_test_rounding(losses: Any) -> float:
    """Returns ``COARSE`` on a device, with casts of types, or with half precision, and ``FINE`` otherwise."""
    for node in yield_graph_nodes_for_self_test(losses, {}):
        dtype = getattr(getattr(node, "variable", None), "dtype", None)
        if "ToCopy" in node.name() or dtype in (torch.float16, torch.bfloat16):
            return COARSE
    return FINE if losses.device.type == "cpu" else COARSE


def yield_graph_nodes_for_self_test(losses: Any, before: dict[Any, list[Any]]) -> Iterator[Any]:
    """Yields each node of PyTorch's graph once, from the losses towards the parameters.

    From a node, the walk goes on to the inputs of the node. If the node is a key in ``before``, the walk goes on to the
    nodes that are listed under this key instead.
    """
    ahead, seen = [losses.grad_fn], {None}
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            yield node
            ahead += before[node] if node in before else [each for each, _ in node.next_functions]


def take_single_records_for_self_test(batch: Any, records: int) -> list[Any]:
    """Returns a few records, each as a batch of one. If there is a single record, a record of zeros is added."""
    tensors, rebuild = collated_batch.split_collated_batch(batch, records)
    found = [rebuild([tensor[i : i + 1] for tensor in tensors]) for i in range(min(records, TRIED_RECORDS))]
    return found if len(found) > 1 else [*found, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors])]


def check_self_test_gradients_repeat(find: Pass, singles: list[Any], order: list[int]) -> list[Gradient | None]:
    """Returns the gradient of each record, projected, or None in the place of a gradient that is not finite.

    The gradients are computed in the given order, in which a record occurs several times. Raises ValueError unless a
    record has the same gradient, with the same coins, at each occurrence. A small difference is allowed, because
    repeating the same operations may change the last bits (``_is_self_test_gradient_repeated``).
    """
    found: dict[int, Gradient | None] = {}
    for i in order:
        now = _project_self_test_gradient(find(singles[i]))
        before = found.setdefault(i, now)
        if (now is None) != (before is None) or (now and before and not _is_self_test_gradient_repeated(now, before)):
            raise ValueError(
                f"{KEEPS_NOTHING}: a record had another gradient after other records went through them, with the same "
                "coins. Compute what they need from the record alone, or before the step"
            )
    return [found[i] for i in range(len(singles))]


def compare_with_autograd_in_self_test(
    find: Pass, find_plain: PlainPass, model: Any, singles: list[Any], found: list[Gradient | None], arithmetic: str
) -> None:
    """Raises ValueError if the gradients of all records differ too much from those of plain back-propagation.

    ``found`` has the records' gradients, projected, which ``check_self_test_gradients_repeat`` returned.
    ``find_plain`` takes one record at a time through the model, with the same coins as ``find``. If the gradients
    depend on coins, which the two functions may draw in different orders, the gradients are compared again with modules
    in eval mode. If the gradients depend on coins in eval mode too, they are not compared. Agreement for one record is
    enough, because the gradient of another record may consist of rounding errors.
    """
    distance = _find_least_self_test_distance(found, map(find_plain, singles))
    if distance and any(_has_random_self_test_gradient(find_plain, one) for one in singles):
        with _set_model_modules_to_eval(model):
            if any(_has_random_self_test_gradient(find_plain, one) for one in singles):
                return
            distance = _find_least_self_test_distance(
                (_project_self_test_gradient(find(one)) for one in singles), map(find_plain, singles)
            )
    if distance:
        others = '"exact" or "one-by-one"' if arithmetic != "exact" else '"one-by-one"'
        raise ValueError(
            f'loss_fn must have the gradients that torch.autograd finds: by arithmetic="{arithmetic}" those of all '
            f"records that were looked at differ, by {distance:.2g} of their lengths. One pass follows no derivatives "
            f"that the loss takes by torch.func (grad, jvp, jacrev), and torch.func no parameters that the loss does "
            f"not get from the model it is given. Take them from there, or use arithmetic={others}"
        )


def warn_of_zero_self_test_gradient(found: list[Gradient | None]) -> None:
    """Warns if no tested record has a gradient that is finite and not zero."""
    if all(gradient is None or not any(bool(g.any()) for g in gradient) for gradient in found):
        warnings.warn(
            "the gradients of all records that were looked at are zero or not finite: the model would learn from noise "
            "alone. loss_fn gets one record at a time, so a loss that compares the records of a batch, centres or "
            "mixes them is constant",
            stacklevel=2,
        )


@torch.no_grad()
def _project_self_test_gradient(gradient: Gradient) -> Gradient | None:
    """Returns random projections of a gradient, or None if it is not finite.

    The projections take less memory than the gradient. Their distances and lengths are about those of the gradients,
    because each weight is normal and the same weights are drawn for each gradient. A gradient that is not finite has
    projections that are not finite.
    """
    found = []
    for g in gradient:
        weights = torch.Generator().manual_seed(0)
        found.append(g.new_zeros(PROJECTIONS, PROJECTED_COLUMNS, dtype=torch.float64))
        for piece in g.reshape(-1).split(PROJECTED_ROWS * PROJECTED_COLUMNS):
            rows = torch.nn.functional.pad(piece, (0, -len(piece) % PROJECTED_COLUMNS)).view(-1, PROJECTED_COLUMNS)
            drawn = torch.randn(PROJECTIONS, len(rows), generator=weights, dtype=torch.float64)
            found[-1].addmm_(drawn.to(g.device), rows.double(), alpha=PROJECTIONS**-0.5)
    return found if all(bool(each.isfinite().all()) for each in found) else None


def _is_self_test_gradient_repeated(one: Gradient, other: Gradient) -> bool:
    """Tells whether two gradients of a record differ by at most what repeating the same operations may change."""
    little = _LAST_BITS if one[0].device.type == "cpu" else _OTHER_ORDER
    return _measure_self_test_distance(one, other) <= little * _measure_self_test_length(one)


def _find_least_self_test_distance(one: Iterable[Gradient | None], other: Iterable[tuple[Gradient, float]]) -> float:
    """Compares the two gradients of each record, and returns the smallest distance, relative to the longer gradient.

    ``one`` has projections of gradients. The result is 0 if the distance for some record is within the rounding error,
    or if no gradients can be compared. Records after the first one within the rounding error are not looked at.
    """
    least = math.inf
    for a, (gradient, rounding) in zip(one, other, strict=True):
        b = _project_self_test_gradient(gradient)
        longer = max(_measure_self_test_length(a), _measure_self_test_length(b)) if a and b else 0.0
        if a and b and longer > 0:
            distance = _measure_self_test_distance(a, b) / longer
            if distance <= rounding:
                return 0.0
            least = min(least, distance)
    return 0.0 if least == math.inf else least


def _measure_self_test_distance(one: Gradient, other: Gradient) -> float:
    return _measure_self_test_length([a - b for a, b in zip(one, other, strict=True)])


def _measure_self_test_length(gradient: Gradient) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(g, dtype=torch.float64)) for g in gradient))


def _has_random_self_test_gradient(find_plain: PlainPass, one: Any) -> bool:
    """Tells whether the gradient of a record changes with the seed."""
    first, second = (_project_self_test_gradient(find_plain(one, number)[0]) for number in (0, 1))
    return first is not None and second is not None and not _is_self_test_gradient_repeated(first, second)


@contextmanager
def _set_model_modules_to_eval(model: Any) -> Iterator[None]:
    """Puts all modules in eval mode for the ``with`` body, without calling their methods, and then restores them."""
    before = {module: module.training for module in model.modules()}
    try:
        for module in before:
            module.training = False
        yield
    finally:
        for module, training in before.items():
            module.training = training
