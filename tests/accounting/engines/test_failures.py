"""epsilon where delta is the chance of an infinite loss, to the last digit."""

import math
from fractions import Fraction

import pytest

import tightdp as dp


def failure(*deltas):
    return 1 - math.prod(1 - Fraction(d) for d in deltas)


@pytest.mark.parametrize(
    ("run", "deltas", "losses"),
    [
        (dp.ApproximateDP(1, 0.1) + dp.ApproximateDP(2, 0.2), [0.1, 0.2], 3.0),
        (dp.ApproximateDP(1, 0.5) * 3, [0.5] * 3, 3.0),
        (dp.ApproximateDP(1, 0.5) * 2 + dp.Laplace(2.0), [0.5, 0.5], 2.5),
        (dp.ApproximateDP(0, 0.25) + dp.Laplace(2.0), [0.25], 0.5),
        (dp.ApproximateDP(0.3, 0.3) + dp.PureDP(1), [0.3], 1.3),
        (dp.ApproximateDP(1, 0.1) * 2, [0.1, 0.1], 2.0),
        (dp.ApproximateDP(0.1, 1e-3) * 40 + dp.ApproximateDP(0.2, 1e-4) * 7, [1e-3] * 40 + [1e-4] * 7, 5.4),
    ],
)
def test_the_largest_finite_loss_is_enough(run, deltas, losses):
    exact = failure(*deltas)
    at = float(exact)
    for delta in (math.nextafter(at, 0.0), at, math.nextafter(at, 1.0)):
        found = run.epsilon(delta)
        if Fraction(delta) >= exact:
            assert found.lower <= losses and losses * (1 - 1e-3) <= found.upper <= losses * (1 + 1e-12)
        else:
            assert found.upper == math.inf


def test_a_tie_of_decimals():
    """The doubles next to .1, .2 and .28 are in this order."""
    assert failure(0.1, 0.2) < Fraction(0.28)
    assert (dp.ApproximateDP(1, 0.1) + dp.ApproximateDP(2, 0.2)).epsilon(0.28).upper == pytest.approx(3.0)
