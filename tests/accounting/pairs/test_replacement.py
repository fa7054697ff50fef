"""Replacing a record: Poisson samples with Gaussian noise, and classes (docs/theory/replace.md)."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines import closed_form, contour, grid
from tightdp.accounting.engines.renyi.quadrature import bound_replaced_moment_by_quadrature
from tightdp.accounting.pairs.replacement import ReplacedGaussian

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")


def loss_and_masses(sigma, q, points, reach):
    """Losses of cells of the output, with P's masses, by distribution functions: plain NumPy."""
    from scipy.special import ndtr

    z = np.linspace(-reach, reach, points + 1)

    def mass(at):
        return (1 - q) * np.diff(ndtr(z / sigma)) + q * np.diff(ndtr((z - at) / sigma))

    middle = 0.5 * (z[1:] + z[:-1])
    weight = (0.5 / sigma**2, 1 / sigma**2)
    ahead = np.log1p(q * np.expm1(middle * weight[1] - weight[0]))
    behind = np.log1p(q * np.expm1(-middle * weight[1] - weight[0]))
    return ahead - behind, mass(1.0)


def rounded_fold(sigma, q, steps, spacing, points=1 << 20):
    """Losses rounded to a lattice so that their means stay, composed by a circular transform: no bound, but close."""
    losses, masses = loss_and_masses(sigma, q, 400_000, 13 * sigma + 1.5)
    cell = np.floor(losses / spacing).astype(int)
    share = losses / spacing - cell
    lattice = np.zeros(points)
    np.add.at(lattice, cell % points, masses * (1 - share))
    np.add.at(lattice, (cell + 1) % points, masses * share)
    composed = np.fft.irfft(np.fft.rfft(lattice) ** steps, points)
    at = spacing * np.where(np.arange(points) < points // 2, np.arange(points), np.arange(points) - points)
    return at, composed


def delta_of(at, masses, eps):
    over = at > eps
    return float(np.sum(masses[over] * -np.expm1(eps - at[over])))


# Epsilons and deltas as computed in another way, by quadrature and FFT in double precision, before this was written.
@pytest.mark.parametrize(
    ("sigma", "q", "steps", "delta", "epsilon"),
    [(1.0, 0.01, 1000, 1e-5, 2.84344), (0.5, 0.01, 1000, 1e-5, 15.1614), (1.0, 0.1, 10, 1e-6, 4.07148)],
)
def test_known_values(sigma, q, steps, delta, epsilon):
    b = (dp.PoissonSampled(dp.Gaussian(sigma), q) * steps).epsilon(delta, neighbors="replace")
    assert b.lower == pytest.approx(epsilon, rel=4e-6) and b.upper == pytest.approx(epsilon, rel=4e-6)


def test_known_deltas():
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    for eps, delta in ((1.0, 0.0329621), (3.0, 3.8793e-6)):
        b = run.delta(eps, neighbors="replace")
        assert b.lower == pytest.approx(delta, rel=1e-5) and b.upper == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "spacing"), [(2.0, 0.01, 1000, 2e-5), (1.0, 0.1, 20, 1e-4), (0.7, 0.3, 5, 1e-4)]
)
def test_a_plain_convolution_agrees(sigma, q, steps, spacing):
    at, masses = rounded_fold(sigma, q, steps, spacing)
    run = dp.PoissonSampled(dp.Gaussian(sigma), q) * steps
    for eps in (0.1, 0.7):
        b = run.delta(eps, neighbors="replace")
        assert b.lower * (1 - 1e-4) <= delta_of(at, masses, eps) <= b.upper * (1 + 1e-4)
        assert b.upper <= b.lower * (1 + 1e-5)


def exact_once(sigma, q, eps):
    """From the densities, with no formula for the inverse."""
    s = mp.mpf(sigma)

    def ratio(z):
        ahead, behind = ((1 - q) + q * mp.exp((2 * t * z - 1) / (2 * s * s)) for t in (1, -1))
        return mp.log(ahead / behind) - eps

    low, high = -mp.mpf(60) * (1 + s), mp.mpf(60) * (1 + s) + abs(eps) * s * s
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio(middle) < 0 else (low, middle)

    def above(at):
        return (1 - q) * mp.ncdf(-low / s) + q * mp.ncdf((at - low) / s)

    return above(1) - mp.exp(eps) * above(-1)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.2, 8.0), st.floats(-4.0, -0.01), st.floats(-3.0, 6.0))
