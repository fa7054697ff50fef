"""scikit-learn's interface, the account of what was released, and every documented error."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import tightdp as dp
from tightdp.train import DPPCA, DPSGD, SGD, LinearSVC, LogisticRegression, NoisyGD, Ridge, SGDRegressor

LOUD = NoisyGD(noise_multiplier=1e-3, steps=200, learning_rate=2.0, max_norm=5.0, momentum=0.9)


QUIET = NoisyGD(noise_multiplier=1e-3, steps=100, max_norm=5.0)
EXCEPTIONS = {
    "check_estimators_nan_inf": "a refusal would reveal that a record with NaN is there; predict does refuse",
}
WEIGHTED = EXCEPTIONS | {
    "check_sample_weight_equivalence_on_dense_data": "weights are relative, and the noise is not",
    "check_sample_weight_equivalence_on_sparse_data": "weights are relative, and the noise is not",
}

TARGETS = {"check_supervised_y_no_nan": "a refusal would reveal that a record without a finite target is there"}


@pytest.mark.parametrize(
    ("estimator", "exceptions"),
    [
        (LogisticRegression(LOUD, delta=1e-5, max_sample_weight=4.0), WEIGHTED),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (LinearSVC(LOUD, delta=1e-5, max_sample_weight=4.0), WEIGHTED),
                (
                    SGDRegressor(QUIET, delta=1e-5, target_bounds=(-300, 300), max_sample_weight=4.0),
                    WEIGHTED | TARGETS,
                ),
                (Ridge(noise_multiplier=1e-3, delta=1e-5, target_bounds=(-300, 300)), EXCEPTIONS | TARGETS),
                (DPPCA(1, noise_multiplier=1e-3, delta=1e-5), EXCEPTIONS),
            )
        ),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore:X has features beyond 10")  # of scikit-learn's own tables
def test_scikit_learn_accepts_it(estimator, exceptions):
    checks = check_estimator(estimator, expected_failed_checks=exceptions, on_skip=None)
    assert {c["check_name"] for c in checks if c["status"] == "xfail"} == set(exceptions)


def test_dpsgd_is_charged_what_it_released(blobs):
    X, y = blobs
    algorithm = DPSGD(batch_size=150, epochs=2, noise_multiplier=1.5)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(X, y)
    by_hand = dp.PoissonSampled(dp.Gaussian(1.5), 0.1) * 20
    assert clf.history_ == (dp.PoissonSampled(dp.Gaussian(1.5), 0.1),) * 20
    assert clf.charged_ == by_hand
    assert clf.privacy_ == by_hand.epsilon(1e-5)
    assert clf.n_iter_ == 20


@pytest.mark.parametrize("algorithm", [DPSGD(batch_size=150, epochs=2), NoisyGD()])
def test_epsilon_and_delta_are_met_and_used_up(blobs, algorithm):
    clf = LogisticRegression(algorithm, epsilon=0.7, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    assert 0.69 < clf.privacy_.lower <= clf.privacy_.upper <= 0.7
    assert clf.charged_ == sum(clf.history_)


def test_noisy_gd_is_one_gaussian(blobs):
    clf = LogisticRegression(
        NoisyGD(steps=9, noise_multiplier=6.0, center=0), delta=1e-5, public_size=1500, random_state=0
    ).fit(*blobs)
    one = dp.Gaussian(2.0).epsilon(1e-5)
    assert clf.privacy_.upper == pytest.approx(one.upper, rel=1e-9)


def test_empty_batches_still_release_noise(blobs):
    X, y = blobs
    algorithm = DPSGD(batch_size=1e-6, epochs=9.9e-9, noise_multiplier=1.0, optimizer=SGD(1e-9), average=0.0)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=len(X), random_state=0).fit(X, y)
    assert clf.n_iter_ == 15 and (clf.coef_ != 0).all()


def test_the_divisor_is_public(blobs, monkeypatch):
    """Twice the public size at the same noise: the same sums over twice the divisor, so steps half as long."""
    X, y = blobs
    algorithm = NoisyGD(steps=1, noise_multiplier=1.0, learning_rate=1.0, momentum=0.0, center=0)
    once, twice = (
        LogisticRegression(algorithm, delta=1e-5, public_size=n, random_state=0).fit(X, y) for n in (1500, 3000)
    )
    np.testing.assert_allclose(once.coef_, 2 * twice.coef_)


def test_an_int_reproduces_and_none_does_not(blobs):
    fits = [LogisticRegression(epsilon=1.0, delta=1e-5, random_state=s).fit(*blobs).coef_ for s in (7, 7, None, None)]
    assert (fits[0] == fits[1]).all() and (fits[2] != fits[3]).any()


def test_three_classes():
    g = np.random.default_rng(0)
    y = g.choice(["a", "b", "c"], 6000)
    X = g.normal(size=(6000, 3)) + 3 * (y[:, None] == np.array(["a", "b", "c"]))
    for kind in (LogisticRegression, LinearSVC):
        clf = kind(epsilon=2.0, delta=1e-5, random_state=0).fit(X, y)
        assert clf.coef_.shape == (3, 3) and clf.intercept_.shape == (3,)
        assert clf.score(X, y) > 0.8
    proba = LogisticRegression(epsilon=2.0, delta=1e-5, random_state=0).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_bounds_clip_and_scale(blobs):
    X, y = blobs
    bounded = LogisticRegression(epsilon=1.0, delta=1e-5, bounds=(-2.0, 6.0), random_state=0).fit(X, y)
    by_hand = LogisticRegression(epsilon=1.0, delta=1e-5, random_state=0).fit((np.clip(X, -2, 6) + 2) / 8, y)
    np.testing.assert_allclose(bounded.coef_, by_hand.coef_)
    np.testing.assert_array_equal(bounded.predict(X), by_hand.predict((np.clip(X, -2, 6) + 2) / 8))


def test_a_nan_record_is_neither_refused_nor_revealed(blobs):
    X, y = blobs
    spoilt = np.vstack([X, np.full((1, 4), np.nan)])
    with_nan = LogisticRegression(epsilon=1.0, delta=1e-5, public_size=1500, random_state=0).fit(
        spoilt, np.append(y, 1)
    )
    without = LogisticRegression(epsilon=1.0, delta=1e-5, public_size=1500, random_state=0).fit(X, y)
    np.testing.assert_allclose(with_nan.coef_, without.coef_, rtol=1e-9)


@pytest.mark.parametrize("feature", [1e160, np.inf])
def test_a_record_whose_gradient_overflows_contributes_nothing(feature):
    X, y = np.full((4, 2), 0.5), np.array([0, 1, 1, 1])
    X[3] = feature

    def fitted(records):
        clf = LogisticRegression(NoisyGD(noise_multiplier=1e-8, steps=1, center=0), delta=1e-5, public_size=4)
        return clf.set_params(random_state=0).fit(X[:records], y[:records])._w

    np.testing.assert_array_equal(fitted(4), fitted(3))


def test_callback_counts_releases(blobs):
    seen = []
    settings = {"epsilon": 1.0, "delta": 1e-5, "callback": lambda done, total: seen.append((done, total))}
    LogisticRegression(NoisyGD(steps=3, center=0), public_size=1500, **settings).fit(*blobs)
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": None}, "delta must be given"),
        ({"epsilon": None}, "epsilon must be given"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 2.0**64}, r"epsilon must be a number in \(0, 1e6\], got 1.8"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"regularization": -1.0}, "regularization must be"),
        ({"public_size": 0}, "public_size must be"),
        ({"classes": [0]}, "^classes must have at least two classes"),
        ({"classes": [1, 2]}, "^y must hold no label but those declared in classes"),
        ({"bounds": (1.0, 1.0)}, "low < high"),
        ({"bounds": 3.0}, r"bounds must be \(low, high\)"),
        ({"bounds": (np.zeros(3), np.ones(3))}, r"bounds must be \(low, high\)"),
        ({"random_state": -1}, "random_state must be"),
        ({"algorithm": NoisyGD(noise_multiplier=1.0)}, "exclude each other"),
    ],
)
def test_bad_settings_are_refused_by_name(blobs, settings, message):
    clf = LogisticRegression(**{"epsilon": 1.0, "delta": 1e-5, **settings})
    with pytest.raises(ValueError, match=message):
        clf.fit(*blobs)


def test_bad_types_are_refused_by_name(blobs):
    with pytest.raises(TypeError, match="random_state must be None"):
        LogisticRegression(epsilon=1.0, delta=1e-5, random_state="x").fit(*blobs)
    with pytest.raises(ValueError, match="huber must be"):
        LinearSVC(epsilon=1.0, delta=1e-5, huber=-1.0).fit(*blobs)


def test_bad_data_is_refused_by_name(blobs):
    X, y = blobs
    clf = LogisticRegression(epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="one class only"):
        clf.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="one label for each record"):
        clf.fit(X, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(X, np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="1d"):
        clf.fit(X, np.zeros((len(X), 2)))
    fitted = clone(clf).fit(X, y)
    with pytest.raises(ValueError, match="finite"):
        fitted.predict(np.full((1, 4), np.nan))


LABELS = ["a", "b"] * 10


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([*LABELS[1:], "CANARY"], ["a", "b"], "^y must hold no label but those declared"),
        (LABELS, [1, 2], "^y must hold no label but those declared"),
        (["CANARY"] * 20, None, "^y must have at least two classes"),
        ([*LABELS[1:], None], None, "^y must hold labels of one type"),
        (np.array([*LABELS[1:], 3], dtype=object), None, "^y must hold labels of one type"),
        ([b"CANARY", b"b"] * 10, None, "^y must hold labels of one type"),
        ([0, 10**400] * 10, None, "^y must hold labels of one type"),
        ([0, 1 + 2j] * 10, None, "^y must hold labels of one type"),
        ([{"CANARY": 1}, 2] * 10, None, "^y must hold labels of one type"),
        (LABELS, ["a", None], "^classes must hold labels of one type"),
        (LABELS, "CANARY", "^classes must hold labels, text or whole numbers"),
    ],
)
def test_labels_are_refused_by_name_and_not_quoted(y, classes, message):
    clf = LogisticRegression(epsilon=1.0, delta=1e-5, classes=classes)
    with pytest.raises((ValueError, TypeError), match=message) as error:
        clf.fit(np.zeros((20, 2)), y)
    assert not any(secret in str(error.value) for secret in ("CANARY", "000", "2.j"))


@pytest.mark.parametrize("cell", ["CANARY", 10**400, {"CANARY": 1}, 31 + 2j, [31, 2], b"CANARY"])
def test_a_cell_that_is_no_number_is_refused_by_name_and_not_quoted(cell):
    X = np.zeros((20, 2), dtype=object)
    X[3, 1] = cell
    with pytest.raises((ValueError, TypeError), match=r"^X must be a 2-D array of numbers") as error:
        LogisticRegression(epsilon=1.0, delta=1e-5).fit(X, LABELS)
    assert not any(secret in str(error.value) for secret in ("CANARY", "000", "31"))


@pytest.mark.parametrize("X", [np.full(20, 31.5), np.full((20, 2), 31 + 2j), [[31.5]] * 19 + [[31.5, 2]]])
def test_an_array_of_another_form_is_refused_by_name_and_not_quoted(X):
    with pytest.raises(ValueError, match=r"^X must be a 2-D array") as error:
        LogisticRegression(epsilon=1.0, delta=1e-5).fit(X, LABELS)
    assert "31" not in str(error.value)


@pytest.mark.parametrize(("dtype", "bounds"), [("f8", (-1.7e308, 1.7e308)), ("f4", (-3e38, 3e38)), ("f4", (0.0, 1e39))])
@pytest.mark.filterwarnings("error")
def test_bounds_too_wide_for_the_features_are_refused(dtype, bounds):
    with pytest.raises(ValueError, match=r"^bounds must be finite .* and so must be the width high - low"):
        LogisticRegression(epsilon=1.0, delta=1e-5, bounds=bounds).fit(np.zeros((20, 2), dtype), LABELS)


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        (DPSGD, {"batch_size": 0}, "batch_size"),
        (DPSGD, {"epochs": -1}, "epochs"),
        (DPSGD, {"max_norm": float("inf")}, "max_norm"),
        (DPSGD, {"noise_multiplier": 0}, "noise_multiplier"),
        (DPSGD, {"average": 1.5}, "average"),
        (NoisyGD, {"steps": 0}, "steps"),
        (NoisyGD, {"momentum": 1.0}, "momentum"),
        (NoisyGD, {"learning_rate": float("nan")}, "learning_rate"),
        (SGD, {"learning_rate": 0}, "learning_rate"),
    ],
)
def test_bad_algorithm_settings_are_refused_by_name(kind, settings, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        kind(**settings)


def test_works_without_scikit_learn(tmp_path):
    """With an import of scikit-learn made to fail: the same fit, get_params, set_params and score."""
    (tmp_path / "sklearn.py").write_text("raise ImportError('hidden')\n")
    code = """
