"""Private ridge regression: what it releases, what it costs, and that it solves least squares."""

import os
import subprocess
import sys

import numpy as np
import pytest
from exactly import within

import tightdp as dp
from tightdp.audit import paired, run_pairs
from tightdp.estimators import regression as module
from tightdp.estimators import second_moment as moments
from tightdp.pipeline import PrivatePipeline
from tightdp.release_gate.gate import Gate
from tightdp.train import ArrayBlocks, Ridge, SGDRegressor

QUIET = 1e-4


def table(n=4000, seed=0):
    g = np.random.default_rng(seed)
    X = g.uniform([0, -5], [10, 5], size=(n, 2))
    return X, X @ [3.0, -1.0] + 5 + g.normal(size=n)


BOUNDS = {"bounds": ([0, -5], [10, 5]), "target_bounds": (-15, 55)}


def model(epsilon=None, delta=1e-6, **options):
    options = {**BOUNDS, "random_state": 0, **({} if epsilon else {"noise_multiplier": QUIET}), **options}
    return Ridge(epsilon, delta, **options)


@pytest.mark.parametrize("penalty", [0.0, 3.0, 500.0])
@pytest.mark.parametrize("constant", [True, False])
def test_without_noise_it_is_ridge_regression(penalty, constant):
    """The normal equations in plain NumPy, of the features as they are mapped."""
    X, y = table()
    fitted = model(max_norm=10.0, regularization=penalty, fit_intercept=constant).fit(X, y)
    u, t = (X - [5, 0]) / 5, (y - 20) / 35
    Z = np.column_stack([u, np.ones(len(u))]) if constant else u
    w = np.linalg.solve(Z.T @ Z + penalty * np.diag([1, 1, 0][: Z.shape[1]]), Z.T @ t)
    np.testing.assert_allclose(fitted.predict(X), 20 + 35 * Z @ w, atol=0.02)
    np.testing.assert_allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_, rtol=1e-9, atol=1e-9)


def test_a_longer_record_weighs_less():
    """The weight of section 6: (max_norm / |z|)^2."""
    X, y = table()
    fitted = model(max_norm=0.9, regularization=0.0).fit(X, y)
    u, t = (X - [5, 0]) / 5, (y - 20) / 35
    Z = np.column_stack([u, np.ones(len(u))])
    weight = np.minimum(1, 0.9**2 / ((Z**2).sum(axis=1) + t**2))[:, None]
    w = np.linalg.solve(Z.T @ (weight * Z), Z.T @ (weight[:, 0] * t))
    np.testing.assert_allclose(fitted.predict(X), 20 + 35 * Z @ w, atol=0.02)


def test_what_is_out_of_bounds_counts_as_the_bound():
    X, y = table()
    far, beyond = X.copy(), y.copy()
    far[:50], beyond[50:90] = X[:50] * 1e6, 1e9
    clipped, top = np.clip(far, [0, -5], [10, 5]), np.minimum(beyond, 55)
    np.testing.assert_array_equal(model().fit(far, beyond).coef_, model().fit(clipped, top).coef_)
    fitted = model().fit(X, y)
    np.testing.assert_array_equal(fitted.predict(far), fitted.predict(clipped))


@pytest.mark.parametrize("record", [[10.0, 5.0, 55.0], [0.0, 0.0, 20.0], [1e300, -1e300, -1e300], [np.nan, 1.0, 1.0]])
def test_one_record_moves_the_moment_by_at_most_the_sensitivity(record, monkeypatch):
    seen = []
    real = module.build_second_moment_query
    monkeypatch.setattr(module, "build_second_moment_query", lambda *of: seen.append(real(*of)) or seen[-1])
    X, y = table(30)
    model().fit(X, y)
    model().fit(np.vstack([X, record[:2]]), np.append(y, record[2]))
    moved = seen[1].evaluate(None) - seen[0].evaluate(None)
    assert within(moved, seen[0], seen[0].scale) and moved.any() == np.isfinite(record).all()


@pytest.mark.parametrize("bounds", [(0, 1e-60), (-1e60, 1e60), (1e60 * (1 - 2**-52), 1e60)])
@pytest.mark.parametrize("target", [(0, 1e-60), (-1e60, 1e60)])
@pytest.mark.parametrize("penalty", [None, 0.0])
@pytest.mark.filterwarnings("error")
def test_the_widest_and_narrowest_bounds_give_finite_predictions(bounds, target, penalty):
    X = np.linspace(*bounds, 100)[:, None] * np.ones(3)
    fitted = model(bounds=bounds, target_bounds=target, regularization=penalty).fit(X, np.linspace(*target, 100))
    assert np.isfinite([*fitted.coef_, fitted.intercept_, *fitted.predict(X)]).all()


