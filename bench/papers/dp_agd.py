"""The evaluation of Lee and Kifer (2018), "Concentrated differentially private gradient descent with adaptive
per-iteration privacy budget": accuracy by epsilon on Adult, Bank and IPUMS-BR, logistic regression and linear SVM.

    python bench/papers/dp_agd.py [--data adult] [--models logistic] [--epsilons .1 .4] [--repeats 1] [--jobs 2]

delta = 1e-8, 5-fold cross-validation, ``--repeats`` random partitions; all algorithms meet the same certified
(epsilon, delta). Prints a table a data set and model, writes bench/results/dp_agd.json and a figure beside it; what
that file holds already is not run again. The row "authors" is what the authors' own code gave on the same data: it is
no private baseline (docs/algorithms/dp-agd.md).

Settings are the library's defaults, which depend on public facts alone, except the regularization of the two
perturbation baselines: as in the paper it is the best of a few, chosen by the test score, which favours them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells  # before NumPy: it sets the number of threads
import data
import data_sets
import numpy as np
from cells import Cell, error, mean
from quality import quality
from shared import RESULTS, Points, draw, options

from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    AdaCliP,
    LinearSVC,
    LogisticRegression,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
)

DELTA = 1e-8
EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
FOLDS = 5
PRINTED = DPAGD(
    selections=380, share=0.974, noise="exponential", max_norm=3.0, max_step=2.0, growth=0.1, momentum=0.0, center=0.0
)
"""The paper's splits = 60: epsilon/120 for each selection and each gradient, as Laplace and as Gaussian noise, is
37 times as much zCDP for the former (share), and its total zCDP pays for 380 such iterations, whatever epsilon."""
ALGORITHMS = {
    "NoisyGD": NoisyGD(),
    "NoisyGD plain": NoisyGD(center=0.0),
    "DP-SGD": DPSGD(),
    "DP-AGD": DPAGD(),
    "DP-AGD printed": PRINTED,
    "AdaCliP": AdaCliP(),
    "DPIS": DPIS(),
    "ObjPert": ObjectivePerturbation(),
    "OutPert": OutputPerturbation(),
}
REGULARIZATIONS = (1e-4, 1e-3, 1e-2, 1e-1)
AUTHORS = {
    ("adult", "logistic"): dict(zip(EPSILONS, (76.0, 80.4, 81.7, 82.2, 83.1), strict=False)),
    ("bank", "logistic"): dict(zip(EPSILONS, (88.2, 87.8, 88.3, 89.0, 89.0, 89.3), strict=True)),
    ("ipums-br", "logistic"): {0.1: 72.8, 0.2: 73.0, 0.4: 74.5},
}


def folds(n: int, repeats: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number, training rows, test rows) of each fold of each random partition."""
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(n)
        for fold in range(FOLDS):
            test = np.zeros(n, bool)
            test[order[fold::FOLDS]] = True
            yield repeat * FOLDS + fold, np.flatnonzero(~test), np.flatnonzero(test)


def estimator(model: str, name: str, epsilon: float, seed: int, regularization: float):  # type: ignore[no-untyped-def]
    options = {"epsilon": epsilon, "delta": DELTA, "random_state": seed, "regularization": regularization}
    if model == "svm":
        return LinearSVC(ALGORITHMS[name], huber=0.5 if name.endswith("Pert") else 0.0, **options)
    return LogisticRegression(ALGORITHMS[name], **options)


def task(dataset: str, model: str, name: str, epsilon: float, repeats: int) -> Cell:
    return {
        "data": dataset, "model": model, "algorithm": name, "epsilon": epsilon, "repeats": repeats,
        "settings": repr(ALGORITHMS[name]), "delta": DELTA, "arithmetic": "exact",
    }  # fmt: skip


def evaluate(task: Cell) -> Cell:
    """One algorithm at one epsilon: scores of all folds and the median of seconds a fit."""
    model, name, epsilon = task["model"], task["algorithm"], task["epsilon"]
    X, y = data_sets.table(task["data"])
    best: Cell = {}
    for regularization in REGULARIZATIONS if name.endswith("Pert") else (0.0,):
        seen: dict[str, list[float]] = {}
        uppers, seconds = [], []
        for seed, train, test in folds(len(y), task["repeats"]):
            start = time.perf_counter()
            clf = estimator(model, name, epsilon, seed, regularization).fit(X[train], y[train])
            seconds.append(time.perf_counter() - start)
            uppers.append(clf.privacy_.upper)
            for what, value in quality(clf, X[test], y[test]).items():
                seen.setdefault(what, []).append(value)
        assert max(uppers) <= epsilon, f"{name} exceeds its target: {max(uppers)} > {epsilon}"
        if not best or np.mean(seen["scores"]) > np.mean(best["scores"]):
            best = {**seen, "seconds": float(np.median(seconds)), "regularization": regularization}
    return best


