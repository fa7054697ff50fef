"""DPIS (Wei et al., CCS 2022) against DP-SGD at equal, honestly charged (epsilon, delta = 1e-5).

    python bench/papers/dpis.py [--parts noise accuracy ...] [--data mnist] [--models logistic] [--arms ...]
                                [--epsilons 1] [--seeds 5] [--minutes 60] [--table]

    noise                         figure 1: the noise that each share of norms asks for
    accuracy                      table 3 on tables, and on MNIST and Fashion-MNIST with logistic regression or a
                                  perceptron of 100 hidden units
    clipping                      table 4: DPIS with and without adaptive clipping
    budget, multiplier, quantile  tables 5, 6 and 8: a_E, k and lambda at epsilon 1

Accuracies are means with 95% confidence intervals, with the differences from DP-SGD paired by seed. Four arms: DP-SGD
with batch b; DPIS with batch b and a released share of norms (the paper's, corrected); DPIS with a public share (all
releases known in advance); DP-SGD with batch b / share, which has the guarantee and the noise of the latter and
computes about half as many gradients. All arms have the same learning rate, number of steps and average of the last
half of the iterates. On tables a seed is also a random split, with a fifth of the records for the test. Raw results are
lines of bench/papers/dpis.jsonl.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command  # before NumPy: it sets the number of threads
import data_sets
import numpy as np
from cells import Cell
from quality import quality
from shared import Points, draw

import tightdp as dp
from tightdp.train import DPIS, DPSGD, SGD, LogisticRegression, MLPClassifier

FILE = Path(__file__).with_suffix(".jsonl")
DELTA = 1e-5
SHARE = 0.4
SHARES = (1.0, 0.7, 0.4, 0.2, 0.1)
T975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5% quantiles of Student's t with one degree of freedom less."""
RATE = {"logistic": 1.0, "mlp": 0.5}
EPOCHS = {0.5: 5, 1.0: 10, 2.0: 15, 3.0: 20, 4.0: 20}
EPSILONS = (1.0, 3.0, 0.5, 2.0, 4.0)
"""Of table 3, those worth most first."""
TABLES = ("adult", "bank", "ipums-br")
IMAGES = ("mnist", "fashion-mnist")
BATCH = 256
RELEASED = "DPIS, released share"
CLIPPED = "DPIS, released share, adaptive clipping"
SWEEPS: dict[str, dict[float, dict[str, float]]] = {
    "budget": {a: {"reserve": a} for a in (0.0, 0.6, 0.8, 1.0)},
    "multiplier": {k: {"reach": k} for k in (3.0, 4.0, 5.0, 6.0)},
    "quantile": {a: {"adapt": a} for a in (0.8, 0.9, 1.0, 1.1, 1.2)},
}
"""Tables 5, 6 and 8: the settings that are varied. That of table 7, C*, is 4 C_1 in the library, and no setting."""


def arms(batch: int, epochs: int, rate: float) -> dict[str, DPSGD | DPIS]:
    common = {"optimizer": SGD(rate), "average": 0.5}
    importance = {"epochs": epochs, "max_norm": 1.0, **common}
    return {
        f"DP-SGD {batch}": DPSGD(batch, epochs, **common),
        RELEASED: DPIS(batch, norm_share=None, **importance),
        CLIPPED: DPIS(batch, norm_share=None, adapt=1.0, **importance),
        f"DPIS, share {SHARE}": DPIS(batch, norm_share=SHARE, **importance),
        f"DP-SGD {batch / SHARE:g}": DPSGD(batch / SHARE, epochs / SHARE, **common),
    }