import numpy as np
from tightdp.train import LogisticRegression
x = np.linspace(-1, 1, 500)[:, None]
clf = LogisticRegression(epsilon=1.0, delta=1e-5, random_state=0)
assert clf.set_params(epsilon=2.0).get_params()["epsilon"] == 2.0
assert clf.fit(x, x[:, 0] > 0).score(x, x[:, 0] > 0) > 0.9
try:
    clf.predict(np.zeros((1, 2)))
except ValueError as e:
    assert "2 features" in str(e)
try:
    LogisticRegression().predict(x)
except AttributeError as e:
    assert "not fitted" in str(e)
print(clf)
"""
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "epsilon=2.0" in done.stdout


@pytest.mark.parametrize("kind", ["VotingClassifier", "BaggingClassifier", "StackingClassifier"])
def test_declared_texts_in_meta_estimators_that_hand_on_places(kind):
    """scikit-learn's meta-estimators code labels as whole numbers, which were not declared: the error names the way."""
    from sklearn import ensemble

    def made(classes):
        inner = LogisticRegression(epsilon=5.0, delta=1e-5, classes=classes, random_state=0)
        if kind == "BaggingClassifier":
            inner.set_params(max_sample_weight=1.0)  # it hands on weights, which are 1 for a sample of all records
            return ensemble.BaggingClassifier(inner, n_estimators=2, max_samples=1.0, bootstrap=False)
        return getattr(ensemble, kind)([("one", inner), ("two", clone(inner))])

    x = np.linspace(-1, 1, 1000)[:, None]
    y = np.where(x[:, 0] > 0, "yes", "no")
    with pytest.raises(ValueError, match=rf"{kind}.*inside of them declare classes=\[0, 1, ...\], the places"):
        made(["no", "yes"]).fit(x, y)
    fitted = made([0, 1]).fit(x, y)
    assert set(fitted.predict(x)) == {"no", "yes"} and fitted.score(x, y) > 0.9


