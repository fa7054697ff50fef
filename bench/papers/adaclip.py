"""The tables and figures of Pichapati et al. (2019).

    python bench/papers/adaclip.py [--parts regression ...] [--arms AdaCliP] [--epsilons 1] [--seeds 5] [--minutes 60]
                                   [--table]

    regression    figure 2: squared error of a regression against dimension
    table1        MNIST, logistic regression
    table2        MNIST, private PCA and 1,000 hidden units (long); figure 3: the mean distance of the estimated
                  gradient from the true mean gradient, over 20 steps of the same runs
    momentum      figure 4: the arm "norm bound" of table 1 with momentum, and the same length of a step in the end

Beside each accuracy of the paper stands ours at the same (epsilon, delta = 1e-5), and the epsilon that our accountant
finds for the noise that a Renyi accountant, the paper's kind, would have asked for. Batch 600 throughout. Raw results
are lines of bench/papers/adaclip.jsonl.

Settings: in table 1 the library's defaults, which depend on public facts alone, for all epsilons alike. In table 2
round values, with one learning rate for all; the epochs grow with epsilon.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command  # before NumPy: it sets the number of threads
import data_sets
import numpy as np
from cells import Cell, error, mean, spread
from quality import quality
from shared import Points, draw

import tightdp as dp
from tightdp.models.linear import Multinomial
from tightdp.train import (
    DPPCA,
    DPSGD,
    SGD,
    AdaCliP,
    CallableModel,
    Gate,
    LinearModel,
    LogisticRegression,
    MLPClassifier,
    Oracle,
    Public,
    Records,
    Target,
)

FILE = Path(__file__).with_suffix(".jsonl")
DELTA = 1e-5
LONGEST_ROW = 28.0
"""Bound |x| <= sqrt(784), from which the norm bound follows without clipping."""
# epsilon: the paper's norm bound, clipping at 4 and AdaCliP.
TABLE1 = {
    0.1: (73.45, 84.23, 85.37),
    0.25: (79.18, 87.81, 88.11),
    0.5: (84.30, 90.13, 90.29),
    1.0: (88.02, 90.74, 90.87),
    2.0: (89.65, 90.97, 91.15),
}
ARMS1 = {
    "norm bound": DPSGD(600, max_norm=LONGEST_ROW),
    "clipping": DPSGD(600),
    "AdaCliP": AdaCliP(600),
}
# epsilon: the paper's clipping and AdaCliP; then our epochs and learning rate.
TABLE2 = {
    0.2: (85.55, 87.18, 10, 0.5),
    0.5: (90.23, 91.26, 15, 0.5),
    1.0: (92.92, 93.71, 30, 0.5),
    2.0: (94.96, 95.56, 50, 0.5),
    4.0: (95.91, 96.31, 60, 0.5),
}
ARMS2 = ("clipping", "AdaCliP")
WATCHED = 20
"""Number of steps of a run of table 2 at which the estimated gradient is compared with the true one."""
MOMENTA = (0.5, 0.9, 0.99)
HIDDEN = 1000
PCA_SHARE = 0.2
"""Share of 1/noise^2 of a single Gaussian at epsilon that goes to the principal components."""
DIMENSIONS = (1, 10, 100, 1000)
COMMON = {"batch_size": 1, "epochs": 10, "noise_multiplier": 0.1, "optimizer": SGD(0.01), "average": 0.0}
ARMS0 = {
    "clipping": DPSGD(max_norm=1.0, **COMMON),
    **{f"as printed, h2 = {h2:g}": AdaCliP(h1=1e-12, h2=h2, beta2=0.9, **COMMON) for h2 in (1e-10, 1e-6, 1e-2, 1.0)},
    "with a floor": AdaCliP(h1=1e-4, h2=1.0, beta2=0.999, **COMMON),
}
"""Batch 1, 10 epochs, learning rate .01, sigma .1, clipping at 1, the last iterate, as in the paper. Its h2 was tuned.

"With a floor" has the library's beta2 and a range of four decades in place of twelve."""
STARTS = (1.0, 0.0)
"""Norms of the first parameters: a random point, where the paper starts, and the answer itself."""


def tasks(seeds: int = 5) -> list[Cell]:
    """Returns all cells."""
    found: list[Cell] = []
    for seed in range(seeds):
        found += [
            {"part": "regression", "arm": arm, "dimension": d, "start": start, "seed": seed, "settings": repr(used)}
            for start in STARTS for d in DIMENSIONS for arm, used in ARMS0.items()
        ]  # fmt: skip
        found += [
            {"part": "table1", "data": "mnist", "arm": arm, "epsilon": epsilon, "seed": seed, "settings": repr(used)}
            for epsilon in TABLE1 for arm, used in ARMS1.items()
        ]  # fmt: skip
        found += [
            {"part": "table2", "data": "mnist", "arm": arm, "epsilon": epsilon, "seed": seed, "hidden": HIDDEN,
             "epochs": epochs, "rate": rate, "settings": repr(arm2(arm, epochs, rate, 1.0))}
            for epsilon, (*_, epochs, rate) in TABLE2.items() for arm in ARMS2
        ]  # fmt: skip
        found += [
            {"part": "momentum", "data": "mnist", "arm": f"momentum {momentum:g}", "momentum": momentum,
             "epsilon": epsilon, "seed": seed, "settings": repr(add_momentum(momentum, epsilon))}
            for epsilon in TABLE1 for momentum in MOMENTA
        ]  # fmt: skip
    return found