def noise_of(task: Cell) -> Cell:
    """Returns sigma / C of the noise on a sum over the batch: the noise multiplier times the share of norms."""
    share, epsilon = task["share"], task["epsilon"]
    steps, q = EPOCHS[epsilon] * -(-60_000 // BATCH), BATCH / (share * 60_000)
    noise = dp.noise_multiplier(epsilon=epsilon, delta=DELTA, sampling_probability=q, steps=steps)
    return {"noise": share * float(noise)}


def tasks(seeds: int = 5) -> list[Cell]:
    """Returns all cells."""
    found: list[Cell] = [
        {"part": "noise", "epsilon": epsilon, "share": share, "batch": BATCH} for epsilon in EPOCHS for share in SHARES
    ]
    for seed in range(seeds):
        for data, epsilon, model in itertools.product((*TABLES, *IMAGES), EPSILONS, RATE):
            if data in IMAGES or model == "logistic":
                found += [
                    {"part": "clipping" if arm == CLIPPED else "accuracy", "data": data, "model": model,
                     "epsilon": epsilon, "arm": arm, "seed": seed, "settings": repr(used)}
                    for arm, used in arms(BATCH, EPOCHS[epsilon], RATE[model]).items()
                ]  # fmt: skip
        found += [
            {"part": part, "data": data, "model": "logistic", "epsilon": 1.0, "arm": RELEASED, "value": value,
             "seed": seed, "settings": repr(algorithm_of("logistic", 1.0, RELEASED, changes))}
            for data in (*TABLES, "mnist") for part, values in SWEEPS.items() for value, changes in values.items()
        ]  # fmt: skip
    return found


def algorithm_of(model: str, epsilon: float, arm: str, changes: dict[str, float]) -> DPSGD | DPIS:
    """Returns an arm's algorithm with some settings changed."""
    return dataclasses.replace(arms(BATCH, EPOCHS[epsilon], RATE[model])[arm], **changes)  # type: ignore[arg-type]


def records_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns training records with labels and test records with labels; a table is split at random."""
    if name in IMAGES:
        return data_sets.images(name)
    X, y = data_sets.table(name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[len(y) // 5 :], order[: len(y) // 5]
    return X[train], y[train], X[test], y[test]


def evaluate(task: Cell) -> Cell:
    """Evaluates a cell of any part."""
    if task["part"] == "noise":
        return noise_of(task)
    start = time.process_time()
    X, y, X_test, y_test = records_of(task["data"], task["seed"])
    epsilon, model = task["epsilon"], task["model"]
    changes = SWEEPS[task["part"]][task["value"]] if "value" in task else {}
    algorithm = algorithm_of(model, epsilon, task["arm"], changes)
    kind = {"logistic": LogisticRegression, "mlp": MLPClassifier}[model]
    clf = kind(algorithm, epsilon, DELTA, random_state=task["seed"]).fit(X, y)
    assert clf.privacy_.upper <= epsilon
    return {**quality(clf, X_test, y_test), "bound": clf.privacy_.upper, "cpu_seconds": time.process_time() - start}


def show(found: list[Cell], folder: Path) -> None:
    """Prints a table for each data set, model and epsilon, and draws the differences from DP-SGD."""
    noises = [c for c in found if c["part"] == "noise"]
    if noises:
        print(f"sigma / C of the noise on the sum over b = {BATCH} records, delta {DELTA:g}, by share of norms")
        for cell in noises:
            print(f"epsilon {cell['epsilon']:g}  share {cell['share']:g}  {cell['noise']:.4f}")
        lines: dict[str, Points] = {
            f"mean norm {s:g} C": (list(EPOCHS), [c["noise"] for c in noises if c["share"] == s], None) for s in SHARES
        }
        draw(folder / "dpis_noise.png", {f"b = {BATCH}": lines}, f"epsilon (delta = {DELTA:g})", "noise / C")
    names: list[str] = []
    differences: dict[str, list[object]] = {}
    plain = f"DP-SGD {BATCH}"
    fits = [c for c in found if c["part"] in ("accuracy", "clipping")]
    for data, model, epsilon in dict.fromkeys((c["data"], c["model"], c["epsilon"]) for c in fits):
        own = [c for c in fits if (c["data"], c["model"], c["epsilon"]) == (data, model, epsilon)]
        rows = {arm: [c["scores"] for c in own if c["arm"] == arm] for arm in dict.fromkeys(c["arm"] for c in own)}
        print(f"{data}, {model}, epsilon {epsilon:g}, {EPOCHS[epsilon]} epochs", flush=True)
        if len({len(scores) for scores in rows.values()}) == 1 and plain in rows:
            names.append(f"{data}\n{model}\nepsilon {epsilon:g}")
            for arm, scores in rows.items():
                if arm != plain:
                    differences.setdefault(arm, []).append(np.subtract(scores, rows[plain]))
        for arm, scores in rows.items():
            print(f"  {arm:40s} {interval(scores)} ({len(scores)})", flush=True)
    for part in SWEEPS:
        for data, value in dict.fromkeys((c["data"], c["value"]) for c in found if c["part"] == part):
            scores = [c["scores"] for c in found if (c["part"], c.get("data"), c.get("value")) == (part, data, value)]
            print(f"{part} {value:g}, {data}: {interval(scores)} ({len(scores)})")
    if names:
        rows_of = {arm: (names, [*map(np.mean, row)], [*map(half, row)]) for arm, row in differences.items()}
        panels = {"paired differences, 95% intervals": rows_of}
        draw(folder / "dpis_differences.png", panels, "", f"accuracy % above {plain}")


def half(values: object) -> float:
    """Half the width of the 95% confidence interval of a mean."""
    v = np.asarray(values, dtype=float)
    return float(T975[len(v)] * v.std(ddof=1) / len(v) ** 0.5) if len(v) in T975 else float("nan")


def interval(values: object) -> str:
    return f"{np.mean(values):6.2f} +- {half(values):.2f}"  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show))
