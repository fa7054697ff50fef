"""The ghost forms of linear gradients agree with materialised ones, and with finite differences of the loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp.train.linear import Hinge, LinearModel, Logistic, Multinomial
from tightdp.train.model import Gradients, Materialised, clip_weights
from tightdp.train.records import Records

LOSSES = {
    "logistic": (Logistic(), 2),
    "multinomial": (Multinomial(3), 3),
    "hinge": (Hinge(), 2),
    "hinge rest": (Hinge(3), 3),
    "huber": (Hinge(2, 0.5), 2),
    "huber rest": (Hinge(3, 0.5), 3),
}


def case(name, intercept, dtype=np.float64, n=17, d=5, seed=0):
    g = np.random.default_rng(seed)
    loss, classes = LOSSES[name]
    model = LinearModel(d, loss, intercept=intercept)
    records = Records(g.normal(size=(n, d)).astype(dtype), g.integers(0, classes, n))
    return model, records, g.normal(size=model.size), g


def materialised(model, records, w):
    """One gradient at a time, as an outer product: the definition."""
    rows = []
    for x, t in zip(records.features, records.targets, strict=True):
        z = model.scores(w, x[None])
        r = model.loss.residual(z, np.array([t]))[0]
        rows.append(np.outer(r, np.append(x, 1.0) if model.intercept else x).ravel())
    return np.array(rows)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_derivatives_of_the_loss(name, intercept):
    model, records, w, _ = case(name, intercept)
    numeric = np.empty((len(records), model.size))
    for j in range(model.size):
        e = np.zeros(model.size)
        e[j] = 1e-6
        numeric[:, j] = (model.losses(w + e, records) - model.losses(w - e, records)) / 2e-6
    np.testing.assert_allclose(materialised(model, records, w), numeric, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("transformed", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_ghost_forms_agree_with_materialised_gradients(name, intercept, transformed, dtype):
    model, records, w, g = case(name, intercept, dtype)
    center = g.normal(size=model.size) if transformed else None
    scale = g.uniform(0.1, 3, size=model.size) if transformed else None
    ghost = model.gradients(w, records)
    matrix = materialised(model, records, w)
    tolerance = 1e-10 if dtype is np.float64 else 1e-3
    exact = ((matrix - (center if transformed else 0)) / (scale if transformed else 1)) ** 2
    norms = ghost.squared_norms(center, scale)
    np.testing.assert_allclose(norms, exact.sum(axis=1), rtol=tolerance, atol=tolerance)
    weights = g.uniform(size=len(records))
    np.testing.assert_allclose(ghost.weighted_sum(weights), weights @ matrix, rtol=tolerance, atol=tolerance)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-12, 12),
    st.floats(-12, 12),
    st.booleans(),
)
def test_computed_norms_are_never_below_the_true_ones(seed, size, shift, single):
    """Even where center and gradient nearly cancel: a norm that came out low would let a record exceed its charge."""
    g = np.random.default_rng(seed)
    dtype = np.float32 if single else np.float64
    model = LinearModel(3, Logistic(), intercept=True)
    records = Records((10.0**size * g.normal(size=(4, 3))).astype(dtype), g.integers(0, 2, 4))
    gradients = model.gradients(np.zeros(4), records)
    wide = np.longdouble
    matrix = np.array(
        [np.append(x.astype(wide), 1) * (0.5 - t) for x, t in zip(records.features, records.targets, strict=True)]
    )
    center = (matrix[0] * wide(1 + 10.0 ** (shift - 4))).astype(np.float64)
    scale = g.uniform(0.1, 2, 4)
    true = (((matrix - center) / scale) ** 2).sum(axis=1)
    assert (gradients.squared_norms(center, scale) >= true.astype(np.float64) * (1 - 1e-12)).all()
    assert (gradients.squared_norms(None, None) >= (matrix**2).sum(axis=1).astype(np.float64) * (1 - 1e-15)).all()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_along_a_line(name):
    model, records, w, g = case(name, True)
    direction, steps = g.normal(size=model.size), np.array([0.0, 0.3, 2.0])
    expected = [model.losses(w - s * direction, records) for s in steps]
    found = list(model.line_losses(w, direction, steps, records))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_clip_weights_edge_cases():
    squared = np.array([0.0, 1.0, 4.0, 16.0, np.inf, 9.0])
    finite = np.array([True, True, True, True, True, False])
    np.testing.assert_array_equal(clip_weights(squared, finite, 2.0), [1, 1, 1, 0.5, 0, 0])


@pytest.mark.parametrize("transformed", [False, True])
def test_clipped_sums_of_all_forms_agree(transformed):
    model, records, w, g = case("multinomial", True)
    options = (g.normal(size=model.size), g.uniform(0.1, 3, size=model.size)) if transformed else (None, None)
    matrix = Materialised(materialised(model, records, w), records.valid)
    ghost = model.gradients(w, records)
    expected = Gradients.clipped_sum(matrix, 0.7, *options)  # from norms and a weighted sum
    np.testing.assert_allclose(ghost.clipped_sum(0.7, *options), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(matrix.clipped_sum(0.7, *options), expected, rtol=1e-10, atol=1e-12)


def test_materialised_is_its_own_reference():
    g = np.random.default_rng(1)
    m = g.normal(size=(6, 4))
    m[2, 1] = np.nan
    gradients = Materialised(m, np.ones(6, bool))
    keep = np.array([0, 1, 3, 4, 5])
    assert not gradients.finite()[2] and gradients.squared_norms(None, None)[2] == 0
    np.testing.assert_allclose(gradients.weighted_sum(np.ones(6)), m[keep].sum(axis=0))
    np.testing.assert_allclose(gradients.squared_norms(None, None)[keep], (m[keep] ** 2).sum(axis=1))
