"""One key for all ranks: which of its streams is for what, so that every draw has one place whoever makes it."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Any, NoReturn

from ... import _core
from ...release.noise import Philox, RandomSource
from ..draws import Coins
from ..world import World

NOISE = 2**63
"""The first stream of noise; batches have those below."""


class Keyed(RandomSource):
    """ChaCha20 with a key that several processes hold: the k-th call draws from stream ``number + k``."""

    __slots__ = ("_key", "_next", "_process")

    def __init__(self, key: bytes, number: int) -> None:
        self._key, self._next, self._process = key, number, os.getpid()

    def stream(self) -> _core.RandomStream:
        if os.getpid() != self._process:
            raise RuntimeError("a key of several ranks cannot be used in a forked child: it would repeat their draws")
        number, self._next = self._next, self._next + 1
        return _core.chacha_stream(self._key, number)

    def __repr__(self) -> str:
        return "Keyed(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Keyed cannot be copied or pickled: a copy would repeat its draws")


class Key:
    """A secure key that the first rank draws when the run is made, and none ever saves; or a seed, which repeats."""

    def __init__(self, world: World, seed: int | None) -> None:
        self._seed = seed
        self._key = b"" if seed is not None else bytes.fromhex(world.on_first("the key", lambda: secrets.token_hex(32)))

    def at(self, number: int) -> RandomSource:
        """A source whose first stream is that one."""
        return Keyed(self._key, number) if self._seed is None else Philox(self._seed, number)

    def coins(self) -> Coins:
        """Those of all ranks: where a record is may depend on the others."""
        secret = hashlib.blake2b(b"coins", key=self._key, digest_size=32).digest()
        return Coins(self._seed) if self._seed is not None else Coins(key=secret)

    @property
    def digest(self) -> Any:
        """What ranks compare: it does not tell the key."""
        return self._seed if self._seed is not None else hashlib.sha256(b"tightdp" + self._key).digest()

    def __repr__(self) -> str:
        return "Key(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Key cannot be copied or pickled: a copy would repeat its draws")
