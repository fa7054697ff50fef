"""The axis of ``torch.func.vmap`` along which the records of a batch lie, and access to the arrays of all records.

The code of a model sees a batch of one record. ``torch.func.vmap`` computes every operation for all records at once. So
row k of every result of the model is a function of record k alone (docs/theory/clipping.md, section 5).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..batches import collated_batch
from ..gradient_sums.per_example_gradients import (
    VMAP_ERROR_SIGNS,
    name_module_failing_vectorized_pass,
    shorten_vectorized_pass_error,
)
from ..gradient_sums.vectorized_pass import run_under_vmap
from ..model_checks import model_checks
from ..model_checks.self_test import KEEPS_NOTHING
from .call_rules import Unsupported


class RecordAxis:
    """The axis along which ``records`` records lie. Its methods apply a model to each record alone, and call functions
    with the arrays of all records."""

    def __init__(self, records: int) -> None:
        self.records = records
        # A tensor along the axis of records. PyTorch finds the axis in it, and its numbers do not matter.
        self._numbers: Any = None

    def apply_along_record_axis(
        self, model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, then: Callable[[Any], Any],
        recording: AbstractContextManager[Any],
    ) -> Any:  # fmt: skip
        """Applies the model to each record of a batch alone. Returns ``then(losses)``, where ``losses`` is the array of
        the losses of all records.

        ``then`` is called inside ``torch.func.vmap``, so that it can run the backward pass there. During the backward
        pass, activation checkpoints repeat parts of the forward pass, and these parts have to run under vmap again.
        The model and ``then`` run in the context ``recording``. PyTorch's own preparations run outside of it, because
        each function that is called in it takes longer.
        """
        tensors, rebuild = collated_batch.split_collated_batch(batch, self.records)
        found, losses = [], []

        def keep_losses_along_record_axis(array: Any) -> Any:
            losses.append(array)
            return array

        def take_record_along_axis(numbers: Any, *one: Any) -> Any:
            """Returns the loss of one record. Calls ``then`` with the losses of all records, and keeps its result."""
            self._numbers = numbers
            given = rebuild([tensor.unsqueeze(0) for tensor in one])
            with recording, run_under_vmap():
                each = loss_fn(model, given)
                if isinstance(each, torch.Tensor) and each.shape == (1,):
                    self.compute_along_record_axis(keep_losses_along_record_axis, (each[0],))
                else:
                    shown = each.new_empty(each.shape) if isinstance(each, torch.Tensor) else each
                    model_checks.check_loss_tensor_of_model(shown, 1)
                found.append(then(model_checks.check_loss_tensor_of_model(losses[0], self.records)))
            return each

        try:
            torch.func.vmap(take_record_along_axis, randomness="different")(torch.arange(self.records), *tensors)
        except (RuntimeError, NotImplementedError) as error:
            if not any(sign in str(error) for sign in VMAP_ERROR_SIGNS):
                raise
            raise ValueError(
                f"model must be one that torch.func.vmap can run on each record alone, for one pass: "
                f"{name_module_failing_vectorized_pass(model, error)} prevents this, because what the module computes "
                "depends on "
                f"values of the batch, or for PyTorch's reason ({shorten_vectorized_pass_error(error)}). "
                f"arithmetic='one-by-one' takes any module"
            ) from error
        return found[0]

    def compute_along_record_axis(
        self, function: Callable[..., Any], tensors: tuple[Any, ...], shared: tuple[Any, ...] = ()
    ) -> Any:
        """Calls ``function`` with the arrays of all records, and returns its array.

        The model's code runs under vmap, which hides the axis of records. So the model sees the array as the tensor of
        one record. ``function`` gets one array for each of ``tensors``. The first axis of an array is the axis of
        records. A tensor that all records share is expanded along this axis, which takes no memory. ``shared`` are the
        other arguments of ``function``. Raises ``Unsupported`` if one of ``shared`` depends on the records, or if the
        call is made inside another transform of ``torch.func``.
        """

        def apply_to_records_along_axis(dims: Any, given: Any) -> Any:
            """Calls ``function`` with arrays whose first axis is that of the records."""
            if any(dim is not None for dim in dims[len(tensors) :]):
                raise Unsupported("an argument other than its input depends on the records")
            arrays = [
                x.expand(self.records, *x.shape) if dim is None else x.movedim(dim, 0)
                for x, dim in zip(given[: len(tensors)], dims, strict=False)
            ]
            if any(len(array) != self.records for array in arrays):  # PyTorch does not notice tensors of another batch
                raise ValueError(f"{KEEPS_NOTHING}: a tensor has an entry for each record of an earlier batch")
            return function(*arrays, *shared)

        # ``function`` gets ``shared`` as it is, because none of its tensors has the axis of records.
        return _apply(apply_to_records_along_axis, self._numbers, *tensors, *list_record_axis_tensors(shared))

    def has_record_axis(self, x: Any) -> bool:
        """Tells whether ``x`` differs by record, that is whether ``x`` has the axis of records."""
        found: list[bool] = []

        def note_record_axis(dims: Any, *_: Any) -> Any:
            found.append(dims[0] is not None)
            return torch.zeros(self.records)

        _apply(note_record_axis, self._numbers, x)
        return found[0]

    def has_gradient(self, x: Any) -> bool:
        """Tells whether ``x`` depends on trained parameters. ``x.requires_grad`` does not say so under vmap."""
        found: list[bool] = []

        def note_gradient_along_record_axis(array: Any) -> Any:
            found.append(array.requires_grad)
            return array

        self.compute_along_record_axis(note_gradient_along_record_axis, (x,))
        return found[0]


class _ArrayFunction(torch.autograd.Function):
    """A function that works only under ``torch.func.vmap``, where its ``rule`` gets the arrays of all records.

    The arguments are not nested, because PyTorch takes nested arguments apart several times in each call.
    """

    @staticmethod
    def forward(rule: Any, numbers: Any, *tensors: Any) -> Any:
        raise Unsupported("it is inside another torch.func transform")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keeps nothing, because PyTorch computes gradients through the operations in the rule."""

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise Unsupported("it is inside another torch.func transform")

    @staticmethod
    def vmap(info: Any, in_dims: Any, rule: Any, numbers: Any, *tensors: Any) -> Any:
        _, of_numbers, *of_tensors = in_dims
        if of_numbers is None:
            raise Unsupported("it is inside another torch.func transform")
        found = rule(of_tensors, tensors)
        return found, 0 if isinstance(found, torch.Tensor) else (0,) * len(found)


