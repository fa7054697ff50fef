"""Many noise multipliers, interpolated (docs/theory/contour.md section 11)."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

import tightdp as dp
from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

PAIRS = ("remove", "add")


def moments(sigma, q, c, add, at):
    """M(c + is) for each s of `at` by the trapezoid rule, in long doubles where the machine has them."""
    sigma, q, c = (np.longdouble(x) for x in (sigma, q, c))
    low, high = -12 - (c / sigma if add else 0), 12 + (0 if add else (1 + c) / sigma)
    h = np.minimum(np.longdouble(1) / 12, sigma / 6)
    u = low + h * np.arange(int((high - low) / h) + 1)
    loss = np.log(1 - q + q * np.exp(u / sigma - 1 / (2 * sigma**2)))
    weight = np.exp(-u * u / 2 + (-c if add else 1 + c) * loss) * h / np.sqrt(2 * np.longdouble(mp.pi))
    turns = np.exp((-1j if add else 1j) * np.outer(np.asarray(at, np.longdouble), loss))
    return turns @ weight


def truth(sigmas, counts, q, add, c, other, at):
    """Sums over the levels of count * ln M at c, at `other`, and of count * ln(M(c + is)/M(c)) at each s."""
    k = k_other = np.longdouble(0)
    ratios = np.zeros(len(at), np.clongdouble)
    for sigma, count in zip(sigmas, counts, strict=True):
        here, *there = moments(sigma, q, c, add, [0.0, *at])
        k += count * np.log(here.real)
        k_other += count * np.log(moments(sigma, q, other, add, [0.0])[0].real)
        ratios += count * np.log(np.array(there) / here)
    return k, k_other, ratios


SETTINGS = [
    # least and largest noise, levels, q, c, step, abscissae, -ln of the error asked for
    (0.8, 1.5, 60, 256 / 60000, 3.6, 0.5, 90, 24),
    (1.4, 1.9, 60, 0.3, 2.0, 0.05, 30, 22),
    (3.0, 3.01, 60, 0.05, 15.0, 0.3, 30, 14),
    (3.0, 3.01, 60, 0.05, 15.0, 0.3, 30, 34),
    (20.0, 24.0, 60, 0.9, 30.0, 0.05, 20, 24),
    (0.5, 0.6, 60, 0.02, 1.0, 0.1, 30, 20),
    (0.2, 0.21, 60, 0.999, 0.05, 0.02, 20, 20),
    (0.5, 0.6, 60, 0.02, 1.0, 0.1, 30, 4),  # so few nodes that the error is well above that of rounding
]


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(("low", "high", "levels", "q", "c", "step", "count", "log_inverse"), SETTINGS)
def test_the_sum_over_levels_is_within_its_error(low, high, levels, q, c, step, count, log_inverse, add):
    rng = random.Random(random.randrange(2**32))
    sigmas = sorted([low, high, *(rng.uniform(low, high) for _ in range(levels - 2))])
    counts = [float(rng.randint(1, 9)) for _ in sigmas]
    other = 1.3 * c
    found = _testing.contour_levels(sigmas, counts, q, add, c, other, step, count, log_inverse)
    assert found is not None
    nodes, (value, rule, rounding), bounded, rows = found
    assert nodes < levels
    asked = [1, count // 2, count]
    k, k_other, ratios = truth(sigmas, counts, q, add, c, other, [step * m for m in asked])
    allowed = 1000 * sum(counts) * math.exp(-log_inverse) + 1e-10
    assert abs(np.longdouble(value) - k) <= rule + rounding <= allowed
    assert bounded >= k_other
    for m, exact in zip(asked, ratios, strict=True):
        re, im, wrong, rounded = rows[m - 1]
        # Counts are integers: whole turns do not matter.
        turns = round(float((im - exact.imag) / (2 * np.pi)))
        off = np.longdouble(im) - turns * 2 * np.longdouble(mp.pi) - exact.imag
        assert np.hypot(np.longdouble(re) - exact.real, off) <= wrong + rounded
    assert rows[0][2] + rows[0][3] <= allowed


def continued(sigma, q, c, add, s, v, t):
    """M(c + is) of noise whose square is v, complex, by the trapezoid rule over t (section 11)."""
    loss = np.log(1 - q + q * np.exp(t))
    power = -c - 1j * s if add else 1 + c + 1j * s
    front = np.sqrt(v / (2 * np.pi)) * np.exp(-1 / (8 * v))
    return front * (t[1] - t[0]) * np.exp(-v * t * t / 2 - t / 2 + power * loss).sum()


@pytest.mark.parametrize("add", [False, True])
def test_laws_of_complex_noise_are_as_near_as_they_are_said_to_be(add):
    """Section 11.1, which the other tests would not miss: what is interpolated is smoother than that says."""
    rng = random.Random(random.randrange(2**32))
    best = [0.0, 0.0]
    for _ in range(60):
        sigma, q = math.exp(rng.uniform(-1, 2)), math.exp(rng.uniform(-6, -0.05))
        c, radius = rng.uniform(0.1, 3) * min(sigma, 2), rng.uniform(0.02, 0.5)
        imaginary = rng.choice([0.0, rng.uniform(0.05, 0.6), 10 * radius])
        tau, apart, front = _testing.contour_near_level(sigma, q, add, c, radius, radius, imaginary)
        if not apart < 3:
            continue
        v0 = sigma**2
        least = v0 * (1 - radius)
        reach = (12 + (1 + c) / math.sqrt(least)) / math.sqrt(least) + 1 / least
        t = np.arange(-reach, reach, min(0.15 / sigma, 0.15))
        unit = continued(sigma, q, c, add, 0.0, v0, t).real
        law = np.exp(-v0 * t * t / 2 - t / 2 + (-c if add else 1 + c) * np.log(1 - q + q * np.exp(t)))
        for a in (-radius, radius):
            far = np.abs(np.expm1(-complex(a, imaginary) * (v0 * t * t - tau) / 2))
            assert law @ far <= (apart + 1e-9) * law.sum()
            best[imaginary > radius] = max(best[imaginary > radius], law @ far / law.sum() / apart)
            v = v0 * complex(1 + a, imaginary)
            log_g = np.log(v / v0) / 2 + (1 / v0 - 1 / v) / 8 - complex(a, imaginary) * tau / 2
            assert abs(log_g) <= front
            for s in (0.0, 1.0, 3 * sigma / q):
                near = continued(sigma, q, c, add, s, v, t) / np.exp(log_g) - continued(sigma, q, c, add, s, v0, t)
                assert abs(near) <= (apart + 1e-9) * unit
    # Half of D would not do, with v nearly real and with v nearly imaginary.
    assert min(best) > 0.5


@given(st.floats(0.01, 0.6), st.floats(1.05, 3.2), st.floats(0, 1), st.floats(0, 1), st.floats(0, 2 * math.pi))
@settings(max_examples=200, deadline=None)
def test_a_cell_holds_its_part_of_the_ellipse(half, rho, start, end, angle):
    """Foci 1 - half and 1 + half; the cell is that of the point at the angle, and wider."""
    a, b = half * (rho + 1 / rho) / 2, half * (rho - 1 / rho) / 2
    point = complex(1 + a * math.cos(angle), b * math.sin(angle))
    left, right = point.real - start * (point.real - (1 - a)), point.real + end * (1 + a - point.real)
    if left <= 0:
        return
    sigma = left + 0.5 * (right - left)
    real, imaginary = _testing.contour_cell(1.0, half, rho, left, right, sigma)
    v = point * point / (sigma * sigma)
    assert abs(v.real - 1) <= real + 1e-12
    assert abs(v.imag) <= imaginary + 1e-12


@pytest.mark.parametrize("n", [9, 25, 57])
@pytest.mark.parametrize("rho", [1.3, 2.1, 3.2])
def test_the_error_of_interpolation_is_that_of_the_worst_function_or_some_times_more(n, rho):
    with mp.workdps(60):
        nodes = [mp.cos((i + mpf(1) / 2) * mp.pi / n) for i in range(n)]
        rho = mpf(rho)
        ellipse = [
            mp.mpc((rho + 1 / rho) / 2 * mp.cos(x), (rho - 1 / rho) / 2 * mp.sin(x))
            for x in (2 * mp.pi * i / 400 for i in range(400))
        ]
        bound, worst = _testing.contour_interpolation_error(float(rho), n), mpf(0)
        for outside in (1 + 1 / mpf(n), mpf(1.2)):
            for turn in (mpf(0), mp.pi / 2, mpf(1)):
                r = rho * outside
                pole = mp.mpc((r + 1 / r) / 2 * mp.cos(turn), (r - 1 / r) / 2 * mp.sin(turn))
                size = max(abs(1 / (pole - w) - 1 / (pole - nodes[0])) for w in ellipse)
                for x in (mpf(1), mpf("0.03"), mpf("-0.71")):
                    # 1/(w - x) less its interpolation is T_n(x) / (T_n(w) (w - x)).
                    error = abs(mp.chebyt(n, x) / mp.chebyt(n, pole) / (pole - x))
                    assert error <= bound * size
                    worst = max(worst, error / size)
        assert bound <= 15 * n * worst


def interval(levels, pair, delta, mu2=0.0):
    status, lower, upper, *_ = _core.contour_epsilon(levels, mu2, pair, delta, 1e-11)
    return status, lower, upper


def apart(levels):
    """The same levels, no two of one sampling probability: nothing is interpolated."""
    out = []
    for i, (sigma, q, count) in enumerate(levels):
        for _ in range(i):
            q = math.nextafter(q, 0.0)
        out.append((sigma, q, count))
    return out


schedules = st.tuples(
    st.floats(0.3, 20), st.floats(1.001, 12), st.floats(1e-3, 0.6), st.integers(41, 110), st.integers(1, 10**4)
)


@given(schedules, st.randoms(use_true_random=False), st.floats(-300, -2), st.sampled_from(PAIRS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_interpolated_and_summed_one_by_one(schedule, rng, log_delta, pair, plain):
    least, ratio, q, many, most = schedule
    levels = [(least * rng.uniform(1, ratio), q, float(rng.randint(1, most))) for _ in range(many)]
    levels[1] = (math.nextafter(levels[0][0], 100.0), q, 1.0)
    delta, mu2 = 10**log_delta, 0.01 if plain else 0.0
    found, exact = interval(levels, pair, delta, mu2), interval(apart(levels), pair, delta, mu2)
    if found[0] == exact[0] == "certified":
        slack = 1e-12 * found[2]  # of the sampling probabilities
        assert max(found[1], exact[1]) <= min(found[2], exact[2]) + slack
        assert found[2] - found[1] <= 20 * (exact[2] - exact[1]) + 1e-10 * exact[2]
    else:
        assert exact[0] != "certified"


@given(schedules, st.randoms(use_true_random=False), st.floats(-8, -2))
@settings(max_examples=8, deadline=None)
def test_another_engine_bounds_the_same_truth(schedule, rng, log_delta):
    least, ratio, q, many, _ = schedule
    run = dp.Composition((dp.PoissonSampled(dp.Gaussian(least * rng.uniform(1, ratio)), q), 1) for _ in range(many))
    found = run.epsilon(10**log_delta, engine="contour")
    other = run.epsilon(10**log_delta, engine="grid", width=1e-3)
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)


def test_a_thousand_levels_from_a_few_to_a_hundred():
    """All orders of magnitude in one schedule, some of them repeated, and others released without sampling."""
    levels = [(0.5 * 200 ** (i / 1000), 0.01, float(1 + i % 3)) for i in range(1000)]
    for pair in PAIRS:
        found, exact = interval(levels, pair, 1e-6, 0.3), interval(apart(levels), pair, 1e-6, 0.3)
        assert found[0] == exact[0] == "certified"
        assert max(found[1], exact[1]) <= min(found[2], exact[2]) * (1 + 1e-12)
        assert found[2] - found[1] <= 1e-9 * found[2]
        assert exact[2] - exact[1] <= 1e-9 * exact[2]


@pytest.mark.parametrize("many", [1000, 10000])
def test_the_number_of_levels_hardly_counts(many):
    levels = [(0.8 + 0.7 * i / many, 256 / 60000, 1.0) for i in range(many)]
    status, lower, upper, _, nodes, _ = _core.contour_epsilon(levels, 0.0, "remove", 1e-5, 1e-11)
    assert status == "certified"
    assert upper - lower <= 1e-9
    assert nodes <= 100 * 1000  # a node of each level alone would be more, at a thousandth of the work
