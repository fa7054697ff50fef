"""What other accountants are known to get wrong, or to die of."""

import math
import tracemalloc

import pytest
from effort import bounded

import tightdp as dp


def training(sigma, q, steps):
    return dp.PoissonSampled(dp.Gaussian(sigma), q) * steps


def test_a_large_delta_gives_no_negative_epsilon():
    """opacus 585: a negative epsilon at delta = 0.5."""
    for run in (training(1.0, 0.01, 10), training(10.0, 0.001, 1), training(1.0, 0.01, 10_000), dp.Gaussian(5.0)):
        b = run.epsilon(0.5)
        assert 0 <= b.lower <= b.upper and math.isfinite(b.upper)
    assert training(10.0, 0.001, 10).epsilon(0.5).upper == 0


@pytest.mark.parametrize("delta", [1e-10, 1e-15, 1e-30, 1e-100, 1e-300])
def test_a_small_delta_is_ordinary(delta):
    """prv_accountant 17: nothing under 1e-10; dp_accounting: infinite from 1e-15 down; opacus: ValueError."""
    exact = {1e-30: "9.341895632705148661489"}
    b = training(1.1, 256 / 60000, 14_000).epsilon(delta)
    assert b.width <= 1e-8 * b.upper and b.upper < 100
    if delta in exact:
        b = training(1.0, 0.01, 1000).epsilon(delta, neighbors="remove")
        assert b.lower <= float(exact[delta]) <= b.upper


def test_no_discrete_mean_that_differs():
    """prv_accountant 14, 36, 42 and opacus 601, 604: "Discrete mean differs significantly" at q=.2, sigma=1, T=500."""
    b = training(1.0, 0.2, 500).epsilon(1e-5)
    assert b.width <= 1e-8 * b.upper and 30 < b.upper < 200


def test_pure_mechanisms_compose_to_their_sum_at_most():
    """prv_accountant: an "upper" bound of -52 for ten 10-DP mechanisms, whose epsilon is 100 less a little."""
    b = (dp.PureDP(10.0) * 10).epsilon(1e-5)
    assert 99.99998 < b.lower <= b.upper <= 100 and b.width <= 1e-10
    exact = 100 + math.log1p(-1e-5 * (1 + math.exp(-10.0)) ** 10)  # all ten losses are +10 in the relevant range
    assert b.lower <= exact <= b.upper


def test_a_count_of_randomised_response_counts():
    """dp_accounting: compose(RR(.5, 2), 5) gave 1.099, where five calls give 5.493."""
    five = dp.RandomizedResponse(0.5, 2) * 5
    assert five == sum([dp.RandomizedResponse(0.5, 2)] * 5)
    b = five.epsilon(1e-12)
    assert b.lower == pytest.approx(5 * math.log(3), abs=1e-8) and b.upper <= 5 * math.log(3) * (1 + 1e-15)
    account = dp.Accountant()
    account.compose(dp.RandomizedResponse(0.5, 2), 5)
    assert account.epsilon(1e-12) == b


def test_the_upper_bound_of_gaussians_is_above_the_exact_value():
    """opake: 91.817285978 as an upper bound, where the exact value is 91.817289625."""
    b = training(1.0, 1.0, 100).epsilon(1e-5)
    assert b.lower <= 91.81728962466357 <= b.upper and b.width < 1e-9


@pytest.mark.parametrize("sigma", [1e-3, 0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("steps", [1, 1000, 10**9])
def test_small_noise_neither_hangs_nor_overflows(sigma, steps):
    """A project wraps its accountant in an alarm of 120 seconds and falls back to Renyi at small sigma."""
    for q in (1e-9, 0.01, 0.5):
        b = bounded(lambda q=q: training(sigma, q, steps).epsilon(1e-5))
        assert 0 <= b.lower <= b.upper < math.inf


def test_calibrating_a_small_epsilon_takes_no_memory():
    """google/dpsynth 71: 75 GB."""
    tracemalloc.start()
    sigma = dp.noise_multiplier(epsilon=1e-3, delta=1e-9, sampling_probability=0.05, steps=5000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    b = training(sigma, 0.05, 5000).epsilon(1e-9)
    assert peak < 50e6 and 1e-3 - 1e-9 <= b.lower <= b.upper <= 1e-3


def test_calibration_is_exact():
    """opacus 566: a noise multiplier whose epsilon is off the target."""
    sigma = dp.noise_multiplier(epsilon=3.0, delta=1e-5, sampling_probability=0.004, steps=10_000)
    assert training(sigma, 0.004, 10_000).epsilon(1e-5).lower >= 3 - 1e-6


def test_both_directions_count():
    """An accountant of one direction alone under-charges: here "remove" is worse, and for few steps "add" may be."""
    run = training(1.0, 0.01, 1000)
    add, remove = (run.epsilon(1e-5, neighbors=n) for n in ("add", "remove"))
    assert remove.lower > add.upper and run.epsilon(1e-5) == remove
