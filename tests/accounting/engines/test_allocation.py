"""Random allocation (docs/theory/allocation.md): the law of a mean of ratios from both sides, and what follows."""

import math

import mpmath as mp
import numpy as np
import pytest
from effort import bounded
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import allocation as reference
from scipy.stats import norm

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.grid import loss_distributions
from tightdp.accounting.engines.random_allocation import allocation_atoms
from tightdp.accounting.engines.random_allocation import engine as allocation
from tightdp.accounting.engines.random_allocation import sums as allocation_sums
from tightdp.mechanisms import PrivacyLoss

DIRECTIONS = ("remove", "add")
UNDERFLOW = 1e-290
"""kUnseenMoment of cpp/src/random_allocation/ratio_mean.cpp: the mass at infinity that allows for products that
underflow."""
SIGMAS = st.floats(0.25, 20.0)


def holds(bound, truth):
    slack = abs(truth) * mp.mpf(10) ** -25  # of the reference
    return bound.lower <= truth + slack and truth - slack <= bound.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("sigma", [0.3, pytest.param(1.0, marks=pytest.mark.slow), 4.0])
@pytest.mark.parametrize("at", [2.0, *(pytest.param(at, marks=pytest.mark.slow) for at in (-0.5, 0.0, 0.25))])
def test_two_gaussian_steps_by_quadrature(sigma, at, direction):
    with mp.workdps(40):
        truth = reference.two_gaussian_steps(sigma, at, direction == "add")
        bound = dp.RandomAllocation(dp.Gaussian(sigma), 2).delta(at, neighbors=direction)
        assert holds(bound, truth)
    assert bound.width <= 1e-5 * bound.upper or bound.upper < 1e-12


@pytest.mark.slow
def test_two_gaussian_steps_far_out():
    with mp.workdps(60):
        for direction in DIRECTIONS:
            truth = reference.two_gaussian_steps(3.0, 6.0, direction == "add")
            assert truth < 1e-80
            bound = dp.RandomAllocation(dp.Gaussian(3.0), 2).delta(6.0, neighbors=direction)
            assert holds(bound, truth) and bound.width <= 1e-2 * bound.upper


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 6.0), st.integers(2, 400), st.floats(0.0, 1.0), st.sampled_from(DIRECTIONS))
def test_two_valued_ratios_exactly(epsilon, steps, where, direction):
    at = where * epsilon
    with mp.workdps(40):
        truth = reference.two_valued(epsilon, steps, at, direction == "add")
        assert holds(dp.RandomAllocation(dp.PureDP(epsilon), steps).delta(at, neighbors=direction), truth)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_valued_ratios_at_the_top_of_their_support(direction):
    with mp.workdps(40):
        assert reference.two_valued(2.0, 2, 2.0, direction == "add") == 0
    assert dp.RandomAllocation(dp.PureDP(2.0), 2).delta(2.0, neighbors=direction).lower == 0


def test_many_two_valued_ratios():
    with mp.workdps(40):
        for direction in DIRECTIONS:
            truth = reference.two_valued(2.0, 3_000, 0.1, direction == "add")
            bound = dp.RandomAllocation(dp.PureDP(2.0), 3_000).delta(0.1, neighbors=direction)
            assert holds(bound, truth) and bound.width <= 5e-3 * bound.upper


