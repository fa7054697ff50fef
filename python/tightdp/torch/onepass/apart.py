"""Whether a model and a loss treat the records of a batch apart: looked at on the first batch of a run.

One record must move its own gradient and no other. ``torch.func`` sees to that by taking each record alone; one pass
over a batch has to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import examples
from .factors import Factors
from .recorder import Recorder


def check_apart(losses: Any, recorder: Recorder, records: int) -> None:
    """ValueError unless the loss of the first and of the last record have gradients in their own places alone.

    It shows a loss or a module that mixes records, and an axis taken for that of the records which is not.
    """
    if not recorder.calls:
        return
    edges = [call.edge for call in recorder.calls]
    for record in {0, records - 1}:
        found = torch.autograd.grad(losses[record], edges, retain_graph=True, allow_unused=True)
        for call, g in zip(recorder.calls, found, strict=True):
            if g is None:
                continue
            others = [k for k in range(records) if k != record]
            elsewhere = g.reshape(records, -1)[others] if len(g) % records == 0 else g
            apart = not torch.nan_to_num(elsewhere, 0.0, 0.0, 0.0).any()  # 0 times the NaN of another record is NaN
            if not apart:
                raise ValueError(
                    f"model and loss_fn must treat each record apart: the loss of one record depends on others through "
                    f"{', '.join(call.kind[1])} in {call.kind[0]}, or the first axis there is not that of the records "
                    f'(batch_first=True makes it so). arithmetic="exact" takes any order of axes'
                )


def check_alone(model: Any, loss_fn: Callable[[Any, Any], Any], batch: Any, records: int) -> None:
    """ValueError if a record has another loss by itself than in the batch, beyond rounding; in eval mode.

    It shows what has no gradient: a loss divided by what the whole batch holds, statistics of the batch taken as
    constants. A model whose losses are random in eval mode as well is not looked at.
    """
    tensors, rebuild = examples.split(batch, records)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            together, again = loss_fn(model, batch), loss_fn(model, batch)
            alone = loss_fn(model, rebuild([tensor[:1] for tensor in tensors]))
    finally:
        for module, training in modes:
            module.training = training
    if torch.equal(together.nan_to_num(), again.nan_to_num()):
        tolerance = torch.finfo(together.dtype).eps ** 0.5
        if not torch.allclose(together[:1].double(), alone.double(), tolerance, tolerance, equal_nan=True):
            raise ValueError(
                "model and loss_fn must treat each record apart: a record has another loss by itself than in a batch. "
                'arithmetic="exact" takes each record alone'
            )


def check_whole(losses: Any, parameters: dict[str, Any], factors: dict[int, Factors], records: int) -> None:
    """ValueError unless the gradients of all records add up to what PyTorch computes of their sum, up to rounding.

    It shows a use of a parameter that was not seen, such as one in an ``autograd.Function`` of one's own. A batch with
    gradients that are not finite shows nothing.
    """
    whole = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    for i, ((name, p), expected) in enumerate(zip(parameters.items(), whole, strict=True)):
        found = torch.zeros_like(p, dtype=torch.promote_types(p.dtype, torch.float32))
        with torch.no_grad():
            if i in factors:
                factors[i].squares()  # which may decide on the way
                factors[i].add_weighted(torch.ones(records, dtype=found.dtype, device=p.device), found)
        expected = torch.zeros_like(found) if expected is None else expected.to(found.dtype)
        if not bool(torch.isfinite(expected).all()):
            continue
        tolerance = 10 * torch.finfo(min((losses.dtype, p.dtype), key=lambda d: torch.finfo(d).bits)).eps ** 0.5
        if (found - expected).abs().max() > tolerance * (expected.abs().max() + found.abs().max()):
            raise ValueError(
                f"model must be one that is clipped in one pass: {name} is used in a way that was not seen, such as in "
                f'an autograd.Function of its own or in compiled code. arithmetic="exact" takes any module'
            )
