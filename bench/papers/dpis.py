"""DPIS (Wei et al., CCS 2022) against DP-SGD at equal, honestly charged (epsilon, delta = 1e-5).

    python bench/papers/dpis.py --curve --data mnist fashion-mnist --model logistic mlp --epsilons 1 [--jobs 2]

--curve prints the noise that each asks for; the tables print accuracies on MNIST or Fashion-MNIST with logistic
regression or a perceptron of 100 hidden units: means with 95% confidence intervals, and of the differences from DP-SGD,
paired by seed. Four arms: DP-SGD with batch b; DPIS with batch b and a released share of norms (the paper's,
corrected); DPIS with a public share (all releases known in advance); DP-SGD with batch b / share, which has the
guarantee and the noise of the latter and computes about half as many gradients.

All arms of a table have the same learning rate, number of steps and average of the last half of the iterates. Writes
bench/results/dpis.json and a figure; what that file holds already is not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread a fit: --jobs runs several of them

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells
import datasets
from cells import Cell, mean
from quality import quality

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


def curve(batch: int, axis, records: int = 60000) -> None:  # type: ignore[no-untyped-def]
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
    for share, noises in zip(SHARES, zip(*rows, strict=True), strict=True):
        axis.plot(list(EPOCHS), noises, "o-", ms=3, label=f"mean norm {share:g} C" if share < 1 else "DP-SGD")
    axis.set(xlabel=f"epsilon (delta = {DELTA:g})", ylabel="noise / C on a sum of b gradients", title=f"b = {batch}")
    axis.legend(fontsize=7)


def evaluate(task: Cell) -> Cell:
    X, y, X_test, y_test = datasets.images(task["data"])
    epsilon, model = task["epsilon"], task["model"]
    algorithm = arms(task["batch"], EPOCHS[epsilon], RATE[model])[task["arm"]]
    start = time.perf_counter()
    kind = {"logistic": LogisticRegression, "mlp": MLPClassifier}[model]
    clf = kind(algorithm, epsilon, DELTA, random_state=task["seed"]).fit(X, y)
    seconds = time.perf_counter() - start
    assert clf.privacy_.upper <= epsilon
    return {**quality(clf, X_test, y_test), "seconds": seconds}


def compare(data: str, model: str, epsilon: float, o: argparse.Namespace) -> list[list[float]]:
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--data", nargs="*", choices=["mnist", "fashion-mnist"], default=[])
    parser.add_argument("--model", nargs="+", choices=list(RATE), default=["logistic"])
    parser.add_argument("--epsilons", nargs="+", type=float, choices=list(EPOCHS), default=[1.0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "dpis.json")
    options = parser.parse_args()
    if not (options.curve or options.data):
        parser.error("nothing to do: give --curve or --data")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plot, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", width_ratios=(2, 3))
    if options.curve:
        curve(options.batch, axes[0])
    labels = []
    for data in options.data:
        for model in options.model:
            for epsilon in options.epsilons:
                rows = compare(data, model, epsilon, options)
                at = len(labels)
                labels.append(f"{data}\n{model}\nepsilon {epsilon:g}")
                for i, scores in enumerate(rows[1:], 1):
                    d = np.subtract(scores, rows[0])
                    label = list(arms(options.batch, 1, 1.0))[i] if at == 0 else None
                    axes[1].errorbar(at + 0.15 * (i - 2), d.mean(), half(d), fmt=f"C{i}o", capsize=3, label=label)
    axes[1].axhline(0, color="gray", lw=0.8)
    axes[1].set_xticks(range(len(labels)), labels, fontsize=7)
    axes[1].set(ylabel=f"accuracy % above DP-SGD {options.batch}", title="paired differences, 95% intervals")
    if labels:
        axes[1].legend(fontsize=7)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    plot.savefig(options.out.with_suffix(".png"), dpi=130)
    print(f"written: {options.out.with_suffix('.png')}")


if __name__ == "__main__":
    main()
