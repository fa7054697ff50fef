"""Times a fit on a table, from a Parquet file block by block and in memory, beside scikit-learn and diffprivlib.

    python bench/tables.py [--rows 1000000] [--columns 50] [--epsilon 1] [--rounds 1] [--contenders NAME ...]
    python bench/tables.py --passes 100000000 [--columns 20] [--steps 10]

The table is generated, with uniform features in [0, 10] and a label of logistic odds. Each fit runs in a process of its
own, and contenders take turns. The output has medians of the seconds and the seconds of CPU from the file to the model,
and of the peak of memory above that of the imports. It also has accuracy and log-loss on 200,000 further records. It is
asserted that the budget is met, and that the model from blocks has the bits of the model from memory. Each accuracy
must be at least that of guessing (except for diffprivlib), and at most that of the true odds, up to the error of
200,000 records.

scikit-learn's SGDClassifier is not private. It makes five passes over the table in memory, or one pass by
``partial_fit`` over the blocks of the file. diffprivlib's LogisticRegression is purely private (delta 0), and takes a
bound on the norm of a record. All contenders get features that public bounds map to [0, 1]. NoisyGD makes 30 steps with
a norm bound of 4. So it makes 32 passes over the records, one for a check, one for the centre of the features and 30
for the steps. "NoisyGD, uncopied" decodes the file in each pass. "NoisyGD, defaults" has the default settings, and
makes 150 steps. diffprivlib 0.6.6 needs an older scikit-learn. It takes part if a folder with both is given:

    pip install --no-deps --target peer diffprivlib==0.6.6 scikit-learn==1.6.1
    python bench/tables.py --peer peer

``--passes`` times full-batch steps over a memory map of this many generated rows, in float32. The memory map is written
to the folder of the results, and removed afterwards. The output has the seconds of a pass, and the anonymous memory of
the process, which does not grow with the number of rows.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from shared import RESULTS, options

HELD, DELTA, BLOCK = 200_000, 1e-7, 100_000
SLOPES = 6.0
"""Norm of the weights of the features. With this norm, labels are neither certain nor close to fair coins."""


def rows(first: int, count: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns generated features, labels and true log-odds of some records. Equal arguments give equal records."""
    g = np.random.default_rng([first, columns])
    weights = np.random.default_rng(columns).normal(size=columns)
    weights -= weights.mean()
    weights *= SLOPES / np.linalg.norm(weights)
    x = g.random((count, columns), dtype=np.float32)
    odds = x @ weights.astype(np.float32)
    return 10 * x, (g.random(count) < 1 / (1 + np.exp(-odds))).astype(np.int64), odds


def written(path: Path, n: int, columns: int) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    names = [f"x{i}" for i in range(columns)]
    schema = arrow.schema([(name, arrow.float32()) for name in names] + [("y", arrow.int64())])
    with parquet.ParquetWriter(path, schema) as file:
        for first in range(0, n, BLOCK):
            x, y, _ = rows(first, min(BLOCK, n - first), columns)
            file.write_table(arrow.table({**dict(zip(names, x.T, strict=True)), "y": y}, schema=schema))


def whole(path: Path) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    x = np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]])
    return x, table["y"].to_numpy()


def ours(path: Path, epsilon: float, algorithm: Any, blocks: bool = True, copy: bool = True) -> Any:
    from tightdp.train import FileBlocks, LogisticRegression

    clf = LogisticRegression(
        algorithm, epsilon=epsilon, delta=DELTA, bounds=(0, 10), classes=[0, 1], random_state=0
    )  # the seed makes it possible to compare bits
    clf.fit(FileBlocks(path, "y", copy=copy)) if blocks else clf.fit(*whole(path))
    assert clf.privacy_.upper <= epsilon
    return clf


def sgd(path: Path, epsilon: float) -> Any:
    from sklearn.linear_model import SGDClassifier

    x, y = whole(path)
    return _Mapped(SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0).fit(x / 10, y))


