"""The statistics of an audit against SciPy, exact binomial laws and mechanisms whose curve is known."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as some

import tightdp as dp
from tightdp import audit
from tightdp.audit.binomial import TAIL_ERROR, compute_attack_tail_probability


@given(some.integers(1, 3000), some.floats(0, 1), some.floats(1e-6, 1 - 1e-6))
@settings(max_examples=300, deadline=None)
def test_tail_is_the_sum_of_its_terms(n, part, p):
    """SciPy's errs by 3e-7 of a tail of 1e-262."""
    k = round(part * n)
    with mp.workdps(40):
        odds = mp.mpf(p) / (1 - mp.mpf(p))
        term, total = mp.binomial(n, k) * mp.mpf(p) ** k * (1 - mp.mpf(p)) ** (n - k), mp.mpf(0)
        for j in range(k, n + 1):
            total += term
            if term < 1e-20 * total:
                break
            term *= odds * (n - j) / (j + 1)
    assert compute_attack_tail_probability(k, n, p) == pytest.approx(float(total), rel=TAIL_ERROR, abs=1e-290)


def test_tail_at_many_trials_and_at_the_ends():
    n = 10**6
    for k, p in ((500_500, 0.5), (1200, 1e-3), (n, 1 - 1e-6), (n - 3, 0.999999), (3, 1e-9)):
        assert compute_attack_tail_probability(k, n, p) == pytest.approx(st.binom.sf(k - 1, n, p), rel=TAIL_ERROR)
    assert (
        compute_attack_tail_probability(0, 5, 0.3)
        == compute_attack_tail_probability(-2, 5, 0.0)
        == compute_attack_tail_probability(5, 5, 1.0)
        == 1.0
    )
    assert (
        compute_attack_tail_probability(6, 5, 0.9)
        == compute_attack_tail_probability(6, 5, 1.0)
        == compute_attack_tail_probability(1, 5, 0.0)
        == 0.0
    )


@given(some.integers(1, 5000), some.floats(0, 1), some.sampled_from([1e-9, 1e-3, 0.025, 0.4]))
@settings(max_examples=200, deadline=None)
def test_clopper_pearson(n, part, error):
    k = round(part * n)
    low, high = audit.lower_limit(k, n, error), audit.upper_limit(k, n, error)
    exact_low = 0.0 if k == 0 else st.beta.ppf(error, k, n - k + 1)
    exact_high = 1.0 if k == n else st.beta.isf(error, k + 1, n - k)
    assert low <= exact_low * (1 + 1e-12) and high >= exact_high * (1 - 1e-12)  # rounded outward
    assert low == pytest.approx(exact_low, rel=1e-6) and high == pytest.approx(exact_high, rel=1e-6)


@pytest.mark.parametrize("p", [0.003, 0.2, 0.5, 0.97])
def test_limits_cover_exactly(p):
    """The chance that a limit is on the wrong side of p, summed over the whole binomial law."""
    n, error = 60, 0.04
    law = st.binom.pmf(np.arange(n + 1), n, p)
    above = sum(law[k] for k in range(n + 1) if audit.lower_limit(k, n, error) > p)
    below = sum(law[k] for k in range(n + 1) if audit.upper_limit(k, n, error) < p)
    assert above <= error and below <= error


def gaussian_scores(mu, n, seed):
    g = np.random.default_rng(seed)
    return g.normal(mu, 1, n), g.normal(0, 1, n)


def test_the_gaussian_mechanism_from_below():
    claim = dp.Gaussian(0.5)
    found = audit.paired(*gaussian_scores(2.0, 20_000, 1), confidence=1 - 1e-6)
    assert 1.8 < found.mu() < 2.0
    assert not found.excludes(claim)
    assert found.excludes(dp.Gaussian(0.6)) and found.excludes(dp.PureDP(1.5))
    at = audit.paired(*gaussian_scores(2.0, 100_000, 2), confidence=0.95, delta=1e-5)
    assert 3.0 < at.epsilon(1e-5) <= claim.epsilon(1e-5).lower


def test_randomized_response_is_met_from_below():
    """Pure DP: the trade-off has one corner, which a fixed test sits on."""
    g, e = np.random.default_rng(0), 1.0
    p = math.exp(e) / (1 + math.exp(e))
    found = audit.paired(g.random(50_000) < p, g.random(50_000) >= p, thresholds=[0.5], confidence=0.999)
    assert 0.93 < found.epsilon(0.0) <= e
    assert not found.excludes(dp.PureDP(e)) and found.excludes(dp.PureDP(0.9))


