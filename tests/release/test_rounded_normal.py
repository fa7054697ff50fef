"""Rounded normals: those of the real numbers that the words stand for, whatever the machine and the split."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import normal
from reference import rounded_normal as reference
from reference.random import words_of
from scipy import stats
from together import every_instruction_set

import tightdp as dp
from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

KEY = bytes(range(32))
CHANCE = 1e-9
SIGMAS = [2.0**-10, 0.3, 1.0, 5.7, 11.25, 2.0**20, 2.0**30 + 0.3, 2.0**39 - 0.1, 2.0**39]


def drawn(stream, sigma, n, first=0):
    out = np.zeros(n, np.int64)
    _core.add_rounded_normals(stream, sigma, out, first)
    return out


def tiles(stream, n):
    return words_of(stream, 0, -(-n // 128)).reshape(-1, 4, 4, 16)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("key", [KEY, 77 << 33])
def test_draws_are_the_rounded_real_numbers(key, sigma):
    """The first draws, and of many those nearest a boundary in float64."""
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


@pytest.mark.parametrize("first_bits", [6, 10, 14])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.7, 1000.25])
def test_draws_that_look_at_few_digits_first(first_bits, sigma):
    """The rare branch made common: what is in doubt is settled by further digits of the same uniforms."""
    n = 400
    got = np.zeros(n, np.int64)
    doubts = _testing.rounded_normals_from(_core.philox_stream(5, 9), sigma, first_bits, got)
    assert n / 5 < doubts <= n
    words = tiles(_core.philox_stream(5, 9), n)
    expected = [reference.draw(words, 5, 9, i, sigma, first_bits) for i in range(n)]
    np.testing.assert_array_equal(got, expected)


def cells(sigma, n):
    """Integers up to an edge and the two tails, with their exact probabilities; each expected five times or more."""
    edge = 0
    while n * (1 - normal.cdf((edge + 1.5) / sigma)) > 5:
        edge += 1
    at = [normal.cdf((mp.mpf(k) - 0.5) / sigma) for k in range(-edge, edge + 2)]
    inner = [float(b - a) for a, b in itertools.pairwise(at)]
    return edge, np.array([float(at[0]), *inner, float(1 - at[-1])])


def counts(draws, edge):
    return np.bincount(np.clip(draws, -edge - 1, edge + 1) + edge + 1, minlength=2 * edge + 3)


@pytest.mark.parametrize("first_bits", [6, 10, 14, 64])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.3, 12.0])
def test_the_law_is_that_of_rounded_normals(first_bits, sigma):
    """Pearson's test against the closed form."""
    n = 100_000
    edge, p = cells(sigma, n)
    ours = np.zeros(n, np.int64)
    _testing.rounded_normals_from(_core.philox_stream(1, first_bits), sigma, first_bits, ours)
    assert stats.chisquare(counts(ours, edge), p * n).pvalue > CHANCE
    # Of two that a pair gives neither tells of the other.
    pairs = ours[: n // 32 * 32].reshape(-1, 2, 16)
    a, b = (np.clip(pairs[:, half].ravel(), -1, 1) + 1 for half in (0, 1))
    assert stats.chi2_contingency(np.bincount(3 * a + b, minlength=9).reshape(3, 3)).pvalue > CHANCE


EDGES = [0, 1, 2**63, 2**64 - 1, 2**61 - 1, 2**61, 3 * 2**61, 2**62, 0xB504F333 << 32]
WORDS = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from(EDGES), min_size=6, max_size=6)


def check_settled(sigma, sine, x, y):
    """What the code settles is the truth, and it settles all but what is next to a boundary."""
    got, truth = _testing.settled_by(sigma, sine, x, y), reference.settled(sigma, sine, x, y)
    if got is not None:
        assert got == truth
    else:
        assert truth is None or reference.gap(sigma, sine, x, y) < reference.movement(sigma, x)
    return got


@settings(max_examples=300)
@given(st.sampled_from([*SIGMAS, 1e-300, 123.456]), st.booleans(), st.integers(1, 6), WORDS, WORDS)
def test_digits_settle_an_integer(sigma, sine, known, x, y):
    check_settled(sigma, sine, x[:known], y[:known])


@settings(max_examples=40)
@given(st.data(), st.integers(1, 5), st.booleans())
def test_digits_next_to_a_boundary_settle_it_as_late_as_they_must(data, known, sine):
    """y is chosen so that sigma Z is half an integer somewhere between the values of its last word."""
    sigma = data.draw(st.sampled_from([1.0, 5.7, 2.0**20, 2.0**39 - 0.1]))
    x = [data.draw(st.integers(2**60, 2**62)), *(data.draw(st.integers(0, 2**64 - 1)) for _ in range(known))]
    quarter = data.draw(st.integers(0, 3))
    with mp.workprec(1000):
        r = mp.sqrt(-2 * mp.log(reference.left(x)))
        n = int(min(sigma * r * data.draw(st.sampled_from([0.2, 0.6, 0.9])), sigma * r - 1))
        turn = mp.acos((n + mp.mpf(0.5)) / (sigma * r)) / (2 * mp.pi)
        y = [turn, mp.mpf(0.5) - turn, mp.mpf(0.5) + turn, 1 - turn][quarter] + mp.mpf(0.25 if sine else 0)
        digits = int(mp.floor(y % 1 * mp.mpf(2) ** (64 * known)))
    words = [digits >> (64 * (known - 1 - i)) & 2**64 - 1 for i in range(known)]
    for m in range(1, known + 1):
        assert _testing.settled_by(sigma, sine, x[:m], words[:m]) is None
    sides = {check_settled(sigma, sine, x, [*words, last]) for last in (0, 2**64 - 1)}
    sign = -1 if quarter in (1, 2) else 1
    assert sides == {sign * n, sign * (n + 1)}


