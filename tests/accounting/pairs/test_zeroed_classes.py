"""Setting a record of a sample of fixed size to zero, for pure and approximate DP, against the curve of all events.

A mechanism without the record has some event with probability r. With the record, or with another one, its probability
is at most top(r) and at least 1 - top(1 - r), and some (e, d)-DP mechanism attains both for all r at once.
"""

import math

import numpy as np
import pytest

import tightdp as dp

LEVELS = np.linspace(0.0, 1.0, 20_001)


def top(r, epsilon, delta):
    return np.minimum(1.0, np.minimum(math.exp(epsilon) * r + delta, 1 - math.exp(-epsilon) * (1 - r - delta)))


def worst_delta(at, epsilon, delta, q):
    """delta of "remove" at ``at``; the maximum is at a corner of ``top``, and a grid of levels is below it."""
    x = math.exp(at)
    s = (1 - delta) / (1 + math.exp(epsilon))
    r = np.concatenate((LEVELS, [delta, s, 1 - s, 1 - delta]))
    with_it = q * top(r, epsilon, delta) - x * q * r
    others = top(r, epsilon, delta) if x < 1 else 1 - top(1 - r, epsilon, delta)
    return float(np.max(with_it + (1 - x) * (1 - q) * others))


def release(epsilon, delta, size=30, total=100):
    one = dp.ApproximateDP(epsilon, delta) if delta else dp.PureDP(epsilon)
    return dp.FixedSizeSampled(one, size, total)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-6, marks=pytest.mark.slow), 1e-2])
def test_a_single_release_has_the_largest_curve_of_the_class(epsilon, delta):
    run = release(epsilon, delta)
    for at in (0.0, 0.1 * epsilon, 0.7 * epsilon, 1.1 * epsilon):
        remove = worst_delta(at, epsilon, delta, 0.3)
        add = 1 - math.exp(at) + math.exp(at) * worst_delta(-at, epsilon, delta, 0.3)
        exact = max(remove, add)
        bound = run.delta(at, neighbors="replace_special")
        assert bound.lower <= exact + 1e-14 and exact - 1e-14 <= bound.upper
        assert bound.upper - bound.lower <= 1e-4 * exact + 1e-14


def convolved(pairs, at):
    """delta of several steps, from lists of (P-mass, Q-mass)."""
    p, q = np.ones(1), np.ones(1)
    for pair in pairs:
        p, q = (np.multiply.outer(a, b).ravel() for a, b in zip((p, q), np.array(pair).T, strict=True))
    return float(np.maximum(p - math.exp(at) * q, 0).sum())


@pytest.mark.parametrize("count", [2, 5])
def test_data_sets_whose_other_records_oppose_the_record_or_agree_with_it(count):
    """Three outputs, whose probabilities without the record are R; with it P, and its mirror image with the others."""
    e, q = 1.2, 0.3
    s = 1 / (1 + math.exp(e))
    r = np.array([s, 1 - 2 * s, s])
    p = r * np.exp([e, -e, -e])
    run = release(e, 0.0) * count
    for at in (0.05, 0.4, 1.0):
        bound = run.delta(at, neighbors="replace_special")
        for others in (p[::-1], p, r):
            pair = np.stack(((1 - q) * others + q * p, (1 - q) * others + q * r), 1)
            for one in (pair, pair[:, ::-1]):
                assert convolved([one] * count, at) <= bound.upper + 1e-15
        opposed = np.stack(((1 - q) * p[::-1] + q * p, (1 - q) * p[::-1] + q * r), 1)
        assert bound.lower >= convolved([opposed] * count, at) * (1 - 1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.5, 0.4), (800.0, 1e-9), (2.0, 0.119)])
def test_other_classes_keep_their_bounds(epsilon, delta):
    run = release(epsilon, delta) * 3
    special, any_record = (run.delta(0.3, neighbors=relation) for relation in ("replace_special", "replace"))
    assert 0 <= special.lower <= special.upper <= any_record.upper * (1 + 1e-9)
