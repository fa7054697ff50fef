"""The same records in any order, on any number of threads and any instruction set: the same bits are released."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tightdp import _core
from tightdp.models.linear import Hinge, Logistic
from tightdp.release_gate import minimum_query as minimum_module
from tightdp.release_gate.minimum_query import _order_query_records
from tightdp.train import (
    DPAGD,
    DPPCA,
    LinearModel,
    LinearSVC,
    LogisticRegression,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Records,
)


def unrounded(loss):
    """The minimum before it is rounded to the grid, which hides most of what an order changes."""

    def found(X, y):
        model = LinearModel(X.shape[1], loss)
        public = Public(3000, model.size, 1e-3, model)
        f, noise = minimum_module.build_minimum_objective(public, 1.0), np.linspace(-3, 3, model.size)
        return minimum_module._minimize_query_objective(
            Oracle(model, Records(X, y), public), np.zeros(model.size), f, noise, None
        )

    return found


BUDGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}
PENALTY = BUDGET | {"public_size": 3000, "regularization": 1e-3}
FITS = {
    "unrounded": unrounded(Logistic()),
    "unrounded hinge": unrounded(Hinge(2, 0.1)),
    "NoisyGD": lambda X, y: LogisticRegression(NoisyGD(steps=3), **BUDGET).fit(X, y)._w,
    "DPAGD": lambda X, y: LogisticRegression(DPAGD(selections=3), **BUDGET).fit(X, y)._w,
    "OutputPerturbation": lambda X, y: LogisticRegression(OutputPerturbation(), **PENALTY).fit(X, y)._w,
    "OutputPerturbation, hinge": lambda X, y: LinearSVC(OutputPerturbation(), huber=0.1, **PENALTY).fit(X, y)._w,
    "OutputPerturbation, three classes": lambda X, y: (
        LogisticRegression(OutputPerturbation(), **PENALTY).fit(X, y + (X[:, 0] > 1))._w
    ),
    "ObjectivePerturbation": lambda X, y: LogisticRegression(ObjectivePerturbation(), **PENALTY).fit(X, y)._w,
    "MLPClassifier": lambda X, y: MLPClassifier(NoisyGD(steps=3), hidden_layer_sizes=(5,), **BUDGET).fit(X, y)._w,
    "DPPCA": lambda X, y: DPPCA(3, **BUDGET).fit(X).components_,
}


def table(n=3000, d=120):
    """Rows of normals, some of them twice."""
    g = np.random.default_rng(0)
    X = g.normal(size=(n, d)).astype(np.float32)
    y = (X[:, :3].sum(axis=1) + g.normal(size=n) > 0).astype(np.intp)
    X[-50:], y[-50:] = X[:50], y[:50]
    return X, y


@pytest.mark.parametrize("name", FITS)
def test_permuted_rows_and_threads_give_the_same_bits(name):
    X, y = table()
    expected, before = FITS[name](X, y), _core.max_threads()
    try:
        for threads in (1, 2, 7):
            _core.set_max_threads(threads)
            order = np.random.default_rng(threads).permutation(len(X))
            np.testing.assert_array_equal(FITS[name](X[order], y[order]), expected)
    finally:
        _core.set_max_threads(before)


class Colliding:
    """In place of the generator of the hash's multipliers: all are 1, so that sums decide."""

    def __init__(self, seed):
        pass

    def integers(self, size):
        return np.ones(size, np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_records_that_share_a_hash_are_ordered_by_what_they_are(dtype, monkeypatch):
    monkeypatch.setattr(minimum_module, "Philox", Colliding)
    X = np.eye(4, dtype=dtype)[[0, 1, 2, 3, 0, 1, 2, 3, 0]]
    X[8] = np.nan
    y = np.array([0, 0, 0, 0, 1, 0, 1, 0, 0])
    seen = set()
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(X))
        found = _order_query_records(Records(X[order], y[order]))
        assert len(found) == 8
        seen.add((X[order][found].tobytes(), y[order][found].tobytes()))
    assert len(seen) == 1


DIGESTS = """
import json
import sys
sys.path.insert(0, {here!r})
from test_order import digests
print(json.dumps(digests()))
"""


def digests():
    return {name: hashlib.sha256(fit(*table()).tobytes()).hexdigest() for name, fit in FITS.items() if name != "DPPCA"}


@pytest.mark.slow
def test_blas_and_the_instruction_set_change_nothing():
    """Steps and components are also computed from what was released, by BLAS; minima nowhere."""
    code, expected = DIGESTS.format(here=os.path.dirname(__file__)), digests()
    minima = [name for name in expected if "unrounded" in name or "Perturbation" in name]
    for more, names in (
        ({"OPENBLAS_NUM_THREADS": "1", "TIGHTDP_ISA": "baseline"}, expected),
        ({"OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem", "TIGHTDP_ISA": "avx2"}, minima),
    ):
        run = subprocess.run([sys.executable, "-c", code], env={**os.environ, **more}, capture_output=True, text=True)
        found = json.loads(run.stdout)
        assert len(names) >= 6 and all(found[name] == expected[name] for name in names)