@pytest.mark.parametrize("options", [{}, {"delta": 1e-3}, {"thresholds": [0.0, 1.0, 2.0]}])
def test_equal_laws_show_nothing_as_often_as_promised(options):
    """200 audits of a mechanism with epsilon = 0 at confidence .9: about 20 may err, Clopper-Pearson errs less."""
    errors = sum(
        audit.paired(*gaussian_scores(0.0, 60, s), confidence=0.9, **options).epsilon(0.0) > 0 for s in range(200)
    )
    assert errors <= 30  # P[Binomial(200, .1) > 30] = .01, at a fixed seed


def test_the_sense_of_the_score_does_not_matter():
    with_, without = gaussian_scores(2.0, 4000, 3)
    one, other = audit.paired(with_, without), audit.paired(-with_, -without)
    assert not other.above and one.above
    assert other.mu() == pytest.approx(one.mu(), rel=0.05)
    back = audit.paired(without, with_)
    assert back.mu() == pytest.approx(one.mu(), rel=0.1)


def test_nan_is_seen():
    g = np.random.default_rng(4)
    with_ = np.where(g.random(2000) < 0.2, np.nan, g.normal(size=2000))
    found = audit.paired(with_, g.normal(size=2000), delta=1e-5)
    assert found.epsilon(1e-5) > 3
    fixed = audit.paired(with_, np.zeros(2000), thresholds=[np.inf])
    assert fixed.power > 0.15 and fixed.level < 0.003


def test_one_direction_is_held_to_its_own_curve():
    """A test of high power and high level speaks about absence; both directions come from the same limits."""
    e = audit.Evidence(power=1.0, level=0.9, confidence=0.95, threshold=0.0)
    assert e.epsilon(0.05) == math.inf  # runs without the canary end below the threshold, runs with it never do
    assert e.excludes(dp.ApproximateDP(5.0, 0.05)) and not e.excludes(dp.ApproximateDP(5.0, 0.2))
    assert audit.Evidence(0.3, 0.4, 0.95, 0.0).epsilon(0.0) == 0.0 == audit.Evidence(0.3, 0.4, 0.95, 0.0).mu()


def test_run_pairs_takes_turns():
    seen = []
    with_, without = audit.run_pairs(lambda inside: seen.append(inside) or float(inside), 3)
    assert seen == [True, False] * 3 and with_.tolist() == [1] * 3 and without.tolist() == [0] * 3


@pytest.mark.parametrize(
    ("arguments", "options", "name"),
    [
        (([1.0], [1.0, 2.0]), {}, "scores_with"),
        (([1.0, 2.0], [[1.0, 2.0]]), {}, "scores_without"),
        (([1.0, 2.0], [1.0, 2.0]), {"confidence": 1.0}, "confidence"),
        (([1.0, 2.0], [1.0, 2.0]), {"delta": -0.1}, "delta"),
        (([1.0, 2.0], [1.0, 2.0]), {"holdout": 0.0}, "holdout"),
        (([1.0, 2.0], [1.0, 2.0]), {"thresholds": []}, "thresholds"),
        (([1.0, 2.0], [1.0, 2.0]), {"thresholds": [math.nan]}, "thresholds"),
    ],
)
def test_bad_input_of_paired(arguments, options, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        audit.paired(*arguments, **options)


def test_scores_may_be_booleans_and_nothing_that_is_no_number():
    g = np.random.default_rng(1)
    inside = g.random(500) < 0.5
    seen = inside ^ (g.random(500) < 0.1)
    number = seen.astype(float)
    assert audit.one_run(seen, inside, delta=0.0) == audit.one_run(number, inside, delta=0.0)
    yes, no = seen[inside], seen[~inside]
    assert audit.paired(yes, no, thresholds=[0.5]) == audit.paired(yes * 1.0, no * 1.0, thresholds=[0.5])
    for bad in (10**400, "text", [1j, 2j], object()):
        with pytest.raises((TypeError, ValueError), match=r"^scores must"):
            audit.one_run(bad, inside, delta=0.0)
        with pytest.raises((TypeError, ValueError), match=r"^scores_with must"):
            audit.paired(bad, no)


@pytest.mark.parametrize("limit", [audit.lower_limit, audit.upper_limit])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [((5, 3, 0.1), "successes"), ((-1, 3, 0.1), "successes"), ((1, 10**6 + 1, 0.1), "trials"), ((1, 3, 0.0), "error"),
     ((1, 3, 1.0), "error"), ((1.5, 3, 0.1), "successes"), ((1, "3", 0.1), "trials")],
)  # fmt: skip
def test_a_number_out_of_its_range_is_named(limit, arguments, name):
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be"):
        limit(*arguments)
