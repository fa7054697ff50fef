"""The generators: known answers, the map from index to value, and independence of how the work is split."""

import copy
import os
import pickle
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import random as reference
from together import every_instruction_set

import tightdp as dp
from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

KEY = bytes(range(32))
VECTORS = Path(__file__).parents[1] / "vectors" / "random.kat"


def known_answers(name):
    lines = [line.split() for line in VECTORS.read_text().splitlines()]
    return [line[1:] for line in lines if line and line[0] == name]


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), known_answers("chacha20"))
def test_chacha20_known_answers(key, counter, nonce, expected):
    nonce_words = np.frombuffer(bytes.fromhex(nonce), "<u4").astype(object)
    block = int(counter, 16) | int(nonce_words[0]) << 32
    stream = int(nonce_words[1]) | int(nonce_words[2]) << 32
    words = np.frombuffer(bytes.fromhex(expected), "<u4")
    assert reference.chacha20_block(bytes.fromhex(key), block, stream) == list(words)
    (tile,) = reference.words_of(_core.chacha_stream(bytes.fromhex(key), stream), block // 16)
    np.testing.assert_array_equal(tile[:, block % 16], words)


def test_aes_known_answers():
    """FIPS 197, appendix C.3, and the output blocks of SP 800-38A, F.5.5, here of the plain Python (cpp/tests/test_aes
    has them of every way)."""
    found = reference.aes256(bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert found.hex() == "8ea2b7ca516745bfeafc49904b496089"
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    first = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
    outputs = "0bdf7df1591716335e9a8b15c860c502", "5a6e699d536119065433863c8f657b94"
    for i, expected in enumerate(outputs):
        assert reference.aes256(key, (first + i).to_bytes(16, "big")).hex() == expected


@pytest.mark.parametrize("answer", known_answers("philox4x32_10"))
def test_philox_known_answers(answer):
    w = [int(x, 16) for x in answer]
    assert reference.philox4x32_10(w[:4], w[4:6]) == w[6:]
    block, stream, seed = (w[i] | w[i + 1] << 32 for i in (0, 2, 4))
    if block < 2**62:  # values are counted modulo 2^64: later blocks are out of reach
        (tile,) = reference.words_of(_core.philox_stream(seed, stream), block // 64)
        k, lane = block % 64 // 16, block % 16
        np.testing.assert_array_equal(tile[4 * k : 4 * k + 4, lane], w[6:])


@pytest.mark.parametrize("stream", [0, 2**40 + 3])
@pytest.mark.parametrize("tile", [0, 5, 2**33 + 1])
def test_words_match_the_reference(stream, tile):
    got = reference.words_of(_core.chacha_stream(KEY, stream), tile)[0]
    np.testing.assert_array_equal(got, reference.chacha_tile(KEY, stream, tile))
    got = reference.words_of(_core.philox_stream(77 << 33, stream), tile)[0]
    np.testing.assert_array_equal(got, reference.philox_tile(77 << 33, stream, tile))
    got = reference.words_of(_core.aes_stream(KEY, stream), tile)[0]
    np.testing.assert_array_equal(got, reference.aes_tile(KEY, stream, tile))


def normal(stream, first, n, single):
    out = np.empty(n, np.float32 if single else np.float64)
    _core.random_normal(stream, first, out)
    return out


@mp.workdps(50)
def ulps(got, exact):
    unit = np.spacing(np.abs(got)).astype(float)
    return max(abs(float((mp.mpf(float(g)) - e) / u)) for g, e, u in zip(got, exact, unit, strict=True))


@pytest.mark.parametrize("single", [True, False])
def test_normals_are_within_four_ulp_of_the_reals(single):
    for tile in range(12):
        exact = reference.normals_of_tile(reference.chacha_tile(KEY, 1, tile))
        got = normal(_core.chacha_stream(KEY, 1), tile * 128, 128, single)
        assert ulps(got, exact) <= 4


SPECIAL = [0, 1, 2, 3, 2**11, 2**31 - 1, 2**31, 2**32 - 1, 0xB504F333, 0xB504F334, 0x20000000, 0x1FFFFFFF, 0xE0000000]


@pytest.mark.parametrize("single", [True, False])
def test_normals_at_the_edges_of_the_words(single):
    """Smallest and largest radius, every octant's edge: the words are given, not drawn."""
    columns = [(a, b, c, d) for a in SPECIAL for b in (0, 1, 2**32 - 1) for c in SPECIAL for d in (0, 2**32 - 1)]
    columns += columns[: -len(columns) % 64]
    words = np.array(columns, np.uint32).reshape(-1, 4, 16, 4).transpose(0, 1, 3, 2).copy()
    got = _testing.normals_of_words(words.reshape(-1), single).reshape(-1, 4, 2, 16)
    assert np.isfinite(got).all()
    flat = words.reshape(-1, 4, 16)
    for g, w in zip(got.reshape(-1, 2, 16), flat, strict=True):
        for lane in range(16):
            assert ulps(g[:, lane], reference.normal_pair(w[:, lane])) <= 4
    assert 9.4 < np.abs(got).max() < 9.5


@given(st.integers(0, 2**40), st.integers(1, 700), st.integers(0, 700))
def test_a_value_depends_on_its_index_alone(first, n, skip):
    stream = _core.chacha_stream(KEY, 9)
    for draw in (_core.random_integers, _core.random_uniform):
        whole = draw(stream, first, n + skip)
        np.testing.assert_array_equal(draw(stream, first + skip, n), whole[skip:])
    for single in (True, False):
        whole = normal(stream, first, n + skip, single)
        np.testing.assert_array_equal(normal(stream, first + skip, n, single), whole[skip:])


def test_integers_and_uniforms_come_from_the_stated_words():
    stream = _core.philox_stream(3, 4)
    words = reference.philox_tile(3, 4, 0).reshape(8, 2, 16).astype(np.uint64)
    integers = (words[:, 0] << np.uint64(32) | words[:, 1]).reshape(-1)
    np.testing.assert_array_equal(_core.random_integers(stream, 0, 128), integers)
    uniform = ((integers >> np.uint64(11)) | np.uint64(1)).astype(float) * 2.0**-53
    np.testing.assert_array_equal(_core.random_uniform(stream, 0, 128), uniform)


def test_draws_do_not_depend_on_the_number_of_threads(threads):
    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        results.append(normal(_core.chacha_stream(KEY, 0), 100, 300_001, True))
    assert all((r == results[0]).all() for r in results)


DIGEST = """
import hashlib, sys
import numpy as np
from tightdp import _core
h = hashlib.sha256()
for s in (_core.aes_stream(bytes(range(32)), 5), _core.chacha_stream(bytes(range(32)), 5), _core.philox_stream(5, 6)):
    h.update(_core.random_integers(s, 10, 5000).tobytes())
    for dtype in (np.float32, np.float64):
        out = np.empty(200_000, dtype)
        _core.random_normal(s, 0, out)
        h.update(out.tobytes())
print(_core.isa(), h.hexdigest())
"""


def test_every_instruction_set_returns_the_same_bits():
    assert len(every_instruction_set(DIGEST)) == 1


def test_philox_repeats_and_moves_on():
    a, b = dp.Philox(11), dp.Philox(11)
    first = a.normal(1000)
    np.testing.assert_array_equal(first, b.normal(1000))
    second = a.normal((10, 100), np.float32)
    assert second.dtype == np.float32
    assert not np.array_equal(first, second.reshape(-1))
    np.testing.assert_array_equal(dp.Philox(11, 1).normal(1000, np.float32), second.reshape(-1))
    assert eval(repr(dp.Philox(11, 1)), {"Philox": dp.Philox})._first == 1


def test_a_copy_of_philox_goes_on_where_it_is():
    source = dp.Philox(11)
    source.normal(3)
    copies = copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))
    for draws in zip(*(x.normal(5) for x in (source, *copies)), strict=True):
        assert len(set(draws)) == 1


def test_secure_random_never_repeats_and_shows_no_key():
    source = copy.deepcopy(dp.SecureRandom())  # no state, so a copy is as good as it
    draws = np.stack([source.integers(8) for _ in range(50)])
    assert np.unique(draws).size == draws.size
    assert repr(source) == "SecureRandom()"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(source)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(source.stream())
    assert not [name for name in dir(source.stream()) if not name.startswith("_")]


@pytest.mark.entropy
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_draws_other_noise():
    source = dp.SecureRandom()
    source.normal(400_000)  # the threads are running
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, source.normal(400_000)[:4].tobytes())
        os._exit(0)
    ours = source.normal(400_000)[:4]
    _, status = os.waitpid(pid, 0)
    theirs = np.frombuffer(os.read(read, 32))
    assert status == 0
    assert not np.isin(theirs, ours).any()


def test_bernoulli_rounds_its_probability_down():
    source = dp.Philox(1)
    assert source.bernoulli(1.0, 100).all()
    assert not source.bernoulli(2.0**-70, 10_000).any()
    hits = source.bernoulli(0.3, 200_000).mean()
    assert abs(hits - 0.3) < 5 * (0.21 / 200_000) ** 0.5


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dp.Philox(-1), ValueError, r"seed must be an integer in \[0, 18446744073709551615\]"),
        (lambda: dp.Philox(2**64), ValueError, "seed"),
        (lambda: dp.Philox(1.5), TypeError, "seed"),
        (lambda: dp.Philox(True), TypeError, "seed"),
        (lambda: dp.Philox(1).normal(-1), ValueError, "size"),
        (lambda: dp.Philox(1).normal(2**50), ValueError, "size"),
        (lambda: dp.Philox(1).normal("3"), TypeError, "size"),
        (lambda: dp.Philox(1).normal(3, np.float16), TypeError, "dtype"),
        (lambda: dp.Philox(1).bernoulli(0.0, 3), ValueError, "probability"),
        (lambda: dp.Philox(1).bernoulli(float("nan"), 3), ValueError, "probability"),
    ],
)
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()
