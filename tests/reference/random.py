"""Plain Python versions of the generators and of the map from words to values (cpp/include/tightdp/random/)."""

from __future__ import annotations

import mpmath as mp
import numpy as np

from tightdp import _core

MASK = 0xFFFFFFFF


def chacha20_block(key: bytes, counter: int, stream: int) -> list[int]:
    """The 16 words of a block: 64-bit counter, 64-bit stream."""
    state = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    state += [int.from_bytes(key[4 * i : 4 * i + 4], "little") for i in range(8)]
    state += [counter & MASK, counter >> 32, stream & MASK, stream >> 32]
    x = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for p, q, r, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[p] = (x[p] + x[q]) & MASK
            v = x[r] ^ x[p]
            x[r] = ((v << n) | (v >> (32 - n))) & MASK

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & MASK for a, b in zip(x, state, strict=True)]


def _multiply_bytes(a: int, b: int) -> int:
    """A product modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    for bit in range(8):
        product ^= (a << bit) * (b >> bit & 1)
    for bit in range(14, 7, -1):
        product ^= (0x11B << (bit - 8)) * (product >> bit & 1)
    return product


def _substitute(byte: int) -> int:
    """The S-box of FIPS 197, section 5.1.1: the inverse, and an affine map."""
    inverse = 1
    for _ in range(254):
        inverse = _multiply_bytes(inverse, byte)
    turns = [inverse << n | inverse >> (8 - n) for n in range(5)]
    return (turns[0] ^ turns[1] ^ turns[2] ^ turns[3] ^ turns[4] ^ 0x63) & 255


S_BOX = [_substitute(byte) for byte in range(256)]


def aes256(key: bytes, block: bytes) -> bytes:
    """FIPS 197, line by line."""
    words = [list(key[i : i + 4]) for i in range(0, 32, 4)]
    constant = 1
    for i in range(8, 60):
        word = list(words[-1])
        if i % 8 == 0:
            word = word[1:] + word[:1]
        if i % 4 == 0:
            word = [S_BOX[byte] for byte in word]
        if i % 8 == 0:
            word[0] ^= constant
            constant *= 2
        words.append([a ^ b for a, b in zip(words[i - 8], word, strict=True)])
    keys = [[byte for word in words[4 * r : 4 * r + 4] for byte in word] for r in range(15)]
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for r in range(1, 15):
        state = [S_BOX[state[4 * ((c + row) % 4) + row]] for c in range(4) for row in range(4)]
        if r < 14:
            state = [
                _multiply_bytes(2, state[4 * c + row])
                ^ _multiply_bytes(3, state[4 * c + (row + 1) % 4])
                ^ state[4 * c + (row + 2) % 4]
                ^ state[4 * c + (row + 3) % 4]
                for c in range(4)
                for row in range(4)
            ]
        state = [a ^ b for a, b in zip(state, keys[r], strict=True)]
    return bytes(state)


def philox4x32_10(counter: list[int], key: list[int]) -> list[int]:
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def chacha_tile(key: bytes, stream: int, tile: int) -> np.ndarray:
    """Words as (row, lane)."""
    blocks = [chacha20_block(key, 16 * tile + lane, stream) for lane in range(16)]
    return np.array(blocks, np.uint32).T


def aes_tile(key: bytes, stream: int, tile: int) -> np.ndarray:
    rows = np.zeros((16, 16), np.uint32)
    for block in range(64):
        counter = (stream << 64 | 64 * tile + block).to_bytes(16, "big")
        k, lane = divmod(block, 16)
        rows[4 * k : 4 * k + 4, lane] = np.frombuffer(aes256(key, counter), "<u4")
    return rows


def philox_tile(seed: int, stream: int, tile: int) -> np.ndarray:
    rows = np.zeros((16, 16), np.uint32)
    for k in range(4):
        for lane in range(16):
            block = 64 * tile + 16 * k + lane
            counter = [block & MASK, block >> 32, stream & MASK, stream >> 32]
            rows[4 * k : 4 * k + 4, lane] = philox4x32_10(counter, [seed & MASK, seed >> 32])
    return rows


def words_of(stream: _core.RandomStream, tile: int, tiles: int = 1) -> np.ndarray:
    """The words that a stream gives, as (tile, row, lane): a 64-bit integer holds those of two rows."""
    pairs = _core.random_integers(stream, 128 * tile % 2**64, 128 * tiles).reshape(-1, 8, 1, 16)
    words = np.concatenate([pairs >> np.uint64(32), pairs & np.uint64(MASK)], axis=2)
    return words.astype(np.uint32).reshape(-1, 16, 16)


@mp.workdps(50)
def normal_pair(words: np.ndarray) -> tuple[mp.mpf, mp.mpf]:
    """The real numbers that four words stand for."""
    w = [int(x) for x in words]
    u = (mp.mpf((w[0] << 32) | w[1]) + 0.5) / mp.mpf(2) ** 64
    v = (mp.mpf((w[2] << 32) | w[3]) + 0.5) / mp.mpf(2) ** 64
    radius = mp.sqrt(-2 * mp.log(u))
    return radius * mp.cospi(2 * v), radius * mp.sinpi(2 * v)


def normals_of_tile(tile: np.ndarray) -> list[mp.mpf]:
    out: list[mp.mpf] = [mp.mpf(0)] * 128
    for k in range(4):
        for lane in range(16):
            out[32 * k + lane], out[32 * k + 16 + lane] = normal_pair(tile[4 * k : 4 * k + 4, lane])
    return out
