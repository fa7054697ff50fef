"""The least mu of Gaussian differential privacy (docs/theory/conversions.md section 15)."""

import math

import mpmath as mp
import pytest

import tightdp as dp


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_a_pure_mechanism_has_the_mu_of_its_largest_advantage(epsilon):
    """The binary trade-off curve has one corner: 2 Phi^-1(e^eps / (1 + e^eps))."""
    p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    truth = 2 * mp.sqrt(2) * mp.erfinv(2 * p - 1)
    found = dp.PureDP(epsilon).gdp()
    assert found.lower <= truth <= found.upper and found.width <= 2e-3 * truth


def test_laplace_noise_by_a_fine_search():
    """Its trade-off curve against that of N(mu, 1): the largest Phi^-1(1 - alpha) - Phi^-1(beta) over alpha."""
    b, worst = mp.mpf(2), mp.mpf(0)
    quantile = lambda x: mp.sqrt(2) * mp.erfinv(2 * x - 1)  # noqa: E731
    for i in range(1, 2000):
        alpha = mp.mpf(i) / 2000
        t = -b * mp.log(2 * alpha) if alpha < 0.5 else b * mp.log(2 * (1 - alpha))  # noise above t
        beta = mp.exp((t - 1) / b) / 2 if t < 1 else 1 - mp.exp(-(t - 1) / b) / 2
        worst = max(worst, quantile(1 - alpha) - quantile(beta))
    found = dp.Laplace(2.0).gdp()
    assert found.lower <= worst * (1 + 1e-6) and worst <= found.upper and found.width <= 2e-3 * worst


def test_gaussians_sampled_or_not_are_exact():
    for run in (dp.Gaussian(2.0) * 4, dp.PoissonSampled(dp.Gaussian(2.0), 0.01) * 4):
        for neighbors in ("add_or_remove", "add", "remove"):
            found = run.gdp(neighbors=neighbors)
            assert found.lower <= 1.0 <= found.upper and found.width < 1e-12
    assert (dp.Gaussian(2.0) * 4).gdp(neighbors="replace").upper == pytest.approx(2.0)
    found = dp.PoissonSampled(dp.Gaussian(2.0), 0.01).gdp(neighbors="replace")
    assert found.lower == pytest.approx(0.5) and found.upper == pytest.approx(1.0)
    mixed = (dp.Gaussian(2.0) * 4 + dp.PureDP(1.0)).gdp()
    assert mixed.lower * (1 + 1e-9) >= 1.0 and mixed.upper <= math.hypot(1.0, dp.PureDP(1.0).gdp().upper) * (1 + 1e-9)


def test_a_record_that_is_replaced_in_a_sample_of_fixed_size_is_in_all_samples_at_times():
    """So it has the mu of no sampling: twice the shift of one record."""
    run = dp.FixedSizeSampled(dp.Gaussian(2.0), 1, 1000) * 4
    for whole, mu in ((run, 2.0), (run + dp.Gaussian(1.0) * 3, 4.0)):
        found = whole.gdp(neighbors="replace")
        assert found.lower <= mu <= found.upper and found.width < 1e-12


FAINT = dp.FixedSizeSampled(dp.PureDP(0.01), 1, 1000)
STRONG = [
    dp.Gaussian(1.0) * 1,
    dp.PoissonSampled(dp.Gaussian(0.5), 0.2) * 3,
    dp.Gaussian(2.0).group(2),
]
SLOW = dp.Laplace(2.0) * 2, dp.BoundedRange(0.5) * 2, dp.PureDP(0.3) * 2 + dp.Gaussian(2.0)


@pytest.mark.parametrize("run", [*STRONG, *(pytest.param(run, marks=pytest.mark.slow) for run in SLOW)], ids=repr)
def test_who_sees_a_sample_of_fixed_size_besides_learns_no_less_by_any_measure(run):
    """Each answer under "replace" is that about the pairs of replacing, whatever stands beside them."""
    more, asked = run + FAINT, {"neighbors": "replace"}
    for answer in (lambda run: run.gdp(**asked), lambda run: run.advantage(**asked)):
        assert answer(more).upper >= answer(run).lower
    here, there = run.renyi([1.5, 2.0, 9.0], **asked), more.renyi([1.5, 2.0, 9.0], **asked)
    assert (there.upper >= here.lower).all() and (there.lower >= here.lower * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    ("run", "neighbors", "delta"),
    [
        (dp.PoissonSampled(dp.Gaussian(0.8), 0.02) * 200, "add_or_remove", 1e-2),
        (dp.PoissonSampled(dp.Gaussian(0.8), 0.02) * 200, "replace", 1e-6),
        (dp.Laplace(5.0) * 3 + dp.PoissonSampled(dp.PureDP(0.5), 0.1), "add_or_remove", 1e-6),
    ],
    ids=repr,
)
def test_the_curve_is_below_the_gaussian_and_touches_it(run, neighbors, delta):
    found = run.gdp(delta, neighbors=neighbors)
    assert found.lower < found.upper <= found.lower * 1.01
    above, below = dp.Gaussian(1 / found.upper), dp.Gaussian(1 / (found.lower * 0.97))
    touched, end = False, run.epsilon(delta, neighbors=neighbors).lower
    for i in range(101):
        eps = end * i / 100
        truth = run.delta(eps, neighbors=neighbors)
        assert truth.lower <= max(above.delta(eps).upper, delta)
        touched = touched or truth.lower > max(below.delta(eps).upper, delta)
    assert touched


def test_ends():
    assert dp.Composition().gdp() == dp.PureDP(0.0).gdp() == dp.Bound(0.0, 0.0, "gaussian_dp")
    failing = dp.ApproximateDP(1.0, 1e-3)
    assert failing.gdp().upper == math.inf and failing.gdp(1e-2).upper < 1.3
    assert dp.Gaussian(3.0).gdp(1e-4).upper == pytest.approx(1 / 3)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            failing.gdp(bad)
