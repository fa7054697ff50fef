"""Output and objective perturbation: the minimum that is released, its sensitivity, the account, the errors."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from exactly import within
from mpmath import mp
from scipy.optimize import minimize as scipy_minimize

import tightdp as dp
from tightdp.models.linear import Hinge, LinearModel, Logistic, Multinomial
from tightdp.release_gate import minimum_query as minimum_module
from tightdp.release_gate.minimum_query import (
    SLACK,
    MinimumQueryPoint,
    _scale_gate_query_records,
    build_minimum_objective,
    build_minimum_query,
    build_perturbed_minimum_query,
)
from tightdp.release_gate.minimum_solver import MinimumNotReached, minimize_convex_gate_function
from tightdp.train import (
    LinearSVC,
    LogisticRegression,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Records,
)


def setting(loss, classes, n=60, d=3, lam=0.01, max_norm=1.0, seed=0):
    g = np.random.default_rng(seed)
    X, y = 2 * g.normal(size=(n, d)), g.integers(0, classes, n)
    model = LinearModel(d, loss)
    public = Public(n, model.size, lam, model)
    return X, y, model, public, build_minimum_objective(public, max_norm)


@pytest.mark.parametrize(
    ("loss", "classes"), [(Logistic(), 2), (Multinomial(3), 3), (Hinge(2, 0.3), 2), (Hinge(3, 0.3), 3)]
)
@pytest.mark.parametrize("b", [0.0, 2.0])
def test_it_is_the_minimum(loss, classes, b, still):
    X, y, model, public, f = setting(loss, classes)
    noise = b * np.random.default_rng(1).normal(size=model.size)
    oracle = Oracle(model, Records(X, y), public)
    query = build_perturbed_minimum_query(oracle, np.zeros(model.size), f)
    found = query.evaluate(still, noise) * query.grid
    features = np.column_stack([X, np.ones(len(X))])
    features /= np.maximum(1, np.linalg.norm(features, axis=1))[:, None]
    flat = LinearModel(4, loss, intercept=False)

    def value(w):
        return flat.compute_losses(w, Records(features, y)).sum() + noise @ w + 0.5 * 60 * 0.01 * w @ w

    best = scipy_minimize(value, np.zeros(model.size), method="BFGS", options={"gtol": 1e-7})
    assert value(found) <= best.fun + 1e-9
    np.testing.assert_allclose(found, best.x, atol=1e-4)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(2, 0.3)])
@pytest.mark.parametrize("draw", range(5))
def test_one_record_moves_the_minimum_by_no_more_than_the_sensitivity(loss, draw, still):
    X, y, model, public, f = setting(loss, 2, n=8, lam=0.05, seed=draw)
    w = np.zeros(model.size)
    ends = []
    for n in (7, 8):
        query = build_minimum_query(Oracle(model, Records(X[:n], y[:n]), public), w, f)
        ends.append(query.evaluate(still))
    assert within(ends[1] - ends[0], query)
    assert query.sensitivity == pytest.approx(f.largest_gradient_norm / (8 * 0.05), rel=1e-5)


def test_minimize_reaches_the_tolerance_from_bad_starts():
    g = np.random.default_rng(0)
    A = g.normal(size=(12, 12))
    H = A @ A.T + 1e-4 * np.eye(12)

    class Rough:
        """w H w / 2 + sum log cosh(50 w): straight far away, so that the first steps of any model of it are wrong."""

        error = 1e-10

        def __init__(self, w):
            self.w, self.gradient = w, H @ w + 50 * np.tanh(50 * w)

        def multiply_by_gate_query_hessian(self, v):
            return H @ v + 2500 * (1 - np.tanh(50 * self.w) ** 2) * v

        def differentiate_along(self, direction):
            return lambda t: -float(direction @ Rough(self.w - t * direction).gradient)

    for scale in (1e-3, 0.1, 2.0):
        w = minimize_convex_gate_function(Rough, scale * g.normal(size=12), 1e-9)
        assert np.linalg.norm(Rough(w).gradient) <= 1e-9 - 1e-10


def test_output_perturbation_is_one_gaussian(blobs):
    clf = LogisticRegression(
        OutputPerturbation(), epsilon=1.0, delta=1e-5, public_size=1500, regularization=0.01, random_state=0
    )
    clf.fit(*blobs)
    assert len(clf.history_) == 1 and clf.charged_ == clf.history_[0]._to_composition()
    assert 0.999 < clf.privacy_.lower <= clf.privacy_.upper <= 1.0
    assert clf.score(*blobs) > 0.9
    own = LogisticRegression(
        OutputPerturbation(noise_multiplier=3.0), delta=1e-5, public_size=1500, regularization=0.01
    ).fit(*blobs)
    assert own.history_ == (dp.Gaussian(3.0),)


@pytest.mark.parametrize("estimator", [LogisticRegression, LinearSVC])
def test_objective_perturbation_is_charged_its_target(blobs, estimator):
    more = {"huber": 0.5} if estimator is LinearSVC else {}
    clf = estimator(
        ObjectivePerturbation(), epsilon=1.0, delta=1e-5, public_size=1500, regularization=0.01, random_state=0, **more
    )
    clf.fit(*blobs)
    assert clf.history_ == (dp.ApproximateDP(1.0, 1e-5),)
    assert clf.privacy_.upper <= 1.0 + 1e-9
    assert clf.score(*blobs) > 0.9


def test_objective_perturbation_raises_the_convexity_where_curvature_would_cost_over_half():
    public = Public(100, 2, 1e-9, LinearModel(1, Logistic()))
    assert build_minimum_objective(public, 1.0).convexity == pytest.approx(1e-7)
    assert np.log1p(0.25 / ObjectivePerturbation().choose_objective(public, 0.1).convexity) == pytest.approx(0.05)


@pytest.mark.parametrize("public_size", [None, 1500])
def test_objective_perturbation_names_the_range_of_epsilon(public_size, blobs, tmp_path):
    """Where e^(epsilon/2) overflows the error is a clear one, before anything is charged."""
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1e4, delta=1e-3, dataset="blobs")
    clf = LogisticRegression(
        ObjectivePerturbation(),
        1500.0,
        1e-5,
        regularization=0.1,
        public_size=public_size,
        classes=[0, 1],
        ledger=ledger,
    )
    with pytest.raises(ValueError, match=r"epsilon of objective perturbation must be a number in \(0, 1400\]"):
        clf.fit(*blobs)
    assert ledger.spent == 0


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
    for made, words in (
        (LogisticRegression(algorithm, **target), "regularization must be > 0"),
        (LinearSVC(algorithm, regularization=0.1, **target), "smooth loss"),
    ):
        with pytest.raises(ValueError, match=words):
            made.fit(*blobs)
        with pytest.raises(ValueError, match=words):
            made.charge_for(blobs[0].shape[1])
    with pytest.raises(ValueError, match="max_norm must be"):
        type(algorithm)(max_norm=0.0)


def test_objective_perturbation_needs_two_classes_and_an_epsilon(blobs):
    X, y = blobs
    for three in (None, [0, 1, 2]):
        made = LogisticRegression(ObjectivePerturbation(), 1.0, 1e-5, regularization=0.1, classes=three)
        with pytest.raises(ValueError, match="classes must be two"):
            made.fit(X, np.arange(len(X)) % 3)
        with pytest.raises(ValueError, match="classes must be two"):
            made.charge_for(X.shape[1], 3)
    with pytest.raises(ValueError, match="epsilon must be given"):
        LogisticRegression(ObjectivePerturbation(), delta=1e-5, public_size=1500, regularization=0.1).fit(X, y)


def test_what_the_second_noise_covers():
    """1.5 times the tolerance from either minimum, and a step of the grid in each coordinate."""
    X, y, model, public, f = setting(Logistic(), 2)
    query = build_perturbed_minimum_query(Oracle(model, Records(X, y), public), np.zeros(model.size), f)
    tolerance = SLACK * f.largest_gradient_norm
    assert math.sqrt(model.size) * query.noise_grid / 2 <= tolerance / 2
    least = Fraction(3 * tolerance) / Fraction(f.convexity) + Fraction(math.sqrt(model.size)) * Fraction(query.grid)
    assert least <= Fraction(query.cover) <= least * Fraction(103, 100)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(2, 0.3), Hinge(2, 1e-3), Hinge(3, 0.1), Multinomial(3)])
@pytest.mark.parametrize("size", [0.1, 10.0, 1e6])
def test_the_certificate_holds(loss, size):
    """The computed gradient against one of 50 digits: never further than the bound says."""
    classes = max(2, loss.outputs)
    X, y, model, _, f = setting(loss, classes, n=300, d=6)
    data = _scale_gate_query_records(Records(X, y), 1.0, 7)
    g = np.random.default_rng(1)
    w, b = size * g.normal(size=model.size), g.normal(size=model.size)
    found = MinimumQueryPoint(f, data, b, w)
    with mp.workdps(50):
        table = [[mp.mpf(float(v)) for v in row] for row in w.reshape(loss.outputs, -1)]
        total = [mp.mpf(float(p)) + mp.mpf(f.convexity) * mp.mpf(float(q)) for p, q in zip(b, w, strict=True)]
        for x, target in zip(data.features.tolist(), data.targets.tolist(), strict=True):
            z = [mp.fdot(row, map(mp.mpf, x)) for row in table]
            for c, r in enumerate(exact_residual(loss, z, target)):
                for j, entry in enumerate(x):
                    total[7 * c + j] += r * mp.mpf(entry)
        error = mp.norm([t - mp.mpf(float(a)) for t, a in zip(total, found.gradient, strict=True)])
    assert error <= found.error


def exact_residual(loss, z, target):
    if isinstance(loss, Logistic):
        return [1 / (1 + mp.exp(-z[0])) - target]
    if isinstance(loss, Multinomial):
        top = max(z)
        e = [mp.exp(v - top) for v in z]
        return [v / sum(e) - (c == target) for c, v in enumerate(e)]
    own = [1 if (target == 1 if len(z) == 1 else target == c) else -1 for c in range(len(z))]
    h = mp.mpf(loss.h)
    return [-s * min(max((1 - s * v + h) / (2 * h), 0), 1) for s, v in zip(own, z, strict=True)]


@pytest.mark.parametrize("loss", [Logistic(), Hinge(2, 0.3), Hinge(3, 0.5), Multinomial(4)])
def test_the_second_derivative_is_that_of_the_residual(loss):
    g = np.random.default_rng(4)
    z, v, y = (g.normal(size=(50, loss.outputs)) for _ in range(3))
    y = g.integers(0, max(2, loss.outputs), 50)
    step = 1e-6
    slope = (loss.differentiate_by_scores(z + step * v, y) - loss.differentiate_by_scores(z - step * v, y)) / (2 * step)
    kinks = np.abs(slope - loss.multiply_by_curvature(z, y, v)).max(axis=1) > 1e-6
    assert kinks.sum() <= (2 if isinstance(loss, Hinge) else 0)


def one_hot(n=20_000):
    g = np.random.default_rng(3)
    columns = [np.eye(k)[g.integers(0, k, n)] for k in (10, 7, 15, 5, 20, 40, 9)]
    X = np.concatenate(columns, axis=1)
    return X, (X @ g.normal(size=X.shape[1]) + g.normal(size=n) > 0).astype(int)


def test_a_narrow_hinge_on_one_hot_rows_ends():
    X, y = one_hot()
    clf = LinearSVC(OutputPerturbation(), 1.0, 1e-6, huber=1e-3, regularization=1e-4, public_size=len(X))
    assert clf.fit(X, y).history_


@pytest.mark.parametrize("epsilon", [30.0, 50.0])
def test_next_to_no_convexity_ends(blobs, epsilon):
    for estimator in (LogisticRegression, partial(LinearSVC, huber=0.1)):
        clf = estimator(ObjectivePerturbation(), epsilon, 1e-6, regularization=1e-12, random_state=0, public_size=1500)
        clf.fit(*blobs)
        assert clf.privacy_.upper <= epsilon * (1 + 1e-12)


def test_an_unreachable_minimum_is_an_error_that_says_how_far_it_came(blobs, monkeypatch):
    monkeypatch.setattr(minimum_module, "SLACK", 1e-15)
    clf = LogisticRegression(OutputPerturbation(), 1.0, 1e-6, regularization=1e-3, public_size=1500)
    with pytest.raises(
        MinimumNotReached, match=r"certified to a gradient of norm 1e-15; after \d+ passes over the data the norm is"
    ):
        clf.fit(*blobs)
    assert not hasattr(clf, "_w")
