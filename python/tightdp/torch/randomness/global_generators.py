"""Controls the global generators and compiled code while records are read and go through a model."""

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


def find_device_of_model_generators(model: Any) -> Any:
    """Returns the device of a model's first parameter."""
    return next(iter(model.parameters())).device


def fork_torch_generators(device: Any) -> Any:
    """Makes a context that afterwards restores PyTorch's generators of the host and of the device."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def run_uncompiled() -> Any:
    """Makes a context in which code under ``torch.compile`` runs as plain Python.

    PyTorch cannot compile code that runs under ``torch.func``. Without this context, PyTorch would instead compile the
    functions of this library that record the calls of a forward pass.
    """
    return torch.compiler.set_stance("force_eager")


class RunCoins:
    """Makes the seeds (coins) of the global generators of PyTorch, NumPy and ``random`` from a secret key of the run.

    Augmentation and dropout draw from these generators. One more record shifts the draws of all later records. Whoever
    knows the seed, such as that of ``torch.manual_seed(0)``, could see this (docs/theory/training.md, section 9). So
    the seeds are secret and each record has its own. All processes of a run have the same ``key``. Without a ``key``,
    the key follows from ``seed``, which makes all draws repeatable, for experiments. Without both, the key is random.
    """

    def __init__(self, seed: int | None = None, key: bytes | None = None) -> None:
        made = secrets.token_bytes(32) if seed is None else hashlib.blake2b(str(seed).encode()).digest()
        self._key = made if key is None else key

    def make_record_generator_seed(self, number: int, index: int) -> int:
        """Returns the seed for reading record ``index``, which does not depend on other records.

        ``number`` is the number of the batch or of the check for which the record is read.
        """
        return self._make_seed_of_coins("record", number, index)

    def make_model_seed(self, number: int, rank: int) -> int:
        """Returns the seed of PyTorch's generators for pass ``number`` through the model, on process ``rank``."""
        return self._make_seed_of_coins("model", number, rank)

    def make_common_seed(self, number: int) -> int:
        """Returns the seed of NumPy and ``random`` for pass ``number``. The seed is the same on all processes."""
        return self._make_seed_of_coins("common", number, 0)

    def _make_seed_of_coins(self, *what: str | int) -> int:
        return int.from_bytes(hashlib.blake2b(repr(what).encode(), key=self._key, digest_size=8).digest(), "big") >> 1

    def __reduce__(self) -> Any:
        raise TypeError("RunCoins cannot be copied or pickled: a copy would repeat its draws")


def draw_check_order_from_generator(records: int, seed: int) -> list[int]:
    """Returns the order in which a check uses some records. The check finds out whether using a record changes the
    results for later records.

    Each record is used three times. Record 0 is used twice at the start, which shows a change that every record causes.
    The rest of the order is random. A change that only some records cause shows if it happens between two uses of the
    same record.
    """
    rest = [0, *(i for i in range(1, records) for _ in range(3))]
    random.Random(seed).shuffle(rest)
    return [0, 0, *rest]


def seed_numpy_and_random(seed: int) -> None:
    """Seeds the generators of NumPy and of ``random``."""
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002 (the global generator)
    random.seed(seed)


def seed_global_generators(seed: int) -> None:
    """Seeds the generators of NumPy, of ``random`` and of PyTorch on the host."""
    seed_numpy_and_random(seed)
    torch.default_generator.manual_seed(seed)


@contextmanager
def restore_numpy_and_random() -> Iterator[None]:
    """Restores the generators of NumPy and of ``random`` after the ``with`` body.

    The number of draws depends on the number of records. Without this function, the state of a generator or its next
    draws would reveal that number, for instance in a checkpoint.
    """
    of_numpy, of_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global generator)
    try:
        yield
    finally:
        np.random.set_state(of_numpy)  # noqa: NPY002 (the global generator)
        random.setstate(of_python)


@contextmanager
def seed_model_pass(device: Any, seed: int, common: int) -> Iterator[None]:
    """Seeds PyTorch's generators by ``seed``, and those of NumPy and ``random`` by ``common``.

    After the ``with`` body, the states of all these generators are restored.
    """
    with fork_torch_generators(device), restore_numpy_and_random():
        seed_numpy_and_random(common)
        seed_torch_generators(device, seed)
        yield


def seed_torch_generators(device: Any, seed: int) -> None:
    """Seeds PyTorch's generator of the host, and the generators of all devices if the model is on a CUDA device."""
    torch.manual_seed(seed) if device.type == "cuda" else torch.default_generator.manual_seed(seed)


class CoinGuard(TorchFunctionMode):
    """A context for records that go through a model together. It ensures that PyTorch draws only with the run's seeds.

    PyTorch's draws for a record follow from its place among the records that go through the model together. One more
    record would give each later record the draws of its neighbour. This would show if the draws were known, as after
    ``torch.manual_seed(0)``. So the generators must keep the seed that the run gave them. The seeds are checked at each
    call of a function of PyTorch and at the end of the context. Raises ValueError for another seed, or if a function
    gets its own generator (docs/theory/training.md, section 9).
    """

    def __enter__(self) -> Any:
        cuda: Any = torch.cuda
        devices = cuda.default_generators if cuda.is_initialized() else ()
        self._seeds = [(g.initial_seed, g.initial_seed()) for g in (torch.default_generator, *devices)]
        base: Any = super()  # Any, because the methods have types only where PyTorch is installed
        return base.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        base: Any = super()
        base.__exit__(kind, error, trace)
        if error is None:
            self._check_generator_seeds("the loss was computed")

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for read_seed, seed in self._seeds:
            if read_seed() != seed:
                self._check_generator_seeds(f"{_name_seeding_function(func)} was called")
        if kwargs is None:
            return func(*args)
        if kwargs.get("generator") is not None:
            raise ValueError(
                f"model and loss_fn must draw from the global generators of PyTorch, which a run seeds by its own key: "
                f"{_name_seeding_function(func)} was given a generator of its own. The draws for a record depend on "
                "its "
                f"place in the batch, so one more record would change the draws for others. Leave generator= out"
            )
        return func(*args, **kwargs)

    def _check_generator_seeds(self, when: str) -> None:
        if any(read_seed() != seed for read_seed, seed in self._seeds):
            raise ValueError(
                f"model and loss_fn must not seed PyTorch's generators while records pass the model: they had another "
                f"seed than the run's when {when}. With known seeds one more record would change the dropout masks of "
                f"others. Leave manual_seed, set_rng_state and fork_rng out: random_state of make_private repeats the "
                f"draws of an experiment"
            )


def _name_seeding_function(func: Any) -> str:
    return str(resolve_name(func) or getattr(func, "__name__", repr(func)))


def seed_loss_function(loss_fn: Callable[[Any, Any], Any], seed: int) -> Callable[[Any, Any], Any]:
    """Returns the loss function with NumPy and ``random`` seeded in the same way in every call.

    NumPy and ``random`` draw once for all records that go through the model together. If the draws differed between
    physical batches, one more record could change the draws for another record, by moving it into the next physical
    batch. A seed that the loss function itself sets does no harm, because this seed is the same in all calls.
    """

    def compute_seeded_loss(model: Any, batch: Any) -> Any:
        seed_numpy_and_random(seed)
        return loss_fn(model, batch)

    return compute_seeded_loss


def yield_parts_with_restored_generators(parts: Iterator[Any]) -> Iterator[Any]:
    """Yields the parts of ``parts``. Restores the global generators each time a part was read."""
    while True:
        with torch.random.fork_rng(devices=[]), restore_numpy_and_random():
            found = list(islice(parts, 1))
        if not found:
            return
        yield found[0]
