"""Samples of fixed size against an adversary who watches (docs/theory/adaptive.md), held to plain NumPy and mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.fixed_size import engine
from tightdp.accounting.engines.fixed_size.kernels import Side, bound_fixed_size_masses_below, list_fixed_size_epsilons
from tightdp.accounting.pairs.neighbors import translate_parts_to_replacement

SIGMA, Q, STEPS = 1.0, 0.01, 1000
RUN = dp.FixedSizeSampled(dp.Gaussian(SIGMA), 1, 100)


def tail(z):
    return 0.5 * np.vectorize(math.erfc)(np.asarray(z) / math.sqrt(2))


def removing(q, mu, epsilon):
    """Closed form of delta for (1-q) N(0) + q N(mu) against N(0), epsilon >= 0."""
    y = 1 + np.expm1(epsilon) / q
    z = np.log(y) / mu + mu / 2
    return q * (tail(z - mu) - y * tail(z))


def adding(q, mu, epsilon):
    """That of the reversed pair: 0 from -log(1 - q) on."""
    x = np.exp(epsilon)
    y = 1 - (1 - 1 / x) / q  # of N(mu)/N(0), below which outputs count
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.log(y) / mu + mu / 2
        below = (1 - x * (1 - q)) * (1 - tail(z)) - x * q * (1 - tail(z - mu))
    return np.where(y > 0, below, 0.0)


def test_a_toy_by_all_outcomes():
    """Two binary pairs, each a lattice law: the best of all policies, by recursion over exact outcomes."""
    h, n = 0.25, 60
    menu = []
    for up, down in ((3, -1), (1, -3)):  # losses in lattice units; masses from P's and Q's adding up to 1
        p = (1 - math.exp(down * h)) / (1 - math.exp((down - up) * h))
        menu.append({up: p, down: 1 - p})

    def value(at, steps):
        if steps == 0:
            return max(-math.expm1(at * h), 0.0)
        return max(sum(p * value(at - loss, steps - 1) for loss, p in law.items()) for law in menu)

    masses = np.zeros((2, 2 * n + 1))
    for row, law in zip(masses, menu, strict=True):
        for loss, p in law.items():
            row[n + loss] = p
    for steps in (1, 2, 5):
        found = _core.worst_below(masses, steps, h, 0.5)
        for at in range(12):
            truth = value(at, steps)
            assert truth - 1e-12 <= found[at] <= truth * (1 + 1e-15)
    alone = _core.worst_below(masses[:1], 5, h, 0.5)
    assert (alone <= found + 1e-12).all() and alone[3] < found[3] * 0.999  # the choice matters


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.01), (0.6, 0.2), (3.0, 0.03)])
def test_every_triangle_is_below_one_step(sigma, q):
    """Triangles in the unit disc by quadrature in the plane, and the largest one by its closed form."""
    n, h = 900, (4.0 / sigma**2 + 8.0 / sigma) / 900
    found = _core.fixed_size_above(1 / sigma, q, 1, 1, n, h, 0.5, 0.0)
    extreme = removing(q, 2 / sigma, np.arange(n + 1) * h)
    assert (found >= extreme * (1 - 1e-9) - 1e-18).all() and (found <= extreme * 1.05 + 1e-12).all()
    z1, z2 = np.meshgrid(np.linspace(-9, 9, 601), np.linspace(-9, 9, 601))
    base = np.exp(-(z1**2 + z2**2) / 2) * (18 / 600) ** 2 / (2 * math.pi)
    draw = np.random.default_rng(4)
    for _ in range(12):
        corners = draw.uniform(-1, 1, (3, 2))
        corners /= np.maximum(np.hypot(*corners.T), draw.choice([1e-9, 1.0], (3,)))[:, None]
        a, b, c = (base * np.exp((z1 * x + z2 * y) / sigma - (x * x + y * y) / 2 / sigma**2) for x, y in corners)
        p, r = (1 - q) * c + q * a, (1 - q) * c + q * b
        for i in (0, 1, 7, 60, 300):
            assert np.maximum(p - math.exp(i * h) * r, 0).sum() <= found[i] * (1 + 1e-3) + 1e-9


def kernels(sigma, q, n=900):
    """The spacing, and per kernel P-masses at -n h, .. n h and infinity."""
    h = (4.0 / sigma**2 + 8.0 / sigma) / n
    testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")
    return h, testing.fixed_size_kernels(1 / sigma, q, n, h)


def curves(h, laws, epsilon):
    """delta of each kernel."""
    losses = np.append(np.arange(-(laws.shape[1] // 2 - 1), laws.shape[1] // 2) * h, np.inf)
    return laws @ np.maximum(-np.expm1(epsilon - losses), 0)


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.1), (1.0, 0.01), (0.6, 0.2), (3.0, 0.03), (0.25, 0.5)])
def test_every_kernel_has_all_of_its_mass(sigma, q):
    _, laws = kernels(sigma, q)
    whole = np.array([math.fsum(law) for law in laws])
    assert (whole >= 1).all() and (whole <= 1 + 1e-8).all()  # the first by 1e-9 more


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.1), (0.6, 0.2)])
def test_one_kernel_or_a_mixture_of_the_first_two_dominates_a_triangle_at_every_epsilon(sigma, q):
    """Negative ones too, where a law without some of its mass would be too low."""
    h, laws = kernels(sigma, q)
    at = np.array([-5.0, -2.0, -0.7, -0.1, -0.01, 0.0, 0.01, 0.1, 0.7, 2.0])
    known = np.array([curves(h, laws, epsilon) for epsilon in at])
    shares = np.linspace(0, 1, 101)
    mixed = known[:, :1] * shares + known[:, 1:2] * (1 - shares)
    every = np.concatenate((known, mixed), axis=1)
    z1, z2 = np.meshgrid(np.linspace(-9, 9, 401), np.linspace(-9, 9, 401))
    base = np.exp(-(z1**2 + z2**2) / 2) * (18 / 400) ** 2 / (2 * math.pi)
    draw = np.random.default_rng(7)
    for _ in range(40):
        corners = draw.uniform(-1, 1, (3, 2))
        corners /= np.maximum(np.hypot(*corners.T), draw.choice([1e-9, 1.0], (3,)))[:, None]
        a, b, c = (base * np.exp((z1 * x + z2 * y) / sigma - (x * x + y * y) / 2 / sigma**2) for x, y in corners)
        p, r = (1 - q) * c + q * a, (1 - q) * c + q * b
        truth = np.array([np.maximum(p - math.exp(epsilon) * r, 0).sum() for epsilon in at])
        assert (every >= truth[:, None] - 1e-8).all(axis=0).any()


def test_what_is_no_law_is_refused():
    with pytest.raises(RuntimeError, match="mass of a kernel"):
        _core.worst_below(np.full((1, 5), 0.3), 2, 0.1, 0.5)


def test_two_steps_of_two_pairs_by_quadrature():
    q, mu, run = 0.1, 2.0, dp.FixedSizeSampled(dp.Gaussian(1.0), 1, 10) * 2

    def once(epsilon):
        at = np.abs(epsilon)
        best = np.maximum(removing(q, mu, at), adding(q, mu, at))
        return np.where(epsilon < 0, -np.expm1(epsilon) + np.exp(epsilon) * best, best)

    z = np.linspace(-11, 13, 48_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    ratio = 1 - q + q * np.exp(mu * z - mu * mu / 2)
    for epsilon in (0.3, 1.5, 4.0):
        removed = (density * ratio * once(epsilon - np.log(ratio))).sum()
        added = (density * once(epsilon + np.log(ratio))).sum()
        truth, found = (
            max(removed, added),
            engine.ENGINE.delta(translate_parts_to_replacement(run._to_composition().parts), "remove", epsilon),
        )
        assert found.lower <= truth * (1 + 1e-6) and truth * (1 - 1e-6) <= found.upper <= truth * 1.01
        assert found.lower >= truth * 0.97


@pytest.mark.parametrize("unknown", [1e-14, 1e-9])
def test_a_law_from_below_is_below_its_pair_and_near_it(unknown):
    """Also where the curve's values are known up to an error that drowns its tail."""
    q, mu, n, h = 0.2, 1.0, 2000, 0.003
    at = list_fixed_size_epsilons(n, h)
    right, left = (Side(np.maximum(f(q, mu, at) - unknown, 0), f(q, mu, at) + unknown) for f in (removing, adding))
    masses, losses = bound_fixed_size_masses_below(right, left, h), np.arange(-n, n + 1) * h
    for epsilon in (4.0, 5.0, 5.9):
        assert (masses * np.maximum(-np.expm1(epsilon - losses), 0)).sum() <= removing(q, mu, epsilon)
    for epsilon in (0.0, 0.0011, 0.2, 1.0, 2.5):
        curve = (masses * np.maximum(-np.expm1(epsilon - losses), 0)).sum()
        truth = float(removing(q, mu, epsilon))
        assert 0.995 * truth <= curve <= truth * (1 + 1e-12)
        mirrored = (masses * np.maximum(np.exp(-losses) - math.exp(epsilon), 0)).sum()
        assert mirrored <= float(adding(q, mu, epsilon)) + 1e-12


