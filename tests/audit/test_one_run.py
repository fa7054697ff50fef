"""One-run auditing: the p-value against exact laws, worst cases and the published bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats as st

import tightdp as dp
from tightdp import audit


def rate(epsilon):
    return 1 / (1 + math.exp(-epsilon))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 8.0])
def test_without_delta_it_is_the_binomial_tail(epsilon):
    for m, r, v in ((10, 10, 9), (1000, 40, 35), (1000, 1000, 700), (5, 5, 0)):
        exact = st.binom.sf(v - 1, r, rate(epsilon))
        assert exact <= audit.p_value(m, r, v, epsilon, 0.0) <= exact * (1 + 1e-6)


def test_the_delta_term_is_the_best_use_of_a_mean_number_of_failures():
    """A linear programme over joint laws of (binomial count, failures) gives the same number."""
    from scipy.optimize import linprog

    m, r, v, epsilon, delta = 30, 12, 10, 0.4, 0.02
    law = st.binom.pmf(np.arange(v), r, rate(epsilon))
    short = v - np.arange(v)
    best = linprog(-np.ones(v), A_ub=[short], b_ub=[m * delta * (1 - rate(epsilon))], bounds=[(0, x) for x in law])
    expected = st.binom.sf(v - 1, r, rate(epsilon)) - best.fun
    assert audit.p_value(m, r, v, epsilon, delta) == pytest.approx(expected, rel=1e-6)


def test_delta_one_shows_nothing_and_the_p_value_is_monotone():
    assert audit.p_value(50, 50, 50, 1.0, 1.0) == pytest.approx(1.0, abs=0.5)
    ps = [audit.p_value(500, 100, v, 1.0, 1e-4) for v in range(101)]
    assert all(a >= b for a, b in itertools.pairwise(ps))
    assert audit.p_value(500, 100, 90, 1.0, 1e-4) <= audit.p_value(500, 100, 90, 1.0, 1e-3)


def test_leaking_a_record_with_probability_delta_is_allowed_for():
    """Each canary is published with probability delta, else answered by randomised response: (epsilon, delta)-DP, with
    independent answers, so the law of right guesses is exactly binomial."""
    for m, epsilon, delta in ((200, 0.5, 0.01), (1000, 1.0, 1e-3), (50, 2.0, 0.05)):
        right = delta + (1 - delta) * rate(epsilon)
        for v in range(m // 2, m + 1):
            assert st.binom.sf(v - 1, m, right) <= audit.p_value(m, m, v, epsilon, delta)


def test_inversion():
    bound = audit.epsilon_from_guesses(1000, 200, 190, delta=1e-6, error=0.05)
    assert audit.p_value(1000, 200, 190, bound, 1e-6) <= 0.05 < audit.p_value(1000, 200, 190, bound * 1.001, 1e-6)
    assert audit.epsilon_from_guesses(1000, 200, 100, delta=1e-6, error=0.05) == 0.0
    assert 5 < audit.epsilon_from_guesses(1000, 1000, 1000, delta=0.0, error=0.05) < 6  # ln(1/(20^(1/1000)-1))


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 2.0])
def test_gaussian_canaries_stay_below_their_epsilon(noise_multiplier):
    """Orthogonal canaries in one Gaussian sum: coordinate k is the mechanism on canary k."""
    m, delta = 4000, 1e-5
    inside = dp.Philox(11).bernoulli(0.5, m)
    total = dp.clip_and_noise(np.eye(m, dtype=np.float32)[inside], 1.0, noise_multiplier, rng=dp.Philox(12))
    found = audit.one_run(total, inside, delta=delta, confidence=0.999)
    claimed = dp.Gaussian(noise_multiplier).epsilon(delta).lower
    assert 0.1 * claimed < found.epsilon < claimed


def test_halved_noise_is_caught_in_one_run():
    m, delta = 8000, 1e-6
    g = np.random.default_rng(5)
    inside = g.random(m) < 0.5
    found = audit.one_run(inside + 0.25 * g.normal(size=m), inside, delta=delta, confidence=0.99)
    assert found.epsilon > dp.Gaussian(0.25 * 8).epsilon(delta).upper


def test_abstention_and_nan():
    inside = np.arange(100) % 2 == 0
    scores = np.where(inside, 1.0, -1.0) * np.where(np.arange(100) < 20, 5.0, 0.1)
    found = audit.one_run(scores, inside, delta=0.0, guesses=20)
    assert (found.guesses, found.correct, found.canaries) == (20, 20, 100)
    assert audit.one_run(np.full(100, np.nan), inside, delta=0.0).epsilon == 0.0


def test_coins_are_fair():
    assert abs(audit.coins(10_000).sum() - 5000) < 350


@pytest.mark.parametrize(
    ("scores", "inside", "options", "name"),
    [
        ([[1.0]], [[1]], {"delta": 0.1}, "scores"),
        ([1.0, 2.0], [1], {"delta": 0.1}, "included"),
        ([1.0, 2.0], [1, 3], {"delta": 0.1}, "included"),
        ([1.0, 2.0], [1, 0], {"delta": 2.0}, "delta"),
        ([1.0, 2.0], [1, 0], {"delta": 0.1, "guesses": 3}, "guesses"),
        ([1.0, 2.0], [1, 0], {"delta": 0.1, "guesses": []}, "guesses"),
        ([1.0, 2.0], [1, 0], {"delta": 0.1, "confidence": 0.0}, "confidence"),
    ],
)
def test_bad_input(scores, inside, options, name):
    with pytest.raises(ValueError, match=name):
        audit.one_run(scores, inside, **options)
