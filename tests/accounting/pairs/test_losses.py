"""User-defined losses: what was said of them is all that is used, and bounds hold what it leaves open."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import tightdp as dp
from tightdp.mechanisms.loss_tables import LossTable, bound_loss_tables_from_below


def gaussian_loss(points=1 << 12, **options):
    """The loss of Gaussian(1): N(1/2, 1) under P."""
    return dp.PrivacyLoss.from_cdf(lambda y: norm.cdf(y, 0.5, 1.0), low=-10, high=12, points=points, **options)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_a_distribution_function_bounds_the_curve_on_both_sides(mirrored, direction, count):
    run = gaussian_loss(mirrored=mirrored) * count
    for epsilon in (-2.0, 0.0, 0.5, 2.0, 5.0, 8.0):
        truth = (dp.Gaussian(1.0) * count).delta(epsilon)
        found = run.delta(epsilon, neighbors=direction)
        assert found.lower <= truth.upper and truth.lower <= found.upper
        if truth.lower > 1e-4:  # neither side is vacuous: a spacing is 0.005
            assert found.lower > 0.9 * truth.lower
            assert found.upper < 1.1 * truth.upper or (direction == "add" and not mirrored)


def test_what_lies_beyond_the_arguments_is_at_infinity_for_upper_bounds_alone():
    """Where P[Y > high] is less than the errors of the function, lower bounds still must not count it."""
    loss = gaussian_loss(mirrored=True)
    for delta in (1e-14, 1e-16, 1e-100):
        truth = dp.Gaussian(1.0).epsilon(delta)
        found = loss.epsilon(delta)
        assert found.lower <= truth.upper and truth.lower <= found.upper
    cut = dp.PrivacyLoss.from_cdf(lambda y: norm.cdf(y, 0.5, 1.0), low=-1, high=2, mirrored=True)
    found, truth = cut.delta(1.0), dp.Gaussian(1.0).delta(1.0)
    assert 0.5 * truth.lower < found.lower <= truth.upper <= found.upper < truth.upper + norm.sf(1.5)


def test_a_step_function_is_randomised_response():
    def cdf(y):
        return np.where(y < -1, 0.0, np.where(y < 1, 1 / (1 + math.e), 1.0))

    loss = dp.PrivacyLoss.from_cdf(cdf, low=-2, high=2, points=4001, mirrored=True)
    for epsilon in (0.0, 0.5, 0.99):
        truth, found = dp.PureDP(1.0).delta(epsilon), loss.delta(epsilon)
        assert found.lower <= truth.upper and truth.lower <= found.upper and found.width < 2e-3
    assert loss.delta(1.1).lower == 0


def test_masses_are_taken_in_any_order_and_merged():
    p = 1 / (1 + math.exp(-1.0))
    loss = dp.PrivacyLoss.from_pmf([-1.0, 1.0, 1.0, 3.0], [1 - p, p / 2, p / 2, 0.0], minus_infinity=0.0)
    assert loss.losses == (-1.0, 1.0) and loss.probabilities == (1 - p, p)
    for direction in ("remove", "add"):
        for epsilon in (-0.5, 0.0, 0.7):
            truth = (dp.PureDP(1.0) * 3).delta(epsilon)
            found = (loss * 3).delta(epsilon, neighbors=direction)
            assert found.lower <= truth.upper * (1 + 1e-12) and truth.lower * (1 - 1e-12) <= found.upper
            assert found.width <= 1e-6 * truth.upper


def test_where_every_finite_loss_is_negative():
    """Then delta(eps) is the chance of an infinite loss for all eps >= 0, and no epsilon is negative."""
    loss = dp.PrivacyLoss.from_distributions([0.5, 0.25, 0.25], [0.6, 0.4, 0.0])
    run = dp.PoissonSampled(loss, 0.01) * 3
    chance = 1 - (1 - 0.0025) ** 3
    for delta in (1.0001 * chance, 0.01, 0.5):
        assert run.epsilon(delta, neighbors="remove").upper == 0
    assert run.epsilon(0.99 * chance, neighbors="remove").upper == math.inf


@given(
    st.dictionaries(st.integers(-3000, 3000), st.floats(1e-9, 1.0), min_size=1, max_size=12),
    st.sampled_from([0.0, 1e-12, 0.3]),
    st.floats(0.5, 1.0),
    st.floats(0.0, 0.3),
    st.floats(0.0, 0.3),
)
def test_a_pair_below_what_is_known_of_two_curves(table, infinity, share, down, up):
    """Of the losses of a pair that were moved down, or up, and of less than all of its mass."""
    y, p = (np.array(values) for values in zip(*sorted(table.items()), strict=True))
    y = y / 100
    p *= share * (1 - infinity) / p.sum()
    scale = np.sum(p * np.exp(-y))
    y = y + max(math.log(scale), 0.0)  # Q's masses add up to 1 at most
    low, high = y - down, y + up
    found = bound_loss_tables_from_below(LossTable(low, p, infinity), LossTable(high, p, 0.0), 0.0, 1e-9)
    losses, masses, q = found.losses, found.masses, found.q_masses
    assert (np.diff(losses) > 0).all() and (masses > 0).all() and found.slack <= 1e-9 + 1e-13
    assert math.fsum((*masses, infinity)) <= 1 + 1e-14 and math.fsum((*q, found.hidden)) <= 1 + 1e-9
    assert math.fsum((*masses, infinity)) > 1 - 1e-12 or math.fsum((*q, found.hidden)) > 1 - 1e-12
    for x in np.exp(np.linspace(-9, 9, 161)):
        curve = infinity + math.fsum(masses * np.maximum(1 - x * np.exp(found.slack - losses), 0.0))
        ahead = infinity + math.fsum(p * np.maximum(1 - x * np.exp(-low), 0.0))
        behind = 1 - x + math.fsum(p * np.maximum(x * np.exp(-high) - 1, 0.0))
        assert curve <= max(ahead, behind, 1 - x) + 1e-14 * (1 + x)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (TypeError, "^losses must be", lambda: dp.PrivacyLoss.from_pmf(["a"], [1.0])),
        (TypeError, "^probabilities must be", lambda: dp.PrivacyLoss.from_pmf([0.0], [True])),
        (ValueError, "^probabilities must have one entry", lambda: dp.PrivacyLoss.from_pmf([0.0, 1.0], [1.0])),
        (ValueError, "^probabilities must be", lambda: dp.PrivacyLoss.from_pmf([0.0, 1.0], [1.5, -0.5])),
        (ValueError, "add up to 1", lambda: dp.PrivacyLoss.from_pmf([0.0], [0.5])),
        (ValueError, "must be P's", lambda: dp.PrivacyLoss.from_pmf([-1.0], [1.0])),
        (ValueError, "^losses must be finite", lambda: dp.PrivacyLoss.from_pmf([math.inf], [1.0])),
        (ValueError, "^q must have one entry", lambda: dp.PrivacyLoss.from_distributions([1.0], [0.5, 0.5])),
        (ValueError, "^high must be", lambda: dp.PrivacyLoss.from_cdf(norm.cdf, low=1.0, high=1.0)),
        (ValueError, "^points must be", lambda: dp.PrivacyLoss.from_cdf(norm.cdf, low=0.0, high=1.0, points=1 << 23)),
        (ValueError, "^cdf must return one", lambda: dp.PrivacyLoss.from_cdf(lambda y: 0.5, low=0.0, high=1.0)),
        (ValueError, "^cdf must return numbers", lambda: dp.PrivacyLoss.from_cdf(lambda y: y, low=0.0, high=2.0)),
        (ValueError, "^relation must be", lambda: dp.PrivacyLoss.from_pmf([0.0], [1.0], relation="swap")),
        (TypeError, "^optimistic must be", lambda: dp.PrivacyLoss((0.0,), (1.0,), optimistic=((0.0,), (1.0,)))),
        (ValueError, "^optimistic must", lambda: dp.PrivacyLoss((0.0,), (1.0,), optimistic=((0.0,), (1.0,), 0.5))),
    ],
)
def test_what_is_no_loss_is_named(error, match, call):
    with pytest.raises(error, match=match):
        call()


@given(st.data())
def test_left_of_all_losses_the_curve_is_a_line_in_e_to_the_epsilon(data):
    """Also with mass where the other distribution has none: delta = 1 - e^epsilon Q(P > 0)^k."""
    size, count = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 4))
    p, q = (np.array(data.draw(st.lists(st.integers(1, 100), min_size=size, max_size=size)), float) for _ in "pq")
    p[0] *= data.draw(st.booleans())
    q[-1] *= data.draw(st.booleans())
    p, q = p / p.sum(), q / q.sum()
    both = (p > 0) & (q > 0)
    least = count * float(np.log(p[both] / q[both]).min()) if both.any() else 0.0
    epsilon = min(least, 0.0) - data.draw(st.floats(0.01, 5))
    bound = (dp.PrivacyLoss.from_distributions(p, q) * count).delta(epsilon, neighbors="remove")
    truth = 1 - math.exp(epsilon) * float(q[p > 0].sum()) ** count
    assert bound.lower <= truth * (1 + 1e-14) and truth <= bound.upper * (1 + 1e-14)
    assert bound.width <= 1.1e-6


def test_what_can_be_seen_of_a_pair_is_checked():
    with pytest.raises(ValueError, match=r"^mirrored must be False"):
        dp.PrivacyLoss.from_distributions([0.5, 0.5], [0.9, 0.1], mirrored=True)
    assert dp.PrivacyLoss.from_distributions([0.7, 0.3], [0.3, 0.7], mirrored=True).symmetric
    table = dp.PrivacyLoss.from_distributions([0.7, 0.3], [0.3, 0.7])
    half = (math.log(2.0), -math.log(2.0)), (2 / 3, 1 / 3)
    ascending = tuple(y[::-1] for y in half)
    dp.PrivacyLoss(table.losses, table.probabilities, optimistic=(*ascending, 0.0))
    with pytest.raises(ValueError, match=r"^optimistic must be a pair that"):
        dp.PrivacyLoss(*ascending, optimistic=(table.losses, table.probabilities, 0.0))


@given(st.integers(0, 2**32 - 1))
def test_what_is_left_of_q_is_rounded_up(seed):
    """Against fractions of the numbers that were given, and fifty digits of e^-loss."""
    rng = np.random.default_rng(seed)
    losses, p = rng.uniform(-3, 8, 6), rng.dirichlet(np.ones(6))
    scale = float(np.sum(p * np.exp(-losses))) * float(rng.choice([1.0, 1.5]))
    losses += max(math.log(scale), 0.0)
    found = dp.PrivacyLoss.from_pmf(losses, p).minus_infinity
    with localcontext(Context(prec=50)):
        kept = sum(Decimal(float(x)) * (-Decimal(float(y))).exp() for y, x in zip(losses, p, strict=True))
        assert 0 <= Decimal(found) - max(1 - kept, Decimal(0)) < Decimal("1e-13")