def test_one_step_is_two_gaussian_curves(sigma, log_q, eps):
    q = 10**log_q
    with mp.workdps(60):
        truth = exact_once(sigma, mp.mpf(q), mp.mpf(eps))
        found = closed_form.ENGINE.delta(((ReplacedGaussian(sigma, q), 1),), "remove", eps)
        if truth < mp.mpf(10) ** -50:  # which 60 digits do not resolve
            assert found.lower <= mp.mpf(10) ** -49
            return
        assert found.lower <= truth <= found.upper <= max(found.lower * (1 + 1e-9), 1e-300)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.3, 8.0), st.floats(-3.0, -0.01), st.floats(-1.0, 4.0))
def test_the_cells_of_the_grid_bound_one_step(sigma, log_q, eps):
    parts = ((ReplacedGaussian(sigma, 10**log_q), 1),)
    exact, found = closed_form.ENGINE.delta(parts, "remove", eps), grid.ENGINE.delta(parts, "remove", eps)
    assert found.lower <= exact.upper and exact.lower <= found.upper


def test_cells_hold_what_quadrature_finds():
    """Weights of a lattice from above keep the mass and, up to the lattice, e^-loss: between them lies the truth."""
    sigma, q, h = 0.8, 0.2, 1.0 / 64
    law = _core.GridLaw.gaussian_replaced(1 / sigma, q)
    upper, lower, slack, beyond, _ = _testing.grid_weights(law, 0.0, h, 0.0, 0.0, -512, 1024)
    assert slack < 1e-12
    losses = h * np.arange(-512, 513)
    for eps in (0.0, 0.33, 1.01, 2.5):
        with mp.workdps(40):
            truth = float(exact_once(sigma, mp.mpf(q), mp.mpf(eps)))
        below, above = delta_of(losses, lower, eps + slack), delta_of(losses, upper, eps - slack) + beyond
        assert below <= truth <= above <= truth * (1 + 3 * h * h) <= below * (1 + 6 * h * h)


def in_the_plane(rng, q, x):
    """H_x of a sample that a and b are put into, by quadrature on a square."""
    z = np.linspace(-9, 9, 601)
    step = z[1] - z[0]
    first, second = np.meshgrid(z, z, indexing="ij")

    def normal(mean):
        return np.exp(-0.5 * ((first - mean[0]) ** 2 + (second - mean[1]) ** 2)) / (2 * math.pi)

    def within():
        angle, radius = rng.uniform(0, 2 * math.pi), math.sqrt(rng.uniform())
        return radius * math.cos(angle), radius * math.sin(angle)

    rest = (1 - q) * normal((0.0, 0.0))
    gap = rest + q * normal(within()) - x * (rest + q * normal(within()))
    return float(np.maximum(gap, 0).sum() * step * step)


def test_no_two_contributions_in_the_plane_are_worse():
    """Section 2 at the case that section 3 needs."""
    rng = np.random.default_rng(3)
    for q, eps in itertools.product((0.1, 0.6), (0.0, 0.2, 0.6)):
        most = dp.PoissonSampled(dp.Gaussian(1.0), q).delta(eps, neighbors="replace").upper
        assert all(in_the_plane(rng, q, math.exp(eps)) <= most + 1e-5 for _ in range(4))


@pytest.mark.parametrize(("sigma", "q", "c"), [(1.0, 0.01, 3.0), (2.0, 0.3, 10.5), (0.5, 1e-3, 2.2), (5.0, 0.01, 60.0)])
def test_moments_of_a_replacement(sigma, q, c):
    with mp.workdps(30):
        s = mp.mpf(sigma)

        def weight(u):
            return 1 - q + q * mp.exp(u / s - 1 / (2 * s * s))

        ends = mp.linspace(-14, (1 + 2 * c) / s + 14, 60)
        truth = mp.log(mp.quad(lambda u: mp.npdf(u) * weight(u) ** (c + 1) * weight(-u) ** -c, ends))
    found = bound_replaced_moment_by_quadrature(sigma, q, c).hi
    assert truth <= found <= truth * (1 + 1e-10) + 1e-12


