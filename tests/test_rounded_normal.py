"""Rounded normals: those of the real numbers that the words stand for, whatever the machine and the split."""

import numpy as np
import pytest
from tests.reference import rounded_normal as reference

from tightdp import _core

KEY = bytes(range(32))
SIGMAS = [2.0**-10, 0.3, 1.0, 5.7, 2.0**20, 2.0**30 + 0.3, 2.0**39 - 0.1, 2.0**39]


def drawn(stream, sigma, n):
    out = np.zeros(n, np.int64)
    _core.add_rounded_normals(stream, sigma, out)
    return out


def tiles(stream, n):
    return _core.random_words(stream, 0, 256 * -(-n // 128)).reshape(-1, 4, 4, 16)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("key", [KEY, 77 << 33])
def test_draws_are_the_rounded_real_numbers(key, sigma):
    """The first draws, and of many those nearest a boundary in float64, where floats alone would be wrong."""
    n = 20_000
    stream = _core.chacha_stream(key, 3) if isinstance(key, bytes) else _core.philox_stream(key, 3)
    got, z = drawn(stream, sigma, n), np.empty(n)
    _core.random_normal(stream, 0, z)
    gap = np.abs(sigma * z - np.rint(sigma * z))
    words = tiles(stream, n)
    for i in (*range(100), *np.argsort(-gap)[:100]):
        assert got[i] == reference.draw(words, key, 3, int(i), sigma)


def test_floats_alone_would_be_wrong_at_large_deviations():
    stream = _core.chacha_stream(KEY, 1)
    z = np.empty(100_000)
    _core.random_normal(stream, 0, z)
    got = drawn(stream, 2.0**39, z.size)
    wrong = np.flatnonzero(got != np.floor(2.0**39 * z + 0.5))
    assert wrong.size > 0
    words = tiles(stream, z.size)
    assert all(got[i] == reference.draw(words, KEY, 1, int(i), 2.0**39) for i in wrong)
