"""Moments against their definition, conversions against exact curves."""

import math

import mpmath as mp
import numpy as np
import pytest
from effort import counted

import tightdp as dp
from tightdp.accounting.engines.renyi import engine as renyi
from tightdp.accounting.engines.renyi import poisson_moments, quadrature
from tightdp.accounting.engines.renyi.moments import bound_renyi_moment
from tightdp.accounting.pairs.replacement import ReplacedClass

ORDERS = [0.01, 0.5, 1.0, 3.7, 30.0]


def expected(atoms, c):
    return mp.log(mp.fsum(p * mp.exp(c * y) for y, p in atoms))


def binary(e):
    p = 1 / (1 + mp.exp(-mp.mpf(e)))
    return [(mp.mpf(e), p), (-mp.mpf(e), 1 - p)]


@pytest.mark.parametrize("c", ORDERS)
def test_moments_of_laws_with_formulas(c):
    with mp.workdps(50):
        for e in (1e-6, 0.3, 5.0):
            truth = expected(binary(e), c)
            assert truth <= bound_renyi_moment(dp.PureDP(e), c) <= truth * (1 + 1e-9)
            c_, mu = mp.mpf(c), 1 / mp.mpf(1 / e)
            truth = mp.log(((c_ + 1) * mp.exp(c_ * mu) + c_ * mp.exp(-(c_ + 1) * mu)) / (2 * c_ + 1))
            found = bound_renyi_moment(dp.Laplace(1 / e), c)
            assert truth <= found <= truth * (1 + 1e-9) + 1e-15
        for p, buckets in ((0.5, 2), (0.01, 7), (1.0, 3)):
            wrong = mp.mpf(p) / buckets
            right = 1 - mp.mpf(p) + wrong
            atoms = [(mp.log(right / wrong), right), (-mp.log(right / wrong), wrong), (0, (buckets - 2) * wrong)]
            truth = expected(atoms, c)
            assert (
                truth - mp.mpf(10) ** -45
                <= bound_renyi_moment(dp.RandomizedResponse(p, buckets), c)
                <= truth * (1 + 1e-9)
            )
        for p, q in (([0.55, 0.45], [0.5, 0.5]), ([0.2, 0.3, 0.5], [0.125, 0.625, 0.25]), ([0.01, 0.99], [0.5, 0.5])):
            given = dp.PrivacyLoss.from_distributions(p, q, relation="any")
            atoms = lambda p, q: [(mp.log(mp.mpf(a) / b), mp.mpf(a)) for a, b in zip(p, q, strict=True)]  # noqa: E731
            truth = max(expected(atoms(p, q), c), expected(atoms(q, p), c))
            assert truth <= bound_renyi_moment(given, c) <= truth * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("order", [2, 3, 17, 150])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 30.0])
@pytest.mark.parametrize("q", [1e-9, 0.01, 0.9])
def test_sampled_gaussian_moments_by_both_methods(order, sigma, q):
    with mp.workdps(60):
        q_, s = mp.mpf(q), mp.mpf(sigma)
        terms = (
            mp.binomial(order, j) * q_**j * (1 - q_) ** (order - j) * mp.exp(j * (j - 1) / (2 * s * s))
            for j in range(order + 1)
        )
        truth = mp.log(mp.fsum(terms))
        j = np.arange(2.0, order + 1)
        exact = poisson_moments.bound_moment_at_integer_order(j * (j - 1) / (2 * sigma * sigma) * (1 + 1e-15), q).hi
        assert truth <= exact <= truth * (1 + 1e-9)
        assert truth <= quadrature.bound_moment_above_by_quadrature(sigma, q, order - 1.0) <= truth * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize(
    ("sigma", "q", "order"), [(1.0, 0.01, 1.5), (2.0, 0.1, 10.3), (0.5, 0.2, 3.7), (1.0, 0.5, 1.01)]
)
def test_sampled_gaussian_moments_of_fractional_order(sigma, q, order):
    with mp.workdps(30):
        density = lambda u: mp.npdf(u) * (1 - q + q * mp.exp(u / sigma - 0.5 / sigma**2)) ** mp.mpf(order)  # noqa: E731
        truth = mp.log(mp.quad(density, [-mp.inf, -10, -5, 0, 5, 10, 20, 40, mp.inf]))
        assert truth <= quadrature.bound_moment_above_by_quadrature(sigma, q, order - 1) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("c", ORDERS)
