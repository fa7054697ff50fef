"""The key of a run and its streams of random numbers.

A stream is a sequence of random numbers. The key and the number of the stream determine the sequence. Each draw has its
own stream, and the stream is the same on every process.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, NoReturn

from ..._core import RandomStream, chacha_stream
from ..._support.process_owner import ProcessOwner
from ...clipping_and_noise.noise import Philox, RandomSource, SecureRandom
from .global_generators import RunCoins
from .process_group import World

NOISE = 2**63
"""Number of the first stream of random numbers for noise on gradients. Streams with smaller numbers are for batches,
sums of norms and places. A place is a row of a physical batch, in which a record goes through the model."""


class KeyedRandomSource(RandomSource):
    """A ChaCha20 source with a key that several processes hold. Call k = 0, 1, ... of ``stream`` gives the stream with
    the number ``number + k``."""

    __slots__ = ("_key", "_next", "_owner")

    def __init__(self, key: bytes, number: int, owner: ProcessOwner) -> None:
        self._key, self._next, self._owner = key, number, owner

    def stream(self) -> RandomStream:
        self._owner.check_process("the key of several ranks", "a child would repeat their draws")
        number, self._next = self._next, self._next + 1
        return chacha_stream(self._key, number)

    def __repr__(self) -> str:
        return "KeyedRandomSource(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("KeyedRandomSource cannot be copied or pickled: a copy would repeat its draws")


class RunKey:
    """The source of all random numbers of a run, for batches, places, noise and coins. Each draw has its own stream.
    Coins are seeds of the global generators (``RunCoins``).

    A run on one process draws from the operating system's generator. Several processes share one secure key. The first
    process draws the key when the run is made, and no process saves it. With a seed, every draw is repeatable.
    """

    def __init__(self, world: World, seed: int | None) -> None:
        self._seed, self._secret, self._owner = seed, b"", ProcessOwner()
        if seed is None and world.shares:
            self._secret = bytes.fromhex(world.run_on_first_rank("the key", lambda: secrets.token_hex(32)))

    def make_run_key_source(self, number: int) -> RandomSource:
        """Returns a source of random numbers whose first stream has this number."""
        if self._seed is not None:
            return Philox(self._seed, number)
        return KeyedRandomSource(self._secret, number, self._owner) if self._secret else SecureRandom()

    def make_random_coins_of_key(self) -> RunCoins:
        """Returns coins that are the same on all ranks.

        Which rank gets a record may depend on the other records of the batch. If coins differed between ranks, the
        draws for this record would depend on those records.
        """
        if self._seed is not None or not self._secret:
            return RunCoins(self._seed)
        return RunCoins(key=hashlib.blake2b(b"coins", key=self._secret, digest_size=32).digest())

    @property
    def is_seeded(self) -> bool:
        """Whether a seed makes every draw repeatable."""
        return self._seed is not None

    @property
    def key_digest(self) -> Any:
        """Value that ranks compare to check that their keys agree. It does not reveal the secret key."""
        return self._seed if self._seed is not None else hashlib.sha256(b"tightdp" + self._secret).digest()

    def __repr__(self) -> str:
        return "RunKey(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("RunKey cannot be copied or pickled: a copy would repeat its draws")
