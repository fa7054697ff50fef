"""Times fits of every algorithm on Adult, Bank and MNIST, with this build of the package and with another build.

    python bench/fits.py [--other FOLDER] [--data adult bank mnist] [--rounds 3]

FOLDER holds another ``tightdp`` (its ``python`` folder with the extension), for example of an earlier commit. The two
builds take turns. Each has a process of its own, which fits with up to five seeds in two seconds. The output has
milliseconds a release, of processor time and of the clock, each as the least of the rounds, and the ratios of the
builds. Times are for a release, because the number of releases of DP-AGD depends on its noise. It is asserted that the
accuracies of the builds on the training data agree to two points, and their numbers of releases to a quarter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import data
from shared import options

ALGORITHMS = {
    "NoisyGD": "NoisyGD(noise_multiplier=30.0, steps=60)",
    "DPSGD": "DPSGD(epochs=10, noise_multiplier=1.5, optimizer=SGD(0.5))",
    "DPAGD": "DPAGD(selections=30, noise_multiplier=5.0)",
    "AdaCliP": "AdaCliP(epochs=10, noise_multiplier=1.5, optimizer=SGD(0.5))",
    "DPIS": "DPIS(epochs=5, noise_multiplier=1.5, optimizer=SGD(0.5))",
}
RUN = """
import json, sys, time
sys.path[:0] = {folders!r}
import numpy as np, data_sets, data
try:
    X, y = data_sets.images("mnist")[:2] if {name!r} == "mnist" else data_sets.table({name!r})
except data.Missing as problem:
    sys.exit(str(problem))
from tightdp.train import *
fits, releases, scores, wall, cpu = 0, 0, 0.0, 0.0, 0.0
while fits < 5 and wall < 2:
    start = time.perf_counter(), time.process_time()
    clf = LogisticRegression({algorithm}, delta=1e-6, random_state=fits, public_size=len(X)).fit(X, y)
    wall += time.perf_counter() - start[0]
    cpu += time.process_time() - start[1]
    fits, releases, scores = fits + 1, releases + len(clf.history_), scores + clf.score(X, y)
print(json.dumps([1e3 * cpu / releases, 1e3 * wall / releases, float(scores / fits), releases / fits]))
"""


def fit(folder: str | None, name: str, algorithm: str) -> list[float]:
    folders = [str(Path(__file__).parent)] + ([folder] if folder else [])
    code = RUN.format(folders=folders[::-1], name=name, algorithm=algorithm)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise data.Missing(done.stderr.strip().splitlines()[-1])
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> int:
    arguments = options(__doc__, other="", data=["adult", "bank", "mnist"], algorithms=list(ALGORITHMS), rounds=3)
    folders = [None] + ([arguments.other] if arguments.other else [])
    print(
        f"{'data':8s} {'algorithm':9s} {'releases':>8s} {'cpu ms':>8s} {'wall ms':>8s} {'accuracy':>8s}   this / other"
    )
    for name in arguments.data:
        for algorithm in arguments.algorithms:
            try:
                rounds = [
                    [fit(folder, name, ALGORITHMS[algorithm]) for folder in folders] for _ in range(arguments.rounds)
                ]
            except data.Missing as problem:
                print(f"{name}: {problem}", file=sys.stderr)
                break
            best = [[min(r[i][j] for r in rounds) for j in range(2)] for i in range(len(folders))]
            own = rounds[0][0]
            line = f"{name:8s} {algorithm:9s} {own[3]:8.0f} {best[0][0]:8.2f} {best[0][1]:8.2f} {own[2]:8.4f}"
            if arguments.other:
                other = rounds[0][1]
                line += f"   cpu {best[0][0] / best[1][0]:.2f} wall {best[0][1] / best[1][1]:.2f} times the other's"
                line += f" ({best[1][0]:.2f}, {best[1][1]:.2f} ms, {other[2]:.4f})"
                assert abs(own[2] - other[2]) < 0.02 and abs(own[3] - other[3]) <= 0.25 * other[3], line
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
