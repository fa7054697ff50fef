"""Output and objective perturbation: the minimum that is released, its sensitivity, the account, the errors."""

from __future__ import annotations

import numpy as np
import pytest
from exactly import within
from scipy.optimize import minimize as scipy_minimize

import tightdp as dp
from tightdp.train import (
    LinearSVC,
    LogisticRegression,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Records,
)
from tightdp.train.linear import Hinge, LinearModel, Logistic, Multinomial
from tightdp.train.minimize import minimize
from tightdp.train.minimum import SLACK, minimum, objective, perturbed_minimum


def setting(loss, classes, n=60, d=3, lam=0.01, max_norm=1.0, seed=0):
    g = np.random.default_rng(seed)
    X, y = 2 * g.normal(size=(n, d)), g.integers(0, classes, n)
    model = LinearModel(d, loss)
    public = Public(n, model.size, lam, model)
    return X, y, model, public, objective(public, max_norm)


@pytest.mark.parametrize(
    ("loss", "classes"), [(Logistic(), 2), (Multinomial(3), 3), (Hinge(2, 0.3), 2), (Hinge(3, 0.3), 3)]
)
@pytest.mark.parametrize("b", [0.0, 2.0])
def test_it_is_the_minimum(loss, classes, b, still):
    X, y, model, public, f = setting(loss, classes)
    noise = b * np.random.default_rng(1).normal(size=model.size)
    oracle = Oracle(model, Records(X, y), public)
    found = perturbed_minimum(oracle, np.zeros(model.size), f).evaluate(still, noise)
    features = np.column_stack([X, np.ones(len(X))])
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    flat = LinearModel(4, loss, intercept=False)

    def value(w):
        return flat.losses(w, Records(features, y)).sum() + noise @ w + 0.5 * 60 * 0.01 * w @ w

    best = scipy_minimize(value, np.zeros(model.size), method="BFGS", options={"gtol": 1e-7})
    assert value(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-4)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(2, 0.3)])
@pytest.mark.parametrize("seed", range(5))
def test_one_record_moves_the_minimum_by_no_more_than_the_sensitivity(loss, seed, still):
    X, y, model, public, f = setting(loss, 2, n=8, lam=0.05, seed=seed)
    w = np.zeros(model.size)
    ends = []
    for n in (7, 8):
        query = minimum(Oracle(model, Records(X[:n], y[:n]), public), w, f)
        ends.append(query.evaluate(still))
    assert within(ends[1] - ends[0], query)
    assert query.sensitivity == pytest.approx(f.lipschitz / (8 * 0.05), rel=1e-5)


def test_minimize_reaches_the_tolerance_from_bad_starts():
    g = np.random.default_rng(0)
    A = g.normal(size=(12, 12))
    H = A @ A.T + 1e-4 * np.eye(12)
    smoothness = np.linalg.eigvalsh(H)[-1]

    def rough(w):  # quartic far away, so that the first steps of any model of it are wrong
        return 0.5 * w @ H @ w + np.log(np.cosh(50 * w)).sum(), H @ w + 50 * np.tanh(50 * w)

    for scale in (1e-3, 0.1, 2.0):
        w = minimize(rough, scale * g.normal(size=12), 1e-9, smoothness + 2500)
        assert np.linalg.norm(rough(w)[1]) <= 1e-9


def test_output_perturbation_is_one_gaussian(blobs):
    clf = LogisticRegression(OutputPerturbation(), epsilon=1.0, delta=1e-5, regularization=0.01, random_state=0)
    clf.fit(*blobs)
    assert len(clf.history_) == 1 and clf.charged_ == clf.history_[0]._composition()
    assert 0.999 < clf.privacy_.lower <= clf.privacy_.upper <= 1.0
    assert clf.score(*blobs) > 0.9
    own = LogisticRegression(OutputPerturbation(noise_multiplier=3.0), delta=1e-5, regularization=0.01).fit(*blobs)
    assert own.history_ == (dp.Gaussian(3.0),)


@pytest.mark.parametrize("estimator", [LogisticRegression, LinearSVC])
def test_objective_perturbation_is_charged_its_target(blobs, estimator):
    more = {"huber": 0.5} if estimator is LinearSVC else {}
    clf = estimator(ObjectivePerturbation(), epsilon=1.0, delta=1e-5, regularization=0.01, random_state=0, **more)
    clf.fit(*blobs)
    assert clf.history_ == (dp.ApproximateDP(1.0, 1e-5),)
    assert clf.privacy_.upper <= 1.0 + 1e-9
    assert clf.score(*blobs) > 0.9


def test_objective_perturbation_raises_the_convexity_where_curvature_would_cost_over_half():
    public = Public(100, 2, 1e-9, LinearModel(1, Logistic()))
    assert objective(public, 1.0).convexity == pytest.approx(1e-7)
    assert np.log1p(0.25 / ObjectivePerturbation().objective(public, 0.1).convexity) == pytest.approx(0.05)


def test_objective_perturbation_loss_stays_below_its_bound():
    """In one dimension the density of the release is known: its hockey-stick divergence is under the proved curve."""
    lam, sigma, x = 2.0, 1.5, np.array([0.9, -0.4, 0.7])
    w = np.linspace(-14, 14, 400_001)

    def density(k):
        p = 1 / (1 + np.exp(-np.outer(x[:k], w)))
        gradient = (x[:k, None] * (p - 1)).sum(axis=0) + lam * w
        hessian = (x[:k, None] ** 2 * p * (1 - p)).sum(axis=0) + lam
        return np.exp(-(gradient**2) / (2 * sigma**2)) / np.sqrt(2 * np.pi) / sigma * hessian

    with_record, without = density(3), density(2)
    c = np.log1p(0.25 * x[2] ** 2 / lam)
    for eps in (0.1, 0.5, 1.0):
        for p, q in ((with_record, without), (without, with_record)):
            exact = np.trapezoid(np.maximum(p - np.exp(eps) * q, 0), w)
            assert exact <= dp.Gaussian(sigma / abs(x[2])).delta(eps - c).upper + 1e-9


@pytest.mark.parametrize("algorithm", [OutputPerturbation(), ObjectivePerturbation()])
def test_bad_combinations_are_refused(blobs, algorithm):
    target = {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(ValueError, match="regularization must be > 0"):
        LogisticRegression(algorithm, **target).fit(*blobs)
    with pytest.raises(ValueError, match="smooth loss"):
        LinearSVC(algorithm, regularization=0.1, **target).fit(*blobs)
    with pytest.raises(ValueError, match="max_norm must be"):
        type(algorithm)(max_norm=0.0)


def test_objective_perturbation_needs_two_classes_and_an_epsilon(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="classes must be two"):
        LogisticRegression(ObjectivePerturbation(), 1.0, 1e-5, regularization=0.1).fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="epsilon must be given"):
        LogisticRegression(ObjectivePerturbation(), delta=1e-5, regularization=0.1).fit(X, y)


def test_the_slack_is_covered(blobs):
    _, y = blobs
    public = Public(len(y), 5, 0.01, LinearModel(4, Logistic()))
    f = objective(public, 1.0)
    assert f.slack == pytest.approx(SLACK / (0.01 * len(y)))
