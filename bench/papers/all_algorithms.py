"""All algorithms on all linear tasks at equal (epsilon, delta): which one to pick.

    python bench/papers/all_algorithms.py [--epsilons .1 .8] [--jobs 2]

Tables: 5-fold cross-validation as in dp_agd.py, whose results file is used where it has them. Images (multinomial
logistic regression): the official split, ``--seeds`` runs. delta = 1e-8. Every algorithm has the library's defaults,
which depend on public facts alone; the two perturbation baselines have the best of four regularizations by test score,
which favours them, and are left out of the images (objective perturbation: two classes only). Writes
bench/results/all_algorithms.json and a figure; what that file holds already is not run again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells  # before NumPy: it sets the number of threads
import data_sets
import dp_agd
import numpy as np
from cells import Cell, error, mean
from quality import quality
from shared import RESULTS, Points, draw, options

from tightdp.train import LogisticRegression

ALGORITHMS = ("NoisyGD", "DP-SGD", "DP-AGD", "AdaCliP", "DPIS", "ObjPert", "OutPert")
TABLES = ("adult", "bank", "ipums-br", "kddcup99-50k")
IMAGES = ("mnist", "fashion-mnist")


def evaluate(task: Cell) -> Cell:
    """One fit on images, or what dp_agd.py does on a table."""
    if task["data"] not in IMAGES:
        return dp_agd.evaluate(task)
    X, y, test_X, test_y = data_sets.images(task["data"])
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

    X, y, test_X, test_y = data_sets.images(task["data"])
    plain = SGDClassifier(loss="log_loss", alpha=1e-5, average=True, max_iter=10, tol=None, random_state=0).fit(X, y)
    return {"score": 100 * plain.score(test_X, test_y)}


def show(tasks: list[tuple[str, str]], found: dict[tuple[str, str, str], Cell], plain: list[float]) -> None:
    """A table with the best of each row starred."""
    print(f"{'':24s}" + "".join(f"{name:>15s}" for name in ALGORITHMS) + f"{'not private':>13s}")
    for (data, model), most in zip(tasks, plain, strict=True):
        scores = {name: found[data, model, name]["scores"] for name in ALGORITHMS if (data, model, name) in found}
        best = max(map(mean, scores.values()))
        line = f"{data + ', ' + model:24s}"
        for name in ALGORITHMS:
            star = "*" if name in scores and mean(scores[name]) == best else " "
            shown = f"{mean(scores[name]):8.2f} +-{error(scores[name]):4.2f}{star}" if name in scores else f"{'-':>15s}"
            line += shown
        print(line + f"{most:13.2f}", flush=True)


def lost(
    tasks: list[tuple[str, str]], found: dict[tuple[str, str, str], Cell], plain: list[float]
) -> dict[str, Points]:
    """The accuracy that each algorithm loses to privacy, on each task."""
    lines: dict[str, Points] = {}
    for name in ALGORITHMS:
        rows = [(f"{data}\n{model}", most, found[data, model, name]["scores"])
                for (data, model), most in zip(tasks, plain, strict=True) if (data, model, name) in found]  # fmt: skip
        lines[name] = [r[0] for r in rows], [most - mean(s) for _, most, s in rows], [error(s) for *_, s in rows]
    return lines


def show_quality(what: str, tasks: list[tuple[str, str]], part: list[Cell]) -> None:
    """A table of what is better the smaller it is."""
    for data, model in tasks:
        row = {c["algorithm"]: mean(c[what]) for c in part if (c["data"], c["model"]) == (data, model) and what in c}
        best = min(row.values(), default=0.0)
        shown = (f"{row[a]:14.3f}{'*' if row[a] == best else ' '}" if a in row else f"{'-':>15s}" for a in ALGORITHMS)
        print(f"{data + ', ' + model:24s}" + "".join(shown), flush=True)


def main() -> int:
    given = {"data": [*TABLES, *IMAGES], "seeds": 3, "jobs": 1, "out": RESULTS / "all_algorithms.json"}
    o = options(__doc__, epsilons=[0.1, 0.8], **given)
    tasks = [(data, model) for data in o.data for model in ("logistic", "svm")[: 1 if data in IMAGES else 2]]
    panels: dict[str, dict[str, Points]] = {}
    jobs = [{"reference": "not private", "data": data, "model": model} for data, model in tasks]
    plain = [c["score"] for c in cells.run(jobs, reference, o.out, o.jobs)]
    for epsilon in o.epsilons:
        todo: dict[bool, list[Cell]] = {True: [], False: []}
        for data, model in tasks:
            image = data in IMAGES
            names = ALGORITHMS[:5] if image else ALGORITHMS
            todo[image] += [dp_agd.task(data, model, name, epsilon, o.seeds if image else 1) for name in names]
        part = cells.run(todo[False], evaluate, o.out.with_name("dp_agd.json"), o.jobs)
        part += cells.run(todo[True], evaluate, o.out, o.jobs)
        print(f"\nepsilon {epsilon:g}, delta {dp_agd.DELTA:g}: accuracy %, mean +- standard error, * the best")
        by_name = {(c["data"], c["model"], c["algorithm"]): c for c in part}
        show(tasks, by_name, plain)
        panels[f"epsilon {epsilon:g}"] = lost(tasks, by_name, plain)
        for what, title in (("losses", "log-loss"), ("calibration", "expected calibration error, %")):
            print(f"\nepsilon {epsilon:g}: {title} of the logistic models, mean, * the best")
            show_quality(what, [task for task in tasks if task[1] == "logistic"], part)
    draw(o.out.with_suffix(".png"), panels, "", "accuracy % lost to privacy", yscale="symlog")
    return 0


if __name__ == "__main__":
    sys.exit(main())