@pytest.mark.parametrize("run", [dp.PureDP(0.3) * 4, dp.PoissonSampled(dp.PureDP(0.8), 0.3) * 3], ids=repr)
def test_composed_classes_by_enumeration(run):
    """The three losses of section 1, and their sums one by one."""
    (mechanism, count), *_ = run.parts
    q = getattr(mechanism, "sampling_probability", 1.0)
    e = getattr(mechanism, "mechanism", mechanism).nominal_epsilon
    with mp.workdps(40):
        grown, q = mp.exp(e), mp.mpf(q)
        top = 1 / (1 + grown)
        high, low = top * (1 - q + q * grown), top * (1 - q + q / grown)
        atoms = [(mp.log(high / low), high), (-mp.log(high / low), low), (mp.mpf(0), 1 - high - low)]
        for eps in (0.0, 0.4, 1.1):
            truth = mp.mpf(0)
            for drawn in itertools.product(atoms, repeat=count):
                loss = mp.fsum(y for y, _ in drawn)
                truth += mp.fprod(p for _, p in drawn) * max(0, 1 - mp.exp(eps - loss))
            b = run.delta(eps, neighbors="replace", width=1e-9)
            assert b.lower <= truth * (1 + mp.mpf(10) ** -14) and truth <= b.upper * (1 + 1e-14)
            assert b.upper <= b.lower * (1 + 5e-7)


@pytest.mark.parametrize(
    ("epsilon", "steps", "truth"), [(0.1, 100, 9.47695), (0.01, 10**4, 9.96420), (1.0, 10, 19.99977)]
)
def test_pure_mechanisms_in_number(epsilon, steps, truth):
    b = (dp.PureDP(epsilon) * steps).epsilon(1e-5, neighbors="replace")
    assert b.lower == pytest.approx(truth, abs=6e-6) and b.upper == pytest.approx(truth, abs=6e-6)
    assert b.upper < (dp.PureDP(2 * epsilon) * steps).epsilon(1e-5).lower


def test_one_pure_step():
    for eps, truth in ((0.0, 1 - math.exp(-1)), (1.0, math.exp(1) * -math.expm1(-1) / (1 + math.e))):
        b = dp.PureDP(1.0).delta(eps, neighbors="replace")
        assert b.lower <= truth * (1 + 1e-15) and truth * (1 - 1e-15) <= b.upper <= b.lower * (1 + 1e-13)
    b = dp.FixedSizeSampled(dp.PureDP(1.0), 10, 100).delta(0.0, neighbors="replace")
    assert b.lower <= 0.1 * (1 - math.exp(-1)) <= b.upper <= b.lower * (1 + 1e-6)


def test_no_end_of_approximate_mechanisms_is_rounded_past_the_truth():
    for d in (0.1, 0.2, 1 / 3, 0.3, 1e-9):
        b = dp.ApproximateDP(0.0, d).delta(1.0, neighbors="replace")
        with mp.workdps(40):
            assert b.lower <= 2 * mp.mpf(d) <= b.upper


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0, 40.0, 800.0])
def test_where_the_kind_of_pair_changes(epsilon):
    """Beside delta (2 + E) = 1 the curve is continuous and rises with delta."""
    edge = 1 / (2 + math.exp(min(epsilon, 700.0)))
    before = None
    for share in (0.999, 1 - 1e-10, 1 - 1e-14, 1.0, 1 + 1e-14, 1 + 1e-10, 1.001):
        for q in (1.0, 0.2):
            inner = dp.ApproximateDP(epsilon, edge * share)
            run = inner if q == 1 else dp.PoissonSampled(inner, q)
            b, twice = run.delta(0.1, neighbors="replace"), (run * 2).delta(0.1, neighbors="replace")
            assert b.upper <= b.lower + 1e-9 and b.lower <= twice.upper
            if q == 1:
                assert before is None or before.lower <= b.upper
                before = b


