"""Gradients of linear models against finite differences of the loss, and what rows that are formed add up to."""

from __future__ import annotations

import numpy as np
import pytest

from tightdp.models.dense import choose_dense_gradient_grid
from tightdp.models.linear import Hinge, LinearModel, Logistic, Multinomial
from tightdp.models.model_interface import wrap_model_gradient_matrix
from tightdp.models.model_records import Records

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


def materialised_rows(model, records, w):
    """One gradient at a time, as an outer product: the definition."""
    rows = []
    for x, t in zip(records.features, records.targets, strict=True):
        z = model.compute_scores(w, x[None])
        r = model.loss.differentiate_by_scores(z, np.array([t]))[0]
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
        numeric[:, j] = (model.compute_losses(w + e, records) - model.compute_losses(w - e, records)) / 2e-6
    np.testing.assert_allclose(materialised_rows(model, records, w), numeric, atol=1e-7)


@pytest.mark.parametrize("transformed", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_outer_products_add_up_to_what_formed_rows_do(name, intercept, dtype, transformed):
    model, records, w, g = case(name, intercept, dtype)
    rows = materialised_rows(model, records, w)
    formed, outer = wrap_model_gradient_matrix(rows, records.valid), model.compute_gradients(w, records)
    # Roundings of both: docs/theory/exact-products.md, section 3.
    np.testing.assert_allclose(
        outer.compute_model_gradient_norms(), formed.compute_model_gradient_norms(), rtol=1e-5, atol=1e-12
    )
    options = (g.normal(size=model.size), g.uniform(0.5, 2, size=model.size)) if transformed else ()
    found, expected = (
        outer.sum_clipped_model_gradients(0.7, *options),
        formed.sum_clipped_model_gradients(0.7, *options),
    )
    np.testing.assert_allclose(
        *(s * choose_dense_gradient_grid(0.7, *options) for s in (found, expected)), rtol=0, atol=17 * 2.0**-15
    )


@pytest.mark.parametrize("name", LOSSES)
def test_losses_along_a_line(name):
    model, records, w, g = case(name, True)
    direction, steps = g.normal(size=model.size), np.array([0.0, 0.3, 2.0])
    expected = [model.compute_losses(w - s * direction, records) for s in steps]
    found = list(model.compute_line_losses(w, direction, steps, records))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_formed_rows_are_their_own_reference():
    g = np.random.default_rng(1)
    m = g.normal(size=(6, 4))
    m[2, 1] = np.nan
    gradients, keep = wrap_model_gradient_matrix(m, np.ones(6, bool)), np.array([0, 1, 3, 4, 5])
    norms = np.linalg.norm(m[keep], axis=1)
    assert gradients.compute_model_gradient_norms()[2] == 0
    np.testing.assert_allclose(gradients.compute_model_gradient_norms()[keep], norms, rtol=1e-5)
    expected = (m[keep] * np.minimum(1, 1.5 / norms)[:, None]).sum(axis=0)
    np.testing.assert_allclose(
        gradients.sum_clipped_model_gradients(1.5) * choose_dense_gradient_grid(1.5),
        expected,
        rtol=0,
        atol=6 * 1.5 * 2.0**-17,
    )
