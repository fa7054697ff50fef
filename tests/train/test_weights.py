"""Weights of records and of classes: what they mean, beside scikit-learn and beside repeated records, and that none
moves a release by more than a record of the largest weight (docs/theory/training.md, section 11)."""

from __future__ import annotations

import numpy as np
import pytest
from locality import watched
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as Exact
from sklearn.model_selection import ParameterGrid

import tightdp as dp
from tightdp.model_selection import PrivateSearchCV
from tightdp.models.linear import LinearModel, Logistic
from tightdp.models.model_records import Records
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.records import blocks as record_blocks
from tightdp.release_gate.oracle import Oracle, Public
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    AdaCliP,
    ArrayBlocks,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
    SGDRegressor,
    fit,
)

TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
LOUD = NoisyGD(noise_multiplier=1e-8, steps=1, max_norm=50.0, center=0, learning_rate=0.5)
"""Next to no noise and no clipping: sums over records, to nine digits."""
ALGORITHMS = [
    NoisyGD(steps=3),
    DPSGD(epochs=1),
    DPAGD(selections=3),
    AdaCliP(epochs=1),
    DPIS(epochs=1),
    OutputPerturbation(),
    ObjectivePerturbation(),
]
EACH = pytest.mark.parametrize(
    "algorithm",
    [pytest.param(one, marks=[pytest.mark.slow] * isinstance(one, DPAGD)) for one in ALGORITHMS],
    ids=lambda one: type(one).__name__,
)
SETTINGS = {**TARGET, "regularization": 0.1}
"""Output and objective perturbation need a penalty."""


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(1)
    y = g.integers(0, 2, 900)
    return g.normal(size=(900, 3)) + y[:, None], y


@pytest.fixture(scope="module")
def rare():
    """5,000 records of which a tenth is positive."""
    g = np.random.default_rng(7)
    y = (np.arange(5000) % 10 == 0).astype(int)
    return g.normal(size=(5000, 4)) + np.outer(y, [1.0, 0.5, 0.0, 0.0]), y


@pytest.mark.parametrize("public_size", [None, 5000])
@pytest.mark.parametrize(
    "algorithm", [None, *(pytest.param(one, marks=pytest.mark.slow) for one in (DPSGD(), AdaCliP()))]
)
def test_weights_of_classes_predict_as_many_positives_as_scikit_learn(rare, algorithm, public_size):
    """These are .36 of the records. Gradients that are clipped after they are weighted give next to none."""
    X, y = rare
    weights = {0: 1, 1: 10}
    expected = Exact(class_weight=weights).fit(X, y).predict(X).mean()
    settings = {"epsilon": 3.0, "delta": 1e-5, "class_weight": weights, "public_size": public_size}
    found = [
        LogisticRegression(algorithm, **settings, random_state=seed).fit(X, y).predict(X).mean() for seed in range(5)
    ]
    assert abs(np.mean(found) - expected) <= 0.03


@pytest.mark.parametrize("largest", [9000.0, 1 / 5000])
def test_weights_of_records_predict_as_many_positives_as_scikit_learn(rare, largest):
    """Weights of 500 to 9,000, and the same over 45 million: of 1/n at most. They raise the share by half or more."""
    X = rare[0]
    g = np.random.default_rng(8)
    y = (X[:, 0] + g.normal(size=5000) > 0.5).astype(int)
    weights = np.where(y == 1, g.uniform(4000, 9000, 5000), g.uniform(500, 4000, 5000)) * (largest / 9000)
    expected = Exact(C=1e6).fit(X, y, weights / largest).predict(X).mean()
    assert expected > 1.5 * Exact().fit(X, y).predict(X).mean()
    settings = {"epsilon": 3.0, "delta": 1e-5, "max_sample_weight": largest}
    made = [LogisticRegression(**settings, random_state=seed).fit(X, y, weights) for seed in range(5)]
    assert abs(np.mean([each.predict(X).mean() for each in made]) - expected) <= 0.03


@EACH
@pytest.mark.parametrize("public_size", [None, 900])
def test_equal_weights_change_no_bit(table, algorithm, public_size):
    """Weights of 1/n, of thousands, and beyond the largest, which count as it."""
    X, y = table
    made = LogisticRegression(algorithm, **SETTINGS, public_size=public_size)
    plain = clone(made).fit(X, y)
    for weight, largest in ((1.0, 1.0), (1 / 900, 1 / 900), (9000.0, 9000.0), (3.0, 2.0), (5e-324, 5e-324)):
        found = clone(made).set_params(max_sample_weight=largest).fit(X, y, np.full(900, weight))
        np.testing.assert_array_equal(found._w, plain._w)
        assert found.charged_ == plain.charged_
    for classes in ({0: 1}, {0: 7, 1: 7}, {}):
        np.testing.assert_array_equal(clone(made).set_params(class_weight=classes).fit(X, y)._w, plain._w)
    np.testing.assert_array_equal(clone(made).set_params(max_sample_weight=3.0).fit(X, y)._w, plain._w)


