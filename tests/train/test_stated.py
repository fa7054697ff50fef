"""statement_: what a fit took to be public, and what it released."""

import hashlib
import json

import numpy as np
import pytest

import tightdp as dp
from tightdp.train import (
    DPIS,
    DPPCA,
    DPSGD,
    AdaCliP,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    OutputPerturbation,
)

pytestmark = pytest.mark.filterwarnings("ignore:X has features beyond 10")  # what a fit without bounds says of itself
X = np.random.default_rng(0).random((500, 2)) * [50, 1]
Y = np.where(X[:, 0] > 25, "yes", "no")


def test_all_declared():
    options = {"classes": ["no", "yes"], "public_size": 500, "bounds": ([0, 0], [50, 1])}
    model = LogisticRegression(epsilon=1.0, delta=1e-5, **options).fit(X, Y)
    stated = model.statement_
    assert (stated.privacy, stated.charged, stated.delta) == (model.privacy_, model.charged_, 1e-5)
    assert stated.public == {
        "number of records": "given: 500",
        "columns": "their number, 2, and their order",
        "labels": "declared: no, yes",
        "bounds of the features": "declared: [0, 50], [0, 1]",
    }
    assert stated.released == ("the fitted parameters, 3 numbers",) and stated.warnings == ()
    assert stated.subject.startswith("LogisticRegression, trained by NoisyGD(") and "None" not in stated.subject


@pytest.mark.parametrize(
    "algorithm",
    [
        NoisyGD(),
        DPSGD(epochs=1),
        AdaCliP(epochs=1),
        DPIS(epochs=1),
        DPIS(epochs=1, norm_share=0.3),
        OutputPerturbation(),
    ],
)
@pytest.mark.parametrize("size", [None, 500])
def test_the_settings_are_those_that_were_used(algorithm, size):
    """What was left open is said as it was chosen, and the account bears it out."""
    options = {"classes": ["no", "yes"], "public_size": size, "regularization": 0.01, "random_state": 0}
    model = LogisticRegression(algorithm, epsilon=1.0, delta=1e-5, **options).fit(X, Y)
    settings = model.statement_.settings
    assert settings["regularization"] == "0.01" and "None" not in settings.values()
    noise = float(settings["noise_multiplier"])
    last = model.history_[-1]
    if "norm_share" in settings or not isinstance(algorithm, DPIS):
        assert getattr(last, "mechanism", last).noise_multiplier == noise
        assert int(settings.get("steps", 1)) == model.history_.count(last)


def test_nothing_declared():
    model = LinearSVC(epsilon=1.0, delta=1e-2, random_state=3).fit(X, Y)
    stated = model.statement_
    assert stated.public["labels"] == "those that occur: no, yes" and stated.taken == ("labels",)
    assert stated.public["number of records"] == "private, and a noisy count was released"
    assert stated.released[1] == f"the number of records with noise, {model.public_size_:,}"
    assert stated.size == model.public_size_ and "used as they are" in stated.not_covered[0]
    assert [warning.split()[0] for warning in stated.warnings] == ["The", "delta", "What"]


def test_it_is_of_the_fit_and_not_of_what_was_set_since():
    model = LogisticRegression(epsilon=1.0, delta=1e-5, classes=["no", "yes"], random_state=3).fit(X, Y)
    before = model.statement_
    model.set_params(delta=0.5, random_state=None, classes=None)
    assert model.statement_ is before and before.delta == 1e-5 and before.seeded


@pytest.mark.parametrize("count", [3, 40])
def test_of_many_labels_some_are_listed(count):
    names = [f"label {k:02}" for k in range(count)]
    model = MLPClassifier(DPSGD(50, 1, noise_multiplier=1.0), delta=1e-5, classes=names, public_size=500)
    how = model.fit(X, np.resize(names, 500)).statement_.public["labels"]
    digest = hashlib.sha256(json.dumps(names).encode()).hexdigest()
    assert how == "declared: " + ", ".join(names[:20]) + (f", and 20 more (sha256 {digest})" if count == 40 else "")


def test_principal_components_and_ledgers(tmp_path):
    path = tmp_path / "test.ledger"
    ledger = dp.Ledger.create(path, epsilon=3.0, delta=1e-5, dataset="test")
    stated = DPPCA(1, 1.0, 1e-6, ledger=path).fit(X).statement_
    paid = f"that of 'test', (3.0, 1e-05) in all, identity {ledger.identity}, release {ledger.history[0].release}"
    assert stated.ledger == paid and not stated.seeded
    assert "DPPCA, 1 of 2 components" in str(stated)
