"""Dask's collections: the bits of an array for any number of workers and blocks, also where a worker dies."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tightdp.train import DPPCA, DPSGD, DaskBlocks, LogisticRegression, MLPClassifier, NoisyGD, Ridge

dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
frame = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")
pytest.importorskip("distributed")

N = 400
TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(N, 4))
    X[3, 1] = np.nan
    return X, np.where(X[:, 0] > 0, "yes", "no")


@pytest.fixture(autouse=True)
def here():
    with dask.config.set(scheduler="synchronous"):
        yield


def collections(X, y):
    """The table as arrays and data frames of several splits."""
    names = pandas.DataFrame(X, columns=list("abcd")).assign(y=y)
    frames = frame.from_pandas(names, npartitions=3)
    counted = array.from_array(X, chunks=(90, 2)), array.from_array(y, chunks=70)
    everything = array.ones(N, chunks=90, dtype=bool)
    uncounted = counted[0][everything], array.from_array(y, chunks=90)[everything]  # of unknown lengths
    return [counted, uncounted, (frames, "y"), (frames[list("abcd")], frames["y"])]


@pytest.mark.parametrize("algorithm", [NoisyGD(steps=3), DPSGD(epochs=0.2)])
def test_collections_give_the_bits_of_an_array(table, algorithm):
    expected = LogisticRegression(algorithm, **TARGET, bounds=(-2, 2)).fit(*table)
    for X, y in collections(*table):
        found = LogisticRegression(algorithm, **TARGET, bounds=(-2, 2), classes=["yes", "no"]).fit(X, y)
        np.testing.assert_array_equal(found._w, expected._w)
        assert found.charged_ == expected.charged_


def test_networks_regression_and_components(table):
    X, y = np.nan_to_num(table[0]), (table[1] == "yes").astype(float)
    dX, dy = array.from_array(X, chunks=(90, 4)), array.from_array(y, chunks=90)
    for made in (
        lambda X, y: MLPClassifier(DPSGD(epochs=0.1), **TARGET, hidden_layer_sizes=(3,)).fit(X, y)._w,
        lambda X, y: Ridge(target_bounds=(0, 1), **TARGET).fit(X, y).coef_,
        lambda X, y: DPPCA(2, **TARGET).fit(DaskBlocks(X, y) if X is dX else X).components_,
    ):
        np.testing.assert_array_equal(made(dX, dy), made(X, y))


def test_bad_collections_are_refused_by_name(table):
    X, y = table
    dX, dy = array.from_array(X, chunks=(90, 4)), array.from_array(y, chunks=90)
    frames = frame.from_pandas(pandas.DataFrame(X, columns=list("abcd")).assign(y=y), npartitions=3)
    clf = LogisticRegression(**TARGET)
    for given, message in [
        ((dX, dy[:-1]), "y must have one target for each record"),
        ((dX[:, 0], dy), "X must be a 2-D array of Dask"),
        ((frames, "z"), "y must be the name of a column of X"),
        ((frames, frames["y"]), "X must hold numbers, and these columns hold text: y"),
        ((frames[["a"]], frame.from_pandas(pandas.Series(y), npartitions=2)), "y must have chunks or partitions"),
    ]:
        with pytest.raises(ValueError, match=message):
            clf.fit(*given)
    with pytest.raises(TypeError, match="X and y must be collections of Dask"):
        clf.fit(dX, y)
    with pytest.raises(ValueError, match="no label but those declared"):
        LogisticRegression(**TARGET, classes=["yes", "maybe"]).fit(dX, dy)


CLUSTERS = """
import json, os, signal, sys
import dask.array as array
import numpy as np
import tightdp as dp
from dask.distributed import Client, LocalCluster
from tightdp.train import DPSGD, LogisticRegression, NoisyGD

X = np.random.default_rng(0).normal(size=(400, 4))
y = (X[:, 0] > 0).astype(int)
target = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}
FITS = [NoisyGD(steps=3), DPSGD(epochs=0.1)]

def fits(X, y, **more):
    return [LogisticRegression(a, **target, **more).fit(X, y) for a in FITS]

def cluster(n, processes):
    return LocalCluster(n_workers=n, threads_per_worker=1, processes=processes, dashboard_address=None)

def mortal(part):
    try:
        os.remove("die")
    except FileNotFoundError:
        return part
    os.kill(os.getpid(), signal.SIGKILL)  # the worker that makes this part, once

if __name__ == "__main__":
    expected = fits(X, y)
    dX, dy = array.from_array(X, chunks=(60, 4)), array.from_array(y, chunks=60)
    seen = {}
    for n in (1, 7):
        with cluster(n, False) as c, Client(c):
            seen[f"{n} workers"] = fits(dX, dy)
    with cluster(2, True) as c, Client(c) as client:
        dX, dy = dX.persist(), dy.persist()
        armed = []

        def arm(done, total):
            if done == 2 and not armed:
                armed.append(open("die", "w").close())

        ledger = dp.Ledger.create("budget", epsilon=5.0, delta=1e-4, failure=5e-5, dataset="test")
        seen["one of 2 killed in a task"] = fits(dX.map_blocks(mortal, meta=X[:0]), dy, callback=arm, ledger=ledger)
        assert armed and not os.path.exists("die")
        charged = [dp.Composition(entry.releases) for entry in ledger.history]
        assert charged == [found.charged_ for found in expected], charged
    print(json.dumps({
        name: all(
            (a._w == b._w).all() and a.history_ == b.history_ and a.charged_ == b.charged_
            for a, b in zip(found, expected, strict=True)
        )
        for name, found in seen.items()
    }))
"""


def test_1_2_and_7_workers_give_the_same_bits_and_one_may_die(tmp_path):
    """On real clusters of distributed, in a process of its own, since their threads outlive a test."""
    (tmp_path / "clusters.py").write_text(CLUSTERS)
    done = subprocess.run(
        [sys.executable, tmp_path / "clusters.py"], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    same = json.loads(done.stdout.splitlines()[-1])
    assert same == {"1 workers": True, "7 workers": True, "one of 2 killed in a task": True}
