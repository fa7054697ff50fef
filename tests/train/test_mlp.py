"""The perceptron's gradients against finite differences and against gradients that are formed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from tightdp.models.dense import choose_dense_gradient_grid
from tightdp.models.linear import Logistic, Multinomial
from tightdp.train import DPAGD, DPSGD, SGD, LogisticRegression, MLPClassifier, NoisyGD, Perceptron, Records


def network(seed, activation="tanh", classes=3):
    g = np.random.default_rng(seed)
    loss = Logistic() if classes == 2 else Multinomial(classes)
    model = Perceptron(4, (5, 3), loss, activation)
    return model, g.normal(size=model.size), Records(g.normal(size=(7, 4)), g.integers(0, classes, 7))


def formed(model, w, records):
    """Each record's gradient by central differences of its loss."""
    rows, h = np.empty((len(records), model.size)), 1e-6
    for i in range(model.size):
        e = np.zeros(model.size)
        e[i] = h
        rows[:, i] = (model.compute_losses(w + e, records) - model.compute_losses(w - e, records)) / (2 * h)
    return rows


@pytest.mark.parametrize(("activation", "classes"), [("tanh", 3), ("relu", 3), ("tanh", 2)])
def test_gradients_are_those_of_finite_differences(activation, classes):
    model, w, records = network(0, activation, classes)
    rows = formed(model, w, records)
    g = np.random.default_rng(0)
    for k in range(len(records)):
        gradients = model.compute_gradients(w, records.take(np.array([k])))
        norm = np.linalg.norm(rows[k])
        np.testing.assert_allclose(gradients.compute_model_gradient_norms()[0], norm, rtol=1e-5)
        for bound in (0.3 * norm, 2 * norm):
            found = gradients.sum_clipped_model_gradients(bound) * choose_dense_gradient_grid(bound)
            np.testing.assert_allclose(found, rows[k] * min(1, bound / norm), rtol=0, atol=1e-5 * bound)
        center, scale = g.normal(size=model.size), g.uniform(0.5, 2, model.size)
        moved = rows[k] - center
        found = gradients.sum_clipped_model_gradients(0.8, center, scale) * choose_dense_gradient_grid(
            0.8, center, scale
        )
        expected = moved * min(1, 0.8 / np.linalg.norm(moved / scale))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_norms_are_those_of_the_layers_outer_products():
    model, w, records = network(2)
    given, z = model._propagate_forward(w, records.features)
    tables, error = model.view_layers(w), model.head.differentiate_by_scores(z, records.targets)
    squares = np.zeros(len(records))
    for i in range(len(tables) - 1, -1, -1):
        squares += (error**2).sum(axis=1) * ((given[i] ** 2).sum(axis=1) + 1)  # the 1 is of the bias
        error = (error @ tables[i][:, :-1]) * (1 - given[i] ** 2)
    np.testing.assert_allclose(
        model.compute_gradients(w, records).compute_model_gradient_norms(), np.sqrt(squares), rtol=1e-5
    )


def test_one_layer_is_the_linear_model(blobs):
    algorithm = NoisyGD(noise_multiplier=5.0, steps=20, learning_rate=1.0, center=0)
    plain = LogisticRegression(algorithm, delta=1e-5, random_state=0).fit(*blobs)
    layered = MLPClassifier(algorithm, delta=1e-5, hidden_layer_sizes=(), random_state=0).fit(*blobs)
    np.testing.assert_allclose(layered._w, plain._w, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308])
def test_a_record_that_is_not_finite_contributes_nothing(bad):
    model, w, records = network(3, "relu")
    spoilt = records.features.copy()
    spoilt[2] = bad
    with np.errstate(over="ignore", invalid="ignore"):
        gradients = model.compute_gradients(w, Records(spoilt, records.targets))
    total = gradients.sum_clipped_model_gradients(1.0)
    others = np.delete(np.arange(7), 2)
    np.testing.assert_array_equal(
        total, model.compute_gradients(w, records.take(others)).sum_clipped_model_gradients(1.0)
    )


def test_it_learns_what_a_linear_model_cannot():
    g = np.random.default_rng(0)
    X = g.uniform(-1, 1, size=(4000, 2))
    y = X[:, 0] * X[:, 1] > 0
    algorithm = DPSGD(400, 40, optimizer=SGD(0.5, 0.9))
    clf = MLPClassifier(algorithm, 2.0, 1e-5, hidden_layer_sizes=(32,), random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.9 and clf.privacy_.upper <= 2.0
    np.testing.assert_allclose(clf.predict_proba(X[:5]).sum(axis=1), 1.0)


def test_losses_serve_dpagd(blobs):
    clf = MLPClassifier(DPAGD(), 2.0, 1e-5, hidden_layer_sizes=(8,), random_state=0).fit(*blobs)
    assert clf.score(*blobs) > 0.9 and clf.privacy_.upper <= 2.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"activation": "softsign"}, ValueError, "activation"),
        ({"hidden_layer_sizes": None}, TypeError, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": 0}, ValueError, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": (0,)}, ValueError, "hidden_layer_sizes"),
    ],
)
def test_settings_are_checked(blobs, options, error, message):
    with pytest.raises(error, match=message):
        MLPClassifier(DPSGD(noise_multiplier=1.0), delta=1e-5, **options).fit(*blobs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X has features beyond 10")  # of scikit-learn's own tables
def test_scikit_learn_accepts_it():
    loud = NoisyGD(noise_multiplier=1e-3, steps=100, learning_rate=0.5, max_norm=5.0, momentum=0.9)
    expected = {
        "check_estimators_nan_inf": "a refusal would reveal that a record with NaN is there",
        "check_sample_weight_equivalence_on_dense_data": "weights are relative, and the noise is not",
        "check_sample_weight_equivalence_on_sparse_data": "weights are relative, and the noise is not",
    }
    check_estimator(
        MLPClassifier(loud, delta=1e-5, max_sample_weight=4.0), expected_failed_checks=expected, on_skip=None
    )


def test_a_single_layer_may_be_given_by_its_width(blobs):
    one, other = (
        MLPClassifier(DPSGD(epochs=0.1), 1.0, 1e-5, hidden_layer_sizes=sizes, random_state=0).fit(*blobs)._w
        for sizes in (4, (4,))
    )
    np.testing.assert_array_equal(one, other)
