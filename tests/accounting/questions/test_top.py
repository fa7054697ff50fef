"""Questions at the top of the support, of a single loss, and of a mass at infinity, against sums over the outcomes."""

import math

import numpy as np
import pytest
from effort import bounded

import tightdp as dp


def by_outcomes(p, q, epsilon):
    """delta = sum (p - e^epsilon q)_+, which rounds by a few parts in 1e16 of each term."""
    return math.fsum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True))


def holds(bound, truth, width):
    assert bound.lower <= truth * (1 + 1e-14) + 2e-15
    assert truth * (1 - 1e-14) - 2e-15 <= bound.upper
    assert bound.width <= width
    return True


def test_a_pair_of_equals_has_no_advantage():
    pair = dp.PrivacyLoss.from_distributions([1.0], [1.0])
    assert pair.advantage().upper <= 1e-15
    assert pair.delta(0.0).upper <= 1e-15


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_single_loss(steps):
    """delta = 1 - e^epsilon / 4^steps, where P hides three quarters of Q."""
    run = dp.PrivacyLoss.from_distributions([0.25, 0.75], [1.0, 0.0]) * steps
    top = steps * math.log(4)
    for off in (-1e-1, -1e-6, -1e-12, -4e-16, 0.0, 4e-16, 1e-12):
        e = top * (1 + off)
        assert holds(
            run.delta(e, neighbors="add"), max(-math.expm1(e - top), 0.0), 1e-6 * top * abs(off) + 2e-14 * steps
        )
    for delta in (0.01, 0.5, 0.74):
        assert holds(run.epsilon(delta, neighbors="add"), top + math.log1p(-delta), 1e-6)


@pytest.mark.parametrize("infinity", [0.0, 1e-3, 0.25])
def test_within_roundings_of_the_largest_loss(infinity):
    """What is found there is the mass at infinity, and no more than what e^-top leaves of the rest."""
    p = np.append(np.array([0.5, 0.3, 0.2, 0.0]) * (1 - infinity), infinity)
    q = np.array([0.1, 0.3, 0.35, 0.25, 0.0])
    pair = dp.PrivacyLoss.from_distributions(p, q)
    top = math.log(p[0] / q[0])
    for ulps in (-64, -8, -1, 0, 1, 8, 64):
        e = top + ulps * math.ulp(top)
        assert holds(pair.delta(e, neighbors="remove"), by_outcomes(p, q, e), 1e-13)


def test_the_largest_loss_of_a_sampled_discrete_gaussian():
    run = dp.PoissonSampled(dp.DiscreteGaussian(0.10309082475970961), 0.9779373371689631)
    # Adding a record that is there with probability q: no loss is larger than -log(1 - q).
    edge = -math.log1p(-0.9779373371689631)
    assert edge - 3.81386856387226 < 1e-14
    assert run.delta(3.81386856387226, neighbors="add").upper <= 1e-11


P = [0.0078125, 0.0546875, 0.34375, 0.59375]
Q = [0.3125, 0.21875, 0.46875, 0.0]


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 2.5, 3.0, 3.5, 3.68])
def test_losses_that_are_all_positive(epsilon):
    """Far more tilted to the left than e^-16 the estimates were roundings, and no window was far enough to the left."""
    pair = dp.PrivacyLoss.from_distributions(P, Q)
    truth = by_outcomes(Q, P, epsilon)
    assert holds(pair.delta(epsilon, neighbors="add"), truth, 1e-5 * truth + 1e-9)
    scale = 3.0
    u = np.array([math.exp(0.5 / scale), math.exp(-0.5 / scale)])  # beside binary randomised response, by outcomes
    u = u / u.sum()
    both = (pair + dp.PureDP(1 / scale)).delta(epsilon, neighbors="add")
    truth = by_outcomes(np.outer(Q, u).ravel(), np.outer(P, u[::-1]).ravel(), epsilon)
    assert holds(both, truth, 1e-4 * truth)


def test_a_trade_off_of_losses_that_are_all_positive():
    """The best test at level .01 rejects at the largest ratio of Q to P, and by chance at the next."""
    found = dp.PrivacyLoss.from_distributions(P, Q).tradeoff([0.01], neighbors="add")
    truth = 1 - Q[0] - Q[1] * (0.01 - P[0]) / P[1]
    assert found.lower[0] - 1e-12 <= truth <= found.upper[0] + 1e-12
    assert found.upper[0] - found.lower[0] < 1e-4


def test_a_mass_at_infinity_above_delta_is_seen_before_any_work():
    run = dp.PoissonSampled(dp.ApproximateDP(0.0, 6.1e-5), 0.994) + dp.PoissonSampled(dp.Gaussian(3.25e-6), 0.9925)
    found = bounded(lambda: run.epsilon(5.2e-6, neighbors="remove"), units=1e6, calls=1e4)
    assert found.lower == found.upper == math.inf
