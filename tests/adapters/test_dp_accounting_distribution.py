"""Privacy loss distributions that we export: above the curve, near it, and read by their other users."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as dp

pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from tightdp.adapters.dp_accounting import TightDPAccountant, privacy_loss_distribution
from tightdp.adapters.dp_accounting.exported_curve import build_exported_pld_hull

DPSGD = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
RUNS = [
    (DPSGD, "add_or_remove", 1e-4),  # one part in 10,000, as the docstring says
    (dp.Gaussian(2.0) * 10, "add_or_remove", 1e-4),
    (dp.PoissonSampled(dp.Gaussian(0.7), 0.2) * 1, "add_or_remove", 1e-4),
    (dp.PoissonSampled(dp.Gaussian(0.12), 0.5) * 1, "add_or_remove", 1e-4),
    (dp.Laplace(4.0) * 3, "add_or_remove", 1e-3),
    (dp.RandomizedResponse(0.2, 4) * 3, "replace", 1e-3),
    (dp.ApproximateDP(1.0, 0.01) * 2, "add_or_remove", 3e-3),
]


def directions(run, neighbors):
    return [neighbors] if neighbors == "replace" else ["remove", "add"]


@pytest.mark.parametrize(("run", "neighbors", "excess"), RUNS)
def test_above_the_curve_at_every_epsilon(run, neighbors, excess):
    """In each direction, for any real epsilon; where it is positive above our upper end too, and near that."""
    found = privacy_loss_distribution(run, neighbors)
    pmfs = [found._pmf_remove, found._pmf_add]
    for direction, pmf in zip(directions(run, neighbors), pmfs, strict=False):
        for epsilon in (0.0, *np.random.default_rng(5).uniform(-4, 9, 60).tolist(), 25.0, 45.0, 60.0):
            bound, theirs = run.delta(epsilon, neighbors=direction), float(pmf.get_delta_for_epsilon(epsilon))
            theirs = max(theirs, -math.expm1(epsilon))
            assert theirs >= bound.lower * (1 - 1e-14)
            if epsilon >= 0:
                assert bound.upper <= theirs <= bound.upper * (1 + excess) + 1.1e-15


def test_the_hull_of_a_bound_that_is_not_convex_improves_it():
    """The upper end for zCDP is too steep at delta(0) for a privacy curve; whatever the hull is, it is a bound."""
    run = dp.ZCDP(0.1)
    found = privacy_loss_distribution(run, value_discretization_interval=0.05)
    assert found.get_delta_for_epsilon(0.0) < run.delta(0.0).upper
    for epsilon in (0.0, 0.5, 3.0):
        bound = run.delta(epsilon)
        assert bound.lower <= found.get_delta_for_epsilon(epsilon) <= bound.upper * 1.01


@pytest.mark.parametrize(("run", "neighbors", "excess"), RUNS[:2])
def test_epsilon_and_composition_of_theirs(run, neighbors, excess):
    found = privacy_loss_distribution(run, neighbors)
    for delta in (1e-3, 1e-6, 1e-9):
        for times in (1, 2):
            exact = (run * times).epsilon(delta, neighbors=neighbors).upper
            theirs = (found if times == 1 else found.self_compose(2)).get_epsilon_for_delta(delta)
            assert exact - 1e-9 <= theirs <= exact + 1e-4


def test_masses_add_up():
    for run, neighbors, _ in RUNS:
        found = privacy_loss_distribution(run, neighbors)
        for pmf in (found._pmf_remove.to_dense_pmf(), found._pmf_add.to_dense_pmf()):
            assert abs(math.fsum(pmf._probs) + pmf._infinity_mass - 1) <= 1e-9
            losses = (np.arange(pmf.size) + pmf._lower_loss) * pmf._discretization
            with np.errstate(over="ignore", invalid="ignore"):
                hidden = np.where(pmf._probs > 0, pmf._probs * np.exp(-losses), 0.0)
            assert math.fsum(hidden) <= 1 + 1e-9


@st.composite
def convex_curves(draw):
    """A pair of distributions on losses that are multiples of .25, with its exact curve."""
    n = draw(st.integers(1, 6))
    p = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), float)
    q = np.array(draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)), float)
    p[0] += 1
    return p / p.sum(), q / q.sum()


def curve(p, q, epsilon):
    return math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0))


@given(convex_curves(), st.lists(st.integers(0, 40), max_size=12), st.data())
def test_the_hull_is_above_whatever_satisfies_the_bounds(pair, where, data):
    """From exact values, and from values that were raised at random: both orders, at every epsilon."""
    p, q = pair
    interval, nodes = 0.1, sorted({0, *where})
    raised = [
        {k: min(1.0, curve(a, b, k * interval) + data.draw(st.sampled_from([0.0, 1e-3, 0.2]))) for k in nodes}
        for a, b in ((p, q), (q, p))
    ]
    for (above, below), (a, b) in ((raised, (p, q)), (raised[::-1], (q, p))):
        found = build_exported_pld_hull(above, below, interval)
        assert min(found.at.values()) >= 0
        for epsilon in np.linspace(-5, 5, 41).tolist():
            got = found.infinity + math.fsum(
                mass * -math.expm1(epsilon - k * interval) for k, mass in found.at.items() if k * interval > epsilon
            )
            assert max(got, -math.expm1(epsilon)) >= curve(a, b, epsilon) - 1e-13
            if epsilon >= 0 and round(epsilon / interval) in above and abs(epsilon % interval) < 1e-9:
                assert got <= above[round(epsilon / interval)] + 1e-9


def test_exact_points_give_back_a_distribution_on_the_grid():
    """Randomised response with e^(+-1): two losses, whose masses a hull through every point finds."""
    e = math.e
    p, q = np.array([e, 1.0]) / (1 + e), np.array([1.0, e]) / (1 + e)
    points = {k: curve(p, q, k * 0.25) for k in range(9)}
    found = build_exported_pld_hull(points, points, 0.25)
    assert found.at[4] == pytest.approx(e / (1 + e), rel=1e-12) and found.at[-4] == pytest.approx(
        1 / (1 + e), rel=1e-12
    )
    assert math.fsum(mass for k, mass in found.at.items() if abs(k) != 4) <= 1e-12 and found.infinity <= 1e-15


def test_the_accountant_exports_what_it_spent():
    from dp_accounting import NeighboringRelation, dp_event

    account = TightDPAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3).compose(dp_event.GaussianDpEvent(2.0), 3)
    found, theirs = account.privacy_loss_distribution(), from_gaussian_mechanism(2 / math.sqrt(3))
    assert found._pmf_remove._discretization == 1e-3
    for epsilon in (0.5, 1.0, 3.0):
        assert found.get_delta_for_epsilon(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-3)
    empty = TightDPAccountant().privacy_loss_distribution()
    assert empty.get_epsilon_for_delta(1e-9) == 0 and empty.get_delta_for_epsilon(1.0) == 0
    revealed = TightDPAccountant().compose(dp_event.NonPrivateDpEvent()).privacy_loss_distribution()
    assert revealed.get_delta_for_epsilon(100.0) == 1 and revealed.get_epsilon_for_delta(0.5) == math.inf


def test_bad_arguments():
    with pytest.raises(ValueError, match="neighbors must be one of 'add_or_remove', 'replace', 'replace_special'"):
        privacy_loss_distribution(DPSGD, "add")
    with pytest.raises(ValueError, match="value_discretization_interval"):
        privacy_loss_distribution(DPSGD, value_discretization_interval=0.0)
    with pytest.raises(ValueError, match="value_discretization_interval must be at least"):
        privacy_loss_distribution(dp.Gaussian(0.001))
    with pytest.raises(TypeError, match="run"):
        privacy_loss_distribution("run")


def test_riskcal_reads_it():
    """Trade-off curve, advantage and Bayes risk of riskcal beside ours, on the pessimistic side."""
    riskcal = pytest.importorskip("riskcal", reason="riskcal is not installed").analysis
    alphas = np.array([1e-6, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9])
    for run in (DPSGD, dp.Gaussian(2.0) * 3):
        found = privacy_loss_distribution(run)
        beta, exact = riskcal.get_beta_from_pld(found, alphas), run.tradeoff(alphas)
        assert np.all(beta <= exact.upper + 1e-12) and np.all(beta >= exact.lower - 1e-4)
        advantage = run.advantage()
        assert advantage.lower <= riskcal.get_advantage_from_pld(found) <= advantage.upper * (1 + 1e-4)
        risk, ours = riskcal.get_bayes_risk_from_pld(found, 0.5), run.bayes_risk(0.5)
        assert ours.lower * (1 - 1e-4) <= risk <= ours.upper