_ArrayFunction.forward.__signature__ = inspect.signature(_ArrayFunction.forward)  # type: ignore[attr-defined]
"""Signature of ``forward``, for which PyTorch asks in each call. Storing it halves the time of a call."""
_apply: Any = _ArrayFunction.apply
"""Calls a rule with the places of the axis of records, and with arrays. The arguments are (rule, a number for each
record, *tensors)."""


_run_backward: Any = getattr(torch.autograd.graph, "_engine_run_backward", None)
"""PyTorch's back-propagation, during which the function mode of ``CallRecorder`` stays active.

``torch.autograd.grad`` turns the mode off. Then the activations that a checkpoint computes again differ from those of
the forward pass, and PyTorch raises an error.
"""


def differentiate_losses_on_record_axis(losses: Any, of: list[Any]) -> Any:
    """Returns, for each tensor in ``of``, the gradient of the sum of the losses. The gradient is None if the losses do
    not depend on the tensor."""
    if not of:
        return ()
    total = losses.sum()
    if _run_backward is None:
        return torch.autograd.grad(total, of, allow_unused=True)
    return _run_backward(
        (total,), (torch.ones_like(total),), False, False, tuple(of), allow_unreachable=True, accumulate_grad=False
    )


def list_record_axis_tensors(found: Any) -> list[Any]:
    """Returns the tensors in a nest of lists, tuples and dicts."""
    if isinstance(found, torch.Tensor):
        return [found]
    if isinstance(found, dict):
        found = found.values()
    elif not isinstance(found, (list, tuple)):
        return []
    # Tensors and empty nests are told apart here, because a call for each of them would take longer.
    listed = []
    for each in found:
        if isinstance(each, torch.Tensor):
            listed.append(each)
        elif isinstance(each, (list, tuple, dict)) and each:
            listed += list_record_axis_tensors(each)
    return listed