def sgd_blocks(path: Path, epsilon: float) -> Any:
    import pyarrow.parquet as parquet
    from sklearn.linear_model import SGDClassifier

    clf = SGDClassifier(loss="log_loss", random_state=0)
    for batch in parquet.ParquetFile(path).iter_batches(BLOCK):
        x = np.column_stack([batch.column(i).to_numpy() for i in range(batch.num_columns - 1)])
        clf.partial_fit(x / 10, batch.column(batch.num_columns - 1).to_numpy(), classes=[0, 1])
    return _Mapped(clf)


def diffprivlib(path: Path, epsilon: float) -> Any:
    from diffprivlib.models import LogisticRegression

    x, y = whole(path)
    clf = LogisticRegression(epsilon=epsilon, data_norm=math.sqrt(x.shape[1]), max_iter=200, random_state=0)
    return _Mapped(clf.fit(x / 10, y))


class _Mapped:
    """A model that was fitted to features in [0, 1], and gets features in [0, 10]."""

    def __init__(self, clf: Any) -> None:
        self._clf, self.coef_ = clf, clf.coef_

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self._clf.predict_proba(x / 10)


def noisy_gd(path: Path, epsilon: float, *how: bool, **settings: Any) -> Any:
    from tightdp.train import NoisyGD

    return ours(path, epsilon, NoisyGD(**settings), *how)


FEW = {"steps": 30, "max_norm": 4.0}


def dp_sgd(path: Path, epsilon: float) -> Any:
    from tightdp.train import DPSGD, SGD

    return ours(path, epsilon, DPSGD(epochs=2, max_norm=4.0, optimizer=SGD(0.2, 0.9)))


CONTENDERS: dict[str, tuple[str, Callable[[Path, float], Any]]] = {
    "NoisyGD, blocks": ("tightdp.train pyarrow.dataset", partial(noisy_gd, **FEW)),
    "NoisyGD, uncopied": ("tightdp.train pyarrow.dataset", lambda path, e: noisy_gd(path, e, True, False, **FEW)),
    "NoisyGD, memory": ("tightdp.train pyarrow.parquet", lambda path, e: noisy_gd(path, e, False, **FEW)),
    "NoisyGD, defaults": ("tightdp.train pyarrow.dataset", noisy_gd),
    "DPSGD, blocks": ("tightdp.train pyarrow.dataset", dp_sgd),
    "diffprivlib": ("diffprivlib.models pyarrow.parquet", diffprivlib),
    "SGDClassifier": ("sklearn.linear_model pyarrow.parquet", sgd),
    "SGDClassifier, blocks": ("sklearn.linear_model pyarrow.parquet", sgd_blocks),
}


def one(name: str, path: Path, epsilon: float, columns: int) -> dict[str, Any]:
    """Makes one fit in this process. Returns its time and memory, and the quality of the model."""
    import warnings

    warnings.simplefilter("ignore")
    imports, fit = CONTENDERS[name]
    for module in imports.split():
        __import__(module)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    clf = fit(path, epsilon)
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    took["MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    accuracy, loss, best = _held(clf, columns)
    least = 0.0 if name == "diffprivlib" else 0.5
    assert least <= accuracy <= best + 0.01, (name, accuracy, best)
    return {**took, "accuracy": accuracy, "log-loss": loss, "best": best, "coef": clf.coef_.ravel().tolist()}


def passes(n: int, columns: int, steps: int) -> None:
    """Makes one fit over a memory map. Prints the time of a pass, the memory, and the quality of the model."""
    from tightdp.train import LogisticRegression, NoisyGD

    with tempfile.TemporaryDirectory(dir=_results()) as folder:
        mapped(Path(folder), n, columns)
        x, y = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in "xy")
        peak, ended, at = [_anonymous()], threading.Event(), [(time.perf_counter(), time.process_time())]

        def watch() -> None:
            while not ended.wait(0.02):
                peak.append(_anonymous())

        def released(done: int, total: int) -> None:
            at.append((time.perf_counter(), time.process_time()))
            print(f"release {done} of {total}: {at[-1][0] - at[-2][0]:.1f} s", file=sys.stderr, flush=True)

        watcher = threading.Thread(target=watch)
        watcher.start()
        settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "bounds": (0, 10), "classes": [0, 1]}
        clf = LogisticRegression(NoisyGD(steps=steps), callback=released, **settings)
        clf.fit(x, y)
        ended.set()
        watcher.join()
        assert clf.privacy_.upper <= 1
    wall, cpu = np.median(np.diff(at, axis=0)[-steps:], axis=0)
    accuracy, loss, best = _held(clf, columns)
    whole, busy = np.subtract(at[-1], at[0])
    print(f"{n:,} x {columns}, {4e-9 * n * columns:.1f} GB: {whole:.0f} s, {busy:.0f} of CPU")
    print(f"a pass (median of {steps}): {wall:.2f} s, {cpu:.2f} of CPU, {1e9 * cpu / n:.1f} ns of CPU a row")
    print(f"anonymous memory: {peak[0]:.0f} MB before, {max(peak):.0f} MB at most")
    print(f"accuracy {accuracy:.4f} (best {best:.4f}), log-loss {loss:.4f}")
    assert accuracy <= best + 0.01


