"""All algorithms on all linear tasks at equal (epsilon, delta): which one to pick.

    python bench/papers/dp_agd.py --parts accuracy --epsilons .1 .8 --seeds 1     # the tables, 5-fold cross-validation
    python bench/papers/all_algorithms.py [--data mnist] [--arms DP-SGD] [--epsilons .1 .8] [--seeds 3] [--minutes 60]

Images (multinomial logistic regression): the official split, a cell a seed, into bench/papers/all_algorithms.jsonl.
Tables are read from what dp_agd.py wrote. delta = 1e-8. Every algorithm has the library's defaults, which depend on
public facts alone; the two perturbation baselines are left out of the images (objective perturbation: two classes
only). The cells "not private" are scikit-learn's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells
import command  # before NumPy: it sets the number of threads
import data_sets
import dp_agd
from cells import Cell, error, mean
from quality import quality
from shared import Points, draw

from tightdp.train import LogisticRegression

FILE = Path(__file__).with_suffix(".jsonl")
ALGORITHMS = ("NoisyGD", "DP-SGD", "DP-AGD", "AdaCliP", "DPIS", "ObjPert", "OutPert")
TABLES = ("adult", "bank", "ipums-br", "kddcup99-50k")
IMAGES = ("mnist", "fashion-mnist")
ROWS = [(data, model) for data in TABLES for model in ("logistic", "svm")] + [(data, "logistic") for data in IMAGES]
EPSILONS = (0.1, 0.8)
PLAIN = "not private"


def tasks(seeds: int = 5) -> list[Cell]:
    """Returns all cells: accuracies without privacy, then images."""
    found: list[Cell] = [{"part": "reference", "data": data, "model": model, "arm": PLAIN} for data, model in ROWS]
    return found + [
        dp_agd.accuracy_task(data, "logistic", arm, epsilon, seed)
        for data in IMAGES for epsilon in EPSILONS for arm in ALGORITHMS[:5] for seed in range(seeds)
    ]  # fmt: skip


def evaluate(task: Cell) -> Cell:
    """Returns the scores of one fit on images, or an accuracy without privacy."""
    if task["part"] == "reference":
        return {"scores": [reference(task["data"], task["model"])]}
    X, y, test_X, test_y = data_sets.images(task["data"])
    start = time.process_time()
    algorithm = dp_agd.ALGORITHMS[task["arm"]]
    clf = LogisticRegression(algorithm, task["epsilon"], task["delta"], random_state=task["seed"]).fit(X, y)
    assert clf.privacy_.upper <= task["epsilon"]
    found = {what: [value] for what, value in quality(clf, test_X, test_y).items()}
    return {**found, "cpu_seconds": time.process_time() - start}


def reference(dataset: str, model: str) -> float:
    """Returns the accuracy without privacy."""
    if dataset not in IMAGES:
        return dp_agd.references(dataset, model)[0]
    from sklearn.linear_model import SGDClassifier

    X, y, test_X, test_y = data_sets.images(dataset)
    plain = SGDClassifier(loss="log_loss", alpha=1e-5, average=True, max_iter=10, tol=None, random_state=0).fit(X, y)
    return 100 * float(plain.score(test_X, test_y))


def print_accuracies(tasks: list[tuple[str, str]], found: dict[tuple[str, str, str], Cell], plain: list[float]) -> None:
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
        row = {c["arm"]: mean(c[what]) for c in part if (c["data"], c["model"]) == (data, model) and what in c}
        best = min(row.values(), default=0.0)
        shown = (f"{row[a]:14.3f}{'*' if row[a] == best else ' '}" if a in row else f"{'-':>15s}" for a in ALGORITHMS)
        print(f"{data + ', ' + model:24s}" + "".join(shown), flush=True)


def join(own: list[Cell]) -> Cell:
    """Returns one cell with the scores of several seeds: means over folds, or the folds if there is one partition."""
    qualities = [what for what in ("scores", "losses", "calibration") if what in own[0]]
    return {**own[0], **{what: dp_agd.fold_means(own, what) for what in qualities}}


def show(found: list[Cell], folder: Path) -> None:
    """Prints a table for each epsilon of what is known of all rows, and draws what each algorithm loses to privacy."""
    tables = [c for c in cells.kept(dp_agd.FILE).values() if c["part"] == "accuracy" and "scores" in c]
    plain = {(c["data"], c["model"]): mean(c["scores"]) for c in found if c["part"] == "reference"}
    rows = [row for row in ROWS if row in plain]
    panels: dict[str, dict[str, Points]] = {}
    for epsilon in EPSILONS:
        groups: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in (*tables, *(c for c in found if c["part"] == "accuracy")):
            if cell["epsilon"] == epsilon and (cell["data"], cell["model"]) in plain and cell["arm"] in ALGORITHMS:
                groups.setdefault((cell["data"], cell["model"], cell["arm"]), []).append(cell)
        known = {place: join(own) for place, own in groups.items()}
        present = [row for row in rows if any(place[:2] == row for place in known)]
        if not present:
            continue
        print(f"\nepsilon {epsilon:g}, delta {dp_agd.DELTA:g}: accuracy %, mean +- standard error, * the best")
        print_accuracies(present, known, [plain[row] for row in present])
        panels[f"epsilon {epsilon:g}"] = lost(present, known, [plain[row] for row in present])
        for what, title in (("losses", "log-loss"), ("calibration", "expected calibration error, %")):
            print(f"\nepsilon {epsilon:g}: {title} of the logistic models, mean, * the best")
            show_quality(what, [row for row in present if row[1] == "logistic"], list(known.values()))
    if panels:
        draw(folder / "all_algorithms.png", panels, "", "accuracy % lost to privacy", yscale="symlog")


if __name__ == "__main__":
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show, seeds=3))
