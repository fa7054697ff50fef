"""The evaluation of Lee and Kifer (2018), "Concentrated differentially private gradient descent with adaptive
per-iteration privacy budget".

    python bench/papers/dp_agd.py [--parts accuracy ...] [--data adult ...] [--models logistic] [--arms DP-AGD ...]
                                  [--epsilons .1 .4] [--seeds 5] [--minutes 60] [--table]

    accuracy        figures 2 to 4: accuracy and objective by epsilon, logistic regression and linear SVM; each seed is
                    a partition into 5 folds
    splits, growth, max_norm, max_loss     figures 1a to 1d: DP-AGD as printed, one setting varied, on Adult; the point
                    that the paper takes is the arm "DP-AGD printed" of the accuracies
    gradients       table 1: norms of true and noisy gradients along a run
    selection       algorithm 1: how far from the best a private choice among step sizes is, by kind of noise

delta = 1e-8, on KDDCup99 1e-12; all algorithms meet the same certified (epsilon, delta). On KDDCup99, which has ten
times as many records as the other tables, one of the five folds is run. Raw results are lines of
bench/papers/dp_agd.jsonl. The row "authors" is what the authors' own code gave on the same data: it is no private
baseline (docs/algorithms/dp-agd.md).

Settings are the library's defaults, which depend on public facts alone. The regularization of the two perturbation
baselines is the best of four on a held-out fifth of the first fold's training rows, which is not charged.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command  # before NumPy: it sets the number of threads
import data_sets
import numpy as np
from baselines import noisy_max, privgene, sgd
from cells import Cell, error, mean
from quality import quality
from shared import Points, draw

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

FILE = Path(__file__).with_suffix(".jsonl")
DELTA = 1e-8
DELTAS = {"kddcup99": 1e-12}
EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
DATA = ("adult", "bank", "ipums-br", "kddcup99-50k", "kddcup99")
FOLDS = 5
FOLDS_RUN = {"kddcup99": 1}
"""Number of folds that are run, where it is not all of them."""
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
BASELINES = {"SGD-Adv": 1, "SGD-MA": 10, "PrivGene": 0}
"""Epochs, of batches of the square root of n. They are round values: the paper tuned the number of steps."""
REGULARIZATIONS = (1e-4, 1e-3, 1e-2, 1e-1)
MINI_BATCH = 40_000
"""Batch of DP-AGD and PrivGene on KDDCup99, as in the paper."""
SWEEPS: dict[str, dict[float, DPAGD]] = {
    # The number of iterations that the budget pays for grows with the square of the paper's number of splits.
    "splits": {s: dataclasses.replace(PRINTED, selections=round(380 * (s / 60) ** 2)) for s in (20, 40, 60, 80, 100)},
    "growth": {g: dataclasses.replace(PRINTED, growth=g) for g in (0.1, 0.2, 0.3, 0.4, 0.5)},
    "max_norm": {c: dataclasses.replace(PRINTED, max_norm=float(c)) for c in (1, 2, 3, 4, 8, 16)},
    "max_loss": {c: dataclasses.replace(PRINTED, max_loss=float(c)) for c in (1, 2, 3, 4, 8, 16)},
}
SWEEP_EPSILONS = (0.1, 0.8)
NOISE_NORM, ITERATIONS, STEP = 0.50119, 11, 1.0
"""Table 1's root of the mean squared norm of the noise on the mean gradient, its rows, and our step: it names none."""
SELECTIONS = {
    "Laplace": noisy_max.laplace_argmax,
    "exponential": noisy_max.exponential_argmax,
    "Gumbel": noisy_max.gumbel_argmax,
}
DRAWS = 20_000
AUTHORS = {
    ("adult", "logistic"): dict(zip(EPSILONS, (76.0, 80.4, 81.7, 82.2, 83.1), strict=False)),
    ("bank", "logistic"): dict(zip(EPSILONS, (88.2, 87.8, 88.3, 89.0, 89.0, 89.3), strict=True)),
    ("ipums-br", "logistic"): {0.1: 72.8, 0.2: 73.0, 0.4: 74.5},
}