def mapped(folder: Path, n: int, columns: int) -> None:
    """Writes generated rows to memory maps."""
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n, columns))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int8, (n,))
    for first in range(0, n, BLOCK):
        x[first : first + BLOCK], y[first : first + BLOCK], _ = rows(first, min(BLOCK, n - first), columns)


def _held(clf: Any, columns: int) -> tuple[float, float, float]:
    """Returns accuracy and log-loss on records that were not used for the fit, and the accuracy of the true odds."""
    x, y, odds = rows(2**40, HELD, columns)
    share = np.clip(clf.predict_proba(x)[:, 1], 1e-15, 1 - 1e-15)
    loss = float(-np.where(y == 1, np.log(share), np.log1p(-share)).mean())
    return float(((share > 0.5) == y).mean()), loss, float(((odds > 0) == y).mean())


def _anonymous() -> float:
    """Returns the anonymous memory of this process, which no file backs, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def _results() -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS


def main() -> None:
    given = options(
        __doc__,
        rows=1_000_000,
        columns=50,
        epsilon=1.0,
        rounds=1,
        contenders=list(CONTENDERS),
        passes=0,
        steps=10,
        peer="",
        only="",
        file="",
    )
    if given.only:
        print(json.dumps(one(given.only, Path(given.file), given.epsilon, given.columns)))
        return
    if given.passes:
        passes(given.passes, given.columns, given.steps)
        return
    with tempfile.TemporaryDirectory(dir=_results()) as folder:
        path = Path(folder) / "table.parquet"
        written(path, given.rows, given.columns)
        names = [name for name in given.contenders if given.peer or name != "diffprivlib"]
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for turn in range(given.rounds):
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                command = [sys.executable, __file__, "--only", name, "--file", str(path)]
                command += ["--epsilon", str(given.epsilon), "--columns", str(given.columns)]
                environment = os.environ | ({"PYTHONPATH": given.peer} if name == "diffprivlib" else {})
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                assert done.returncode == 0, done.stderr
                found[name].append(json.loads(done.stdout))
                print(f"{name}: {found[name][-1]['seconds']:.1f} s", file=sys.stderr, flush=True)
        size = path.stat().st_size
    bits = {str(run["coef"]) for name in found if "NoisyGD" in name and "defaults" not in name for run in found[name]}
    assert len(bits) <= 1, "blocks and memory must give the same bits"
    best = next(iter(found.values()))[0]["best"]
    print(
        f"{given.rows:,} x {given.columns}, {size / 1e6:.0f} MB of Parquet, epsilon {given.epsilon:g}; best {best:.4f}"
    )
    print(f"{'':24} {'seconds':>9} {'CPU':>9} {'MB':>8} {'accuracy':>9} {'log-loss':>9}")
    for name, runs in found.items():
        s, c, m, a, loss = (
            statistics.median(run[k] for run in runs) for k in ("seconds", "cpu", "MB", "accuracy", "log-loss")
        )
        print(f"{name:24} {s:9.1f} {c:9.1f} {m:8.0f} {a:9.4f} {loss:9.4f}", flush=True)


if __name__ == "__main__":
    main()