@EACH
def test_only_ratios_of_weights_count(table, algorithm):
    """Weights and the largest of them in another unit: 3 is exact, so the quotients are the same numbers."""
    X, y = table
    weights = np.random.default_rng(2).integers(0, 50, 900)
    made = LogisticRegression(algorithm, **SETTINGS)
    plain = clone(made).fit(X, y)
    first, other = (
        clone(made).set_params(max_sample_weight=40 * unit).fit(X, y, weights * unit)._w for unit in (1.0, 3.0)
    )
    np.testing.assert_array_equal(first, other)
    assert (first != plain._w).any()
    first, other = (clone(made).set_params(class_weight=each).fit(X, y)._w for each in ({1: 10}, {0: 3, 1: 30}))
    np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, MLPClassifier, SGDRegressor])
def test_whole_weights_are_repeated_records(table, kind):
    """Where nothing is clipped. Each record counts by its weight over the largest, 3, also in the public number."""
    X, y = table
    times = np.append(np.random.default_rng(2).integers(0, 4, 899), 3)
    settings = {"delta": 1e-5, "random_state": 0, "max_sample_weight": 3}
    if kind is SGDRegressor:
        settings["target_bounds"] = (0, 1)
    else:
        settings["classes"] = [0, 1]
    weighted = kind(LOUD, **settings, public_size=1000).fit(X, y, sample_weight=times)
    repeated = kind(LOUD, **settings, public_size=3000).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    each = 50 * 2.0**-16  # what truncation takes of a record, docs/theory/exact-products.md, section 3
    np.testing.assert_allclose(weighted._w, repeated._w, rtol=0, atol=0.5 * 2 * each)
    assert np.abs(weighted._w - kind(LOUD, **settings, public_size=1000).fit(X, y)._w).max() > 10 * each
    if kind is SGDRegressor:
        return
    by_class = kind(LOUD, **settings, public_size=1000, class_weight={1: 3.0}).fit(X, y)
    by_record = kind(LOUD, **settings, public_size=1000).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    in_blocks = kind(LOUD, **settings, public_size=1000, class_weight={1: 3.0}).fit(ArrayBlocks(X, y, rows=70))
    assert (by_class._w == by_record._w).all() and (by_class._w == in_blocks._w).all()


def test_the_count_that_is_released_is_the_sum_of_relative_weights(table):
    X, y = table
    weights = np.random.default_rng(3).integers(0, 9, 900)
    made = LogisticRegression(NoisyGD(noise_multiplier=1e-8, steps=20), delta=1e-5, max_sample_weight=8.0)
    for given in ((X, y, weights), (ArrayBlocks(X, y, rows=99), None, weights)):
        assert made.fit(*given).public_size_ == pytest.approx(weights.sum() / 8, abs=1)
    by_class = LogisticRegression(made.algorithm, delta=1e-5, class_weight={1: 4.0}).fit(X, y)
    assert by_class.public_size_ == pytest.approx(y.sum() + (900 - y.sum()) / 4, abs=1)
    assert by_class.charge_for(3) == by_class.charged_ == LogisticRegression(made.algorithm, delta=1e-5).charge_for(3)


ONE = np.array([[0.7, 0.5, -0.4]])
"""A record that is not clipped, beside a weight; times 1e6 one that is."""