def test_moments_under_add_are_no_larger(c):
    """E_Q[W^{-c}] <= E_Q[W^{c+1}] for symmetric pairs (docs/theory/conversions.md section 4)."""
    for q in (1e-3, 0.3, 0.9):
        for sigma in (0.5, 2.0):
            u = np.linspace(-30, 30, 60001)
            w = 1 - q + q * np.exp(u / sigma - 0.5 / sigma**2)
            add = np.sum(w**-c * np.exp(-u * u / 2)) * 1e-3 / math.sqrt(2 * math.pi)
            assert math.log(add) <= bound_renyi_moment(dp.PoissonSampled(dp.Gaussian(sigma), q), c) + 1e-12


def test_a_chord_bounds_the_moments_between_integers():
    for c in (0.3, 1.5, 6.25):
        chord = poisson_moments.bound_sampled_moment(lambda order: order * (order + 1) / 2, 0.1, c)
        assert chord >= quadrature.bound_moment_above_by_quadrature(1.0, 0.1, c)


EXACT = [
    dp.Gaussian(2.0) * 10,
    dp.Gaussian(1e-3) * 10**9,
    dp.Gaussian(1e6) * 1,
    dp.PureDP(0.5) * 40,
    dp.PureDP(10.0) * 10,
    dp.RandomizedResponse(0.5, 2) * 5,
    dp.ApproximateDP(0.5, 1e-9) * 40,
    dp.Laplace(1.0) * 1,
    dp.BoundedRange(1.0) * 1,
    dp.PoissonSampled(dp.Gaussian(0.7), 0.2) * 1,
    dp.PoissonSampled(dp.Laplace(0.7), 0.2) * 1,
    dp.PoissonSampled(dp.ApproximateDP(0.7, 1e-9), 0.2) * 1,
]


@pytest.mark.parametrize("run", EXACT, ids=repr)
def test_renyi_bounds_the_exact_curve(run):
    for delta in (0.3, 1e-6, 1e-200):
        upper = run.epsilon(delta, engine="renyi").upper
        exact = run.epsilon(delta)
        assert upper >= exact.lower
    for eps in (-1.0, 0.0, 0.5, 5.0):
        assert run.delta(eps, engine="renyi").upper >= run.delta(eps).lower


def test_the_conversion_is_the_optimal_one_for_zcdp():
    """delta = inf_a e^{(a-1)(a rho - eps)}/(a-1) (1-1/a)^a, minimised by brute force."""
    rho, eps = 0.05, 1.0
    a = 1 + np.geomspace(1e-2, 1e3, 200_001)
    best = np.min((a - 1) * (a * rho - eps) - np.log(a - 1) + a * np.log1p(-1 / a))
    b = dp.ZCDP(rho).delta(eps)
    assert b.upper == pytest.approx(math.exp(best), rel=1e-8) and b.engine.startswith("renyi")
    assert dp.ZCDP(rho).epsilon(b.upper).upper == pytest.approx(eps, rel=1e-8)


def test_zcdp_is_served_by_renyi_alone_and_adds():
    assert (dp.ZCDP(0.1) * 3).epsilon(1e-5).upper == pytest.approx(dp.ZCDP(0.3).epsilon(1e-5).upper)
    member = dp.Gaussian((2 * 0.02) ** -0.5) + dp.Gaussian(3.0)
    assert (dp.ZCDP(0.02) + dp.Gaussian(3.0)).epsilon(1e-5).lower == pytest.approx(member.epsilon(1e-5).lower)
    with pytest.raises(ValueError, match="engine 'closed_form' cannot serve"):
        dp.ZCDP(0.1).epsilon(1e-5, engine="closed_form")


def test_bounded_range_composes_as_zcdp_and_not_as_its_envelope():
    run, long = dp.BoundedRange(0.1) * 300, dp.BoundedRange(0.1) * 10_000
    b = run.epsilon(1e-5, engine="renyi")
    assert b.upper == pytest.approx(dp.ZCDP(300 * 0.1**2 / 8).epsilon(1e-5).upper) and b.lower == 0
    member = (dp.PureDP(0.05) * 300).epsilon(1e-5)
    assert run.epsilon(1e-5).lower == member.lower and run.epsilon(1e-5).upper <= 0.93 * b.upper
    member = (dp.PureDP(0.05) * 10_000).epsilon(1e-5)
    assert long.epsilon(1e-5).lower == member.lower and long.epsilon(1e-5).upper <= 1.1 * member.upper


