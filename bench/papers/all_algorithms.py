"""All algorithms on all linear tasks at equal (epsilon, delta): which one to pick.

    python bench/papers/all_algorithms.py [--epsilons .1 .8] [--jobs 2]

Tables: 5-fold cross-validation as in dp_agd.py, whose results file is used where it has them. Images (multinomial
logistic regression): the official split, ``--seeds`` runs. delta = 1e-8. Every algorithm has the library's defaults,
which depend on public facts alone; the two perturbation baselines have the best of four regularizations by test score,
which favours them, and are left out of the images (objective perturbation: two classes only). Writes
bench/results/all_algorithms.json and a figure; what that file holds already is not run again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import dp_agd  # first: it sets the number of threads before NumPy is loaded

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells
import datasets
import numpy as np
from cells import Cell, error, mean
from quality import quality

from tightdp.train import LogisticRegression

ALGORITHMS = ("NoisyGD", "DP-SGD", "DP-AGD", "AdaCliP", "DPIS", "ObjPert", "OutPert")
TABLES = ("adult", "bank", "ipums-br", "kddcup99-50k")
IMAGES = ("mnist", "fashion-mnist")


def evaluate(task: Cell) -> Cell:
    """One fit on images, or what dp_agd.py does on a table."""
    if task["data"] not in IMAGES:
        return dp_agd.evaluate(task)
    X, y, test_X, test_y = datasets.images(task["data"])
    seen: dict[str, list[float]] = {}
    seconds = []
    for seed in range(task["repeats"]):
        start = time.perf_counter()
        algorithm = dp_agd.ALGORITHMS[task["algorithm"]]
        clf = LogisticRegression(algorithm, task["epsilon"], dp_agd.DELTA, random_state=seed).fit(X, y)
        seconds.append(time.perf_counter() - start)
        assert clf.privacy_.upper <= task["epsilon"]
        for what, value in quality(clf, test_X, test_y).items():
            seen.setdefault(what, []).append(value)
    return {**seen, "seconds": float(np.median(seconds))}


def reference(task: Cell) -> Cell:
    """Accuracy without privacy."""
    if task["data"] not in IMAGES:
        return {"score": dp_agd.references(task["data"], task["model"])[0]}
    from sklearn.linear_model import SGDClassifier

    X, y, test_X, test_y = datasets.images(task["data"])
    plain = SGDClassifier(loss="log_loss", alpha=1e-5, average=True, max_iter=10, tol=None, random_state=0).fit(X, y)
    return {"score": 100 * plain.score(test_X, test_y)}


def show(tasks: list[tuple[str, str]], found: dict[tuple[str, str, str], Cell], plain: list[float], axis) -> None:  # type: ignore[no-untyped-def]
    """A table with the best of each row starred, and a point for each of its entries."""
    print(f"{'':24s}" + "".join(f"{name:>15s}" for name in ALGORITHMS) + f"{'not private':>13s}")
    for row, ((data, model), most) in enumerate(zip(tasks, plain, strict=True)):
        scores = {name: found[data, model, name]["scores"] for name in ALGORITHMS if (data, model, name) in found}
        best = max(map(mean, scores.values()))
        line = f"{data + ', ' + model:24s}"
        for i, name in enumerate(ALGORITHMS):
            if name in scores:
                star = "*" if mean(scores[name]) == best else " "
                line += f"{mean(scores[name]):8.2f} +-{error(scores[name]):4.2f}{star}"
                label = name if row == 0 else None
                loss = most - mean(scores[name])
                axis.errorbar(row + 0.1 * (i - 3), loss, error(scores[name]), fmt=f"C{i}o", ms=4, label=label)
            else:
                line += f"{'-':>15s}"
        print(line + f"{most:13.2f}", flush=True)


def show_quality(what: str, tasks: list[tuple[str, str]], part: list[Cell]) -> None:
    """A table of what is better the smaller it is."""
    for data, model in tasks:
        row = {c["algorithm"]: mean(c[what]) for c in part if (c["data"], c["model"]) == (data, model) and what in c}
        best = min(row.values(), default=0.0)
        shown = (f"{row[a]:14.3f}{'*' if row[a] == best else ' '}" if a in row else f"{'-':>15s}" for a in ALGORITHMS)
        print(f"{data + ', ' + model:24s}" + "".join(shown), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.8], choices=dp_agd.EPSILONS)
    parser.add_argument("--data", nargs="+", default=[*TABLES, *IMAGES], choices=[*TABLES, *IMAGES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "all_algorithms.json")
    o = parser.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tasks = [(data, model) for data in o.data for model in ("logistic", "svm")[: 1 if data in IMAGES else 2]]
    plot, axes = plt.subplots(1, len(o.epsilons), figsize=(6.4 * len(o.epsilons), 4), squeeze=False)
    jobs = [{"reference": "not private", "data": data, "model": model} for data, model in tasks]
    plain = [c["score"] for c in cells.run(jobs, reference, o.out, o.jobs)]
    for epsilon, axis in zip(o.epsilons, axes[0], strict=True):
        todo: dict[bool, list[Cell]] = {True: [], False: []}
        for data, model in tasks:
            image = data in IMAGES
            names = ALGORITHMS[:5] if image else ALGORITHMS
            todo[image] += [dp_agd.task(data, model, name, epsilon, o.seeds if image else 1) for name in names]
        part = cells.run(todo[False], evaluate, o.out.with_name("dp_agd.json"), o.jobs)
        part += cells.run(todo[True], evaluate, o.out, o.jobs)
        print(f"\nepsilon {epsilon:g}, delta {dp_agd.DELTA:g}: accuracy %, mean +- standard error, * the best")
        show(tasks, {(c["data"], c["model"], c["algorithm"]): c for c in part}, plain, axis)
        for what, title in (("losses", "log-loss"), ("calibration", "expected calibration error, %")):
            print(f"\nepsilon {epsilon:g}: {title} of the logistic models, mean, * the best")
            show_quality(what, [task for task in tasks if task[1] == "logistic"], part)
        axis.set(yscale="symlog", ylabel="accuracy % lost to privacy", title=f"epsilon {epsilon:g}")
        axis.set_xticks(range(len(tasks)), [f"{data}\n{model}" for data, model in tasks], rotation=60, fontsize=7)
        axis.grid(axis="y", alpha=0.3)
    axes[0][0].legend(fontsize=7)
    plot.tight_layout()
    plot.savefig(o.out.with_suffix(".png"), dpi=130)
    print(f"\nwritten: {o.out} and {o.out.with_suffix('.png')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
