"""The batched contour engine, as a device runs it, run by the host: bounds hold, are narrow, and agree on any lanes."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "accounting.json").read_text())["epsilon_of_delta"]


def both_directions():
    found = {}
    for v in VECTORS:
        if v["mechanism"] == "PoissonSampled(Gaussian)":
            key = (v["noise_multiplier"], v["sampling_probability"], float(v["steps"]), float(v["delta"]))
            found.setdefault(key, {})[v["direction"]] = Decimal(v["epsilon"])
    return found


def batch(settings, tolerance=1e-11, warp=False):
    columns = np.array(settings, np.float64).reshape(-1, 4).T
    return _testing.emulate_epsilon_batch(*columns, tolerance, warp)


def cpu(settings, tolerance=1e-11):
    return _core.contour_epsilon_batch(*np.array(settings, np.float64).reshape(-1, 4).T, tolerance, 1)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-11, 1e-13])
def test_reference_values_lie_inside(tolerance):
    # The known direction is a lower bound of the larger of the two, and where both are known their maximum is exact.
    known = both_directions()
    lower, upper, status, _, _ = batch(list(known), tolerance)
    assert status.mean() > 0.9
    exact = 0
    for i, directions in enumerate(known.values()):
        if not status[i]:
            assert upper[i] == np.inf and lower[i] == 0
            continue
        truth = max(directions.values())
        assert truth <= Decimal(upper[i])
        if len(directions) == 2:
            assert Decimal(lower[i]) <= truth
            exact += 1
        if tolerance == 1e-11:
            assert upper[i] - lower[i] <= 1e-8 * upper[i]
    assert exact >= 5


def sweep(n, seed):
    r = np.random.default_rng(seed)
    return np.stack(
        [
            r.uniform(0.5, 8, n),
            10 ** r.uniform(-3.5, -0.5, n),
            np.floor(10 ** r.uniform(2, 5.5, n)),
            10 ** r.uniform(-10, -4, n),
        ],
        1,
    )


def test_a_fresh_sweep_agrees_with_the_engine_of_the_cpu():
    some = sweep(120, np.random.SeedSequence().entropy)
    lower, upper, status, _, _ = batch(some)
    low, up, served = cpu(some)
    assert status.mean() > 0.75  # the rest are over the caps, and the CPU's engine answers
    certified = (status & served) > 0
    assert (np.maximum(lower, low) <= np.minimum(upper, up))[certified].all(), some
    # At most a few times as wide as the twin, whose sums are shorter.
    assert np.median((upper - lower)[certified]) <= 5 * np.median((up - low)[certified])


@settings(max_examples=40, deadline=None)
@given(
    sigma=st.floats(0.3, 30),
    q=st.floats(1e-5, 0.999),
    steps=st.integers(1, 10**6),
    log_delta=st.floats(-40, -0.5),
)
def test_bounds_overlap_those_of_the_cpu(sigma, q, steps, log_delta):
    setting = [(sigma, q, float(steps), 10.0**log_delta)]
    lower, upper, status, _, _ = batch(setting, 1e-9)
    assert not np.isnan([lower, upper]).any() and 0 <= lower[0] <= upper[0]
    low, up, served = cpu(setting)
    if status[0] and served[0]:
        assert max(lower[0], low[0]) <= min(upper[0], up[0])


def test_the_lanes_of_a_warp_find_what_one_lane_finds():
    # Four settings of every kind: many steps, few steps (samples of the decay), epsilon = 0, over the caps.
    kinds = [(0.8, 0.01, 20000, 1e-6), (1.0, 0.05, 60, 1e-5), (8.0, 0.001, 10, 1e-3), (0.531, 0.000255, 7305, 1e-40)]
    one, shared = batch(kinds, 1e-9), batch(kinds, 1e-9, warp=True)
    np.testing.assert_array_equal(one[2], shared[2])
    assert list(one[2]) == [1, 1, 1, 0]
    # Sums in another order: the same bounds up to a twentieth of their width.
    width = np.where(one[2] > 0, one[1], 0) - one[0]
    served = one[2] > 0
    for a, b in zip(one[:2], shared[:2], strict=True):
        assert (np.abs(a[served] - b[served]) <= 0.05 * width[served] + 1e-15).all()


def test_what_was_decided_without_a_contour():
    lower, upper, status, _, _ = batch([(10.0, 0.01, 1, 0.5)])
    assert (lower[0], upper[0], status[0]) == (0, 0, 1)
