"""Mironov's attack (CCS 2012): what the low bits of a release tell, held against what was charged."""

import numpy as np
import pytest
from low_bits import BOUND, CANARY, CHANCE, EMPTY, MULTIPLIER, betrayed, releases
from scipy import stats

import tightdp as dp


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_low_bits_betray_an_example_to_floating_noise_and_nothing_to_the_exact_form(dtype):
    """Noise around 0 has bits that a sum of 1/2 and noise has not. On the grid every value has the same low bits."""
    claim = dp.Gaussian(MULTIPLIER)
    for arithmetic, expected in (("float", True), ("exact", False)):

        def release(rows, rng, arithmetic=arithmetic):
            return dp.clip_and_noise(rows.astype(dtype), BOUND, MULTIPLIER, rng=rng, arithmetic=arithmetic)[0]

        assert betrayed(releases(release, EMPTY), releases(release, CANARY), claim) is expected


@pytest.mark.parametrize("grid", [None, 2.0**-36])
def test_nor_to_exact_releases(grid):
    def release(rows, rng):
        return dp.exact_release(rows, BOUND, MULTIPLIER, grid=grid, rng=rng).value[0]

    assert not betrayed(releases(release, EMPTY), releases(release, CANARY), dp.Gaussian(MULTIPLIER))


@pytest.mark.slow
def test_nor_to_micro_batches():
    grid = dp.exact_grid(BOUND)

    def release(rows, rng):
        total = np.zeros(1, np.int64)
        for row in rows:
            dp.clipped_sum(row[None], BOUND, out=total, accumulate=True, arithmetic="exact")
        return dp.add_noise(total, BOUND * MULTIPLIER, grid=grid, rng=rng)[0] * grid

    assert not betrayed(releases(release, EMPTY), releases(release, CANARY), dp.Gaussian(MULTIPLIER))


def test_the_last_bits_of_the_integers_are_alike():
    """A finer look: the distribution of integers modulo 16 does not depend on the sum."""
    grid, tables = 2.0**-36, []
    for x in (0.0, 0.5):
        y = dp.exact_release(np.full((1, 40_000), x), 8e4, 1 / 8e4, grid=grid, rng=dp.Philox(int(2 * x))).value
        tables.append(np.bincount((y / grid).astype(np.int64) & 15, minlength=16))
    assert stats.chi2_contingency(tables).pvalue > CHANCE
