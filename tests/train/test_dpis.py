"""DPIS: inclusion probabilities and weights, hand-made accounts, and why the printed charges are too small."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import tightdp as dp
from tightdp.algorithms.building_blocks.algorithm import build_algorithm_release
from tightdp.algorithms.dpis import DPISEpochSettings, build_dpis_sum_query
from tightdp.train import DPIS, CallableModel, LogisticRegression, Oracle, Public, Records, Target


def vectors(X):
    """An oracle whose gradients are the features themselves."""
    model = CallableModel(X.shape[1], lambda w, x, y: x)
    return Oracle(model, Records(X, np.zeros(len(X), dtype=np.intp)), Public(len(X), model.size))


def released(X, times, seed=0, **options):
    oracle, source = vectors(X), dp.Philox(seed)
    query = build_dpis_sum_query(oracle, np.zeros(X.shape[1]), 1.0, 0.3, 2.0, 0.1, refresh=False, **options)
    return np.array([query.evaluate(source) * query.grid for _ in range(times)])


def test_it_is_charged_what_it_released(blobs):
    algorithm = DPIS(150, 2, norm_share=0.5, noise_multiplier=1.5)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    step = dp.PoissonSampled(dp.Gaussian(1.5), 150 / (0.5 * 1500))
    assert clf.history_ == (step,) * 20 and clf.charged_ == step * 20
    assert clf.privacy_ == (step * 20).epsilon(1e-5)


def test_adaptive_clipping_is_charged_for_every_sum_of_norms(blobs):
    algorithm = DPIS(150, 3, noise_multiplier=1.5, norm_noise=20.0, adapt=1.0)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    step = dp.PoissonSampled(dp.Gaussian(1.5), 0.2)
    assert clf.history_ == ((step,) * 10 + (dp.Gaussian(20.0),)) * 2 + (step,) * 10
    assert clf.charged_ == step * 30 + dp.Gaussian(20.0) * 2


@pytest.mark.parametrize("adapt", [None, 0.8])
def test_a_released_share_stays_below_the_filters_cap_and_uses_it_up(blobs, adapt):
    algorithm = DPIS(30, 4, norm_share=None, adapt=adapt, reserve=0.5, norm_noise=50.0)
    clf = LogisticRegression(algorithm, epsilon=1.0, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    assert clf.privacy_.upper == pytest.approx(1.0) and clf.privacy_.upper <= 1.0
    by_hand = sum(clf.history_[1:], clf.history_[0])
    # what the releases would cost had they been fixed in advance: less, but not by much, than what was charged
    assert 0.75 < by_hand.epsilon(1e-5).lower < 1.0
    assert clf.history_.count(dp.Gaussian(50.0)) == (4 if adapt is None else 7)


def test_the_noise_falls_with_the_released_share(blobs):
    """sigma = noise multiplier * share; as the gradients shrink it goes down."""
    algorithm = DPIS(30, 4, norm_share=None, reserve=0.0, norm_noise=100.0)
    history = (
        LogisticRegression(algorithm, epsilon=1.0, delta=1e-5, public_size=1500, random_state=0).fit(*blobs).history_
    )
    steps = [m for m in history if isinstance(m, dp.PoissonSampled)]
    for m in steps:
        share = 30 / (1500 * m.sampling_probability)
        assert share * (1 + 1e-12) >= 5 * 30 / 1500 and share <= 1
    sigmas = [m.mechanism.noise_multiplier * 30 / (1500 * m.sampling_probability) for m in steps[::50]]
    assert sigmas[-1] < sigmas[0]


def test_inclusion_is_in_proportion_to_the_clipped_norm_and_contributions_have_norm_max_norm():
    norms = np.array([0.0, 0.05, 0.3, 0.8, 1.0, 7.0])
    X = np.diag(norms)
    draws = released(X, 6000)
    assert set(np.round(np.unique(draws), 4)) <= {0.0, 1.0}  # up to what rounding leaves off
    expected = 0.3 * np.minimum(norms, 1.0)
    error = np.sqrt(expected * (1 - expected) / len(draws))
    assert (abs(draws.mean(axis=0) - expected) <= 4.5 * error + 1e-9).all()
    assert (draws.mean(axis=0) <= 0.3 + 4.5 * error).all()


def test_a_norm_that_grew_beyond_reach_is_never_taken_more_often_than_charged():
    """Remembered bounds that are far too small, then far too large."""
    oracle, source = vectors(np.array([[5.0]])), dp.Philox(3)
    query = build_dpis_sum_query(oracle, np.zeros(1), 1.0, 0.3, 2.0, 0.1, refresh=False)
    for hat, probability in ((0.2, 0.3 * 0.2), (2.0, 0.3), (50.0, 1.0 / 50.0)):
        taken = 0
        for _ in range(4000):
            oracle.state["norm bounds"] = np.array([hat])
            taken += query.evaluate(source)[0] * query.grid
        assert abs(taken / 4000 - probability) < 4.5 * math.sqrt(probability / 4000) + query.grid
        assert probability <= 0.3


def test_the_estimate_is_unbiased_and_dpsgd_of_equal_cost_has_less_variance():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3)) * rng.uniform(0.05, 0.8, (300, 1))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    oracle, source = vectors(X), dp.Philox(0)
    w, trials = np.zeros(3), 3000
    importance = build_dpis_sum_query(oracle, w, 1.0, 0.3, 2.0, 0.1, refresh=False)
    plain = oracle.gradient_sum_query(w, 1.0, sampling_probability=0.3)
    draws = [np.array([q.evaluate(source) * q.grid for _ in range(trials)]) / (0.3 * 300) for q in (importance, plain)]
    for d in draws:  # what truncation takes off is far below the error of the mean
        assert (abs(d.mean(axis=0) - X.mean(axis=0)) < 4.5 * d.std(axis=0) / math.sqrt(trials)).all()
    norms = np.linalg.norm(X, axis=1)
    exact = [((0.3 * norms - 0.09 * norms**2).sum()) / 90**2, (0.21 * norms**2).sum() / 90**2]
    assert exact[1] < exact[0]
    for d, e in zip(draws, exact, strict=True):
        assert d.var(axis=0).sum() == pytest.approx(e, rel=0.1)


def hockey_stick(q, mean, deviation, epsilon):
    """delta of (1-q) N(0, s^2) + q N(mean, s^2) against N(0, s^2), by quadrature."""

    def excess(x):
        p = (1 - q) * norm.pdf(x, 0, deviation) + q * norm.pdf(x, mean, deviation)
        return max(0.0, p - math.exp(epsilon) * norm.pdf(x, 0, deviation))

    crossing = mean / 2 + deviation**2 / mean * math.log1p((math.exp(epsilon) - 1) / q)
    return quad(excess, crossing, max(crossing, mean) + 12 * deviation, limit=200, epsabs=0)[0]


def test_a_mixture_with_smaller_probability_or_weight_is_dominated():
    """Section 3: the pair of the charge has the largest delta among p <= q, |v| <= max_norm."""
    for epsilon in (0.1, 1.0, 3.0):
        charged = hockey_stick(0.1, 1.0, 0.8, epsilon)
        assert dp.PoissonSampled(dp.Gaussian(0.8), 0.1).delta(epsilon, neighbors="remove").upper >= charged * (1 - 1e-9)
        for q, mean in ((0.1, 0.5), (0.03, 1.0), (0.01, 0.2)):
            assert hockey_stick(q, mean, 0.8, epsilon) <= charged


def test_the_printed_weight_is_not_private():
    """The cap min(k b g / K, 1) in the divisor inflates a contribution up to k times (N/b = 10, k = 5)."""
    sigma, k, epsilon = 0.6, 5.0, 1.0
    share = 0.1  # K near b C = N C / 10: the printed multiplier is sigma N C / K
    claimed = dp.PoissonSampled(dp.Gaussian(sigma / share), 1.0 - 1e-9).delta(epsilon).upper
    # The cap binds at candidates: q_t p_t = |g| / (k |g_old|) = 1/k where b |g| / K = 1: the weight is k times larger.
    true = hockey_stick(1 / k, k, sigma / share, epsilon)
    assert claimed < 1e-9 and true > 1e-4
    weight = released(np.array([[5.0]]), 500)
    assert weight.max() <= 1.0


def test_the_printed_noise_of_the_sum_of_norms_is_too_small():
    """K' = (1/p) sum over a sample + N(0, sigma^2 C^2): sensitivity C/p, so the multiplier is sigma p, not sigma."""
    p, sigma, order = 32 / 25000, 500.0, 8

    def renyi(q, multiplier):
        terms = [
            math.comb(order, m) * (1 - q) ** (order - m) * q**m * math.exp((m * m - m) / (2 * multiplier**2))
            for m in range(order + 1)
        ]
        return math.log(math.fsum(terms)) / (order - 1)

    claimed, true = renyi(p, sigma), renyi(p, sigma * p)
    assert claimed < 1e-10 < 1.0 < true


