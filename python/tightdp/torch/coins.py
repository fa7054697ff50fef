"""How records are read and go through a model: the coins that both toss, and compiled code."""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch


def device_of(model: Any) -> Any:
    return next(iter(model.parameters())).device


def fork_generators(device: Any) -> Any:
    """A context after which PyTorch's generators, that of the device too, are as before."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def run_uncompiled() -> Any:
    """A context in which what ``torch.compile`` made runs as the Python that it was made of.

    PyTorch compiles nothing under ``torch.func``, and would compile what records a forward pass instead.
    """
    return torch.compiler.set_stance("force_eager")


class Coins:
    """Seeds of the global generators of PyTorch, NumPy and ``random``, by a key that only this run knows.

    Augmentation and dropout draw from these generators. With a seed that others know, such as that of
    ``torch.manual_seed(0)``, one more record would shift the draws of all later ones (docs/theory/training.md, section
    9). A ``seed`` in place of the key repeats all of them, for experiments. The processes of a run have one ``key``.
    """

    def __init__(self, seed: int | None = None, key: bytes | None = None) -> None:
        made = secrets.token_bytes(32) if seed is None else hashlib.blake2b(str(seed).encode()).digest()
        self._key = made if key is None else key

    def of_record(self, number: int, index: int) -> int:
        """For reading that record of the data set in the ``number``-th draw: whatever other records are drawn."""
        return self._seed("record", number, index)

    def of_model(self, number: int, rank: int) -> int:
        """For what PyTorch draws for each record that goes through the model, in that pass and on that process."""
        return self._seed("model", number, rank)

    def common(self, number: int) -> int:
        """For what NumPy and ``random`` draw once for all records of that pass, whatever process they are on."""
        return self._seed("common", number, 0)

    def _seed(self, *what: str | int) -> int:
        return int.from_bytes(hashlib.blake2b(repr(what).encode(), key=self._key, digest_size=8).digest(), "big") >> 1

    def __reduce__(self) -> Any:
        raise TypeError("Coins cannot be copied or pickled: a copy would repeat its draws")


def seed_host(seed: int) -> None:
    """Seeds the generators of NumPy and of ``random``."""
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 (the global generator)
    random.seed(seed)


def seed_generators(seed: int) -> None:
    """Seeds the generators of NumPy, of ``random`` and of PyTorch on the host."""
    seed_host(seed)
    torch.default_generator.manual_seed(seed)


@contextmanager
def restore_generators() -> Iterator[None]:
    """Afterwards the generators of NumPy and of ``random`` are as before.

    Records draw as often as there are records. Whoever reads a generator's state later, in a checkpoint or by what it
    draws next, would learn their number.
    """
    of_numpy, of_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global generator)
    try:
        yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002 (the global generator)
        random.setstate(of_python)


@contextmanager
def seed_pass(device: Any, seed: int, common: int) -> Iterator[None]:
    """The global generators are seeded, PyTorch's by ``seed`` and the others by ``common``, and put back afterwards."""
    with fork_generators(device), restore_generators():
        seed_host(common)
        torch.manual_seed(seed) if device.type == "cuda" else torch.default_generator.manual_seed(seed)
        yield


def with_common_coins(loss_fn: Callable[[Any, Any], Any], seed: int) -> Callable[[Any, Any], Any]:
    """The loss function, where NumPy and ``random`` draw the same for all physical batches of a step.

    They draw once for all records that go through the model together. If those of another physical batch drew others,
    one more record, which moves another into the next physical batch, would change the draws of that one.
    """

    def loss(model: Any, batch: Any) -> Any:
        seed_host(seed)
        return loss_fn(model, batch)

    return loss


def read_without_trace(parts: Iterator[Any]) -> Iterator[Any]:
    """The parts, where what reads them leaves no trace in the global generators."""
    while True:
        with torch.random.fork_rng(devices=[]), restore_generators():
            found = list(islice(parts, 1))
        if not found:
            return
        yield found[0]
