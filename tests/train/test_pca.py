"""Private principal components: the sensitivity, the account, the noise's law."""

from __future__ import annotations

import numpy as np
import pytest
from exactly import within

import tightdp as dp
from tightdp.estimators.pca import _choose_pca_constant, _FeaturePreparation
from tightdp.estimators.second_moment import build_second_moment_query, pack_second_moment, unpack_second_moment
from tightdp.train import DPPCA, Records


def test_packing_is_an_isometry():
    g = np.random.default_rng(0)
    a, b = (m + m.T for m in g.normal(size=(2, 5, 5)))
    weights = build_second_moment_query(Records(np.ones((1, 5)), np.zeros(1)), 1.0).scale ** -2.0
    assert pack_second_moment(a) @ (weights * pack_second_moment(b)) == pytest.approx((a * b).sum())
    np.testing.assert_allclose(unpack_second_moment(pack_second_moment(a), 5), a)


@pytest.mark.parametrize("length", [0.0, 1e-200, 0.5, 3.0, 1e150, 1e200, np.nan])
def test_one_record_moves_the_matrix_by_at_most_the_sensitivity(length):
    g = np.random.default_rng(1)
    X, x = g.normal(size=(20, 4)), g.normal(size=4)
    x *= length / np.linalg.norm(x)
    query, larger = (
        build_second_moment_query(Records(rows, np.zeros(len(rows))), 0.7) for rows in (X, np.vstack([X, x]))
    )
    moved = larger.evaluate(None) - query.evaluate(None)
    assert within(moved, query, query.scale)
    if 0.5 < length < 1e300:
        assert np.linalg.norm(moved * query.grid / query.scale) == pytest.approx(0.49, rel=1e-3)


def test_it_is_charged_as_one_gaussian():
    X = np.random.default_rng(2).normal(size=(500, 4))
    pca = DPPCA(2, delta=1e-5, noise_multiplier=3.0, random_state=0).fit(X)
    assert pca.history_ == (dp.Gaussian(3.0),) and pca.privacy_ == dp.Gaussian(3.0).epsilon(1e-5)
    assert DPPCA(2, 0.5, 1e-5, random_state=0).fit(X).privacy_.upper <= 0.5


def test_without_much_noise_it_finds_the_leading_directions():
    g = np.random.default_rng(3)
    basis = np.linalg.qr(g.normal(size=(6, 6)))[0]
    X = (g.normal(size=(5000, 6)) * [1.0, 0.7, 0.05, 0.05, 0.05, 0.05]) @ basis.T
    pca = DPPCA(2, delta=1e-5, noise_multiplier=0.01, max_norm=10.0, random_state=0)
    assert np.linalg.norm(pca.fit_transform(X), axis=0) == pytest.approx(
        np.linalg.norm(X @ basis[:, :2], axis=0), rel=0.01
    )
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(2), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 5}, "n_components"),
        ({"max_norm": 0.0}, "max_norm"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"epsilon": 1.0}, "exclude each other"),
        ({"delta": None}, "delta"),
    ],
)
def test_settings_are_checked(settings, message):
    X = np.ones((10, 4))
    with pytest.raises(ValueError, match=message):
        DPPCA(**({"n_components": 2, "delta": 1e-5, "noise_multiplier": 1.0} | settings)).fit(X)


def test_with_next_to_no_noise_it_is_the_analysis_of_the_covariance():
    """The first axis of what is not centred is the mean."""
    g = np.random.default_rng(5)
    X = g.normal(size=(4000, 3)) * [0.02, 0.3, 0.1] + [3.0, -1.0, 0.0]
    settings = {"delta": 1e-5, "noise_multiplier": 1e-4, "max_norm": 6.0, "random_state": 0}
    pca = DPPCA(3, **settings).fit(X)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    assert np.abs(np.diag(pca.components_ @ vectors[:, ::-1])).min() > 0.999
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(pca.transform(X), (X - pca.mean_) @ pca.components_.T, atol=1e-12)
    np.testing.assert_allclose(pca.transform(X).var(axis=0), values[::-1], rtol=0.01)
    assert "4 x 4, and the mean and components" in pca.statement_.released[0]
    plain = DPPCA(1, center=False, **settings).fit(X)
    direction = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
    assert abs(plain.components_[0] @ direction) > 0.99 and not plain.mean_.any()
    assert "3 x 3, and the components" in plain.statement_.released[0]


@pytest.mark.parametrize("length", [0.0, 0.5, 0.7, 3.0, 1e150, np.nan])
@pytest.mark.parametrize("max_norm", [0.7, 1.0, 3.0])
def test_one_record_moves_the_matrix_with_a_mean_by_at_most_the_sensitivity(length, max_norm):
    g = np.random.default_rng(1)
    X, x = g.normal(size=(20, 4)), g.normal(size=4)
    x *= length / np.linalg.norm(x)
    bound, constant = _choose_pca_constant(max_norm)
    assert bound**2 == pytest.approx(1.25 * max_norm**2) and constant <= max_norm / 2
    query, larger = (
        build_second_moment_query(_FeaturePreparation(constant)(rows, rows), bound, 5)
        for rows in (X, np.vstack([X, x]))
    )
    moved = larger.evaluate(None) - query.evaluate(None)
    assert within(moved, query, query.scale) and query.sensitivity == pytest.approx(1.25 * max_norm**2)
    if length < max_norm:  # such a row counts as one record, and the constant is exact on the grid
        assert unpack_second_moment(moved * query.grid, 5)[-1, -1] == constant**2


def test_so_few_records_that_noise_hides_their_number():
    for seed in range(20):
        pca = DPPCA(1, delta=1e-5, noise_multiplier=50.0, random_state=seed).fit(np.ones((1, 2)))
        assert np.isfinite(pca.mean_).all() and np.isfinite(pca.components_).all()


def test_whether_it_centres_is_true_or_false():
    with pytest.raises(TypeError, match="center must be True or False, got 3"):
        DPPCA(1, delta=1e-5, noise_multiplier=1.0, center=3).fit(np.ones((10, 4)))