def test_a_larger_sum_of_norms_is_not_a_safe_worst_case():
    """(q, sigma) = (.01, 1) at K = N C against (.05, 5) at K = N C / 5: the latter has the larger delta(0)."""
    largest, smaller = (dp.PoissonSampled(dp.Gaussian(s), q).delta(0.0) for q, s in ((0.01, 1.0), (0.05, 5.0)))
    assert largest.upper < smaller.lower
    assert smaller.lower == pytest.approx(0.05 * (2 * norm.cdf(0.1) - 1), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm_share": 0.0}, "norm_share"),
        ({"norm_share": 1.5}, "norm_share"),
        ({"reach": 0.5}, "reach"),
        ({"floor": 0.0}, "floor"),
        ({"adapt": -1.0}, "adapt"),
        ({"epochs": 0}, "epochs"),
        ({"norm_noise": 0.0}, "norm_noise"),
        ({"norm_share": None, "noise_multiplier": 1.0}, "noise_multiplier must be left out"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        DPIS(**settings)


def test_a_released_share_needs_a_target(blobs):
    with pytest.raises(ValueError, match="epsilon must be given where norm_share is None"):
        LogisticRegression(DPIS(norm_share=None), delta=1e-5, public_size=1500).fit(*blobs)


def test_sums_of_norms_that_take_everything_are_refused(blobs):
    with pytest.raises(ValueError):
        LogisticRegression(
            DPIS(100, 2, norm_share=None, norm_noise=0.5), epsilon=0.1, delta=1e-5, public_size=1500
        ).fit(*blobs)


@pytest.mark.parametrize("settings", [{"norm_share": None, "norm_noise": 2.0}, {"adapt": 1.0, "norm_noise": 2.0}])
@pytest.mark.parametrize("public_size", [None, 1, 100, 10**6])
def test_norms_that_take_all_of_epsilon_are_refused_by_name(settings, public_size):
    clf = LogisticRegression(DPIS(epochs=2, **settings), epsilon=1.0, delta=1e-5, public_size=public_size)
    with pytest.raises(ValueError, match=r"^norm_noise must be larger, or epochs fewer"):
        clf.fit(np.zeros((100, 2)), np.arange(100) % 2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("adapt", [None, 1.0])
@pytest.mark.parametrize("norm_share", [None, 0.5])
@pytest.mark.parametrize("records", [10, 1000, 10**6])
def test_sums_of_norms_take_at_most_half_of_epsilon_by_default(epsilon, adapt, norm_share, records):
    settings, target = DPIS(epochs=4, adapt=adapt, norm_share=norm_share), Target(epsilon, 1e-5)
    run = DPISEpochSettings(settings, Public(records, 5), target)
    assert settings.norm_sum_count == (3 if adapt else 0) + (0 if norm_share else 4)
    assert run.dpis_norm_releases.epsilon(1e-5).upper <= epsilon / 2 * (1 + 1e-9)
    assert run.norm_noise >= 0.02 * records
    if settings.norm_sum_count and 0.02 * records < run.norm_noise:  # the largest noise of the two: no less would do
        less = DPISEpochSettings(replace(settings, norm_noise=run.norm_noise / 1.3), Public(records, 5), target)
        assert less.dpis_norm_releases.epsilon(1e-5).lower > epsilon / 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("settings", [{"adapt": 1.0}, {"norm_noise": 3000.0}, {"reserve": 0.0}])
@pytest.mark.parametrize("records", [10, 1000, 10**6])
def test_every_epoch_has_a_plan_whatever_is_released(records, settings, epsilon):
    """Shares of norms from none to all, in orders that steer the noise up and down; 100 is as if all numbers were."""
    algorithm = DPIS(epochs=4, norm_share=None, **settings)
    for most in (None, 100.0 / epsilon):
        for shares in ((1.0, 0.01, 0.0, 1.0), (-1.0, 1.0, 0.3, 0.02)):
            run = DPISEpochSettings(algorithm, Public(records, 5), Target(epsilon, 1e-5), most)
            budget = run.make_dpis_filter(algorithm.compute_steps(run.public, run.target))
            for epoch, share in enumerate(shares):
                budget.spend(dp.Gaussian(run.norm_noise), 2 if settings.get("adapt") and epoch else 1)
                chosen, noise = run.choose_dpis_share_and_noise(budget, epoch, share * records, 1.0)
                assert min(share, 1.0) <= chosen <= 1 and noise <= run.largest_noise
                budget.spend(build_algorithm_release(noise, run.compute_sampling_probability(chosen)), run.steps)
