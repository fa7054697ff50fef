"""Whether one pass finds, with the PyTorch that is installed, the gradients that are known."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .alone import gradients, take
from .recorder import Recorder


@functools.cache
def check_torch() -> None:
    """RuntimeError unless it does: it rests on functions of PyTorch that another version may have changed."""
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            as_known = _as_known()
    except Exception as error:
        raise _refusal(f"{type(error).__name__}: {error}") from error
    if not as_known:
        raise _refusal("they are not those by hand")


def _as_known() -> bool:
    """Of (w . x + b)^2 the gradients are 2 (w . x + b) (x, 1)."""
    layer = torch.nn.Linear(2, 1, dtype=torch.float64, device="cpu")
    x = torch.tensor([[1.0, 2.0], [-3.0, 0.5], [0.25, 4.0]], dtype=torch.float64, device="cpu")
    recorder = Recorder(dict(layer.named_parameters()), len(x))

    def back(losses: Any) -> Any:
        return gradients(losses, [call.edge for call in recorder.stop()])

    with recorder:
        found = take(layer, lambda model, batch: model(batch[0])[:, 0].square(), [x], len(x), back)
    with torch.no_grad():
        rows = {id(p): each.rows() for call, g in zip(recorder.calls, found, strict=True) for p, each in call.parts(g)}
        errors = 2 * (x @ layer.weight.T + layer.bias)
        weight, bias = rows[id(layer.weight)][:, 0], rows[id(layer.bias)]
        return bool(torch.allclose(weight, errors * x) and torch.allclose(bias, errors))


def _refusal(why: str) -> RuntimeError:
    return RuntimeError(
        f'arithmetic must be "exact" with torch {torch.__version__}: gradients of known records, which were tried in '
        f"one backward pass, went wrong ({why})"
    )
