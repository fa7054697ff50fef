"""AdaCliP: what it releases, how it learns variances, and why the printed conventions are not private."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exactly import within
from scipy.stats import norm

import tightdp as dp
from tightdp.algorithms.adaclip import AdaCliPMoments, estimate_adaclip_variance
from tightdp.models.linear import Multinomial
from tightdp.release_gate.budget import Target
from tightdp.train import (
    SGD,
    AdaCliP,
    CallableModel,
    LinearModel,
    LinearSVC,
    LogisticRegression,
    Oracle,
    Public,
    Records,
)


def test_it_is_charged_what_it_released(blobs):
    clf = LogisticRegression(AdaCliP(150, 2, noise_multiplier=1.5), delta=1e-5, public_size=1500, random_state=0).fit(
        *blobs
    )
    step = dp.PoissonSampled(dp.Gaussian(1.5), 0.1)
    assert clf.history_ == (step,) * 20 and clf.charged_ == step * 20
    assert clf.privacy_ == (step * 20).epsilon(1e-5)


def test_a_target_is_met_and_used_up(blobs):
    clf = LinearSVC(AdaCliP(150, 2), epsilon=0.7, delta=1e-5, random_state=0).fit(*blobs)
    assert 0.69 < clf.privacy_.lower <= clf.privacy_.upper <= 0.7


def test_a_linear_model_agrees_with_gradients_that_are_formed(blobs):
    """The ghost form against the fused kernel over rows r x^T, through a whole run with the same coins and noise."""
    X, y = blobs
    linear = LinearModel(4, Multinomial(2))

    def rows(w, x, targets):
        ones = np.column_stack([x, np.ones(len(x))])
        r = linear.loss.differentiate_by_scores(linear.compute_scores(w, x), targets)
        return (r[:, :, None] * ones[:, None, :]).reshape(len(x), -1)

    fits = []
    for model in (linear, CallableModel(linear.size, rows)):

        class Fixed(LogisticRegression):
            def _build_estimator_model(self, features, classes=2, model=model):
                return model

        fits.append(
            Fixed(
                AdaCliP(100, 3, noise_multiplier=1.0, optimizer=SGD()), delta=1e-5, public_size=len(X), random_state=1
            )
            .fit(X, y)
            ._w
        )
    # Formed rows are rounded as wholes, outer products factor by factor: each step differs by some 2^-18 of the bound.
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-5, atol=1e-6)


def test_moments_by_hand():
    settings = AdaCliP(10, 1, h1=0.01, h2=4.0, beta1=0.75, beta2=0.5, gamma=2.0)
    moments = AdaCliPMoments(settings, 2, 10, q=0.2, noise=3.0)
    s = (0.01 * 4.0) ** 0.25
    b = math.sqrt(s * 2 * s / 2)
    np.testing.assert_allclose(moments.gradient_scale, [b, b])
    released = np.array([5.0, -20.0])
    g = moments.learn_adaclip_moments(released)
    np.testing.assert_allclose(g, released / 10)
    np.testing.assert_allclose(moments.center, 0.25 * g)
    variance = 0.5 * 0.2 + 0.5 * (g**2 - (b * 3 / 10) ** 2) * 10 / 0.8
    deviation = np.sqrt(np.clip(variance, 0.01, 4.0))
    np.testing.assert_allclose(moments.gradient_scale, np.sqrt(deviation * deviation.sum() / 2))


def test_debiasing_finds_the_variance_of_one_record_and_the_printed_one_does_not():
    rng = np.random.default_rng(5)
    n, q, noise, b = 400, 0.1, 1.2, 0.9
    records = rng.normal(0.3, 0.2, n)
    m, expected, trials = records.mean(), 0.1 * n, 40000
    sums = (rng.random((trials, n)) < q) @ ((records - m) / b)
    estimates = m + b * (sums + noise * rng.normal(size=trials)) / expected
    found = estimate_adaclip_variance((estimates - m) ** 2, np.array(b), noise, expected, q)
    standard_error = found.std() / math.sqrt(trials)
    assert abs(found.mean() - records.var()) < 4 * standard_error < 0.01
    printed = (estimates - m) ** 2 - (b * noise) ** 2
    assert printed.mean() < -1.0


def test_the_optimal_scale_has_the_least_noise():
    """Theorem 1: among scales with E|(g - m)/b|^2 = gamma, |b| is least for b ~ sqrt(s)."""
    rng = np.random.default_rng(0)
    settings = AdaCliP(1, 1, h1=1e-9, h2=1e9, gamma=0.7)
    moments = AdaCliPMoments(settings, 6, 1, 0.1, 1.0)
    moments.variance = variance = rng.uniform(0.1, 5, 6)
    best = moments.gradient_scale
    assert (variance / best**2).sum() == pytest.approx(0.7)
    for _ in range(200):
        other = best * np.exp(0.3 * rng.normal(size=6))
        other *= math.sqrt((variance / other**2).sum() / 0.7)
        assert (other**2).sum() >= (best**2).sum() * (1 - 1e-12)


def test_one_record_moves_a_release_by_at_most_one():
    rng = np.random.default_rng(2)
    model = LinearModel(3, Multinomial(3))
    X, y = rng.normal(size=(1, 3)), np.array([1])
    for scale in (0.01, 1.0, 100.0):
        oracle = Oracle(model, Records(X, y), Public(1, model.size))
        center, scales = rng.normal(size=model.size), scale * rng.uniform(0.1, 1, model.size)
        query = oracle.gradient_sum_query(rng.normal(size=model.size), 1.0, center=center, scale=scales)
        moved = query.evaluate(None)
        assert within(moved, query, query.scale)
        if scale < 100:  # else nothing is clipped
            assert np.linalg.norm(moved * query.grid / scales) > 0.99


def test_noise_per_example_on_poisson_batches_is_not_private():
    """Printed: each taken record brings its own noise. Two neighbours: no record, and one. Without it the release is
    exactly 0; with it, it is 0 with probability 1 - q alone: delta >= q at every epsilon."""
    q, sigma, epsilon = 0.05, 2.0, 5.0
    claimed = (dp.PoissonSampled(dp.Gaussian(sigma), q)).delta(epsilon).upper
    true = q  # of the event "not exactly zero", which has probability 0 without the record
    assert claimed < 1e-4 < true


def test_the_printed_lemma_claims_too_little():
    """Lemma 1 claims delta = 4/5 exp(-(sigma epsilon)^2 / 2)."""
    sigma, epsilon = 0.3, 0.9
    true = norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)
    assert 0.8 * math.exp(-((sigma * epsilon) ** 2) / 2) < true
    assert dp.Gaussian(sigma).delta(epsilon).upper >= true - 1e-12


def test_equal_bounds_are_dpsgd_with_a_centre():
    moments = AdaCliPMoments(AdaCliP(1, 1, h1=0.25, h2=0.25), 9, 1, 0.1, 1.0)
    np.testing.assert_allclose(moments.gradient_scale, 0.5 * 3)
    moments.learn_adaclip_moments(np.ones(9))
    np.testing.assert_allclose(moments.gradient_scale, 0.5 * 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"h1": 0.0}, "h1"),
        ({"h1": 1.0, "h2": 0.5}, "h1 must be at most h2"),
        ({"beta1": 1.0}, "beta1"),
        ({"beta2": -0.1}, "beta2"),
        ({"gamma": 0}, "gamma"),
        ({"batch_size": math.nan}, "batch_size"),
        ({"noise_multiplier": 0}, "noise_multiplier"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        AdaCliP(**settings)


def test_a_batch_above_the_noisy_count_is_the_largest_that_there_is_a_plan_for(blobs, tmp_path):
    """The charge comes before the count, so that no count may be one that there is no plan for."""
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5, dataset="blobs", failure=1e-6)
    fitted = LogisticRegression(AdaCliP(2000, 5), 1.0, 1e-6, ledger=ledger, random_state=0).fit(*blobs)
    size = fitted.public_size_
    assert size < 2000 and fitted.statement_.settings["sampling_probability"] == repr((size - 1) / size)
    assert fitted.score(*blobs) > 0.9 and len(ledger.history) == 1


@pytest.mark.parametrize(("records", "q"), [(1, 0.5), (2, 0.5), (3, 2 / 3), (1500, 1499 / 1500)])
def test_every_number_of_records_has_a_batch(records, q):
    public = Public(records, 3, 0.0, None)
    assert (
        AdaCliP(10**9, noise_multiplier=1.0)
        .compute_steps(public, Target.from_arguments(None, 1e-5))
        .sampling_probability
        == q
    )


def test_it_learns_with_any_optimiser(blobs):
    from tightdp.train import Adam

    for optimizer in (SGD(1.0), SGD(0.2, 0.9), Adam(0.05)):
        algorithm = AdaCliP(100, 5, h1=1e-3, h2=1e-1, noise_multiplier=0.6, optimizer=optimizer)
        assert (
            LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(*blobs).score(*blobs) > 0.97
        )
