"""Exact samplers in plain Python integers, reading the same random words as cpp/include/tightdp/exact/."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reference.random import words_of
from tightdp import _core

CHUNK, TILES_PER_CHUNK = 256, 2**24


class Words:
    """The words of one chunk of 256 draws."""

    def __init__(self, stream: _core.RandomStream, chunk: int) -> None:
        self.stream, self.at = stream, chunk * TILES_PER_CHUNK
        self.buffer: list[int] = []
        self.bits: list[int] = []

    def next64(self) -> int:
        if not self.buffer:
            self.buffer = words_of(self.stream, self.at, 4).reshape(-1).tolist()[::-1]
            self.at += 4
        return self.buffer.pop() << 32 | self.buffer.pop()

    def next_bit(self) -> int:
        if not self.bits:
            word = self.next64()
            self.bits = [word >> i & 1 for i in range(64)]
        return self.bits.pop()


def bernoulli(p: Fraction, words: Words) -> bool:
    """Compares the binary digits of p with uniform ones."""
    if p >= 1:
        return True
    first, i = words.next64(), 0
    while True:
        uniform = first >> (63 - i) & 1 if i < 64 else words.next_bit()
        p *= 2
        digit = p >= 1
        p -= digit
        if digit != uniform:
            return bool(digit)
        i += 1


def bernoulli_exp(gamma: Fraction, words: Words) -> bool:
    while gamma >= 1:
        if not bernoulli_exp_small(Fraction(1), words):
            return False
        gamma -= 1
    return bernoulli_exp_small(gamma, words)


def bernoulli_exp_small(gamma: Fraction, words: Words) -> bool:
    k = 1
    while bernoulli(gamma / k, words):
        k += 1
    return k % 2 == 1


def uniform_below(n: int, words: Words) -> int:
    while True:
        product = words.next64() * n
        if product % 2**64 >= 2**64 % n:
            return product >> 64


def discrete_laplace(t: int, s: int, words: Words) -> int:
    while True:
        u = uniform_below(t, words)
        if not bernoulli_exp(Fraction(u, t), words):
            continue
        v = 0
        while bernoulli_exp_small(Fraction(1), words):
            v += 1
        magnitude = (u + t * v) // s
        negative = words.next_bit()
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def discrete_gaussian(sigma: Fraction, words: Words) -> int:
    t = int(sigma) + 1
    while True:
        y = discrete_laplace(t, 1, words)
        if bernoulli_exp((abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2), words):
            return y


def draws(sampler, n: int, stream: _core.RandomStream) -> np.ndarray:
    """``sampler(words)`` n times, each chunk on words of its own."""
    out = []
    for chunk in range((n + CHUNK - 1) // CHUNK):
        words = Words(stream, chunk)
        out += [sampler(words) for _ in range(min(CHUNK, n - chunk * CHUNK))]
    return np.array(out, np.int64)