def references(dataset: str, model: str) -> tuple[float, float]:
    """Accuracy without privacy (scikit-learn), and of the majority class."""
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.svm import LinearSVC as PlainSVC

    X, y = data_sets.table(dataset)
    scores, major = [], []
    for _, train, test in folds(len(y), 1):
        plain = Plain(C=10.0, max_iter=1000) if model == "logistic" else PlainSVC(C=1.0, dual=False)
        scores.append(100 * plain.fit(X[train], y[train]).score(X[test], y[test]))
        major.append(100 * np.mean(y[test] == (y[train].mean() > 0.5)))
    return float(np.mean(scores)), float(np.mean(major))


def table(found: list[Cell], dataset: str, model: str, epsilons: list[float]) -> None:
    plain, major = references(dataset, model)
    print(f"\n{dataset}, {model}: accuracy %, mean +- standard error (non-private {plain:.2f}, majority {major:.2f})")
    print(f"{'':16s}" + "".join(f"{'eps ' + format(e, 'g'):>15s}" for e in epsilons) + f"{'s/fit':>8s}")
    rows = {name: [c for c in found if c["algorithm"] == name] for name in ALGORITHMS}
    rows = {name: row for name, row in rows.items() if row}
    for name, row in rows.items():
        shown = "".join(f"{mean(c['scores']):8.2f} +- {error(c['scores']):4.2f}" for c in row)
        print(f"{name:16s}{shown}{max(c['seconds'] for c in row):8.2f}")
    authors = AUTHORS.get((dataset, model), {})
    if authors:
        print(f"{'authors':16s}" + "".join(f"{authors.get(e, float('nan')):15.1f}" for e in epsilons))
    if model == "logistic":
        print("log-loss, and expected calibration error in %")
        for name, row in rows.items():
            print(f"{name:16s}" + "".join(f"{mean(c['losses']):8.3f} / {mean(c['calibration']):4.1f}" for c in row))


def panels(found: list[Cell]) -> dict[str, dict[str, Points]]:
    """A panel for each data set and model, a line for each algorithm, over epsilon."""
    shown: dict[str, dict[str, Points]] = {}
    for dataset, model in dict.fromkeys((c["data"], c["model"]) for c in found):
        lines = shown.setdefault(f"{dataset}, {model}", {})
        for name in ALGORITHMS:
            row = [c for c in found if (c["data"], c["model"], c["algorithm"]) == (dataset, model, name)]
            if row:
                scores = [c["scores"] for c in row]
                lines[name] = [c["epsilon"] for c in row], [*map(mean, scores)], [*map(error, scores)]
        authors = AUTHORS.get((dataset, model), {})
        if authors:
            lines["authors' code (not private)"] = list(authors), list(authors.values()), None
    return shown


def main() -> int:
    a = options(
        __doc__, data=["adult", "bank", "ipums-br"], models=["logistic", "svm"], algorithms=list(ALGORITHMS),
        epsilons=list(EPSILONS), repeats=1, jobs=1, out=RESULTS / "dp_agd.json",
    )  # fmt: skip
    try:
        for dataset in a.data:
            data_sets.table(dataset)
    except data.Missing as problem:
        print(f"dp_agd: {problem}", file=sys.stderr)
        return 2
    found: list[Cell] = []
    for dataset in a.data:
        for model in a.models:
            tasks = [task(dataset, model, name, e, a.repeats) for name in a.algorithms for e in sorted(a.epsilons)]
            part = cells.run(tasks, evaluate, a.out, a.jobs)
            table(part, dataset, model, sorted(a.epsilons))
            found += part
    draw(a.out.with_suffix(".png"), panels(found), f"epsilon (delta = {DELTA:g})", "accuracy %", xscale="log")
    return 0


if __name__ == "__main__":
    sys.exit(main())