@pytest.mark.parametrize("q", [0.01, 0.3, 0.9])
@pytest.mark.parametrize(("p", "r"), [(0.5, 0.2), (0.2, 0.5), (0.9, 0.6), (0.6, 0.9), (0.02, 0.01), (0.99, 0.98)])
def test_a_sample_of_an_asymmetric_member_of_zcdp_in_both_directions(p, r, q):
    """Two outcomes with probabilities p and r: both orders are bounded by the largest divergence over the order."""

    def divergence(a, x, y):
        return mp.log(x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a)) / (a - 1)

    p, r = mp.mpf(p), mp.mpf(r)
    orders = [1 + mp.mpf(2) ** (i / mp.mpf(4)) for i in range(-60, 40)]
    rho = max(divergence(a, *pair) / a for a in orders for pair in ((p, r), (r, p))) * mp.mpf("1.01")
    for c in (1, 2, 7, 30):
        ratios = [(1 - q + q * p / r, r), (1 - q + q * (1 - p) / (1 - r), 1 - r)]
        remove = mp.log(mp.fsum(mass * w ** (c + 1) for w, mass in ratios))
        add = mp.log(mp.fsum(mass * w ** (-c) for w, mass in ratios))
        assert max(remove, add) <= bound_renyi_moment(dp.PoissonSampled(dp.ZCDP(float(rho)), q), float(c))


@pytest.mark.parametrize("a", [2, mp.mpf("2.5"), 3, 7, 40])
@pytest.mark.parametrize("q", [mp.mpf(10) ** -4, mp.mpf("0.1"), mp.mpf("0.5"), mp.mpf("0.99")])
def test_the_moment_of_adding_is_below_a_mean_of_those_of_removing_at_every_ratio(a, q):
    """W^{1-a} <= (1-t) W^a + t L V^a + b (L-1), b from the derivatives at L = 1, where both sides are equal."""
    t = (2 * a - 1) * q / (3 + (2 * a - 4) * q)
    b = (1 - a) * q - (1 - t) * a * q - t * (1 - a * q)
    assert 0 <= t <= 1
    with mp.workdps(60):
        for s in (x * mp.mpf("0.25") for x in range(-160, 161)):
            ratio = mp.exp(s)
            w, v = 1 - q + q * ratio, 1 - q + q / ratio
            right = (1 - t) * w**a + t * ratio * v**a + b * (ratio - 1)
            assert w ** (1 - a) <= right * (1 + mp.mpf(10) ** -30)


def test_a_sample_of_zcdp_has_the_moments_of_a_sampled_gaussian():
    """At integer orders, where those are exact: the class contains it, so that no bound may be lower."""
    for sigma, q, c in ((1.0, 0.01, 1.0), (2.0, 0.3, 7.0), (0.7, 0.9, 31.0)):
        whole = bound_renyi_moment(dp.PoissonSampled(dp.ZCDP(0.5 / sigma**2), q), c)
        assert whole == pytest.approx(bound_renyi_moment(dp.PoissonSampled(dp.Gaussian(sigma), q), c), rel=1e-9)


def test_a_pair_without_loss_has_no_moment():
    """Replacing a record where nothing is revealed, alone and inside a sample."""
    for pair in (ReplacedClass(0.0, 0.0), ReplacedClass(0.0, 0.0, 0.3)):
        assert bound_renyi_moment(pair, 3.0) == 0.0
    assert bound_renyi_moment(ReplacedClass(1e5, 0.0), 3.0) > 1e5


SETTINGS = [
    (dp.Gaussian(1.7) * 3, lambda a: 3 * a / (2 * mp.mpf(1.7) ** 2)),
    (dp.ZCDP(0.3), lambda a: mp.mpf(0.3) * a),
    (dp.PureDP(0.8) * 2, lambda a: 2 * pure(a, mp.mpf(0.8))),
    (dp.PoissonSampled(dp.Gaussian(1.2), 0.1) * 5, lambda a: 5 * sampled_gaussian(a, mp.mpf(1.2), mp.mpf(0.1))),
    (dp.DiscreteGaussian(0.6, 2), lambda a: discrete_gaussian(a, mp.mpf(0.6), 2)),
]


def pure(a, e):
    p = 1 / (1 + mp.exp(-e))
    return mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


def sampled_gaussian(a, sigma, q):
    def density(u):
        return mp.npdf(u) * (1 - q + q * mp.exp(u / sigma - 1 / (2 * sigma**2))) ** a

    return mp.log(mp.quad(density, [-mp.inf, *range(-12, 60, 4), mp.inf])) / (a - 1)


