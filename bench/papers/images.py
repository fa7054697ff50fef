"""Networks in PyTorch on images and reviews, beside the published rows.

MNIST and Fashion-MNIST: the CNN of Papernot et al. (AAAI 2021) with tanh, by DP-SGD, AdaCliP and DPIS, and a linear
model on scattering features (Tramer and Boneh, ICLR 2021). IMDb: the sum of 16-dimensional embeddings of 1,000 hashed
words and a linear layer, and a linear model on their counts; 4,000 reviews train and 1,000 test. CIFAR-10 is taken from
your own download, cifar-10-binary.tar.gz, where bench/data.py looks first.

    python bench/papers/images.py [--data mnist] [--arms DP-SGD ...] [--epsilons 1] [--seeds 5] [--minutes 60] [--table]

delta = 1e-5. A cell is one data set, arm, epsilon and seed, and a line of bench/papers/images.jsonl as soon as it is
known; what that file holds is not run again, and none is begun after so many minutes. --table runs none: it prints
means with 95% confidence intervals as Markdown and draws bench/results/images.png, all from the file.

The networks are the papers' or the smallest of their kind. Learning rate, batch and norm bound were chosen by DP-SGD at
epsilon 1 on 10,000 training images of MNIST (rates 2 and 4), which is not charged; they are the same for all data sets
(but batches of 500 on IMDb), epsilons and arms. Epochs are 15 for each unit of epsilon, and at least 15. Nothing was
chosen on Fashion-MNIST, and on IMDb the network alone, once (docs/algorithms/networks.md).
DPIS aims at half as many records a step as DP-SGD with the same probability for a record of the largest norm, and
releases no share of norms. NoisyGD has the library's defaults. Evaluated are averages of the last half of iterates.
Scattering features are of each image alone and need kymatio; they are made once and kept (1 GB). One thread.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells  # before NumPy: it sets the number of threads
import data
import data_sets
import numpy as np
import torch
from cells import Cell
from dpis import half
from scattering import scattered
from shared import RESULTS, Points, draw, options
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from tightdp._core import set_max_threads
from tightdp.torch import Batches, make_private
from tightdp.train import DPIS, AdaCliP, LogisticRegression, NoisyGD

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 3.0)
EPOCHS = 15
"""For each unit of epsilon, and at least so many."""
BATCH = {"imdb": 500}
"""2,048 elsewhere."""
RATE, NORM = 2.0, 0.1
WORDS, LENGTH, WIDTH = 1000, 400, 16
SHARE, REACH = 0.5, 2.0
CIFAR = data.folders()[0] / "cifar-10-binary.tar.gz"
NETWORKS = ("DP-SGD", "AdaCliP", "DPIS")
LINEAR = "NoisyGD, linear"
# Accuracy % at epsilon .5, 1, 2, 3 (Wei et al. 2022, table 3). TS: tempered sigmoids, as our tanh. HF: on scattering
# features. IMDb: 25,000 reviews there.
PUBLISHED = {
    "mnist": {"DP-SGD": (93.1, 94.9, 96.1, 96.8), "DP-SGD-TS": (96.0, 96.8, 97.7, 98.1),
              "DP-SGD-HF": (96.1, 97.2, 98.3, 98.4), "DPIS-HF": (96.8, 97.7, 98.6, 98.8)},
    "fashion-mnist": {"DP-SGD": (78.4, 80.8, 82.3, 84.1), "DP-SGD-TS": (81.0, 83.0, 85.0, 86.3),
                      "DP-SGD-HF": (83.9, 86.0, 87.8, 88.3), "DPIS-HF": (84.6, 86.6, 88.3, 88.8)},
    "imdb": {"DP-SGD": (56.4, 60.3, 63.5, 66.4), "DPIS": (59.1, 62.1, 65.9, 68.3)},
    "cifar-10": {"DPIS-HF": (55.1, 62.2, 67.9, 69.7)},
}  # fmt: skip


def cnn(name: str) -> nn.Module:
    if name == "cifar-10":
        blocks: list[nn.Module] = []
        for inputs, width in ((3, 32), (32, 64), (64, 128)):
            blocks += [nn.Conv2d(inputs, width, 3, padding=1), nn.Tanh(), nn.Conv2d(width, width, 3, padding=1),
                       nn.Tanh(), nn.MaxPool2d(2)]  # fmt: skip
        return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(2048, 128), nn.Tanh(), nn.Linear(128, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


class Reviews(nn.Module):
    """The sum of the embeddings of a review's words over the square root of their number, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.linear = nn.Embedding(WORDS + 1, WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, words: Any) -> Any:
        there = (words > 0).unsqueeze(-1)
        total = (self.words(words) * there).sum(1)
        return self.linear(total / there.sum(1).clamp(min=1).sqrt())


def records_of(name: str) -> tuple[TensorDataset, torch.Tensor, np.ndarray]:
    """The training records, the test records and their labels."""
    if name == "imdb":
        X, y, test_X, test_y = data_sets.reviews(WORDS, LENGTH)
    else:
        cifar = name == "cifar-10"
        X, y, test_X, test_y = data_sets.cifar10(CIFAR) if cifar else data_sets.images(name)
        X, test_X = (x.reshape(-1, 3, 32, 32) if cifar else x.reshape(-1, 1, 28, 28) for x in (X, test_X))
    return TensorDataset(torch.from_numpy(X), torch.from_numpy(y.astype(np.int64))), torch.from_numpy(test_X), test_y


