"""Private principal components: the sensitivity, the account, the noise's law."""

from __future__ import annotations

import numpy as np
import pytest
from exactly import within

import tightdp as dp
from tightdp.estimators.second_moment import packed, second_moment, unpacked
from tightdp.train import DPPCA, Records


def test_packing_is_an_isometry():
    g = np.random.default_rng(0)
    a, b = (m + m.T for m in g.normal(size=(2, 5, 5)))
    weights = second_moment(Records(np.ones((1, 5)), np.zeros(1)), 1.0).scale ** -2.0
    assert packed(a) @ (weights * packed(b)) == pytest.approx((a * b).sum())
    np.testing.assert_allclose(unpacked(packed(a), 5), a)


@pytest.mark.parametrize("length", [0.0, 1e-200, 0.5, 3.0, 1e150, 1e200, np.nan])
def test_one_record_moves_the_matrix_by_at_most_the_sensitivity(length):
    g = np.random.default_rng(1)
    X, x = g.normal(size=(20, 4)), g.normal(size=4)
    x *= length / np.linalg.norm(x)
    query, larger = (second_moment(Records(rows, np.zeros(len(rows))), 0.7) for rows in (X, np.vstack([X, x])))
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
