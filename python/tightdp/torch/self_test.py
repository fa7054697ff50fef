"""A look at the first records of a run: what the types of modules do not tell.

It releases nothing, and its errors are meant for whoever holds the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from . import checks, collated
from .coins import run_uncompiled
from .frozen_state import check_unchanged
from .plan import Plan
from .record_reader import Part

_LOOSER = 2.0**20
_OTHER_ORDER = 1e-4
"""Of a gradient, by which another order of its sums may change it in float32."""

Pass = Callable[[list[Part]], list[Any]]
"""Takes parts through the model, and returns what their gradients add up to."""


def check_first_record(model: Any, loss_fn: Any, parameters: dict[str, Any], batch: Any, records: int) -> None:
    """ValueError if a parameter takes no part in the loss, or if the model keeps what it saw.

    What a model makes at first use, such as a table, it makes of zeros, so that it is none of records. Whatever is kept
    afterwards is refused.
    """
    tensors, rebuild = collated.split_records(batch, records)
    with check_unchanged(model), run_uncompiled(), suppress(Exception):
        loss_fn(model, rebuild([torch.zeros_like(tensor[:1]) for tensor in tensors]))
    with check_unchanged(model), run_uncompiled():
        losses = checks.check_losses(loss_fn(model, rebuild([tensor[:1] for tensor in tensors])), 1)
    found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    checks.check_used(name for name, gradient in zip(parameters, found, strict=True) if gradient is None)


def loosen_bounds(plan: Plan) -> Plan:
    """The plan with norm bounds so large that gradients show their lengths."""
    return dataclasses.replace(plan, max_norm=tuple(min(_LOOSER * bound, 1e30) for bound in plan.max_norm))


def check_gradients_repeat(of: Pass, batch: Any, records: int) -> None:
    """ValueError unless a record has the same gradient before and after another one, with the same coins.

    On a device whose sums depend on the order in which threads come, it may differ by a little.
    """
    tensors, rebuild = collated.split_records(batch, records)
    one = rebuild([tensor[:1] for tensor in tensors])
    other = rebuild([tensor[-1:] if records > 1 else torch.zeros_like(tensor) for tensor in tensors])
    before = of([(one, 1)])
    of([(other, 1)])
    for x, y in zip(before, of([(one, 1)]), strict=True):
        little = 0.0 if tensors[0].device.type == "cpu" else _OTHER_ORDER * float(x.norm())
        if not float((x - y).norm()) <= little:
            raise ValueError(
                "model and loss_fn must keep nothing from one record to the next: a record had another gradient after "
                "another record went through them, with the same coins. Compute what they need from the record alone, "
                "or before the step"
            )
