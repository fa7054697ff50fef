"""Random numbers: AES-256 or ChaCha20 keyed by the operating system, and Philox for experiments that must repeat."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .._core import RandomStream, draw_secure_random_stream, philox_stream, random_integers, random_uniform
from .._support import _check
from .._support.fork_lock import RenewedLock
from . import kernels

Size = int | tuple[int, ...]


class RandomSource(ABC):
    """A source of random numbers. Every call draws from its own stream.

    A value depends on the key, the stream and the value's index, and not on the number of threads or the instruction
    set.

    Build ``SecureRandom()``, or ``Philox(seed)`` for experiments. Raises TypeError if ``RandomSource`` itself is built.

    >>> isinstance(dp.SecureRandom(), dp.RandomSource), dp.Philox(1).uniform(3).shape
    (True, (3,))
    """

    @abstractmethod
    def stream(self) -> RandomStream:
        """Returns a stream that no other call of this source uses.

        >>> dp.Philox(1).stream() is not None
        True
        """

    def stream_for_device(self) -> RandomStream:
        """Returns a stream that no other call of this source uses, for draws on a device."""
        return self.stream()

    def normal(self, size: Size, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """Returns standard normals, each within 4 ulp of the real number that its 128 random bits stand for.

        Parameters
        ----------
        size : shape of the result, an integer >= 0 or a tuple of them.
        dtype : float64 or float32. Any other dtype raises TypeError.

        The largest absolute value is 9.49. A real normal number has a larger absolute value with probability 2.3e-21.
        Floating-point noise is an idealised form of the Gaussian mechanism: its low-order bits are not those of real
        numbers (Mironov, CCS 2012). If this matters, use ``exact_release``.

        >>> dp.Philox(1).normal((2, 3)).shape
        (2, 3)
        """
        kind = np.dtype(dtype)
        if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"dtype must be float32 or float64, got {dtype!r}")
        shape, _ = check_size_of_noise(size)
        out = np.empty(shape, kind)
        kernels.random_normal(self.stream(), 0, out)
        return out

    def uniform(self, size: Size) -> npt.NDArray[np.float64]:
        """Returns doubles that are uniform on the odd multiples of 2^-53 in (0, 1).

        ``size`` is the shape of the result, an integer >= 0 or a tuple of them. Raises ValueError or TypeError
        otherwise.

        >>> bool((dp.Philox(1).uniform(100) < 1).all())
        True
        """
        shape, n = check_size_of_noise(size)
        return random_uniform(self.stream(), 0, n).reshape(shape)

    def integers(self, size: Size) -> npt.NDArray[np.uint64]:
        """Returns integers that are uniform in [0, 2^64).

        ``size`` is the shape of the result, an integer >= 0 or a tuple of them. Raises ValueError or TypeError
        otherwise.

        >>> dp.Philox(1).integers(2).dtype
        dtype('uint64')
        """
        shape, n = check_size_of_noise(size)
        return random_integers(self.stream(), 0, n).reshape(shape)

    def bernoulli(self, probability: float, size: Size) -> npt.NDArray[np.bool_]:
        """Returns booleans, each True with ``probability``, rounded down to a multiple of 2^-64, for Poisson sampling.

        ``probability`` is in (0, 1], and ``size`` is the shape of the result, an integer >= 0 or a tuple of them.
        Raises ValueError or TypeError otherwise. Because ``probability`` is rounded down, charging ``probability`` is
        safe.

        >>> dp.Philox(1).bernoulli(1.0, 3).tolist()
        [True, True, True]
        """
        p = _check.probability("probability", probability)
        threshold = math.floor(Fraction(p) * 2**64)
        bits = self.integers(size)
        return np.ones(bits.shape, np.bool_) if threshold == 2**64 else bits < np.uint64(threshold)


class SecureRandom(RandomSource):
    """The default source, whose streams are those of a cipher. Each call takes a fresh 256-bit key from the system.

    Nothing is kept between calls: there is no seed to leak, to pickle or to repeat after a fork. Pickling raises
    TypeError.

    >>> dp.SecureRandom().normal(3).shape
    (3,)
    """

    __slots__ = ()

    def stream(self) -> RandomStream:
        return draw_secure_random_stream()

    def stream_for_device(self) -> RandomStream:
        return draw_secure_random_stream(on_device=True)

    def __repr__(self) -> str:
        return "SecureRandom()"

    def __copy__(self) -> SecureRandom:
        return self  # because the object has no state that a copy could share

    def __deepcopy__(self, memo: object) -> SecureRandom:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("SecureRandom cannot be pickled: make one where it is needed")


_lock = RenewedLock()
"""Lock that is held while a Philox counts its streams. One lock suffices for all Philox objects, because no object
holds the lock for more than a microsecond."""


class Philox(RandomSource):
    """The generator Philox4x32-10 (Salmon et al., SC 2011) with a seed, for repeatable tests and experiments. NOT for
    releases.

    Anyone who knows or guesses the seed can subtract the noise, and the generator is not cryptographic. Threads that
    share a Philox get different streams, in the order of their calls. A copy, or the Philox of a forked child, starts
    in the state of the original. So the copy and the original draw the same numbers.

    >>> bool((Philox(7).normal(3) == Philox(7).normal(3)).all())
    True

    :param seed: an integer in [0, 2^64). Any other value raises ValueError or TypeError.
    :param first_stream: the stream of the first call, an integer in [0, 2^64). The k-th call after the first uses the
        stream first_stream + k.
    """

    __slots__ = ("_first", "_next", "_seed")

    def __init__(self, seed: int, first_stream: int = 0) -> None:
        self._seed = _check.check_count_argument("seed", seed, least=0, most=2**64 - 1)
        self._first = self._next = _check.check_count_argument("first_stream", first_stream, least=0, most=2**64 - 1)

    def stream(self) -> RandomStream:
        with _lock.now:
            index, self._next = self._next, (self._next + 1) % 2**64
        return philox_stream(self._seed, index)

    def __reduce__(self) -> tuple[type[Philox], tuple[int, int]]:
        return Philox, (self._seed, self._next)  # a copy continues from the current stream

    def __repr__(self) -> str:
        return f"Philox({self._seed})" if self._first == 0 else f"Philox({self._seed}, {self._first})"


def resolve_random_source(rng: RandomSource | None) -> RandomSource:
    """Returns ``rng``, or the default source if it is None."""
    if rng is None:
        return SecureRandom()
    if not isinstance(rng, RandomSource):
        raise TypeError(f"rng must be a SecureRandom, a Philox or None, got {rng!r}")
    return rng


_LARGEST = 2**40
"""Largest number of values in a call. This many values would take 8 TB. A larger shape is refused at once, before
memory for it is requested."""


def check_size_of_noise(size: Size) -> tuple[tuple[int, ...], int]:
    """Checks ``size``. Returns the shape and the number of values that it stands for."""
    try:
        shape = tuple(operator.index(s) for s in size) if isinstance(size, (tuple, list)) else (operator.index(size),)
    except TypeError:
        raise TypeError(f"size must be an integer or a tuple of integers, got {size!r}") from None
    n = math.prod(shape)
    if any(s < 0 for s in shape) or n > _LARGEST:
        raise ValueError(f"size must be nonnegative and at most 2^40 values in all, got {size!r}")
    return shape, n