def test_mixed_runs_compose_under_replace():
    sampled = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100
    more = sampled + dp.Laplace(20.0) + dp.PureDP(0.01) * 3 + dp.FixedSizeSampled(dp.Gaussian(5.0), 1, 100)
    alone, all_ = (run.epsilon(1e-5, neighbors="replace") for run in (sampled, more))
    assert alone.upper < all_.lower <= all_.upper < alone.upper + 0.4
    assert all_.upper <= all_.lower * 1.05


def test_filters_charge_replaced_samples():
    step = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)
    f = dp.PrivacyFilter(4.0, 1e-5, neighbors="replace", expected=step)
    assert f.can_spend(step, 800)
    count = 1
    while f.can_spend(step, 2 * count):
        count *= 2
    assert (step * count).epsilon(1e-5, neighbors="replace").upper <= 4.0
    assert dp.PrivacyFilter(4.0, 1e-5, neighbors="replace", failure=1e-6).can_spend(dp.ApproximateDP(0.1, 1e-8))


def inverted(parts, eps, c, spacing=0.02, length=90.0, step=0.04):
    """delta(eps) by the Laplace inversion of contour.md section 1, both integrals by trapezoidal rules, plain NumPy."""
    z = c + 1j * spacing * np.arange(int(length / spacing))
    total = np.zeros(len(z), dtype=complex)
    for sigma, q, count in parts:
        u = step * np.arange(int(-14 / step), int((14 + (2 * c + 1) / sigma) / step))
        ahead, behind = (np.log1p(q * np.expm1(t * u / sigma - 0.5 / sigma**2)) for t in (1, -1))
        weights = step * np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
        moments = np.array([np.sum(weights * np.exp(ahead + x * (ahead - behind))) for x in z])
        total += count * np.log(np.abs(moments)) + 1j * count * np.angle(moments)
    values = np.exp(total - z * eps) / (z * (z + 1))
    return float(spacing / math.pi * (values[0].real / 2 + values[1:].real.sum()))


@pytest.mark.parametrize(
    ("parts", "eps", "c"),
    [
        ([(1.0, 0.01, 1000)], 1.0, 2.0),
        ([(2.0, 0.01, 1000)], 1.2, 9.0),
        ([(0.8, 0.6, 40)], 30.0, 0.3),
        ([(1.0, 0.02, 300), (1.5, 0.1, 50)], 1.5, 3.0),
    ],
)
def test_the_contour_engine_inverts_the_same_moments(parts, eps, c):
    run = tuple((ReplacedGaussian(sigma, q), count) for sigma, q, count in parts)
    found = contour.ENGINE.delta(run, "remove", eps)
    truth = inverted(parts, eps, c)
    assert found.upper - found.lower <= 1e-8 * found.upper
    assert found.lower == pytest.approx(truth, rel=1e-8) and found.upper == pytest.approx(truth, rel=1e-8)
    lattice = grid.ENGINE.delta(run, "remove", eps)
    assert lattice.lower <= found.upper and found.lower <= lattice.upper
    back = contour.ENGINE.epsilon(run, "remove", found.upper)
    assert back.lower <= eps <= back.upper + 1e-7


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 5.0), st.floats(-3.0, -0.05), st.integers(30, 3000), st.floats(-12.0, -0.3))
def test_contour_and_grid_agree(sigma, log_q, count, log_delta):
    run = ((ReplacedGaussian(sigma, 10**log_q), count),)
    one, other = (engine.epsilon(run, "remove", 10**log_delta) for engine in (contour.ENGINE, grid.ENGINE))
    assert one.lower <= other.upper and other.lower <= one.upper


def test_training_under_replace_is_answered_by_the_contour():
    run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000 + dp.Gaussian(30.0)
    b = run.epsilon(1e-5, neighbors="replace")
    assert b.engine == "contour" and b.width <= 1e-10 * b.upper