def test_no_upper_end_without_a_digit_of_x():
    for sigma in (1e-300, 1.0, 2.0**39):
        assert _testing.settled_by(sigma, False, [0], [0]) is None
        assert _testing.settled_by(sigma, False, [0, 0], [0, 0]) is None
    # -ln x = 191 ln 2 and a little, y = 3/64: sqrt(-2 ln x) = 16.27, times cos 2 pi y = .957.
    assert check_settled(5.7, False, [0, 0, 1, 7], [3 << 58, 0, 0, 0]) == 89


def test_first_words_at_the_edges_of_the_window():
    """Where x is small its 64 digits leave the most open: what decides may be the further ones."""
    stream, sigma = _core.philox_stream(5, 9), 2.0**39
    rng = np.random.default_rng(0)
    late = 0
    for pair in range(60):
        for high in (0, 1, 1023, 1024, 1025, 2**32 - 2, 2**32 - 1):
            x = high << 32 | int(rng.choice([0, 2**32 - 1, rng.integers(2**32)]))
            y = next_to_a_boundary(sigma, x, int(rng.integers(2**64, dtype=np.uint64)))
            got = _testing.rounded_pair_of_words(stream, pair, [x >> 32, x & 2**32 - 1, y >> 32, y & 2**32 - 1], sigma)
            for sine in (False, True):
                more = [(x, y)]
                while (truth := reference.settled(sigma, sine, *map(list, zip(*more, strict=True)))) is None:
                    more.append(reference.further(5, 9, pair, len(more)))
                late += len(more) > 1 and high == 1024
                assert got[sine] == truth
    assert late > 20


def next_to_a_boundary(sigma, x, y):
    """y moved by less than 2^-20 of a turn, to where the cosine's sigma Z is half an integer for the middle of x."""
    with mp.workprec(300):
        r = mp.sqrt(-2 * mp.log((mp.mpf(x) + 0.5) / mp.mpf(2) ** 64))
        z = mp.acos(mp.cospi(mp.mpf(y) / mp.mpf(2) ** 63))
        nearest = mp.floor(sigma * r * mp.cos(z)) + 0.5
        if abs(nearest) > sigma * r:
            return y
        turn = mp.acos(nearest / (sigma * r)) / (2 * mp.pi) * mp.mpf(2) ** 64
        return int(mp.floor(turn if y < 2**63 else mp.mpf(2) ** 64 - turn)) % 2**64


@given(st.integers(0, 2**48 - 5000), st.integers(0, 700), st.integers(0, 700), st.sampled_from([0.7, 2.0**33]))
@settings(max_examples=30)
def test_a_draw_depends_on_its_index_alone(first, n, skip, sigma):
    stream = _core.chacha_stream(KEY, 9)
    whole = drawn(stream, sigma, n + skip, first)
    np.testing.assert_array_equal(drawn(stream, sigma, n, first + skip), whole[skip:])


def test_the_code_of_a_device_draws_the_same():
    for stream in (_core.chacha_stream(KEY, 2), _core.philox_stream(3, 4)):
        for sigma in SIGMAS:
            out = np.zeros(3000, np.int64)
            _testing.rounded_normals_from(stream, sigma, 64, out)
            np.testing.assert_array_equal(out, drawn(stream, sigma, out.size))


@pytest.mark.parametrize("n", [1, 127, 128, 5000])
def test_each_value_may_have_its_own_deviation(n):
    stream = _core.chacha_stream(KEY, 2)
    sigmas = np.random.default_rng(n).choice([0.0, 2.0**-1074, 0.3, 7.1, 2.0**20, 2.0**39], n)
    together = drawn(stream, sigmas, n)
    for sigma in np.unique(sigmas):
        np.testing.assert_array_equal(together[sigmas == sigma], drawn(stream, float(sigma), n)[sigmas == sigma])
    assert (together[sigmas < 0.01] == 0).all()


def test_sums_wrap():
    stream = _core.chacha_stream(KEY, 2)
    noise = drawn(stream, 100.0, 1000)
    for start in (2**63 - 1, -(2**63), 12345):
        values = np.full(1000, start)
        _core.add_rounded_normals(stream, 100.0, values)
        np.testing.assert_array_equal(values.view(np.uint64) - np.uint64(start % 2**64), noise.view(np.uint64))


def test_the_number_of_threads_changes_nothing():
    before = _core.max_threads()
    try:
        results = []
        for count in (1, 2, 7):
            _core.set_max_threads(count)
            results.append(drawn(_core.chacha_stream(KEY, 0), 2.0**32, 200_001))
    finally:
        _core.set_max_threads(before)
    assert all((r == results[0]).all() for r in results)


DIGEST = """
import hashlib
import numpy as np
from tightdp import _core
h = hashlib.sha256()
for s in (_core.aes_stream(bytes(range(32)), 5), _core.chacha_stream(bytes(range(32)), 5), _core.philox_stream(5, 6)):
    for sigma in (0.3, 2.0**20, 2.0**36):
        out = np.zeros(100_000, np.int64)
        _core.add_rounded_normals(s, sigma, out)
        _core.add_rounded_normals(s, np.full(out.size, sigma), out)
        h.update(out.tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_every_instruction_set_draws_the_same():
    assert len(every_instruction_set(DIGEST)) == 1


def test_large_deviations_are_normal():
    for sigma in (2.0**20, 2.0**39):
        draws = dp.rounded_gaussian(sigma, 200_000, rng=dp.Philox(4))
        assert stats.kstest(draws / sigma, stats.norm.cdf).pvalue > CHANCE
        assert stats.chisquare(np.bincount(draws % 16, minlength=16)).pvalue > CHANCE
