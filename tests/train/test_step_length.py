"""Steps of default length are no longer than what the intercept's curvature bears (docs/theory/training.md, 7)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tightdp.algorithms.building_blocks.public_step_length import (
    bound_curvature_for_step_length,
    choose_public_step_length,
)
from tightdp.algorithms.noisygd import _choose_noisygd_momentum
from tightdp.models.linear import Logistic
from tightdp.train import DPIS, DPSGD, SGD, AdaCliP, LinearModel, LogisticRegression, NoisyGD, Public, fit


def clipped_slope(z, y, norm, max_norm):
    """The clipped gradient of the logistic loss along the intercept, for a record of that norm."""
    residual = 1 / (1 + np.exp(-z)) - y
    return residual * min(1.0, max_norm / (abs(residual) * norm))


@pytest.mark.parametrize("max_norm", [1e-3, 0.1, 0.4, 0.5, 1.0, 30.0])
def test_no_record_bends_more_along_the_intercept_and_some_come_close(max_norm):
    g = np.random.default_rng(0)
    bound, h = bound_curvature_for_step_length(max_norm), 1e-4

    def bend(z, y, norm):
        return (clipped_slope(z + h, y, norm, max_norm) - clipped_slope(z, y, norm, max_norm)) / h

    assert max(bend(*g.normal(0, 5, 1), g.integers(2), 1 + g.exponential()) for _ in range(2000)) <= bound * (1 + 1e-6)
    edge = min(max_norm, 0.5) * 0.99  # the residual of a record with no other features
    assert bend(math.log(edge / (1 - edge)), 0, 1.0) >= 0.98 * bound


@pytest.mark.parametrize("momentum", [0.0, 0.7, 0.95])
@pytest.mark.parametrize("max_norm", [0.1, 1.0])
def test_the_limit_is_where_steps_begin_to_diverge(momentum, max_norm):
    curvature = bound_curvature_for_step_length(max_norm)
    longest = choose_public_step_length(Public(1, 2), math.inf, max_norm, momentum)
    for factor, shrinks in ((0.99, True), (1.01, False)):
        step, w = SGD(factor * longest.learning_rate, momentum).make_stepper(1), np.ones(1)
        for _ in range(4000):
            w = step(w, curvature * w)
        assert (abs(w[0]) < 1) == shrinks


@pytest.mark.parametrize("algorithm", [NoisyGD, DPSGD, AdaCliP, DPIS])
@pytest.mark.parametrize("max_norm", [0.2, 1.0, 4.0])
def test_default_steps_converge_along_the_intercept(algorithm, max_norm, monkeypatch):
    """However many records and however large a budget there are: with these they were some hundred times as long."""
    found = []

    def recorded(*arguments):
        found.append(choose_public_step_length(*arguments))
        return found[-1]

    for module in ("noisygd", "building_blocks.public_step_length"):
        monkeypatch.setattr(f"tightdp.algorithms.{module}.choose_public_step_length", recorded)
    shorter = {"steps": 20} if algorithm is NoisyGD else {"epochs": 1}
    X, y = np.ones((500, 2)), np.arange(500) % 2
    settings = {"epsilon": 50.0, "delta": 1e-5, "public_size": 10**8, "random_state": 0}
    fit(LinearModel(2, Logistic()), X, y, algorithm(max_norm=max_norm, **shorter), **settings)
    (steps,) = found
    longest = 2 * (1 + steps.momentum) / bound_curvature_for_step_length(max_norm)
    assert steps.learning_rate == pytest.approx(longest, rel=1e-12)


def test_a_larger_budget_gives_no_worse_probabilities():
    """With steps that grew with the budget the log-loss was .70 at epsilon 100, more than chance's, then infinite."""
    g = np.random.default_rng(0)
    X = g.random((4000, 10))
    odds = 4 * (X[:, 0] + X[:, 1] - X[:, 2] - X[:, 3])
    y = (g.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
    best = np.mean(np.logaddexp(0, np.where(y == 1, -odds, odds)))
    for epsilon, steps in ((5.0, None), (5.0, 30), (100.0, None), (1e5, None), (1e5, 30)):
        settings = {"epsilon": epsilon, "delta": 1e-6, "public_size": 4000, "random_state": 0}
        clf = LogisticRegression(NoisyGD(steps=steps), bounds=(0, 1), **settings)
        share = clf.fit(X, y).predict_proba(X)[np.arange(4000), y]
        assert best - 0.02 < -np.mean(np.log(share)) < best + 0.05, (epsilon, steps)


def test_few_steps_have_the_momentum_whose_swings_are_gone_by_half_of_them():
    for steps in (20, 30, 60, 100, 150):
        momentum = _choose_noisygd_momentum(1000.0, steps)
        assert momentum == 0.75 or momentum ** (steps / 4) == pytest.approx(0.95 ** (150 / 4), rel=1e-12)
    assert (
        _choose_noisygd_momentum(1000.0, 150) == 0.95
        and _choose_noisygd_momentum(8.0, 150) == 0.75
        and _choose_noisygd_momentum(1.0, 150) == 0.7
    )
