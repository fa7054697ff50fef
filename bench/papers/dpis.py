"""DPIS (Wei et al., CCS 2022) against DP-SGD at equal, honestly charged (epsilon, delta = 1e-5).

    python bench/papers/dpis.py [--curve] [--data mnist] [--model logistic] [--epsilons 1] [--jobs 2]

--curve also prints the noise that each asks for; the tables print accuracies on MNIST or Fashion-MNIST with logistic
regression or a perceptron of 100 hidden units: means with 95% confidence intervals, and of the differences from DP-SGD,
paired by seed. Four arms: DP-SGD with batch b; DPIS with batch b and a released share of norms (the paper's,
corrected); DPIS with a public share (all releases known in advance); DP-SGD with batch b / share, which has the
guarantee and the noise of the latter and computes about half as many gradients.

All arms of a table have the same learning rate, number of steps and average of the last half of the iterates. Writes
bench/results/dpis.json and figures; what that file holds already is not run again.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells  # before NumPy: it sets the number of threads
import data_sets
import numpy as np
from cells import Cell, mean
from quality import quality
from shared import RESULTS, Points, draw, options

import tightdp as dp
from tightdp.train import DPIS, DPSGD, SGD, LogisticRegression, MLPClassifier

DELTA = 1e-5
SHARE = 0.4
SHARES = (1.0, 0.7, 0.4, 0.2, 0.1)
T975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5% quantiles of Student's t with one degree of freedom less."""
RATE = {"logistic": 1.0, "mlp": 0.5}
EPOCHS = {0.5: 5, 1.0: 10, 2.0: 15, 3.0: 20, 4.0: 20}


def arms(batch: int, epochs: int, rate: float) -> dict[str, DPSGD | DPIS]:
    common = {"optimizer": SGD(rate), "average": 0.5}
    importance = {"epochs": epochs, "max_norm": 1.0, **common}
    return {
        f"DP-SGD {batch}": DPSGD(batch, epochs, **common),
        "DPIS, released share": DPIS(batch, norm_share=None, **importance),
        f"DPIS, share {SHARE}": DPIS(batch, norm_share=SHARE, **importance),
        f"DP-SGD {batch / SHARE:g}": DPSGD(batch / SHARE, epochs / SHARE, **common),
    }


def curve(batch: int, records: int = 60000) -> dict[str, Points]:
    """Prints the noise on a sum of gradients over C by epsilon; returns a line for each share."""
    print(f"sigma / C of the noise on the sum over b = {batch} records, delta {DELTA:g}: noise multiplier times share")
    print("epsilon  epochs  " + "  ".join(f"share {s:<5g}" for s in SHARES))
    rows = []
    for epsilon, epochs in EPOCHS.items():
        steps = epochs * -(-records // batch)
        q = [batch / (share * records) for share in SHARES]
        rows.append(
            [
                share * float(dp.noise_multiplier(epsilon=epsilon, delta=DELTA, sampling_probability=p, steps=steps))
                for share, p in zip(SHARES, q, strict=True)
            ]
        )
        print(f"{epsilon:7g}  {epochs:6d}  " + "  ".join(f"{s:11.4f}" for s in rows[-1]), flush=True)
    return {f"mean norm {s:g} C": (list(EPOCHS), [row[i] for row in rows], None) for i, s in enumerate(SHARES)}


def evaluate(task: Cell) -> Cell:
    X, y, X_test, y_test = data_sets.images(task["data"])
    epsilon, model = task["epsilon"], task["model"]
    algorithm = arms(task["batch"], EPOCHS[epsilon], RATE[model])[task["arm"]]
    start = time.perf_counter()
    kind = {"logistic": LogisticRegression, "mlp": MLPClassifier}[model]
    clf = kind(algorithm, epsilon, DELTA, random_state=task["seed"]).fit(X, y)
    seconds = time.perf_counter() - start
    assert clf.privacy_.upper <= epsilon
    return {**quality(clf, X_test, y_test), "seconds": seconds}


def compare(data: str, model: str, epsilon: float, o: Any) -> list[list[float]]:
    """Prints a table; returns the scores, arm by arm."""
    contenders = arms(o.batch, EPOCHS[epsilon], RATE[model])
    tasks = [
        {"data": data, "model": model, "epsilon": epsilon, "batch": o.batch, "arm": arm, "seed": seed,
         "settings": repr(contenders[arm])}
        for arm in contenders for seed in range(o.seeds)
    ]  # fmt: skip
    found = cells.run(tasks, evaluate, o.out, o.jobs)
    print(f"{data}, {model}, epsilon {epsilon:g}, {EPOCHS[epsilon]} epochs, {o.seeds} seeds", flush=True)
    rows = [[c["scores"] for c in found if c["arm"] == arm] for arm in contenders]
    for arm, scores in zip(contenders, rows, strict=True):
        own = [c for c in found if c["arm"] == arm]
        loss, calibration = (mean([c[what] for c in own]) for what in ("losses", "calibration"))
        print(f"  {arm:22s} {interval(scores)}  difference {interval(np.subtract(scores, rows[0]))}"
              f"  log-loss {loss:.4f}  calibration error {calibration:.2f} %"
              f"  {np.median([c['seconds'] for c in own]):6.1f} s/fit", flush=True)  # fmt: skip
    return rows


def half(values: object) -> float:
    """Half the width of the 95% confidence interval of a mean."""
    v = np.asarray(values, dtype=float)
    return float(T975[len(v)] * v.std(ddof=1) / len(v) ** 0.5) if len(v) in T975 else float("nan")


def interval(values: object) -> str:
    return f"{np.mean(values):6.2f} +- {half(values):.2f}"  # type: ignore[arg-type]


def main() -> None:
    o = options(
        __doc__, curve=False, data=["mnist", "fashion-mnist"], model=list(RATE), epsilons=[1.0], batch=256, seeds=5,
        jobs=1, out=RESULTS / "dpis.json",
    )  # fmt: skip
    if o.curve:
        lines = curve(o.batch)
        draw(RESULTS / "dpis_noise.png", {f"b = {o.batch}": lines}, f"epsilon (delta = {DELTA:g})", "noise / C")
    names: list[str] = []
    differences: list[list[object]] = []
    for data, model, epsilon in itertools.product(o.data, o.model, o.epsilons):
        rows = compare(data, model, epsilon, o)
        names.append(f"{data}\n{model}\nepsilon {epsilon:g}")
        differences.append([np.subtract(scores, rows[0]) for scores in rows[1:]])
    lines = {
        arm: (names, [np.mean(row[i]) for row in differences], [half(row[i]) for row in differences])
        for i, arm in enumerate(list(arms(o.batch, 1, 1.0))[1:])
    }
    title = {"paired differences, 95% intervals": lines}
    draw(o.out.with_suffix(".png"), title, "", f"accuracy % above DP-SGD {o.batch}")


if __name__ == "__main__":
    main()
