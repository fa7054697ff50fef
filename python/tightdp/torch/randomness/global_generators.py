"""The global generators and compiled code, while records are read and go through a model."""

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
from torch.overrides import TorchFunctionMode, resolve_name


def find_device(model: Any) -> Any:
    """Returns the device of a model's first parameter."""
    return next(iter(model.parameters())).device


def fork_generators(device: Any) -> Any:
    """Makes a context that restores PyTorch's generators afterwards, those of the host and of the device."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def run_uncompiled() -> Any:
    """Makes a context in which code that ``torch.compile`` compiled runs as plain Python.

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

    def make_record_seed(self, number: int, index: int) -> int:
        """Returns the seed for reading a record in the ``number``-th draw. It does not depend on the other records."""
        return self._make_seed("record", number, index)

    def make_model_seed(self, number: int, rank: int) -> int:
        """Returns the seed of PyTorch's draws in a pass of records through the model, on one process."""
        return self._make_seed("model", number, rank)

    def make_common_seed(self, number: int) -> int:
        """Returns the seed of NumPy and ``random`` in a pass, whose draws serve all records on all processes."""
        return self._make_seed("common", number, 0)

    def _make_seed(self, *what: str | int) -> int:
        return int.from_bytes(hashlib.blake2b(repr(what).encode(), key=self._key, digest_size=8).digest(), "big") >> 1

    def __reduce__(self) -> Any:
        raise TypeError("Coins cannot be copied or pickled: a copy would repeat its draws")


def draw_look_order(records: int, seed: int) -> list[int]:
    """Returns an order in which some records are taken three times each, to see whether anything is kept between them.

    The first record is taken twice in a row, which shows a change with every record at once. The rest is random: a
    change that comes rarely, or after certain records alone, shows if it falls between two turns of a record.
    """
    rest = [0, *(i for i in range(1, records) for _ in range(3))]
    random.Random(seed).shuffle(rest)
    return [0, 0, *rest]


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
    """Restores the generators of NumPy and of ``random`` after the body.

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
    """Seeds the global generators for the body, PyTorch's by ``seed``, others by ``common``, and restores them."""
    with fork_generators(device), restore_generators():
        seed_host(common)
        seed_torch(device, seed)
        yield


def seed_torch(device: Any, seed: int) -> None:
    """Seeds PyTorch's generator of the host, and those of all devices where the model is on one."""
    torch.manual_seed(seed) if device.type == "cuda" else torch.default_generator.manual_seed(seed)


class CoinGuard(TorchFunctionMode):
    """A context in which records pass a model side by side, with no coins of PyTorch's but those of the run.

    PyTorch draws for each record by its place in the physical batch. Were the draws known, as after
    ``torch.manual_seed(0)``, one more record would give all later ones the draws of their neighbours. So each call of a
    function of PyTorch, and the end of the context, check that the generators have the seed of the beginning.
    ValueError if they have another, or if a function is given a generator of its own (docs/theory/training.md, section
    9).
    """

    def __enter__(self) -> Any:
        cuda: Any = torch.cuda
        devices = cuda.default_generators if cuda.is_initialized() else ()
        self._seeds = [(g.initial_seed, g.initial_seed()) for g in (torch.default_generator, *devices)]
        base: Any = super()  # its methods have types where PyTorch is installed alone
        return base.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        base: Any = super()
        base.__exit__(kind, error, trace)
        if error is None:
            self._check_seeds("the loss was computed")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for read_seed, seed in self._seeds:
            if read_seed() != seed:
                self._check_seeds(f"{_name_function(func)} was called")
        if kwargs is None:
            return func(*args)
        if kwargs.get("generator") is not None:
            raise ValueError(
                f"model and loss_fn must draw from the global generators of PyTorch, which a run seeds by its own key: "
                f"{_name_function(func)} was given a generator of its own. Its draws go by the place of a record in "
                f"its batch, so that one more record would change those of others. Leave generator= out"
            )
        return func(*args, **kwargs)

    def _check_seeds(self, when: str) -> None:
        if any(read_seed() != seed for read_seed, seed in self._seeds):
            raise ValueError(
                f"model and loss_fn must not seed PyTorch's generators while records pass the model: they had another "
                f"seed than the run's when {when}. With known seeds one more record would change the dropout masks of "
                f"others. Leave manual_seed, set_rng_state and fork_rng out: random_state of make_private repeats the "
                f"draws of an experiment"
            )


def _name_function(func: Any) -> str:
    return str(resolve_name(func) or getattr(func, "__name__", repr(func)))


def seed_loss_function(loss_fn: Callable[[Any, Any], Any], seed: int) -> Callable[[Any, Any], Any]:
    """Returns the loss function with NumPy and ``random`` seeded alike in every call.

    They draw once for all records that go through the model together. If their draws differed between physical batches,
    one more record, which moves another record into the next batch, would change the draws for that one. A seed that
    the loss function sets itself does no harm here, because it is the same in all calls.
    """

    def loss(model: Any, batch: Any) -> Any:
        seed_host(seed)
        return loss_fn(model, batch)

    return loss


def read_without_trace(parts: Iterator[Any]) -> Iterator[Any]:
    """Yields the parts. Reading them leaves no trace in the global generators."""
    while True:
        with torch.random.fork_rng(devices=[]), restore_generators():
            found = list(islice(parts, 1))
        if not found:
            return
        yield found[0]