@pytest.mark.parametrize("labels", [[0, 2], [0.0, 1.0], ["No", "Yes"]])
def test_other_labels_are_not_taken_for_places(labels):
    x = np.linspace(-1, 1, 100)[:, None]
    model = LogisticRegression(epsilon=5.0, delta=1e-5, classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"it holds another$"):
        model.fit(x, np.where(x[:, 0] > 0, *labels))


def raw(*names):
    g = np.random.default_rng(0)
    columns = {
        "unit": g.uniform(size=800),
        "pixel": g.integers(0, 256, 800),
        "age": g.integers(18, 90, 800),
        "lone": np.where(np.arange(800) % 2, 1e6, 0.0),
        "missing": np.full(800, np.nan),
    }
    return np.column_stack([columns[name] for name in names]).astype(float), np.arange(800) % 3 > 0


@pytest.mark.parametrize("names", [["age"], ["unit", "age"], ["pixel", "unit"]])
@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_features_that_nobody_scaled_are_warned_of(kind, names):
    X, y = raw(*names)
    with pytest.warns(UserWarning, match="X has features beyond 10 and no bounds: .* Give public bounds"):
        kind(epsilon=1.0, delta=1e-5).fit(X, y)
    kind(epsilon=1.0, delta=1e-5, bounds=(0, 255)).fit(X, y)


