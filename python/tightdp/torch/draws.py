"""How records go through a model: random numbers of PyTorch's own, such as those of dropout, and compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch


def device_of(model: Any) -> Any:
    return next(iter(model.parameters())).device


def forked(device: Any) -> Any:
    """A context after which PyTorch's generators, that of the device too, are as before."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def uncompiled() -> Any:
    """A context in which what ``torch.compile`` made runs as the Python that it was made of.

    PyTorch compiles nothing under ``torch.func``, and would compile what records a forward pass instead.
    """
    return torch.compiler.set_stance("force_eager")


@contextmanager
def own_draws(device: Any) -> Iterator[None]:
    """PyTorch's generators are seeded by one draw of its own, and are put back after that draw.

    Dropout draws as often as there are records. Whoever reads the generator's state later, in a checkpoint or by what
    it draws next, would learn their number.
    """
    seed = _seed()
    with forked(device):
        torch.manual_seed(seed) if device.type == "cuda" else torch.default_generator.manual_seed(seed)
        yield


def read_apart(parts: Iterator[Any]) -> Iterator[Any]:
    """The parts, where what reads them draws from a generator of its own, seeded by one draw of PyTorch's."""
    return _read_apart(parts, torch.Generator().manual_seed(_seed()).get_state())


def _read_apart(parts: Iterator[Any], state: Any) -> Iterator[Any]:
    while True:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            found = list(islice(parts, 1))
            state = torch.get_rng_state()
        if not found:
            return
        yield found[0]


def _seed() -> int:
    return int(torch.randint(2**62, (), device="cpu"))