@pytest.mark.slow
def test_a_thousand_steps():
    """[13.36, 14.82] by pairs that are fixed in advance; 13.435 to 13.436 by those two chosen anew at every step."""
    joined = (RUN * STEPS).epsilon(1e-5, neighbors="replace", engine="grid")
    found = (RUN * STEPS).epsilon(1e-5, neighbors="replace")
    assert joined.lower < 13.37 and joined.upper > 14.8
    assert 13.42 < found.lower <= 13.436 <= found.upper < 13.59
    assert found.engine == "grid+fixed_size" and "adversary" in found.error_budget
    back = (RUN * STEPS).delta(found.upper, neighbors="replace")
    assert back.lower <= 1e-5 * (1 + 1e-9) and back.upper == pytest.approx(1e-5, rel=1e-2)


@pytest.mark.parametrize(("sigma", "total", "steps"), [(3.0, 33, 500), (2.0, 50, 300)])
def test_small_samples_of_much_noise_are_hardly_wider_than_two_pairs_chosen_anew(sigma, total, steps):
    """Bounds of the halves of a kernel meet at epsilon 0 without a kink that is worth a share of delta a step."""
    found = (dp.FixedSizeSampled(dp.Gaussian(sigma), 1, total) * steps).epsilon(1e-5, neighbors="replace")
    assert "fixed_size" in found.engine and found.lower < found.upper < found.lower * 1.01