def folds(n: int, partition: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the training rows and the test rows of each fold of a random partition."""
    order = np.random.default_rng(partition).permutation(n)
    for fold in range(FOLDS):
        test = np.zeros(n, bool)
        test[order[fold::FOLDS]] = True
        yield np.flatnonzero(~test), np.flatnonzero(test)


def accuracy_task(dataset: str, model: str, arm: str, epsilon: float, seed: int) -> Cell:
    settings = repr(ALGORITHMS[arm]) if arm in ALGORITHMS else f"{BASELINES[arm]} epochs"
    return {
        "part": "accuracy", "data": dataset, "model": model, "arm": arm, "epsilon": epsilon, "seed": seed,
        "settings": settings, "delta": DELTAS.get(dataset, DELTA),
        **({"folds": FOLDS_RUN[dataset]} if dataset in FOLDS_RUN else {}),
    }  # fmt: skip


def tasks(data: tuple[str, ...] = DATA, seeds: int = 20) -> list[Cell]:
    """Returns all cells; those of a seed run together, in this order."""
    found: list[Cell] = [{"part": "gradients", "data": "adult", "seed": seed} for seed in range(seeds)]
    found += [{"part": "selection", "data": "adult", "arm": arm, "seed": 0} for arm in SELECTIONS]
    for seed in range(seeds):
        for dataset in data:
            found += [
                accuracy_task(dataset, model, arm, epsilon, seed)
                for model in ("logistic", "svm")
                for arm in (*ALGORITHMS, *BASELINES)
                for epsilon in EPSILONS
                if dataset != "kddcup99" or arm != "OutPert"  # as in the paper
            ]
        found += [
            {"part": part, "data": "adult", "value": value, "epsilon": epsilon, "seed": seed, "settings": repr(used)}
            for part, values in SWEEPS.items()
            for epsilon in SWEEP_EPSILONS
            for value, used in values.items()
            if used != PRINTED  # that point is the arm "DP-AGD printed" of figure 2
        ]
    return found


def evaluate(task: Cell) -> Cell:
    """Evaluates a cell of any part."""
    start = time.process_time()
    if task["part"] == "gradients":
        found = follow_gradients(task)
    elif task["part"] == "selection":
        found = compare_selections(task)
    else:
        found = cross_validate(task)
    return {**found, "cpu_seconds": time.process_time() - start}


def cross_validate(task: Cell) -> Cell:
    """Returns accuracies, objectives and certified epsilons, one of each for a fold."""
    X, y = data_sets.table(task["data"])
    model, delta = task.get("model", "logistic"), task.get("delta", DELTA)
    found: dict[str, Any] = {"bound": 0.0}
    regularization = 0.0
    for fold, (train, test) in enumerate(itertools.islice(folds(len(y), task["seed"]), task.get("folds"))):
        if fold == 0 and task.get("arm", "").endswith("Pert"):
            regularization = found["regularization"] = choose_regularization(task, X[train], y[train])
        try:
            clf = fit(task, X[train], y[train], task["seed"] * FOLDS + fold, regularization, delta)
        except ValueError as refusal:
            return {"refused": str(refusal)}
        found["bound"] = max(found["bound"], clf.privacy_.upper)
        for what, value in quality(clf, X[test], y[test]).items():
            found.setdefault(what, []).append(value)
        found.setdefault("objectives", []).append(objective(model, clf, X[train], y[train]))
    assert found["bound"] <= task["epsilon"], f"{task} exceeds its target: {found['bound']}"
    return found


def fit(task: Cell, X: np.ndarray, y: np.ndarray, seed: int, regularization: float, delta: float) -> Any:
    """Returns a fitted classifier of a cell's arm."""
    model, arm, epsilon = task.get("model", "logistic"), task.get("arm"), task["epsilon"]
    size = {"public_size": len(y)} if arm in BASELINES else {}  # the baselines take n as public, as their papers do
    options = {"delta": delta, "random_state": seed, "regularization": regularization, **size}
    if arm == "PrivGene":
        return PrivGene(model, epsilon, delta, seed, task["data"] == "kddcup99").fit(X, y)
    algorithm = SWEEPS[task["part"]][task["value"]] if arm is None else ALGORITHMS.get(arm)
    if algorithm is None:
        batch = len(y) ** 0.5
        steps, q = BASELINES[arm] * round(batch), 1 / batch
        needed = sgd.noise_by_moments if arm == "SGD-MA" else sgd.noise_by_advanced_composition
        noise = needed(epsilon, delta, q, steps)
        algorithm, epsilon = DPSGD(batch, BASELINES[arm], noise_multiplier=noise), None
    elif isinstance(algorithm, DPAGD) and task["data"] == "kddcup99":
        algorithm = dataclasses.replace(algorithm, batch_size=MINI_BATCH)
    if model == "svm":
        huber = 0.5 if arm is not None and arm.endswith("Pert") else 0.0
        return LinearSVC(algorithm, epsilon, huber=huber, **options).fit(X, y)
    return LogisticRegression(algorithm, epsilon, **options).fit(X, y)


def choose_regularization(task: Cell, X: np.ndarray, y: np.ndarray) -> float:
    """Returns the regularization with the best accuracy on a held-out fifth of the training rows."""
    train, held_out = next(folds(len(y), task["seed"]))

    def accuracy(regularization: float) -> float:
        clf = fit(task, X[train], y[train], task["seed"], regularization, task["delta"])
        return float(clf.score(X[held_out], y[held_out]))

    return max(REGULARIZATIONS, key=accuracy)


class PrivGene:
    """A linear classifier that PrivGene finds, with as much of scikit-learn's interface as is asked here."""

    classes_ = np.array([0, 1])

    def __init__(self, model: str, epsilon: float, delta: float, seed: int, sampled: bool) -> None:
        self._model, self._epsilon, self._delta, self._seed, self._sampled = model, epsilon, delta, seed, sampled
        self.privacy_: Any = None

    def fit(self, X: np.ndarray, y: np.ndarray) -> PrivGene:
        rng = np.random.default_rng(self._seed)

        def losses(weights: np.ndarray) -> np.ndarray:
            rows = np.flatnonzero(rng.random(len(y)) < MINI_BATCH / len(y)) if self._sampled else slice(None)
            margins = (X[rows] @ weights[:, :-1].T + weights[:, -1]) * (2 * y[rows, None] - 1)
            return np.minimum(loss_of(self._model, margins), privgene.LARGEST_LOSS).sum(axis=0)

        self._weights = privgene.fit(losses, X.shape[1] + 1, self._epsilon, self._delta, self._seed)
        eta = privgene.selection_epsilon(self._epsilon, self._delta)
        selections = (privgene.GENERATIONS - 1) * privgene.PARENTS + 1
        self.privacy_ = (privgene.dp.BoundedRange(eta) * selections).epsilon(self._delta)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        scores: np.ndarray = X @ self._weights[:-1] + self._weights[-1]
        return scores

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        return float(((self.decision_function(X) > 0) == y).mean())


def loss_of(model: str, margins: np.ndarray) -> np.ndarray:
    """Returns logistic or hinge losses."""
    return np.logaddexp(0, -margins) if model == "logistic" else np.maximum(1 - margins, 0)


def objective(model: str, clf: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Returns the mean loss on the training rows, without a penalty."""
    return float(loss_of(model, clf.decision_function(X) * (2 * y - 1)).mean())


def follow_gradients(task: Cell) -> Cell:
    """Returns true and noisy norms of gradients and the objective along a run of noisy gradient descent.

    True norms are not private: they are shown, and nothing else is made of them."""
    X, y = data_sets.table(task["data"])
    X, signs = np.column_stack([X, np.ones(len(y))]), 2.0 * y - 1
    rng, w = np.random.default_rng(task["seed"]), np.zeros(X.shape[1])
    found: dict[str, list[float]] = {"norms": [], "noisy": [], "objectives": []}
    for _ in range(ITERATIONS):
        margins = signs * (X @ w)
        gradient = -(X.T @ (signs / (1 + np.exp(margins)))) / len(y)
        noisy = gradient + rng.normal(scale=NOISE_NORM / len(w) ** 0.5, size=len(w))
        found["norms"].append(float(np.linalg.norm(gradient)))
        found["noisy"].append(float(np.linalg.norm(noisy)))
        found["objectives"].append(float(loss_of("logistic", margins).mean()))
        w = w - STEP * noisy
    return found


def compare_selections(task: Cell) -> Cell:
    """Returns the mean loss above the best step size's, in units of a record's largest loss, at several epsilons.

    The scores are sums of clipped losses after steps of 0 to 2 along the first gradient."""
    X, y = data_sets.table(task["data"])
    X, signs = np.column_stack([X, np.ones(len(y))]), 2.0 * y - 1
    direction = X.T @ (signs / 2)
    direction /= np.linalg.norm(direction)
    margins = np.outer(signs * (X @ direction), np.linspace(0, 2, 21))
    scores = -np.minimum(loss_of("logistic", margins), PRINTED.max_loss).sum(axis=0)
    rng, choose = np.random.default_rng(task["seed"]), SELECTIONS[task["arm"]]
    epsilons = [epsilon / 120 for epsilon in EPSILONS]
    above = []
    for epsilon in epsilons:
        chosen = [choose(scores, PRINTED.max_loss, epsilon, rng) for _ in range(DRAWS)]
        above.append(float((scores.max() - scores[chosen]).mean() / PRINTED.max_loss))
    return {"epsilons": epsilons, "above": above}


def references(dataset: str, model: str) -> tuple[float, float]:
    """Returns accuracy without privacy (scikit-learn), and that of the majority class."""
    from sklearn.linear_model import LogisticRegression as Plain
    from sklearn.svm import LinearSVC as PlainSVC

    X, y = data_sets.table(dataset)
    scores, major = [], []
    for train, test in folds(len(y), 0):
        plain = Plain(C=10.0, max_iter=1000) if model == "logistic" else PlainSVC(C=1.0, dual=False)
        scores.append(100 * plain.fit(X[train], y[train]).score(X[test], y[test]))
        major.append(100 * np.mean(y[test] == (y[train].mean() > 0.5)))
    return float(np.mean(scores)), float(np.mean(major))


def fold_means(found: list[Cell], what: str) -> list[float]:
    """Returns the mean over folds of each partition, or the folds themselves if there is one partition."""
    rows = [cell[what] for cell in found if what in cell]
    return rows[0] if len(rows) == 1 else [mean(row) for row in rows]


def sweep_points(part: str, found: list[Cell]) -> dict[str, Points]:
    """Returns a line for each epsilon along a setting of the printed algorithm."""
    lines: dict[str, Points] = {}
    for epsilon in SWEEP_EPSILONS:
        at, means, errors = [], [], []
        for value, used in SWEEPS[part].items():
            own = {"part": part, "value": value, "epsilon": epsilon}
            if used == PRINTED:
                own = accuracy_task("adult", "logistic", "DP-AGD printed", epsilon, 0)
                del own["seed"]
            cells_of = [cell for cell in found if all(cell.get(key) == known for key, known in own.items())]
            if cells_of:
                scores = fold_means(cells_of, "scores")
                at.append(value)
                means.append(mean(scores))
                errors.append(error(scores))
        if len(at) > 1:
            lines[f"epsilon {epsilon:g}"] = at, means, errors
    return lines


def show(found: list[Cell], folder: Path) -> None:
    """Prints a table of accuracies and objectives for each data set and model, and draws the accuracies."""
    panels: dict[str, dict[str, Points]] = {}
    accuracies = [c for c in found if c["part"] == "accuracy" and "scores" in c]
    for dataset, model in dict.fromkeys((c["data"], c["model"]) for c in accuracies):
        there = {c["epsilon"] for c in accuracies if (c["data"], c["model"]) == (dataset, model)}
        epsilons = sorted(there)
        print(f"\n{dataset}, {model}: accuracy % / objective by epsilon {epsilons}, mean +- standard error")
        named = f"{dataset}, {model}" + (f", delta = {DELTAS[dataset]:g}" if dataset in DELTAS else "")
        lines = panels.setdefault(named, {})
        for arm in (*ALGORITHMS, *BASELINES):
            row = [c for c in accuracies if (c["data"], c["model"], c["arm"]) == (dataset, model, arm)]
            own = {e: [c for c in row if c["epsilon"] == e] for e in epsilons}
            known = [e for e in epsilons if own[e]]
            if not known:
                continue
            scores = [fold_means(own[e], "scores") for e in known]
            lines[arm] = known, [*map(mean, scores)], [*map(error, scores)]
            shown = dict.fromkeys(epsilons, "-") | {
                e: f"{mean(s):.2f} +- {error(s):.2f} / {mean(fold_means(own[e], 'objectives')):.4f}"
                for e, s in zip(known, scores, strict=True)
            }
            print(f"{arm:16s}" + "  ".join(f"{text:24s}" for text in shown.values()))
        authors = AUTHORS.get((dataset, model), {})
        if authors:
            lines["authors' code (not private)"] = list(authors), list(authors.values()), None
    for cell in found:
        if cell["part"] in ("gradients", "selection"):
            print(cell)
    settings = {part: points for part in SWEEPS if (points := sweep_points(part, found))}
    if settings:
        draw(folder / "dp_agd_settings.png", settings, "value of the setting", "accuracy %")
    panels = {name: lines for name, lines in panels.items() if any(len(at) > 1 for at, *_ in lines.values())}
    if panels:
        x = f"epsilon (delta = {DELTA:g} unless named)"
        draw(folder / "dp_agd_accuracy.png", panels, x, "accuracy %", xscale="log")


if __name__ == "__main__":
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show, seeds=1))
