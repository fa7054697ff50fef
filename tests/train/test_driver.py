"""Models of one's own through ``fit``: the same account and the same numbers as the built-in forms."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as dp
from tightdp.models.linear import Logistic
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    SGD,
    AdaCliP,
    CallableModel,
    LinearModel,
    LogisticRegression,
    NoisyGD,
    ObjectivePerturbation,
    fit,
)


def gradients(w, X, y):
    z = X @ w[:-1] + w[-1]
    return (1 / (1 + np.exp(-z)) - y)[:, None] * np.column_stack([X, np.ones(len(X))])


def losses(w, X, y):
    return np.logaddexp(0, (1 - 2 * y) * (X @ w[:-1] + w[-1]))


@pytest.mark.parametrize(
    "algorithm", [NoisyGD(steps=30, learning_rate=1.0, center=0), DPSGD(epochs=3), DPAGD(selections=20, center=0)]
)
def test_a_callable_is_trained_as_the_ghost_form_is(blobs, algorithm):
    """Materialised gradients through the fused kernel against |r| |x|: the same releases, the same parameters."""
    X, y = blobs
    settings = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}
    if isinstance(algorithm, DPSGD):
        algorithm = DPSGD(epochs=3, spread=0.5)  # the default asks a linear model for its outputs
    own = fit(CallableModel(5, gradients, losses), X, y, algorithm, **settings)
    built_in = fit(LinearModel(4, Logistic()), X, y, algorithm, **settings)
    # Formed rows are rounded as wholes, outer products factor by factor: sums differ by some 2^-18 of the bound.
    np.testing.assert_allclose(own.parameters, built_in.parameters, rtol=1e-4, atol=1e-5)
    assert own.history == built_in.history and own.charged == built_in.charged
    assert own.privacy.upper <= 1.0


def test_the_classifier_is_this_fit(blobs):
    X, y = blobs
    clf = LogisticRegression(NoisyGD(), epsilon=1.0, delta=1e-5, random_state=0).fit(X, y)
    run = fit(LinearModel(4, Logistic()), X, y, NoisyGD(), epsilon=1.0, delta=1e-5, random_state=0)
    np.testing.assert_array_equal(clf.coef_[0], run.parameters[:-1])
    assert (clf.privacy_, clf.charged_, clf.history_) == (run.privacy, run.charged, run.history)


def test_regression_targets_are_fine():
    x = np.random.default_rng(0).uniform(-1, 1, (4000, 2))
    model = CallableModel(2, lambda w, X, y: (X @ w - y)[:, None] * X)
    run = fit(model, x, x @ [0.5, -0.3], NoisyGD(), epsilon=1.0, delta=1e-6, random_state=1)
    np.testing.assert_allclose(run.parameters, [0.5, -0.3], atol=0.1)


def test_one_record_that_breaks_the_model_contributes_nothing(blobs):
    X, y = blobs
    runs = [
        fit(
            CallableModel(5, gradients),
            np.vstack([X, np.full((1, 4), bad)])[: 1500 + count],
            np.append(y, 1)[: 1500 + count],
            NoisyGD(steps=10),
            epsilon=1.0,
            delta=1e-5,
            public_size=1500,
            random_state=0,
        ).parameters
        for bad, count in ((np.nan, 0), (np.nan, 1))
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9)


def test_bad_arguments_are_refused_by_name(blobs):
    X, y = blobs
    model, settings = LinearModel(4, Logistic()), {"epsilon": 1.0, "delta": 1e-5}
    for bad_X in (X[:, 0], X.astype(int), X.astype(complex)):
        with pytest.raises(ValueError, match="X must be a 2-D array"):
            fit(model, bad_X, y, NoisyGD(), **settings)
    with pytest.raises(ValueError, match="one target for each record"):
        fit(model, X, y[:-1], NoisyGD(), **settings)
    with pytest.raises(ValueError, match="smooth loss"):
        fit(CallableModel(5, gradients), X, y, ObjectivePerturbation(), regularization=0.1, **settings)
    with pytest.raises(ValueError, match="delta must be given"):
        fit(model, X, y, NoisyGD(), epsilon=1.0)
    for no_algorithm in ("dp-sgd", None, DPSGD):
        with pytest.raises(TypeError, match=r"^algorithm must be"):
            fit(model, X, y, no_algorithm, **settings)
    with pytest.raises(TypeError, match=r"^callback must be"):
        fit(model, X, y, NoisyGD(), callback=3, **settings)


@pytest.mark.parametrize("algorithm", [NoisyGD(), DPSGD(), AdaCliP(), DPIS(), DPAGD()], ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("strength", [10.0, 1e4, 1e300])
def test_a_strong_penalty_shrinks_the_weights(blobs, algorithm, strength):
    """The objective's minimum has |w| <= |mean gradient at 0| / strength; noise adds as little."""
    X, y = blobs
    run = fit(
        LinearModel(4, Logistic()), X, y, algorithm, epsilon=1.0, delta=1e-5, regularization=strength, random_state=0
    )
    assert np.abs(run.parameters).max() <= 3 / strength


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        (NoisyGD(learning_rate=1.0, momentum=0.5), "learning_rate"),
        (DPSGD(optimizer=SGD(1.0, 0.5)), "optimizer"),
        (AdaCliP(optimizer=SGD(1.0, 0.5)), "optimizer"),
        (DPIS(optimizer=SGD(1.0, 0.5)), "optimizer"),
    ],
)
def test_steps_that_diverge_for_the_penalty_are_refused(blobs, algorithm, name):
    X, y = blobs
    model, settings = LinearModel(4, Logistic()), {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    with pytest.raises(ValueError, match=rf"^{name} must have a learning rate below .* = 1,"):
        fit(model, X, y, algorithm, regularization=3.0, **settings)
    assert np.isfinite(fit(model, X, y, algorithm, regularization=2.9, **settings).parameters).all()


def test_nothing_is_released_without_a_budget(blobs):
    """A plan that lists fewer releases than the run makes stops it; it does not release."""
    X, y = blobs

    class Greedy:
        def plan(self, public, target):
            plan = NoisyGD(steps=3, noise_multiplier=1.0, center=0).plan(public, target)
            short = type(plan.budget)(dp.Gaussian(1.0) * 2)
            return plan._replace(budget=short)

    with pytest.raises(dp.BudgetExceeded):
        fit(LinearModel(4, Logistic()), X, y, Greedy(), delta=1e-5, public_size=1500)