def discrete_gaussian(a, sigma, s):
    weight = [mp.exp(-((n / sigma) ** 2) / 2) for n in range(-400, 401)]
    rest = [mp.exp(-a * ((n - s) / sigma) ** 2 / 2 - (1 - a) * (n / sigma) ** 2 / 2) for n in range(-400, 401)]
    return mp.log(mp.fsum(rest) / mp.fsum(weight)) / (a - 1)


@pytest.mark.parametrize(("run", "truth"), SETTINGS, ids=[repr(run) for run, _ in SETTINGS])
def test_renyi_divergences_hold_the_truth(run, truth):
    orders = [1.01, 1.5, 2.0, 3.0, 7.7, 20.0]
    found = run.renyi(orders)
    with mp.workdps(40):
        for order, lower, upper in zip(orders, *found, strict=True):
            exact = truth(mp.mpf(order))
            assert lower <= exact <= upper
            if not isinstance(run, dp.DiscreteGaussian):
                assert upper - lower <= 1e-9 * upper


@pytest.mark.parametrize("q", [1e-200, 2e-162, 1e-160])
@pytest.mark.parametrize("order", [1.5, 2.0])
def test_divergences_that_no_double_holds_are_bounded_all_the_same(q, order):
    """At order 2 the truth is log(1 + q^2 (E[L^2] - 1)), less than the least double or a few of them. It grows with the
    order, and the chord has the same value at order 1.5."""
    lower, upper = (end[0] for end in dp.PoissonSampled(dp.Laplace(1.0), q).renyi([order]))
    with mp.workdps(40):
        grown = mp.mpf(q) ** 2 * mp.expm1(mp.log((2 * mp.exp(1) + mp.exp(-2)) / 3))
        assert upper >= grown
        assert lower <= grown


@pytest.mark.parametrize("order", [1.0, 0.0, float("inf"), float("nan")])
def test_orders_are_above_one(order):
    with pytest.raises(ValueError, match=r"^orders must be finite real numbers in \[1\.0000000000000002, "):
        dp.Gaussian(1.0).renyi([2.0, order])


def test_renyi_divergences_of_all_relations():
    run = dp.PoissonSampled(dp.Gaussian(2.0), 0.2) * 7
    both = run.renyi([3.0], neighbors="replace")
    with mp.workdps(30):
        w = lambda u: mp.mpf("0.8") + mp.mpf("0.2") * mp.exp(u / 2 - mp.mpf(1) / 8)  # noqa: E731
        moment = mp.quad(lambda u: mp.npdf(u) * w(u) ** 3 * w(-u) ** -2, [-mp.inf, *range(-12, 24, 4), mp.inf])
        assert both.lower[0] <= 7 * mp.log(moment) / 2 <= both.upper[0] * (1 + 1e-12)
    assert both.upper[0] - both.lower[0] <= 1e-9
    fixed = (dp.FixedSizeSampled(dp.Gaussian(2.0), 2, 10) * 7).renyi([[2.0, 5.0]], neighbors="replace")
    once = (dp.PoissonSampled(dp.Gaussian(1.0), 0.2) * 7).renyi([[2.0, 5.0]], neighbors="remove")
    assert fixed.lower.shape == (1, 2) and (fixed.lower <= once.upper).all() and (fixed.upper >= once.lower).all()
    failing = (dp.ApproximateDP(0.1, 1e-9) + run).renyi([2.0])
    assert failing.lower[0] == failing.upper[0] == math.inf
    assert dp.Composition().renyi([2.0]).upper[0] == 0.0
    for bad in (1.0, 0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match="orders"):
            run.renyi(bad)


@pytest.mark.parametrize("run", [
    dp.RepeatAndSelect(dp.Gaussian(1.0), 1.79e308),
    dp.RepeatAndSelect(dp.PoissonSampled(dp.Laplace(1.0), 0.1), 1.79e308, -0.9),
    dp.RepeatAndSelect(dp.Gaussian(2.0) + dp.Laplace(1.0), 1e100, "poisson"),
])  # fmt: skip
def test_a_refusal_takes_no_search(run):
    """Whether repetitions are served follows from their run. The gain of selecting is searched for when it is asked."""
    parts = (run * 2**53).parts
    refusal, _, calls = counted(lambda: renyi.ENGINE.explain_refusal(parts, "remove"))
    assert refusal is None and calls < 2000
    assert renyi.ENGINE.explain_refusal((dp.RepeatAndSelect(dp.ApproximateDP(1.0, 0.1), 1e9) * 2).parts, "remove")