def test_infinite_features_count_as_the_bound_and_without_bounds_for_nothing():
    X, y = table(30)
    far, target = np.vstack([X, [np.inf, -np.inf]]), np.append(y, 3.0)
    at_bound, out = np.vstack([X, [10.0, -5.0]]), np.vstack([X, [np.nan, np.nan]])
    np.testing.assert_array_equal(model().fit(far, target).coef_, model().fit(at_bound, target).coef_)
    unscaled = {"bounds": None, "max_norm": 20.0}
    np.testing.assert_array_equal(model(**unscaled).fit(far, target).coef_, model(**unscaled).fit(out, target).coef_)
    np.testing.assert_array_equal(model(**unscaled).fit(far, target).coef_, model(**unscaled).fit(X, y).coef_)


def test_it_is_charged_as_one_gaussian():
    X, y = table()
    fitted = model(noise_multiplier=4.0).fit(X, y)
    assert fitted.history_ == (dp.Gaussian(4.0),) and fitted.privacy_ == dp.Gaussian(4.0).epsilon(1e-6)
    assert 0.999 < model(1.0).fit(X, y).privacy_.lower <= model(1.0).fit(X, y).privacy_.upper <= 1.0


def test_it_predicts_at_an_ordinary_epsilon():
    X, y = table(50_000)
    fitted = model(1.0).fit(X, y)
    assert fitted.score(X, y) > 0.98 * np.corrcoef(X @ [3.0, -1.0], y)[0, 1] ** 2


def test_noise_does_not_blow_up():
    """Ten features of which all but one are the same, few records, much noise."""
    g = np.random.default_rng(0)
    X = np.column_stack([g.uniform(-1, 1, 200)] * 10)
    for seed in range(20):
        fitted = model(0.1, bounds=(-1, 1), target_bounds=(-1, 1), random_state=seed).fit(X, X[:, 0])
        assert np.abs(fitted.predict(X)).max() < 20


class Halved(Gate):
    """A gate with a bug: half of the noise that it charges."""

    def _add_noise(self, deviation, value):
        super()._add_noise(deviation / 2, value)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [False, True])
def test_an_audit_finds_what_was_claimed_and_half_the_noise_out(bug, monkeypatch):
    """The record (1, 1) is there or not, clipped to (1, 1)/sqrt(2), and the coefficient is the score: a shift of 1/2
    under noise of 1/sqrt(2), mu = .71 where 1 is charged."""
    if bug:
        monkeypatch.setattr(moments, "Gate", Halved)
    seeds = iter(range(10**6))

    def run(there):
        rows = np.full((1, 1), 1.0 if there else 0.0)
        settings = {"noise_multiplier": 1.0, "target_bounds": (-1, 1), "max_norm": 1.0, "regularization": 20.0}
        fitted = Ridge(delta=1e-5, fit_intercept=False, random_state=next(seeds), **settings)
        return fitted.fit(rows, rows[:, 0]).coef_[0]

    found = paired(*run_pairs(run, 1500), confidence=0.999, thresholds=[0.25 / 20]).mu()
    assert found > 1 if bug else 0.4 < found < 1