def evaluate(task: Cell) -> Cell:
    """Evaluates a cell of any part."""
    start = time.process_time()
    parts = {"regression": regression, "table1": logistic, "table2": network, "momentum": logistic}
    found = parts[task["part"]](task)
    return {**found, "cpu_seconds": time.process_time() - start}


def regression(task: Cell) -> Cell:
    """Returns the squared distance from the minimiser, 0, of the mean of |w - x|^2 / 2 over x = (+-1, 0, ..., 0)."""
    dimension = task["dimension"]
    X = np.zeros((1000, dimension))
    X[:500, 0], X[500:, 0] = 1.0, -1.0
    model = CallableModel(dimension, lambda w, x, y: w - x)
    public, source = Public(1000, dimension), dp.Philox(task["seed"])
    plan = ARMS0[task["arm"]].plan(public, Target(None, DELTA))
    oracle = Oracle(model, Records(X, np.zeros(1000, dtype=np.intp)), public)
    direction = np.random.default_rng(task["seed"]).normal(size=dimension)
    start = task["start"] * direction / np.linalg.norm(direction)
    w = plan.run(oracle, Gate(plan.budget, source), start)
    return {"scores": float((w**2).sum())}


def logistic(task: Cell) -> Cell:
    """Returns the quality of logistic regression on MNIST, for a cell of table 1 or of momentum."""
    X, y, X_test, y_test = data_sets.images("mnist")
    epsilon = task["epsilon"]
    algorithm = add_momentum(task["momentum"], epsilon) if "momentum" in task else ARMS1[task["arm"]]
    clf = LogisticRegression(algorithm, epsilon, DELTA, random_state=task["seed"]).fit(X, y)
    assert clf.privacy_.upper <= task["epsilon"]
    return quality(clf, X_test, y_test)


@functools.cache
def add_momentum(momentum: float, epsilon: float) -> DPSGD:
    """Returns the arm "norm bound" with momentum.

    As in the paper, accumulated gradients count 1 - momentum times, so that all steps along a gradient have together
    the length of its one step without momentum."""
    plain = ARMS1["norm bound"]
    model = LinearModel(784, Multinomial(10))
    public = Public(60_000, model.size, linear=model)
    rate = plain.plan(public, Target(epsilon, DELTA)).used["optimizer"].learning_rate
    return dataclasses.replace(plain, optimizer=SGD(rate * (1 - momentum), momentum))


