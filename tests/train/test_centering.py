"""Centred features: one more release, smaller gradients, the same model in the end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from budgets import Unlimited
from exactly import within

import tightdp as dp
from tightdp.algorithms.building_blocks.centering import (
    build_descent_on_centered_features,
    can_center_features,
    compute_centering_noise,
)
from tightdp.models.linear import Logistic, Multinomial
from tightdp.train import DPSGD, CallableModel, Gate, LinearModel, LogisticRegression, NoisyGD, Oracle, Public, Records


def test_the_account_by_hand(blobs):
    clf = LogisticRegression(
        NoisyGD(steps=16, noise_multiplier=20.0, center=0.2), delta=1e-5, public_size=1500, random_state=0
    ).fit(*blobs)
    mean = dp.Gaussian(20 / 4 * 2)  # a fifth of mu^2 beside (4/20)^2
    assert clf.history_ == (mean, *[dp.Gaussian(20.0)] * 16)
    assert clf.charged_ == mean + dp.Gaussian(20.0) * 16
    total = dp.Gaussian(20 / 4 * np.sqrt(0.8)).epsilon(1e-5)
    assert clf.privacy_.upper == pytest.approx(total.upper, rel=1e-9)


def test_dpsgd_by_hand(blobs):
    clf = LogisticRegression(
        DPSGD(batch_size=150, epochs=2, noise_multiplier=1.5, center=0.5), delta=1e-5, public_size=1500, random_state=0
    ).fit(*blobs)
    mean = dp.Gaussian(1.5 / (0.1 * np.sqrt(20)))
    assert clf.charged_ == mean + dp.PoissonSampled(dp.Gaussian(1.5), 0.1) * 20
    assert clf.history_[0] == mean and clf.n_iter_ == 21


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_the_parameters_are_for_the_features_as_they_were(loss, still):
    g = np.random.default_rng(0)
    X, y = 0.4 * g.uniform(size=(50, 3)), g.integers(0, 2, 50)
    model = LinearModel(3, loss)
    oracle = Oracle(model, Records(X, y), Public(50, model.size, 0.0, model))
    w = g.normal(size=model.size)
    seen = {}

    def descend(inner, gate, start):
        seen["moved"] = inner._records.features
        return w

    back = build_descent_on_centered_features(descend, 1.0)(oracle, Gate(Unlimited(), still), np.zeros(model.size))
    grid = oracle.feature_sum_query(0.5 * math.sqrt(3)).grid
    np.testing.assert_allclose(seen["moved"], X - X.mean(axis=0), atol=grid)  # each of 50 rows loses less than that
    np.testing.assert_allclose(model.compute_scores(back, X), model.compute_scores(w, seen["moved"]), atol=1e-12)


def test_one_record_moves_the_sum_of_features_by_at_most_the_bound(still):
    X = 10 * np.random.default_rng(1).normal(size=(9, 3))
    model = LinearModel(3, Logistic())
    sums = []
    for n in (8, 9):
        oracle = Oracle(model, Records(X[:n], np.zeros(n, int)), Public(9, 4, 0.0, model))
        query = oracle.feature_sum_query(0.8)
        sums.append(query.evaluate(still))
    assert within(sums[1] - sums[0], query)


def test_only_linear_models_with_an_intercept_are_moved(blobs):
    assert not can_center_features(Public(10, 3, 0.0, LinearModel(3, Logistic(), intercept=False)))
    assert not can_center_features(Public(10, 3))
    clf = LogisticRegression(NoisyGD(steps=5), epsilon=1.0, delta=1e-5, public_size=1500, fit_intercept=False).fit(
        *blobs
    )
    assert len(set(clf.history_)) == 1
    assert CallableModel(2, lambda w, X, y: X).size == 2


def test_shares():
    for q, steps in ((1.0, 30), (0.02, 1000)):
        noise = compute_centering_noise(3.0, q, steps, 0.05)
        assert noise**-2 == pytest.approx(0.05 / 0.95 * steps * (q / 3.0) ** 2)


def test_a_non_finite_record_stays_out(blobs):
    X, y = blobs
    spoilt = np.vstack([X, np.full((1, 4), np.inf)])
    settings = {"epsilon": 1.0, "delta": 1e-5, "public_size": 1500, "random_state": 0}
    a = LogisticRegression(NoisyGD(), **settings).fit(X, y)
    b = LogisticRegression(NoisyGD(), **settings).fit(spoilt, np.append(y, 1))
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