def test_one_step_is_the_pair_that_attains_it():
    with mp.workdps(30):
        q, x = mp.mpf(1) / 100, mp.e ** mp.mpf("0.4")
        y = 1 + (x - 1) / q
        z = mp.log(y) / 2 + 1
        truth = q * (mp.ncdf(2 - z) - y * mp.ncdf(-z))
    bound = engine.ENGINE.delta(translate_parts_to_replacement((RUN * 2)._to_composition().parts), "remove", 0.4)
    assert float(truth) < bound.lower  # two steps cost more than one
    assert (RUN * 1).delta(0.4, neighbors="replace").upper == pytest.approx(float(truth), rel=1e-5)


@pytest.mark.slow
def test_more_steps_and_larger_samples_cost_more_and_blocks_bound_steps():
    at, runs = 1e-6, [dp.FixedSizeSampled(dp.Gaussian(2.0), size, 100) * count for size, count in
                      ((2, 40), (2, 60), (3, 60))]  # fmt: skip
    found = [run.epsilon(at, neighbors="replace") for run in runs]
    assert found[0].lower < found[1].upper and found[1].lower < found[2].upper
    assert found[0].upper < found[1].upper < found[2].upper
    h = 0.01
    whole, blocks = (_core.fixed_size_above(1.0, 0.02, *shape, 900, h, 0.5, 0.0) for shape in ((20, 1), (5, 4)))
    assert (whole[:600] <= blocks[:600] * (1 + 1e-6)).all() and blocks[300] <= whole[300] * 1.1


def test_negative_epsilons_by_symmetry():
    parts = translate_parts_to_replacement((RUN * 20)._to_composition().parts)
    for epsilon in (0.02, 0.5):
        there, here = (engine.ENGINE.delta(parts, "remove", at) for at in (epsilon, -epsilon))
        for one, other in ((there.lower, here.lower), (there.upper, here.upper)):
            assert other == pytest.approx(-math.expm1(-epsilon) + math.exp(-epsilon) * one, rel=1e-12)


@pytest.mark.slow
def test_far_beyond_the_lattice():
    run = RUN * 3
    near = run.delta(5.0, neighbors="replace")
    for epsilon in (1e3, 1e307):
        far = run.delta(epsilon, neighbors="replace")
        assert 0.0 == far.lower <= far.upper <= near.upper


@pytest.mark.parametrize(
    "run", [RUN, RUN * 10**6, RUN * 5 + dp.Gaussian(3.0), dp.FixedSizeSampled(dp.Laplace(1.0), 1, 9) * 5]
)
def test_it_refuses_what_it_has_no_bounds_for(run):
    assert engine.ENGINE.explain_refusal(translate_parts_to_replacement(run._to_composition().parts), "remove")
    assert engine.ENGINE.explain_refusal((RUN * 5)._to_composition().parts, "remove")  # of a record that is removed


def test_a_spent_budget_says_nothing_and_keeps_nothing():
    run = dp.FixedSizeSampled(dp.Gaussian(1.7), 1, 100) * 50
    parts = translate_parts_to_replacement(run._to_composition().parts)
    with _core.Budget(10**6):
        assert engine.ENGINE.epsilon(parts, "remove", 1e-5).upper == math.inf
    free = engine.ENGINE.epsilon(parts, "remove", 1e-5)
    assert 0 < free.lower < free.upper < 3
    with _core.Budget(10**6):  # what is kept now is charged all the same
        assert engine.ENGINE.epsilon(parts, "remove", 1e-5).upper == math.inf
