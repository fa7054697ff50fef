"""Times the drawing of noise, rounded normals and plain normals, and tests the distribution of 1e8 normals.

    python bench/noise.py [--draws 1e8] [--threads 1] [--rounds 31]

Speeds are those of filling an array that exists already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats
from shared import interleaved, options

import tightdp as dp
from tightdp import _core

CHUNK = 2_000_000


def chunks(n: int, source: dp.RandomSource, dtype: type) -> Iterator[np.ndarray]:
    for start in range(0, n, CHUNK):
        yield source.normal(min(CHUNK, n - start), dtype).astype(np.float64)


def assert_normal(n: int, source: dp.RandomSource, dtype: type) -> None:
    """Tests the moments, the Kolmogorov-Smirnov distance and the counts in cells of n draws.

    Each test fails for a sound generator with probability 1e-6. The Kolmogorov-Smirnov distance is taken at 20,000
    quantiles, where it is at most as large as over all points. So the draws may still deviate inside a cell of
    probability 1/20,000. Moments and the counts in cells do not see such a deviation either.
    """
    cells = 20_000
    edges = stats.norm.ppf(np.arange(1, cells) / cells)
    counts = np.zeros(cells)
    powers = np.zeros(4)
    largest = 0.0
    for z in chunks(n, source, dtype):
        counts += np.bincount(np.searchsorted(edges, z), minlength=cells)
        powers += [z.sum(), (z**2).sum(), (z**3).sum(), (z**4).sum()]
        largest = max(largest, float(np.abs(z).max()))
    gap = np.abs(np.cumsum(counts)[:-1] / n - np.arange(1, cells) / cells).max()
    assert gap * math.sqrt(n) < stats.kstwobign.isf(1e-6), ("Kolmogorov-Smirnov", gap)
    chi_square = stats.chisquare(counts).pvalue
    assert chi_square > 1e-6, ("chi-square over cells", chi_square)
    for power, (mean, variance) in enumerate(((0, 1), (1, 2), (0, 15), (3, 96)), start=1):
        score = (powers[power - 1] / n - mean) / math.sqrt(variance / n)
        assert abs(score) < stats.norm.isf(5e-7), (power, score)
    expected = stats.norm.isf(1 / (2 * n))
    print(
        f"  {n:.0e} draws of {np.dtype(dtype).name} from {source!r}: sqrt(n) D = {gap * math.sqrt(n):.2f}, chi-square "
        f"p = {chi_square:.2f}, largest |z| = {largest:.2f} (about {expected:.2f} expected)"
    )


def rate(fill: Callable[[], object], n: int, rounds: int = 15) -> float:
    """Returns the median speed in millions of values a second."""
    return n / interleaved([fill], rounds, least=0.0)[0] / 1e6


def compare_rounded(sigma: float, rounds: int, n: int = 1 << 16) -> list[float]:
    """Returns nanoseconds a draw of float64 normals, of rounded normals, and of rounded normals with many deviations.

    In the third case each draw has its own deviation.
    """
    stream = _core.chacha_stream(bytes(range(32)), 1)
    z, out, each = np.empty(n), np.zeros(n, np.int64), np.full(n, sigma)
    calls = (
        lambda: _core.random_normal(stream, 0, z),
        lambda: _core.add_rounded_normals(stream, sigma, out),
        lambda: _core.add_rounded_normals(stream, each, out),
    )
    seconds = interleaved(calls, rounds)
    # Checks that each rounded draw is an integer nearest to the plain normal, up to the plain normal's rounding.
    drawn = np.zeros(n, np.int64)
    _core.add_rounded_normals(stream, sigma, drawn)
    calls[0]()
    assert (np.abs(drawn - sigma * z) <= 0.5 + 2.0**-20 + 2.0**-42 * sigma).all()
    again = np.zeros(n, np.int64)
    _core.add_rounded_normals(stream, each, again)
    assert (drawn == again).all()
    return [1e9 * s / n for s in seconds]


def main() -> None:
    given = options(__doc__, draws=1e8, threads=1, rounds=31)
    _core.set_max_threads(given.threads)
    print(f"{_core.isa()}, {given.threads} thread(s), millions a second")
    n = 4_000_000
    numpy = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        out = np.zeros(n, dtype)
        secure = rate(lambda out=out: _core.random_normal(_core.draw_secure_random_stream(), 0, out), n)
        philox = rate(lambda out=out: _core.random_normal(_core.philox_stream(1, 0), 0, out), n)
        ziggurat = rate(lambda out=out, t=dtype: numpy.standard_normal(out=out, dtype=t), n)
        print(f"  normals {np.dtype(dtype).name}: ChaCha20 {secure:.0f}, Philox {philox:.0f}, NumPy {ziggurat:.0f}")
    integers = rate(lambda: _core.random_integers(_core.draw_secure_random_stream(), 0, n), n)
    print(f"  ChaCha20 integers of 64 bits: {integers:.0f}")
    m = 200_000
    print(f"  discrete Gaussian: {rate(lambda: dp.discrete_gaussian(2**20, m), m, 5):.1f}")
    print("rounded normals, ns a draw, all three in turns, and times the plain one")
    for sigma in (1.0, 2.0**20, 2.0**30, 2.0**36):
        plain, *rest = compare_rounded(sigma, given.rounds)
        names = ("rounded", "a deviation each")
        shown = ", ".join(f"{name} {t:.2f} ({t / plain:.2f})" for name, t in zip(names, rest, strict=True))
        print(f"  sigma 2^{math.log2(sigma):.0f}: plain {plain:.2f}, {shown}")
    for source in (dp.SecureRandom(), dp.Philox(1)):
        for dtype in (np.float32, np.float64):
            assert_normal(int(given.draws), source, dtype)


if __name__ == "__main__":
    main()