def test_statement_and_ledger(tmp_path):
    dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-5, dataset="test")
    X, y = table()
    fitted = model(1.0, ledger=tmp_path / "l", random_state=None).fit(X, y)
    stated = fitted.statement_
    assert stated.public["bounds of the features"] == "declared: [0, 10], [-5, 5]" and stated.warnings == ()
    assert stated.public["bounds of the target"] == "declared: [-15, 55]" and stated.ledger.startswith("that of 'test'")
    assert dp.Ledger(tmp_path / "l").account.composition == fitted.charged_
    with pytest.raises(dp.BudgetExceeded):
        model(2.0, ledger=tmp_path / "l").fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": None}, "^delta must be"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "exclude each other"),
        ({"target_bounds": None}, "^target_bounds must be given"),
        ({"target_bounds": (1, 0)}, "^target_bounds must be finite"),
        ({"target_bounds": 3}, r"^target_bounds must be \(low, high\)"),
        ({"bounds": ([0, 1, 2], [3, 4, 5])}, r"^bounds must be \(low, high\)"),
        ({"bounds": (0, float("inf"))}, "^bounds must be finite"),
        ({"bounds": (0, 5e-324)}, "^bounds must have a width"),
        ({"bounds": (0, 1e-320)}, "^bounds must have a width high - low of at least 1e-60"),
        ({"bounds": ([0, 0], [1, 9e-61])}, "^bounds must have a width"),
        ({"bounds": ([0, -1e61], [1, 1])}, r"^bounds must lie in \[-1e\+60, 1e\+60\]"),
        ({"target_bounds": (-1.7e308, 1.7e308)}, r"^target_bounds must lie in \[-1e\+60, 1e\+60\]"),
        ({"target_bounds": (0, 1e-320)}, "^target_bounds must have a width"),
        ({"max_norm": 0.0}, "^max_norm must be"),
        ({"regularization": -1.0}, "^regularization must be"),
        ({"noise_multiplier": 0.0}, "^noise_multiplier must be"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model(**options).fit(*table(20))


@pytest.mark.parametrize("y", [["a"] * 20, np.zeros(19), np.zeros((20, 2)), None])
def test_bad_targets(y):
    with pytest.raises((ValueError, TypeError)):
        model().fit(table(20)[0], y)


def test_scikit_learn_accepts_it():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    reason = "a refusal would reveal that a record with NaN is there"
    exceptions = dict.fromkeys(("check_estimators_nan_inf", "check_supervised_y_no_nan"), reason)
    estimator = Ridge(delta=1e-5, noise_multiplier=1e-9, target_bounds=(-10, 10), max_norm=1000.0)
    found = checks.check_estimator(estimator, expected_failed_checks=exceptions, on_skip=None)
    assert {c["check_name"] for c in found if c["status"] == "xfail"} == set(exceptions)


WITHOUT = """
import numpy as np
from tightdp.train import ArrayBlocks, Ridge, SGDRegressor
x = np.linspace(0, 1, 2000)[:, None]
model = Ridge(2.0, 1e-5, bounds=(0, 1), target_bounds=(0, 2), random_state=0)
assert model.fit(x, 2 * x[:, 0]).score(x, 2 * x[:, 0]) > 0.95
for y in (["a"] * 2000, x):
    try:
        model.fit(x, y)
    except ValueError as error:
        assert str(error).startswith("y must")
    else:
        raise AssertionError
print(model)
"""


def test_it_works_without_scikit_learn(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ImportError('hidden')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "Ridge(epsilon=2.0" in done.stdout, done.stderr


@pytest.mark.parametrize("source", ["array", "objects", "list", "blocks", "pipeline", "pipeline of blocks"])
@pytest.mark.parametrize("kind", [Ridge, SGDRegressor])
@pytest.mark.parametrize(("target", "same"), [(np.nan, None), (None, None), (np.inf, 1.0), (-np.inf, 0.0)])
def test_a_target_that_is_not_finite_causes_no_error(kind, source, target, same, tmp_path):
    """NaN contributes nothing, and infinity is the bound: an error of one record would have told that it is there."""
    X = np.random.default_rng(1).uniform(size=(60, 2)).round(3)
    y = X[:, 0].tolist()
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-4, dataset="test", failure=1e-5)

    def fit(features, targets):
        blocks = ArrayBlocks(features, np.array(targets, dtype=object if None in targets else float))
        given = {
            "array": (features, np.array(targets, dtype=float)),
            "objects": (features, np.array(targets, dtype=object)),
            "list": (features, targets),
        }.get(source, (blocks,) if "blocks" in source else (features, np.array(targets, dtype=float)))
        model = kind(target_bounds=(0, 1), bounds=(0, 1))
        budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": 3, "ledger": ledger}
        if source.startswith("pipeline"):
            fitted = PrivatePipeline([("keep", "passthrough"), ("last", model)], **budget).fit(*given)
            return fitted.steps_[-1][1].coef_
        return model.set_params(**budget).fit(*given).coef_

    there = fit(X, [*y[:7], target, *y[8:]])
    gone = X.copy()
    if same is None:
        gone[7] = np.nan
    np.testing.assert_array_equal(there, fit(gone, [*y[:7], 0.5 if same is None else same, *y[8:]]))
    assert len(ledger.history) == 2


@pytest.mark.parametrize("in_blocks", [False, True])
def test_targets_among_python_objects_are_numbers(in_blocks, tmp_path):
    X, y = np.ones((20, 1)), np.array([1.0] * 19 + ["CANARY"], dtype=object)
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-4, dataset="test")
    for made in (Ridge, SGDRegressor):
        model = made(epsilon=1.0, delta=1e-6, target_bounds=(0, 1), ledger=ledger)
        with pytest.raises(ValueError, match="y must hold") as error:
            model.fit(*((ArrayBlocks(X, y),) if in_blocks else (X, y)))
        assert "CANARY" not in str(error.value)
    assert not ledger.history