@pytest.mark.parametrize("sigma", [0.5, 1.5])
@pytest.mark.parametrize("doublings", [0, pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_core_does_what_the_plain_reference_does(sigma, doublings):
    """Not the same cells (the core moves its lattice), so bounds of the same truth, and of about the same width."""
    h, z = 2.0**-3, np.linspace(-9, 9 + 1 / sigma, 4001)
    edges = np.exp(z / sigma - 0.5 / sigma**2)
    cdf = np.array([float(mp.ncdf(x)) for x in z])
    shifted = np.array([float(mp.ncdf(x - 1 / sigma)) for x in z])
    masses, moments = np.diff(cdf), np.diff(shifted)
    points = [(float(m / w), float(w)) for w, m in zip(masses, moments, strict=True) if w > 1e-14]
    assert edges[0] < 1 < edges[-1]
    upper, lower = (reference.doubled(points, doublings, h, up) for up in (True, False))
    laws = allocation_atoms.bound_allocation_by_atoms(dp.Gaussian(sigma), 2**doublings, 3, 1e-20)
    for at in (0.1, 0.7):
        for direction in DIRECTIONS:
            high, low = (reference.delta(law, at, direction == "add") for law in (upper, lower))
            ours = laws.lower.delta(at, direction), laws.upper.delta(at, direction)
            assert low <= ours[1] * (1 + 1e-6) and ours[0] <= high * (1 + 1e-6)
            assert ours[1] - ours[0] <= 3 * (high - low) + 1e-6


def test_a_mean_of_one_is_the_mechanism():
    for inner in (dp.Gaussian(0.8), dp.Laplace(1.2), dp.PureDP(1.0), dp.DiscreteLaplace(1.0, 2)):
        laws = allocation_atoms.bound_allocation_by_atoms(inner, 1, 8, 1e-20)
        for at in (0.0, 0.4, 0.9):
            truth = inner.delta(at, neighbors="remove")
            for direction in DIRECTIONS:
                assert laws.lower.delta(at, direction) <= truth.upper
                assert truth.lower <= laws.upper.delta(at, direction) <= truth.upper * 1.001 + 1e-6


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(SIGMAS, st.integers(2, 3000), st.floats(0.0, 3.0), st.sampled_from(DIRECTIONS))
def test_between_one_poisson_step_and_fewer_steps(sigma, steps, at, direction):
    inner = dp.Gaussian(sigma)
    found = dp.RandomAllocation(inner, steps).delta(at, neighbors=direction)
    assert 0 <= found.lower <= found.upper <= 1
    assert dp.PoissonSampled(inner, 1 / steps * (1 - 1e-12)).delta(at, neighbors=direction).lower <= found.upper
    assert found.lower <= dp.RandomAllocation(inner, max(steps // 2, 1)).delta(at, neighbors=direction).upper
    assert found.lower <= inner.delta(at).upper


@settings(max_examples=8, deadline=None)
@given(SIGMAS, st.integers(2, 1000), st.floats(1e-30, 0.1))
def test_epsilon_and_delta_agree_and_renyi_does_not_contradict(sigma, steps, delta):
    run = dp.RandomAllocation(dp.Gaussian(sigma), steps)
    bound = run.epsilon(delta)
    assert run.delta(bound.upper).lower <= delta * (1 + 1e-9)
    if bound.lower > 0:
        assert run.delta(bound.lower).upper >= delta * (1 - 1e-9)
    assert bound.lower <= run.epsilon(delta, engine="renyi").upper


@settings(max_examples=10, deadline=None)
@given(SIGMAS, st.integers(2, 1000), st.floats(-1.0, 2.0))
def test_reversal(sigma, steps, at):
    """delta of (Q, P) at eps is 1 - e^eps + e^eps delta of (P, Q) at -eps."""
    run = dp.RandomAllocation(dp.Gaussian(sigma), steps)
    add, remove = run.delta(at, neighbors="add"), run.delta(-at, neighbors="remove")
    x = math.exp(at)
    assert add.lower <= 1 - x + x * remove.upper + 1e-12 * x
    assert add.upper >= 1 - x + x * remove.lower - 1e-12 * x


def test_levels_bound_the_same_truth_and_converge():
    widths = []
    for level in (5, 7, 9):
        laws = allocation_atoms.bound_allocation_by_atoms(dp.Gaussian(1.0), 300, level, 1e-20)
        low, high = allocation._solve_allocation_epsilons(laws.lower, laws.upper, "remove", 1e-6)
        widths.append((low, high))
    assert max(low for low, _ in widths) <= min(high for _, high in widths)
    gaps = [high - low for low, high in widths]
    assert gaps[1] < gaps[0] / 8 and gaps[2] < gaps[1] / 8  # of second order: 16


@pytest.mark.parametrize(
    "sigma", [1e-3, *(pytest.param(sigma, marks=pytest.mark.slow) for sigma in (0.05, 1.0, 1e3)), 1e6]
)
@pytest.mark.parametrize("steps", [2, pytest.param(1000, marks=pytest.mark.slow), 10**9])
def test_the_corners_of_the_box(sigma, steps):
    for selected in (1, 2):
        run = dp.RandomAllocation(dp.Gaussian(sigma), steps, selected)
        for delta in (1e-300, 1e-5, 0.9):
            bound, back = bounded(lambda delta=delta, run=run: (run.epsilon(delta), run.delta(1.0)))
            assert 0 <= bound.lower <= bound.upper and 0 <= back.lower <= back.upper <= 1
            assert not any(math.isnan(x) for x in (*bound.error_budget.values(), *back.error_budget.values()))


def test_one_allocation_composed_is_itself():
    run = dp.RandomAllocation(dp.Gaussian(1.0), 50)
    with_nothing = allocation._compose_allocations_by_grid(
        run._to_composition().parts, "remove", 1e-24, allocation.DEFAULT,
        lambda laws, width, points: _core.grid_epsilon(laws, 1e-6, width, points),
    )  # fmt: skip
    direct = run.epsilon(1e-6, neighbors="remove")
    assert with_nothing[0] <= direct.upper and direct.lower <= with_nothing[1]
    assert with_nothing[1] - with_nothing[0] <= 1e-3 * direct.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_epochs_lie_between_one_and_the_sum(direction):
    one = dp.RandomAllocation(dp.Gaussian(1.0), 100)
    single, several = (run.epsilon(1e-6, neighbors=direction) for run in (one, one * 4))
    assert several.width <= 1e-2 * several.upper
    assert single.upper < several.lower
    split = one.epsilon(0.25e-6, neighbors=direction)
    assert several.lower <= 4 * split.upper


def test_composed_two_valued_allocations_exactly():
    """Two epochs of two steps of randomised response: all 9 outcomes."""
    e = math.e
    ratios = [(e, 1 / (1 + e) ** 2), ((e + 1 / e) / 2, 2 * e / (1 + e) ** 2), (1 / e, (e / (1 + e)) ** 2)]
    for at in (0.0, 0.3, 0.8, 1.5):
        remove = sum(v * w * max(x * y - math.exp(at), 0) for x, v in ratios for y, w in ratios)
        add = sum(v * w * max(1 - math.exp(at) * x * y, 0) for x, v in ratios for y, w in ratios)
        for direction, truth in (("remove", remove), ("add", add)):
            bound = (dp.RandomAllocation(dp.PureDP(1.0), 2) * 2).delta(at, neighbors=direction)
            assert bound.lower <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= bound.upper


def test_beside_other_mechanisms():
    run = dp.RandomAllocation(dp.Gaussian(1.0), 100)
    alone, beside = dp.Gaussian(3.0).epsilon(1e-6), (run + dp.Gaussian(3.0) + dp.Laplace(5.0)).epsilon(1e-6)
    assert alone.lower < beside.lower <= beside.upper < alone.upper + run.epsilon(1e-6).upper + 1.0
    assert beside.width <= 1e-2 * beside.upper


@pytest.mark.parametrize(("steps", "selected"), [(4, 2), (5, 2), (6, 3), (3, 2)])
def test_several_selected_against_all_outcomes(steps, selected):
    """The ratio is the elementary symmetric polynomial over the number of choices."""
    with mp.workdps(30):
        e = mp.e
        for at in (0.0, 0.4, 1.1):
            for direction in DIRECTIONS:
                truth, x = mp.mpf(0), mp.exp(at)
                for j in range(steps + 1):
                    values = [e] * j + [1 / e] * (steps - j)
                    symmetric = [mp.mpf(1)] + [mp.mpf(0)] * selected
                    for v in values:
                        for i in range(selected, 0, -1):
                            symmetric[i] += v * symmetric[i - 1]
                    ratio = symmetric[selected] / mp.binomial(steps, selected)
                    weight = mp.binomial(steps, j) * (1 / (1 + e)) ** j * (e / (1 + e)) ** (steps - j)
                    truth += weight * max(1 - x * ratio if direction == "add" else ratio - x, 0)
                assert holds(dp.RandomAllocation(dp.PureDP(1.0), steps, selected).delta(at, neighbors=direction), truth)


@pytest.mark.parametrize(
    ("sigma", "steps", "selected"), [(1.0, 1000, 10), pytest.param(0.6, 60, 3, marks=pytest.mark.slow), (2.0, 4000, 40)]
)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_several_selected_from_below_and_above(sigma, steps, selected, direction):
    run = dp.RandomAllocation(dp.Gaussian(sigma), steps, selected)
    bound = run.epsilon(1e-5, neighbors=direction)
    assert 0.8 * bound.upper < bound.lower
    back = run.delta(0.9 * bound.lower, neighbors=direction)
    assert back.upper > 1e-5 * (1 - 1e-9) and back.lower <= back.upper


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sums_of_one_step_selected_stay_below_the_law_of_the_mean(direction):
    for sigma, steps in ((1.0, 300), (0.4, 20), (3.0, 5000)):
        laws = allocation_atoms.bound_allocation_by_atoms(dp.Gaussian(sigma), steps, 8, 1e-20)
        sums = allocation_sums.build_allocation_score_sums(sigma, steps, 1, direction)
        for at in (0.0, 0.05, 0.3, 1.0, 2.5):
            assert sums.delta(at) <= laws.upper.delta(at, direction)
        assert sums.delta(0.05) >= 0.8 * laws.lower.delta(0.05, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sums_of_all_steps_selected_are_a_gaussian(direction):
    """The score is then the loss itself."""
    for steps in (2, 30):
        sums = allocation_sums.build_allocation_score_sums(5.0, steps, steps - 1, direction)
        exact = dp.Gaussian(5.0) * steps
        fewer = dp.Gaussian(5.0) * (steps - 1)
        for at in (0.0, 0.5, 1.5):
            assert sums.delta(at) <= exact.delta(at).upper
            assert sums.delta(at) <= fewer.delta(at).upper * (1 + 1e-9)


def test_blocks_make_up_all_steps():
    for steps, selected in ((10, 3), (12, 4), (7, 7), (1000, 999), (5, 1)):
        found = allocation.divide_allocation_into_blocks(steps, selected)
        assert sum(size * number for size, number in found) == steps
        assert sum(number for _, number in found) == selected


def test_failures_of_the_inner_mechanism_stay():
    run = dp.RandomAllocation(dp.ApproximateDP(1.0, 1e-4), 50)
    bound = run.delta(0.99)
    assert bound.lower <= 1e-4 * (1 + 1e-9) and bound.upper >= 1e-4 * (1 - 1e-9)
    assert run.epsilon(0.5e-4).lower == math.inf


def test_user_defined_losses():
    # P reveals the record with probability 0.1; Q has an outcome of its own
    inner = PrivacyLoss.from_distributions([0.1, 0.5, 0.4, 0.0], [0.0, 0.3, 0.5, 0.2])
    run = dp.RandomAllocation(inner, 2)
    ratios = [(0.5 / 0.3, 0.3), (0.4 / 0.5, 0.5), (0.0, 0.2)]
    for at in (0.0, 0.2):
        x = math.exp(at)
        remove = 0.1 + sum(v * w * max(0.5 * (a + b) - x, 0) for a, v in ratios for b, w in ratios)
        add = sum(v * w * max(1 - x * 0.5 * (a + b), 0) for a, v in ratios for b, w in ratios)
        for direction, truth in (("remove", remove), ("add", add)):
            bound = run.delta(at, neighbors=direction)
            assert bound.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= bound.upper
            assert bound.width < 0.02


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_losses_known_by_bounds_of_their_distribution(direction):
    """A normal loss between two tables, allocated, against Gaussian noise."""
    loss = PrivacyLoss.from_cdf(lambda y: norm.cdf(y, 0.5, 1.0), low=-10, high=12, points=1 << 13)
    for epsilon in (-0.5, 0.0, 0.5):
        truth = dp.RandomAllocation(dp.Gaussian(1.0), 10).delta(epsilon, neighbors=direction)
        found = dp.RandomAllocation(loss, 10).delta(epsilon, neighbors=direction)
        assert found.lower <= truth.upper and truth.lower <= found.upper
        assert found.width <= 0.02 * truth.upper + 0.003


def test_refusals():
    with pytest.raises(ValueError, match="neighbors"):
        dp.RandomAllocation(dp.Gaussian(1.0), 5).epsilon(1e-5, neighbors="replace")
    with pytest.raises(ValueError, match=r"allocation.*serves compositions with RandomAllocation"):
        dp.Gaussian(1.0).epsilon(1e-5, engine="allocation")
    with pytest.raises(ValueError, match="ZCDP"):
        dp.RandomAllocation(dp.ZCDP(0.1), 5).epsilon(1e-5, engine="allocation")
    assert dp.RandomAllocation(dp.ZCDP(0.1), 5).epsilon(1e-5).upper < math.inf
    assert "allocation" in loss_distributions.explain_missing_grid_distribution(
        dp.RandomAllocation(dp.Gaussian(1.0), 5), "remove"
    )


def test_the_certificate_is_not_vacuous():
    for sigma, steps in ((0.5, 100), (1.0, 1000), (2.0, 50)):
        bound = dp.RandomAllocation(dp.Gaussian(sigma), steps).epsilon(1e-6)
        assert bound.engine.startswith("allocation") and bound.width <= 5e-4 * bound.upper
    sampled = (dp.PoissonSampled(dp.Gaussian(1.0), 1e-3) * 1000).epsilon(1e-6)
    assert dp.RandomAllocation(dp.Gaussian(1.0), 1000).epsilon(1e-6).upper < sampled.lower  # better, here


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_epochs_of_a_billion_steps_are_bounded_closely(direction):
    """Masses are off by 1e-4 in all there, which the grid engine is told."""
    bound = (dp.RandomAllocation(dp.Gaussian(1.0), 10**9) * 5).epsilon(1e-5, neighbors=direction)
    assert 0 < bound.lower <= bound.upper <= 1.1 * bound.lower


def test_nothing_is_claimed_where_the_exponential_is_no_double():
    sums = allocation_sums.build_allocation_score_sums(0.29, 42448, 330, "remove")
    assert sums.delta(701.0) == 0.0 and sums.epsilon(1e-9) <= 700.0


@pytest.mark.parametrize(
    "run",
    [
        dp.RandomAllocation(dp.DiscreteGaussian(9.0), 1000),
        dp.RandomAllocation(dp.DiscreteGaussian(0.4), 40_000, 5),
        dp.RandomAllocation(dp.Gaussian(1.8653325669576755), 133_405_507),
        dp.RandomAllocation(dp.ApproximateDP(0.0035, 1e-4), 889_455_909, 5),
        dp.RandomAllocation(dp.Gaussian(0.29), 21_224, 165) * 2,
    ],
    ids=repr,
)
def test_atoms_and_means_at_the_edge_of_the_lattice(run):
    for delta in (1e-2, 1e-9):
        bound = run.epsilon(delta)
        assert 0 <= bound.lower <= bound.upper


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_several_selected_beside_others(direction):
    """The sum of all outputs is a Gaussian's, and it is composed with what stands beside."""
    others = dp.Laplace(2.0)
    run = dp.RandomAllocation(dp.Gaussian(1.0), 100, 5) + others
    dominated = dp.Gaussian(math.sqrt(100) / 5) + others
    for eps in (1.0, 4.0, 5.0):
        known = dominated.delta(eps, neighbors=direction)
        found = run.delta(eps, neighbors=direction)
        assert known.lower * (1 - 1e-3) <= found.lower <= found.upper


@pytest.mark.parametrize("steps", [1, 2, 10, 1000])
def test_the_least_floor_is_seen_beside_what_underflows(steps):
    """Both are what an upper law has at infinity, and nothing else is: the least floor is by far the larger."""
    law = allocation_atoms.bound_allocation_by_atoms(
        dp.Gaussian(1.0), steps, allocation_atoms.COARSEST, allocation_atoms.LEAST_FLOOR
    )
    assert 100 * UNDERFLOW <= law.upper.infinity <= 4 * allocation_atoms.LEAST_FLOOR


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("epsilon", "steps", "selected", "times"), [(1.0, 10, 2, 1), (3.0, 6, 3, 1), (2.0, 5, 4, 2)])
def test_bounds_of_several_selected_hold_the_sum_over_all_outcomes(epsilon, steps, selected, times, direction):
    run = dp.RandomAllocation(dp.PureDP(epsilon), steps, selected) * times
    for at in (0.05 * epsilon, epsilon, 0.9 * times * selected * epsilon):
        exact = run.delta(at, neighbors=direction)
        assert exact.engine == "closed_form" and exact.width <= 1e-12 * exact.upper
        bound = run.delta(at, neighbors=direction, engine="allocation")
        assert bound.lower <= exact.upper and exact.lower <= bound.upper


@pytest.mark.slow
def test_the_largest_product_of_several_ratios():
    """The curve of taking part for sure, moved by the logarithm of the number of choices, is attained up to a little:
    a test that looks at the largest ratio alone was 2.3 below."""
    run = dp.RandomAllocation(dp.Gaussian(0.5), 10, 2)
    for delta in (1e-3, 1e-5, 1e-10):
        bound, sure = run.epsilon(delta, neighbors="remove"), (dp.Gaussian(0.5) * 2).epsilon(delta)
        assert bound.lower >= sure.lower - math.log(45) - 1e-12
        assert bound.width <= 0.08 * bound.upper


@pytest.mark.parametrize(("steps", "selected"), [(10, 2), (2**53 - 1, 16), (100, 99), (1000, 500), (10**9, 10**6)])
def test_the_number_of_choices_is_no_smaller(steps, selected):
    found = allocation._log_choices_of_allocation(steps, selected)
    with mp.workdps(60):
        exact = mp.loggamma(steps + 1) - mp.loggamma(selected + 1) - mp.loggamma(steps - selected + 1)
        assert exact <= found.hi <= exact + 0.5 * mp.log(7 * mp.mpf(steps))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("mechanism", "steps", "selected", "narrow"),
    [
        (dp.DiscreteLaplace(2.0, 3), 5, 2, 1e-9),
        (dp.ApproximateDP(0.5, 1e-3), 6, 3, 0.02),
        (dp.DiscreteGaussian(1.0), 3, 2, 1e-9),
    ],
)
def test_coarse_lattices_hold_the_sum_over_all_outcomes(mechanism, steps, selected, narrow, direction):
    run = dp.RandomAllocation(mechanism, steps, selected)
    for at in (0.1, 0.6, 1.3):
        exact = run.delta(at, neighbors=direction)
        assert exact.engine == "closed_form" and exact.width <= 1e-12 * exact.upper
        bound = run.delta(at, neighbors=direction, engine="allocation")
        assert bound.lower <= exact.upper and exact.lower <= bound.upper
    law = allocation_atoms.build_coarse_allocation_curve(mechanism, steps, selected, direction, 1e-14)
    for at in (0.1, 0.6, 1.3):
        exact, found = run.delta(at, neighbors=direction), law.delta(at)
        assert found.lo <= exact.upper and exact.lower <= found.hi


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_several_selected_of_laplace_noise_on_coarse_lattices(direction):
    """The lower end was that of one step, at a tenth of the upper one. Finer lattices are within coarser ones."""
    run = dp.RandomAllocation(dp.Laplace(1.0), 20, 3)
    for delta in (1e-3, 1e-5):
        bound = run.epsilon(delta, neighbors=direction)
        assert bound.width <= 0.06 * bound.upper
    fine, less = (
        allocation_atoms.build_coarse_allocation_curve(dp.Laplace(1.0), steps, 2, direction, 1e-14) for steps in (4, 5)
    )
    for at in (0.1, 0.5):
        assert fine.delta(at).lo <= fine.delta(at).hi and less.delta(at).lo <= fine.delta(at).hi


@pytest.mark.parametrize("delta", [1e-60, 1e-120, 1e-190])
def test_outputs_that_the_others_nearly_never_show(delta):
    """P shows 2 with 6.96e-85, and Q so rarely that no double holds it; the mean of two ratios is half the larger."""
    sigma = 0.05079621774341198
    found = dp.RandomAllocation(dp.DiscreteGaussian(sigma), 2).epsilon(delta, neighbors="remove")
    loss = 1.5 / sigma**2 if delta < 1e-100 else 0.5 / sigma**2
    assert found.lower <= loss - math.log(2) + 1e-9 and loss - math.log(2) - 1e-3 <= found.upper


def _of_binary_steps(eta, share, steps, selected, epsilon, direction):
    """The curve of one allocation of releases with the losses share eta and share eta - eta, by the number of ones."""
    q = (
        (1 - math.exp(share * eta - eta))
        / (math.exp(share * eta) - math.exp(share * eta - eta))
        * math.exp(share * eta)
    )
    ones, zeros = math.exp(share * eta), math.exp(share * eta - eta)  # p / q of the two outputs
    q_one = q / ones  # Q's mass of a one; P's is q
    total = 0.0
    for k in range(steps + 1):
        mean = sum(
            math.comb(k, j) * math.comb(steps - k, selected - j) * ones**j * zeros ** (selected - j)
            for j in range(max(0, selected - steps + k), min(k, selected) + 1)
        ) / math.comb(steps, selected)
        mass = math.comb(steps, k) * q_one**k * (1 - q_one) ** (steps - k)
        p, without = mass * mean, mass
        total += max(p - math.exp(epsilon) * without if direction == "remove" else without - math.exp(epsilon) * p, 0.0)
    return total


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "eta, steps, selected",
    [
        (4.5, 4, 3),
        (10.0, 5, 3),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1.0, 10, 9), (3.0, 5, 4), (6.0, 3, 2))),
    ],
)
def test_bounded_range_in_most_of_the_steps(eta, steps, selected, direction):
    """Formulas know more of the class than its pair, which no member attains: they do not contradict each other."""
    run = dp.RandomAllocation(dp.BoundedRange(eta), steps, selected)
    sure = dp.BoundedRange(eta) * selected
    for at in (-2.0, 0.0, 0.3, 1.0):
        bound = run.delta(at, neighbors=direction)
        attained = [_of_binary_steps(eta, share, steps, selected, at, direction) for share in (0.25, 0.5, 0.75)]
        assert max(attained) * (1 - 1e-12) <= bound.upper <= sure.delta(at, neighbors=direction).upper
        assert bound.lower <= sure.delta(at, neighbors=direction).upper
    assert run.epsilon(1e-5, neighbors=direction).upper <= sure.epsilon(1e-5, neighbors=direction).upper


