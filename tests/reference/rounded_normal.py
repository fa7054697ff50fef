"""floor(sigma Z + 1/2) by 60-digit arithmetic, from the same words as cpp/include/tightdp/random/rounded_normal.hpp."""

from __future__ import annotations

import mpmath as mp
import numpy as np

from reference.random import MASK, chacha20_block, philox4x32_10

PAIR_BITS, FURTHER = 16, 1 << 63


def place(index: int) -> tuple[int, bool, tuple[int, int, int]]:
    """The pair of a draw, whether it is the sine, and where its words are: tile, rows 4k .. 4k + 3, lane."""
    tile, rest = divmod(index, 128)
    k, rest = divmod(rest, 32)
    half, lane = divmod(rest, 16)
    return 64 * tile + 16 * k + lane, half == 1, (tile, k, lane)


def further(key: bytes | int, stream: int, pair: int, j: int) -> tuple[int, int]:
    """The j-th further 64 digits of x and of y: ChaCha20 for a key of 32 bytes, Philox for a seed."""
    block = FURTHER | pair << PAIR_BITS | j
    if isinstance(key, bytes):
        w = chacha20_block(key, block, stream)
    else:
        counter = [block & MASK, block >> 32, stream & MASK, stream >> 32]
        w = philox4x32_10(counter, [key & MASK, key >> 32])
    return w[0] << 32 | w[1], w[2] << 32 | w[3]


def settled(sigma: float, sine: bool, x: list[int], y: list[int]) -> int | None:
    """The integer, if the same for every real x and y whose binary digits begin with these words of 64."""
    if not any(x):
        return None
    digits = 64 * len(x)
    with mp.workprec(digits + 200):
        ends = (0, mp.mpf(2) ** -digits)
        radii = [mp.sqrt(-2 * mp.log(left(x) + end)) for end in ends]
        turns = [(mp.sinpi if sine else mp.cospi)(2 * (left(y) + end)) for end in ends]
        # The digits leave no quarter turn inside, so both factors are monotone.
        found = {int(mp.floor(mp.mpf(sigma) * r * c + 0.5)) for r in radii for c in turns}
    return found.pop() if len(found) == 1 else None


def draw(words: np.ndarray, key: bytes | int, stream: int, index: int, sigma: float, first_bits: int = 64) -> int:
    """Draw ``index``; ``words`` are the tiles of the stream from the first, as (tile, k, row, lane)."""
    pair, sine, (tile, k, lane) = place(index)
    w = [int(v) for v in words[tile, k, :, lane]]
    x, y = [w[0] << 32 | w[1]], [w[2] << 32 | w[3]]
    if first_bits < 64:
        unseen = (1 << (64 - first_bits)) - 1
        more = further(key, stream, pair, 0)
        x[0], y[0] = (first & ~unseen | rest & unseen for first, rest in zip((x[0], y[0]), more, strict=True))
    while (found := settled(sigma, sine, x, y)) is None:
        for digits, following in zip((x, y), further(key, stream, pair, len(x)), strict=True):
            digits.append(following)
    return found


def left(words: list[int]) -> mp.mpf:
    """The first of the reals that begin with these words, at the precision in force."""
    return sum((mp.mpf(w) / mp.mpf(2) ** (64 * (i + 1)) for i, w in enumerate(words)), mp.mpf(0))


def gap(sigma: float, sine: bool, x: list[int], y: list[int]) -> mp.mpf:
    """How far sigma Z of the first reals that begin with these words is from half an integer."""
    with mp.workprec(64 * len(x) + 200):
        v = mp.mpf(sigma) * mp.sqrt(-2 * mp.log(left(x))) * (mp.sinpi if sine else mp.cospi)(2 * left(y))
        return abs(v + 0.5 - mp.nint(v + 0.5))


def movement(sigma: float, x: list[int]) -> mp.mpf:
    """How far sigma Z may move over the reals that begin with as many words, times four or so."""
    with mp.workprec(64 * len(x) + 200):
        if not any(x):
            return mp.inf
        step = mp.mpf(2) ** (-64 * len(x))
        r, change = mp.sqrt(-2 * mp.log(left(x))), 8 * step / left(x)
        return mp.mpf(sigma) * (min(change / r if r else mp.inf, mp.sqrt(change)) + 30 * (r + mp.sqrt(change)) * step)