def features_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For the linear model: scattering features, or square roots of counts of words over their norm."""
    if name != "imdb":
        return scattered(name)
    X, y, test_X, test_y = data_sets.reviews(WORDS, LENGTH)
    counts = [np.stack([np.bincount(row, minlength=WORDS + 1)[1:] for row in x]) for x in (X, test_X)]
    train, test = (np.sqrt(c / np.maximum(c.sum(1, keepdims=True), 1)).astype(np.float32) for c in counts)
    return train, y, test, test_y


def loss(model: Any, batch: Any) -> Any:
    return cross_entropy(model(batch[0]), batch[1], reduction="none")


def evaluate(task: Cell) -> Cell:
    torch.set_num_threads(1)
    set_max_threads(1)
    start = time.process_time()
    found = linear(task) if task["arm"] == LINEAR else network(task)
    return {**found, "cpu_seconds": time.process_time() - start}


def network(task: Cell) -> Cell:
    records, test, test_y = records_of(task["data"])
    torch.manual_seed(task["seed"])
    model = Reviews() if task["data"] == "imdb" else cnn(task["data"])
    important = task["arm"] == "DPIS"
    named = {"DP-SGD": "dp-sgd", "AdaCliP": AdaCliP(), "DPIS": DPIS(norm_share=SHARE, reach=REACH)}[task["arm"]]
    share = SHARE if important else 1.0  # about the same steps, with the same probability
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=task["rate"], momentum=0.9), records, algorithm=named,
        epsilon=task["epsilon"], delta=DELTA, batch_size=task["batch"] * share, epochs=round(task["epochs"] * share),
        max_norm=task["norm"], public_size=len(records), batches=Batches(1024), random_state=task["seed"],
        arithmetic="exact" if task["arm"] == "AdaCliP" else task["arithmetic"],
    )  # fmt: skip
    assert run.privacy_.upper <= task["epsilon"]
    mean = torch.optim.swa_utils.AveragedModel(model)

    def after(done: int, total: int) -> None:
        if 2 * done > total:
            mean.update_parameters(model)

    run.fit(loss, after)
    with torch.no_grad():
        right = mean(test).argmax(1).numpy() == test_y
    return {"scores": 100 * float(right.mean()), "bound": run.privacy_.upper}


def linear(task: Cell) -> Cell:
    X, y, test_X, test_y = features_of(task["data"])
    clf = LogisticRegression(NoisyGD(), task["epsilon"], DELTA, public_size=len(y), random_state=task["seed"])
    clf.fit(X, y)
    assert clf.privacy_.upper <= task["epsilon"]
    return {"scores": 100 * clf.score(test_X, test_y), "bound": clf.privacy_.upper}


def task_of(name: str, arm: str, epsilon: float, seed: int) -> Cell:
    plain = {"data": name, "arm": arm, "epsilon": epsilon, "seed": seed}
    if arm == LINEAR:
        return plain
    arithmetic = "exact" if arm == "AdaCliP" or name == "imdb" else "float"  # gradients of reviews are short
    batch = BATCH.get(name, 2048)
    epochs = round(EPOCHS * max(epsilon, 1.0))
    own = {"share": SHARE, "reach": REACH} if arm == "DPIS" else {}
    return {**plain, "arithmetic": arithmetic, "batch": batch, "rate": RATE, "norm": NORM, "epochs": epochs, **own}


def table(name: str, found: list[Cell]) -> dict[str, Points]:
    """Prints the rows of a data set, and returns a line for each of ours."""
    print(f"\n| {name} | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " | CPU seconds |")
    print("|---|" + "---|" * (len(EPSILONS) + 1))
    for arm, published in PUBLISHED[name].items():
        print(f"| {arm}, published | " + " | ".join(f"{score:.1f}" for score in published) + " | |")
    lines: dict[str, Points] = {}
    for arm in (*NETWORKS, LINEAR):
        own = [c for c in found if c["arm"] == arm]
        scores = {e: [c["scores"] for c in own if c["epsilon"] == e] for e in EPSILONS}
        if own:
            seconds = np.median([c["cpu_seconds"] for c in own])
            print(f"| {arm} | " + " | ".join(shown(scores[e]) for e in EPSILONS) + f" | {seconds:.0f} |")
            known = [e for e in EPSILONS if scores[e]]
            errors = [half(scores[e]) if len(scores[e]) > 1 else 0.0 for e in known]
            lines[arm] = known, [float(np.mean(scores[e])) for e in known], errors
    return lines | {f"{arm}, published": (EPSILONS, row, None) for arm, row in PUBLISHED[name].items()}


def shown(scores: list[float]) -> str:
    if not scores:
        return ""
    mean = f"{np.mean(scores):.2f}"
    return f"{mean} +- {half(scores):.2f} ({len(scores)})" if len(scores) > 1 else f"{mean} (1)"


def main() -> None:
    o = options(
        __doc__, data=list(PUBLISHED), arms=[*NETWORKS, LINEAR], epsilons=list(EPSILONS), seeds=5, minutes=60.0,
        table=False, out=Path(__file__).with_suffix(".jsonl"),
    )  # fmt: skip
    names = [name for name in o.data if name != "cifar-10" or CIFAR.is_file()]
    order = itertools.product(range(o.seeds), o.epsilons, names, o.arms)
    tasks = [task_of(name, arm, epsilon, seed) for seed, epsilon, name, arm in order]
    found = list(cells.until(tasks, evaluate, o.out, -1 if o.table else o.minutes).values())
    panels = {name: table(name, [c for c in found if c["data"] == name]) for name in names}
    draw(RESULTS / "images.png", panels, f"epsilon (delta = {DELTA:g})", "accuracy %")


if __name__ == "__main__":
    main()
