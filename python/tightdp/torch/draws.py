"""Random numbers of a step that are PyTorch's own, such as those of dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def device_of(model: Any) -> Any:
    return next(iter(model.parameters())).device


@contextmanager
def own_draws(device: Any) -> Iterator[None]:
    """PyTorch's generators are seeded by one draw of its own, and are put back after that draw.

    Dropout draws as often as there are records. Whoever reads the generator's state later, in a checkpoint or by what
    it draws next, would learn their number.
    """
    seed = int(torch.randint(2**62, ()))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed) if device.type == "cuda" else torch.default_generator.manual_seed(seed)
        yield