@pytest.mark.parametrize("names", [["unit"], ["unit", "lone"], ["missing", "unit"]])
def test_features_of_few_records_are_not_warned_of(names):
    X, y = raw(*names)
    LogisticRegression(epsilon=1.0, delta=1e-5).fit(X, y)
    LogisticRegression(epsilon=1.0, delta=1e-5).fit(10 - 20 * raw("unit")[0], y)


class TestArraysWithAMask:
    """A mask says that cells are missing, and NumPy's functions forget it."""

    X = np.random.default_rng(0).uniform(size=(40, 2))
    y = X[:, 0] > 0.5

    def fit(self, X, y, **given):
        model = LogisticRegression(NoisyGD(steps=2), epsilon=1.0, delta=1e-5, classes=[False, True], bounds=(0, 1))
        return model.fit(X, y, **given)

    @pytest.mark.parametrize("masked", ["X", "y", "sample_weight"])
    def test_a_mask_is_refused(self, masked):
        given = {"X": self.X, "y": self.y, "sample_weight": np.ones(40)}
        given[masked] = np.ma.array(given[masked], mask=given[masked] > 0.5)
        with pytest.raises(TypeError, match=f"{masked} must be an array without a mask"):
            self.fit(**given)


@pytest.mark.parametrize("given", ["no", None, 5, []])
def test_fit_intercept_is_true_or_false(given):
    X = np.zeros((10, 2))
    for model, y in (
        (LogisticRegression(bounds=(0, 1), classes=[0, 1], epsilon=1.0, delta=1e-5), np.zeros(10)),
        (Ridge(bounds=(0, 1), target_bounds=(0, 1), epsilon=1.0, delta=1e-5), np.zeros(10)),
        (SGDRegressor(bounds=(0, 1), target_bounds=(0, 1), epsilon=1.0, delta=1e-5), np.zeros(10)),
    ):
        with pytest.raises(TypeError, match=r"fit_intercept must be True or False"):
            model.set_params(fit_intercept=given).fit(X, y)


@pytest.mark.parametrize("unit", ["datetime64[D]", "timedelta64[s]"])
def test_dates_are_no_features(unit):
    """NumPy would count them in days or in nanoseconds, as they were read."""
    X = np.arange(60).reshape(30, 2).astype(unit)
    tables = [X, pytest.importorskip("pandas").DataFrame({"when": X[:, 0], "b": 1.0})]
    for estimator in (LogisticRegression(epsilon=1.0, delta=1e-5, public_size=30), DPPCA(1, 1.0, 1e-5)):
        for table in tables:
            with pytest.raises(TypeError, match=r"^X must hold numbers: turn dates"):
                estimator.fit(table, np.arange(30) % 2)