@pytest.mark.parametrize(("sigma", "at"), [(0.05, 500.0), (0.04, 595.0)])
def test_outputs_that_the_record_nearly_never_shows(sigma, at):
    """Where P's masses are no doubles Q's may be: at least that of ratios which are both below half of e^-at."""
    with mp.workdps(40):
        mu = 1 / mp.mpf(sigma)
        least = 0.5 * mp.ncdf(mu / 2 - (at + mp.log(2)) / mu) ** 2
    run = dp.RandomAllocation(dp.Gaussian(sigma), 2)
    found = run.delta(at, neighbors="add")
    assert found.lower <= found.upper and least <= found.upper
    inverse = run.epsilon(1e-90, neighbors="add")  # no two answers that contradict each other
    assert inverse.lower <= inverse.upper


@pytest.mark.parametrize("upper", [True, False])
def test_an_atom_that_is_missing_or_counted_twice_is_seen(upper, monkeypatch):
    """Atoms from above have all of both masses, those from below no more than all."""
    whole = allocation_atoms.allocation

    def faulty(*arguments):
        above, below, work = whole(*arguments)
        losses, masses, *rest = above if upper else below
        masses = masses.copy()
        masses[np.argmax(masses)] *= 1 - 1e-5 if upper else 1 + 1e-5 + (1 - masses.sum()) / masses.max()
        changed = (losses, masses, *rest)
        return (changed, below, work) if upper else (above, changed, work)

    monkeypatch.setattr(allocation_atoms, "allocation", faulty)
    with pytest.raises(RuntimeError, match="wrong side of 1"):
        allocation_atoms.bound_allocation_by_atoms(dp.Gaussian(1.23), 7, 5, 1e-12)


