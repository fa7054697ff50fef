"""Training spends from a ledger what it is charged, before it looks at a record."""

import numpy as np
import pytest

import tightdp as dp
from tightdp.models.model_interface import CallableModel
from tightdp.train import DPAGD, DPPCA, DPSGD, LogisticRegression, NoisyGD, ObjectivePerturbation, fit

X = np.random.default_rng(0).random((400, 3))
Y = X[:, 0] > 0.5


@pytest.fixture
def ledger(tmp_path):
    return dp.Ledger.create(tmp_path / "test.ledger", epsilon=4.0, delta=1e-5, dataset="test", failure=2e-6)


@pytest.mark.parametrize("size", [None, 400])
@pytest.mark.parametrize(
    "algorithm",
    [
        NoisyGD(steps=5),
        pytest.param(DPSGD(batch_size=40, epochs=1), marks=pytest.mark.slow),
        DPAGD(),
        ObjectivePerturbation(),
    ],
)
def test_a_fit_spends_what_it_is_charged(ledger, algorithm, size):
    options = {"classes": [False, True], "public_size": size, "ledger": ledger, "random_state": 0}
    model = LogisticRegression(algorithm, 0.5, 1e-7, regularization=0.1, **options).fit(X, Y)
    (entry,) = ledger.history
    assert dict(entry.releases) == dict(model.charged_.parts) and entry.note == "LogisticRegression.fit"
    model.fit(X, Y)
    assert len(ledger.history) == 2
    plain = LogisticRegression(algorithm, 0.5, 1e-7, regularization=0.1, **{**options, "ledger": None}).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


class Reads(Exception):
    pass


def test_what_is_refused_has_looked_at_nothing(ledger, monkeypatch):
    def looked(*_):
        raise Reads

    monkeypatch.setattr("tightdp.release_gate.oracle.Oracle.draw_batch", looked)
    for size in (None, 400):
        model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[False, True], public_size=size, ledger=ledger)
        with pytest.raises(Reads):
            model.fit(X, Y)
        before = len(ledger.history)
        assert before  # spent first
        with pytest.raises(dp.BudgetExceeded):
            model.set_params(epsilon=40.0).fit(X, Y)
        assert len(ledger.history) == before


def test_a_path_will_do(ledger, tmp_path):
    path = str(tmp_path / "test.ledger")
    DPPCA(1, 0.5, 1e-7, ledger=path).fit(X)
    model = CallableModel(3, lambda w, x, y: (x @ w - y)[:, None] * x)
    fit(model, X, X[:, 0], NoisyGD(), epsilon=0.5, delta=1e-7, ledger=path, note="least squares")
    assert [entry.note for entry in ledger.history] == ["DPPCA.fit", "least squares"]


@pytest.mark.parametrize(("given", "error"), [(3, TypeError), ("nowhere.ledger", dp.LedgerError)])
def test_what_is_no_ledger(given, error):
    with pytest.raises(error):
        LogisticRegression(epsilon=1.0, delta=1e-6, ledger=given).fit(X, Y)


def test_estimators_with_a_ledger_are_cloned(ledger):
    sklearn = pytest.importorskip("sklearn.base")
    model = sklearn.clone(LogisticRegression(epsilon=0.5, delta=1e-7, classes=[False, True], ledger=ledger))
    model.fit(X, Y)
    assert len(ledger.history) == 1