@dataclasses.dataclass(frozen=True)
class WatchedSGD:
    """Gradient descent that notes how far estimates are from the true mean gradient at ``WATCHED`` of ``steps`` steps.

    The distances are not private: they are shown, and nothing is made of them."""

    rate: float
    steps: int
    gradient: Callable[[np.ndarray], np.ndarray]
    distances: list[float]

    def make_stepper(self, size: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Returns the function that takes one step."""
        done = 0

        def step(w: np.ndarray, estimate: np.ndarray) -> np.ndarray:
            nonlocal done
            done += 1
            if done % max(1, self.steps // WATCHED) == 0:
                self.distances.append(float(np.linalg.norm(estimate - self.gradient(w))))
            return w - self.rate * estimate

        return step


def mean_gradient(w: np.ndarray, X: np.ndarray, y: np.ndarray, hidden: int) -> np.ndarray:
    """Returns the mean gradient of the cross-entropy of a perceptron with one hidden layer of rectified units."""
    end = hidden * (X.shape[1] + 1)
    first, last = w[:end].reshape(hidden, -1), w[end:].reshape(-1, hidden + 1)
    units = np.maximum(X @ first[:, :-1].T + first[:, -1], 0)
    scores = units @ last[:, :-1].T + last[:, -1]
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(y)), y] -= 1
    back = (errors @ last[:, :-1]) * (units > 0)
    tables = (back.T @ np.column_stack([X, np.ones(len(y))]), errors.T @ np.column_stack([units, np.ones(len(y))]))
    return np.concatenate([table.ravel() for table in tables]) / len(y)


def arm2(name: str, epochs: int, rate: float, noise: float) -> DPSGD | AdaCliP:
    if name == "clipping":
        return DPSGD(600, epochs, 1.0, noise_multiplier=noise, optimizer=SGD(rate))
    return AdaCliP(600, epochs, 1e-5, 4e-5, noise_multiplier=noise, optimizer=SGD(rate))


def network(task: Cell) -> Cell:
    X, y, X_test, y_test = data_sets.images("mnist")
    epsilon, seed, epochs = task["epsilon"], task["seed"], task["epochs"]
    pca_noise = float(dp.calibrate(dp.Gaussian, epsilon=epsilon, delta=DELTA)) / PCA_SHARE**0.5
    q = min(1.0, 600 / len(X))
    steps = math.ceil(epochs / q)

    def releases(noise: float) -> dp.Composition:
        return dp.PoissonSampled(dp.Gaussian(noise), q) * steps + dp.Gaussian(pca_noise)

    noise = float(dp.calibrate(releases, epsilon=epsilon, delta=DELTA))
    pca = DPPCA(60, delta=DELTA, noise_multiplier=pca_noise, max_norm=8.0, random_state=seed).fit(X)
    projected, distances = pca.transform(X), []
    watched = WatchedSGD(task["rate"], steps, lambda w: mean_gradient(w, projected, y, task["hidden"]), distances)
    # Another seed: the same one would give the network's first step the noise of the components.
    clf = MLPClassifier(
        dataclasses.replace(arm2(task["arm"], epochs, task["rate"], noise), optimizer=watched),
        delta=DELTA,
        hidden_layer_sizes=(task["hidden"],),
        random_state=10**6 + seed,
        public_size=len(X),
    ).fit(projected, y)
    assert (clf.charged_ + pca.charged_).epsilon(DELTA).upper <= epsilon
    return {**quality(clf, pca.transform(X_test), y_test), "distance": sum(distances) / len(distances)}


def show(found: list[Cell], folder: Path) -> None:
    """Prints a table for each part, and draws them."""
    pictures: dict[str, dict[str, Points]] = {}
    for start in STARTS:
        own = [c for c in found if c["part"] == "regression" and c["start"] == start]
        if own:
            print(f"l2 regression from a start of norm {start:g}: dimension, squared error (mean +- standard error)")
            lines = show_rows(own, list(ARMS0), "dimension", ".2e")
            pictures[f"l2 regression from |w| = {start:g}"] = lines
    if pictures:
        file = folder / "adaclip_regression.png"
        draw(file, pictures, "dimension", "squared error", xscale="log", yscale="log")
    panels: dict[str, dict[str, Points]] = {}
    for part, title, arms in (
        ("table1", "MNIST, logistic", list(ARMS1)),
        ("table2", f"MNIST, PCA and {HIDDEN} units", list(ARMS2)),
    ):
        own = [c for c in found if c["part"] == part]
        if own:
            print(f"{title}: accuracy in %, mean +- standard error; the paper's in brackets")
            panels[title] = show_rows(own, arms, "epsilon", ".2f")
    if panels:
        draw(folder / "adaclip_accuracy.png", panels, f"epsilon (delta = {DELTA:g})", "accuracy %", xscale="log")


def show_rows(found: list[Cell], arms: list[str], x: str, form: str) -> dict[str, Points]:
    """Prints a row for each value of ``x``; returns a line for each arm, and for what the paper has for it."""
    values = sorted({c[x] for c in found})
    print(f"{x}  " + "  ".join(arms) + ("  |  sigma ours, Renyi's, epsilon at it" if "norm bound" in arms else ""))
    cells_of = {
        (value, arm): [c for c in found if (c[x], c["arm"]) == (value, arm)] for value in values for arm in arms
    }
    scores = {at: [c["scores"] for c in own] for at, own in cells_of.items()}
    paper = {} if x == "dimension" else TABLE1 if "norm bound" in arms else TABLE2
    for value in values:
        shown = [spread(scores[value, arm], form) if scores[value, arm] else "not run" for arm in arms]
        if paper:
            shown = [f"{text} ({p:g})" for text, p in zip(shown, paper[value], strict=False)]
        noise = at_the_papers_noise(value, 2000) if "norm bound" in arms else ""
        print(f"{value:9g}  {'  '.join(shown)}  {noise}", flush=True)
    lines: dict[str, Points] = {}
    for i, arm in enumerate(arms):
        own = [(value, scores[value, arm]) for value in values if scores[value, arm]]
        if own:
            lines[arm] = [v for v, _ in own], [mean(s) for _, s in own], [error(s) for _, s in own]
        if paper:
            lines[f"{arm}, paper"] = values, [paper[value][i] for value in values], None
    return lines


def at_the_papers_noise(epsilon: float, steps: int) -> str:
    """Our noise multiplier, that of a Renyi accountant, and the epsilon that is certified at the latter."""

    def releases(noise: float) -> dp.Composition:
        return dp.PoissonSampled(dp.Gaussian(noise), 0.01) * steps

    ours = dp.calibrate(releases, epsilon=epsilon, delta=DELTA)
    theirs = dp.calibrate(releases, epsilon=epsilon, delta=DELTA, engine="renyi")
    return f"{float(ours):.3f} {float(theirs):.3f} {float(releases(float(theirs)).epsilon(DELTA)):.4f}"


if __name__ == "__main__":
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show))