@pytest.mark.parametrize(("sigma", "shift"), [(0.1, 5), (0.2, 9), (0.01, 3)])
def test_ratios_below_the_least_double_are_not_zero(sigma, shift):
    """The mass that integer noise leaves out, because it is too small for a double, is no proof of an infinite loss."""
    run = dp.RandomAllocation(dp.DiscreteGaussian(sigma, shift), 2)
    with mp.workdps(40):
        outputs = range(-3, shift + 4)
        mass = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in range(-shift - 20, shift + 21)}
        total = mp.fsum(mass.values())
        ratio = {x: mass[x - shift] / mass[x] for x in outputs}
        means = [(mass[x] * mass[y] / total**2, (ratio[x] + ratio[y]) / 2) for x in outputs for y in outputs]
        largest = shift**2 / (2 * sigma**2)
        for epsilon in (1.0, 0.9 * largest, 0.999 * largest, 1.01 * largest):
            truth = mp.fsum(q * max(0, 1 - mp.exp(epsilon) * r) for q, r in means)
            found = run.delta(epsilon, neighbors="add")
            assert found.lower <= truth * (1 + mp.mpf(10) ** -12) and found.upper >= truth * (1 - mp.mpf(10) ** -12)
        assert run.epsilon(1e-5, neighbors="add").upper <= largest