@EACH
@pytest.mark.parametrize("size", [1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
def test_no_weight_moves_a_release_by_more_than_the_bound(algorithm, size, dtype):
    """One record more, of any weight: the integers behind the gate move by what is declared at most."""
    g = np.random.default_rng(4)
    X, y = (g.normal(size=(80, 3)) / 4).astype(dtype), np.arange(80) % 2
    weights = g.random(80)
    settings = {**SETTINGS, "classes": [0, 1], "max_sample_weight": 0.1, "class_weight": {0: 0.3, 1: 0.1}}
    if not isinstance(algorithm, (DPSGD, AdaCliP)):
        settings["public_size"] = 80
    made = LogisticRegression(algorithm, **settings)
    with watched() as alone:
        clone(made).fit(X, y, weights)
    assert alone.seen
    near = np.nextafter(0.1, 0)
    for weight in (0.0, 5e-324, near, 0.1, float(np.float32(0.1)), 1.7e308):
        for label in (0, 1):
            with watched(alone) as beside:
                more = np.concatenate([X, (size * ONE).astype(dtype)]), np.append(y, label), np.append(weights, weight)
                clone(made).fit(*more)
            assert len(beside.seen) == len(alone.seen) and beside.largest <= 1
            assert weight or isinstance(algorithm, DPIS) or beside.largest == 0


def test_a_record_of_the_largest_weight_moves_a_sum_by_the_bound_and_others_by_their_share(table):
    X, y = table
    loud = NoisyGD(noise_multiplier=1e-6, steps=1, learning_rate=1.0, momentum=0.0, center=0)
    settings = {"delta": 1e-5, "public_size": 900, "random_state": 0, "max_sample_weight": 2.0}
    x, label = np.append(X, [[9.0, 0.0, 0.0]], axis=0), np.append(y, 0)
    without = LogisticRegression(loud, **settings).fit(X, y)._w
    for weight, share in ((1e9, 1.0), (2.0, 1.0), (0.5, 0.25), (0.0, 0.0)):
        found = LogisticRegression(loud, **settings).fit(x, label, sample_weight=np.append(np.full(900, 2.0), weight))
        moved = 900 * np.linalg.norm(found._w - without)
        assert share * (1 - 1e-4) - 1e-4 <= moved <= share + 1e-4


def test_no_relative_weight_is_above_one():
    g = np.random.default_rng(0)
    largest = 10.0 ** g.uniform(-320, 308, 20000)
    for weights in (largest, np.nextafter(largest, 0), np.nextafter(largest, np.inf), g.random(20000) * largest):
        found = np.concatenate(
            [record_blocks.scale_weights_of_records(w, m) for w, m in zip(weights[:, None], largest, strict=True)]
        )
        assert (found >= 0).all() and (found <= 1).all()
    assert record_blocks.scale_weights_of_records(np.float32([0.1]).astype(float), 0.1).tolist() == [1.0]


def test_losses_that_steps_are_chosen_by_are_weighted_after_they_are_clipped():
    """Each record adds its weight times its loss confined to [0, max_loss]."""
    g = np.random.default_rng(5)
    X, y, weights, w = g.normal(size=(40, 3)), g.integers(0, 2, 40), g.random(40), 3 * g.normal(size=4)
    model, steps = LinearModel(3, Logistic()), np.array([0.0, 1.0, 4.0])
    oracle = Oracle(model, Records(X, y, weights=weights), Public(40, 4, linear=model))
    query = oracle.line_loss_query(w, np.ones(4), steps, 1.5)
    z = np.array([X @ (w[:3] - s) + w[3] - s for s in steps])
    expected = (weights * np.minimum(np.logaddexp(0, np.where(y == 1, -z, z)), 1.5)).sum(axis=1)
    np.testing.assert_allclose(query.evaluate(dp.Philox(0)) * query.grid, expected, atol=40 * query.grid)


def test_adaclip_estimates_the_weighted_mean_gradient():
    """The released sum about a centre, over the sum of weights, plus the centre: no weight pulls it to the centre."""
    g = np.random.default_rng(6)
    X, y, weights, w = g.normal(size=(500, 3)), g.integers(0, 2, 500), g.random(500), g.normal(size=4)
    model = LinearModel(3, Logistic())
    oracle = Oracle(model, Records(X, y, weights=weights), Public(500, 4, linear=model))
    center, scale = g.normal(size=4), np.full(4, 100.0)
    query = oracle.gradient_sum_query(w, 1.0, center=center, scale=scale)
    found = center + query.evaluate(dp.Philox(0)) * query.grid / weights.sum()
    rows = np.column_stack([X, np.ones(500)]) * (1 / (1 + np.exp(-(X @ w[:3] + w[3]))) - y)[:, None]
    np.testing.assert_allclose(found, np.average(rows, axis=0, weights=weights), atol=1e-2)


@pytest.mark.parametrize("algorithm", [OutputPerturbation(noise_multiplier=1e-9), ObjectivePerturbation()])
def test_perturbation_minimises_the_weighted_mean_loss(rare, algorithm):
    """Beside scikit-learn, on records within the norm bound and with little noise."""
    X, y = rare
    X = X / np.sqrt((X**2).sum(axis=1).max())
    weights = np.where(y == 1, 2.0, np.arange(5000) % 3)
    total = int(weights.sum() / 2)
    settings = {"delta": 1e-5, "regularization": 1e-2, "fit_intercept": False, "random_state": 0}
    if isinstance(algorithm, ObjectivePerturbation):
        settings["epsilon"] = 1000.0
    made = LogisticRegression(algorithm, **settings, public_size=total, max_sample_weight=2.0)
    found = made.fit(X, y, weights).coef_
    exact = Exact(C=1 / (total * 1e-2), fit_intercept=False, tol=1e-10).fit(X, y, weights / 2).coef_
    np.testing.assert_allclose(found, exact, atol=5e-3)


@pytest.mark.parametrize(
    ("settings", "weights", "message"),
    [
        ({}, -np.ones(900), "sample_weight must be finite numbers >= 0"),
        ({}, np.full(900, np.nan), "sample_weight must be"),
        ({}, np.zeros(900), "not all zero"),
        ({}, np.ones(899), r"sample_weight must have shape \(900,\)"),
        ({}, ["CANARY"] * 900, "sample_weight must be numbers"),
        (
            {"max_sample_weight": None},
            np.ones(900),
            r"max_sample_weight must be given .* a public number in \(0, inf\)",
        ),
        ({"max_sample_weight": 0.0}, np.ones(900), "max_sample_weight must be"),
        ({"max_sample_weight": np.inf}, None, "max_sample_weight must be"),
        ({"max_sample_weight": "1"}, None, "max_sample_weight must be"),
        ({"class_weight": "balanced"}, None, "class_weight must be a dict .* 'balanced' would be comp"),
        ({"class_weight": {5: 1.0}}, None, "class_weight must name no label but the classes"),
        ({"class_weight": {0: -1.0}}, None, "class_weight must be"),
        ({"class_weight": {0: 0.0, 1: 0}}, None, "class_weight must leave some class a weight above 0"),
    ],
)
def test_bad_weights_are_refused_by_name_before_a_charge(table, settings, weights, message, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="test")
    given = {"max_sample_weight": 1.0, **TARGET, **settings, "ledger": ledger}
    with pytest.raises((ValueError, TypeError), match=message) as error:
        LogisticRegression(**given).fit(*table, sample_weight=weights)
    assert "CANARY" not in str(error.value) and not ledger.history


def test_a_largest_weight_that_is_missing_is_named_at_every_door_before_a_charge(table, tmp_path):
    X, y = table
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="test")
    blocks, target = ArrayBlocks(X, y, rows=99, sample_weight=np.ones(900)), {**TARGET, "ledger": ledger}
    steps = [("s", MinMaxScaler(bounds=(-3, 3))), ("m", LogisticRegression(NoisyGD(steps=3)))]
    search = PrivateSearchCV(LogisticRegression(NoisyGD(steps=3)), {"regularization": [0.0]}, **target, mean=1.0)
    model = LinearModel(3, Logistic())
    for attempt in (
        lambda: LogisticRegression(**target).fit(blocks),
        lambda: SGDRegressor(**target, target_bounds=(0, 1)).fit(blocks),
        lambda: LogisticRegression(**target).partial_fit(X, y, sample_weight=np.ones(900)),
        lambda: PrivatePipeline(steps, **target).fit(blocks),
        lambda: search.fit(blocks),
        lambda: fit(model, X, y, NoisyGD(steps=3), **target, sample_weight=np.ones(900)),
        lambda: fit(model, blocks, None, NoisyGD(steps=3), **target),
    ):
        with pytest.raises(ValueError, match="max_sample_weight must be given where records have weights"):
            attempt()
    assert not ledger.history


def test_the_statement_names_the_largest_weight(table):
    X, y = table
    made = LogisticRegression(NoisyGD(steps=3), **TARGET, max_sample_weight=2.5, class_weight={1: 10})
    public = made.fit(X, y, np.ones(900)).statement_.to_dict()["public"]
    assert public["weights of the records"].endswith("at most 2.5, as declared: larger ones count as that")
    assert public["weights of labels"] == "declared: 1: 10; 1 for the others"
    assert "each counted by its weight over the largest" in public["number of records"]
    public = made.set_params(class_weight=None).fit(X, y).statement_.to_dict()["public"]
    assert "weights of the records" not in public and "weight" not in public["number of records"]


def test_the_largest_weight_is_a_parameter_like_others():
    made = LogisticRegression(**TARGET, max_sample_weight=2.0)
    assert clone(made).get_params()["max_sample_weight"] == 2.0
    for grid in ParameterGrid({"max_sample_weight": [1.0, 4.0]}):
        assert clone(made).set_params(**grid).max_sample_weight == grid["max_sample_weight"]
