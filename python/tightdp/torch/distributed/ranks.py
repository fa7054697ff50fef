"""The processes that train together, and the messages that they exchange."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from ..randomness.process_group import Fact, World

_MESSAGE_INTEGERS = 10
"""Number of integers in each message of ``run_ranks_together``. As this number is fixed, ranks that make different
calls can still exchange messages and detect the difference."""


class Ranks(World):
    """The processes of a group. All ranks must call its methods in the same order. Properties need no such order."""

    shares = True

    def __init__(self, group: Any = None) -> None:
        self._group, self._lost = group, ""
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        nccl = "nccl" in str(dist.get_backend(group))
        self._device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    @contextmanager
    def run_ranks_together(self, what: str, **facts: Fact) -> Iterator[None]:
        """Runs the ``with`` body. Then compares the ranks' calls (``what``), the success of their bodies, and their
        facts.

        A fact is a function whose value must be the same on all ranks (``World.run_ranks_together``).
        """
        try:
            yield
            said = [_digest_rank_fact(fact()) for fact in facts.values()]
        except Exception:
            with suppress(RuntimeError):  # this rank raises its own error
                self._exchange_numbers([_digest_rank_fact(what), 1])
            raise
        found = self._exchange_numbers([_digest_rank_fact(what), 0, *said])
        for rank, numbers in enumerate(found):
            if numbers[0] != found[0][0]:
                raise RuntimeError(f"ranks must make the same calls: rank {rank} is not where rank 0 is, at {what!r}")
        failed = [rank for rank, numbers in enumerate(found) if numbers[1]]
        if failed:
            raise RuntimeError(f"rank {failed[0]} raised an error at {what!r}, which it shows; this rank stops with it")
        for i, name in enumerate(facts, 2):
            others = [rank for rank, numbers in enumerate(found) if numbers[i] != found[0][i]]
            if others:
                label = name.replace("_", " ")
                raise ValueError(f"{label} must be the same on all ranks: that of rank {others[0]} is not rank 0's")

    def run_on_first_rank(self, what: str, function: Callable[[], Any]) -> Any:
        found = b""
        with self.run_ranks_together(what):
            if self.is_first:
                found = json.dumps(function()).encode()
        return json.loads(self.broadcast_bytes(found))

    def broadcast_bytes(self, data: bytes) -> bytes:
        """Returns the first rank's ``data`` on every rank."""
        size = torch.tensor([len(data)], device=self._device)
        self._call_group_of_ranks(partial(dist.broadcast, size, group=self._group, group_src=0))
        held = torch.empty(int(size), dtype=torch.uint8, device=self._device)
        if self.is_first and data:
            held.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        if len(held):
            self._call_group_of_ranks(partial(dist.broadcast, held, group=self._group, group_src=0))
        return bytes(held.cpu().numpy())

    def copy_from_first_rank(self, tensors: list[Any]) -> None:
        """Copies the values of the first rank into the tensors of every rank, in place."""
        for tensor in tensors:
            plain = tensor.detach().to(self._device).contiguous().reshape(-1)
            held = plain.view(torch.uint8) if plain.numel() else plain  # every backend can send bytes
            self._call_group_of_ranks(partial(dist.broadcast, held, group=self._group, group_src=0))
            if plain.data_ptr() != tensor.data_ptr():  # if ``plain`` is a copy of ``tensor``
                with torch.no_grad():
                    tensor.copy_(plain.view(tensor.shape))

    def add_over_ranks(self, integers: Any) -> None:
        """Replaces an int64 tensor in host memory by its sum over ranks, modulo 2^64."""
        held = integers.to(self._device)
        self._call_group_of_ranks(partial(dist.all_reduce, held, group=self._group))
        if held is not integers:
            integers.copy_(held)

    def _exchange_numbers(self, numbers: list[int]) -> list[list[int]]:
        """Sends the numbers to all ranks, and returns those of every rank, padded with zeros."""
        own = torch.tensor(numbers + [0] * (_MESSAGE_INTEGERS - len(numbers)), device=self._device)
        found = [torch.empty_like(own) for _ in range(self.size)]
        self._call_group_of_ranks(partial(dist.all_gather, found, own, group=self._group))
        return [each.tolist() for each in found]

    def _call_group_of_ranks(self, call: Callable[[], Any]) -> None:
        if not self._lost:
            try:
                call()
            except RuntimeError as error:
                self._lost = str(error).splitlines()[0]
                raise RuntimeError(f"{_LOST}: {self._lost}") from error
        else:
            raise RuntimeError(f"{_LOST}: {self._lost}")


# The beginning of error messages after a process was lost. The group's first error follows this text.
_LOST = (
    "a rank was lost, or did not answer in the time that init_process_group was given. This rank releases nothing "
    "more: start all of them again, from a checkpoint. The cause"
)


def _digest_rank_fact(fact: object) -> int:
    """Returns 63 bits of the hash of a fact."""
    data = fact if isinstance(fact, bytes) else repr(fact).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little") >> 1


def join_distributed_ranks(distributed: Any) -> World:
    """Checks the argument ``distributed`` of ``make_private``, and returns the processes that train together."""
    if distributed is False:
        return World()
    ready = dist.is_available() and dist.is_initialized()
    if distributed is None:
        return Ranks() if ready else World()
    if dist.is_available() and distributed is dist.GroupMember.NON_GROUP_MEMBER:  # new_group gives outsiders this value
        raise ValueError("distributed must be a process group that this process is in")
    if distributed is True or (dist.is_available() and isinstance(distributed, dist.ProcessGroup)):
        if not ready:
            raise ValueError("distributed must be None or False until torch.distributed.init_process_group was called")
        return Ranks(None if distributed is True else distributed)
    raise TypeError(f"distributed must be None, True, False or a torch.distributed.ProcessGroup, got {distributed!r}")
