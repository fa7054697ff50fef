"""MNIST and Fashion-MNIST in PyTorch, beside the published rows: the CNN of Papernot et al. (AAAI 2021) with tanh, by
DP-SGD, AdaCliP and DPIS, and a linear model on scattering features (Tramer and Boneh, ICLR 2021). CIFAR-10 is taken
from your own download, cifar-10-binary.tar.gz, where bench/data.py looks first.

    python bench/papers/images.py [--data mnist] [--arms DP-SGD ...] [--epsilons 1] [--seeds 5] [--arithmetic exact]

delta = 1e-5; means over seeds with 95% confidence intervals. All arms of the CNN have the same learning rate and
averages of the last half of iterates. DPIS looks at half as many records a step as DP-SGD at the same charge. The
scattering features are of each image alone and need kymatio; they are made once and kept (1 GB). One thread. Writes
bench/results/images.json; what that file holds already is not run again.

Settings were chosen on 10,000 of the training images, by DP-SGD at epsilon 1 (batch 2048, learning rates 2 and 4).
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
import datasets
import numpy as np
import torch
from cells import Cell
from dpis import interval
from scattering import scattered
from shared import RESULTS, options
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from tightdp._core import set_max_threads
from tightdp.torch import make_private
from tightdp.train import DPIS, AdaCliP, LogisticRegression, NoisyGD

DELTA = 1e-5
BATCH, RATE, NORM = 2048, 2.0, 0.1
EPOCHS = {0.5: 20, 1.0: 40, 2.0: 60, 3.0: 60}
SHARE = 0.5
CIFAR = data.folders()[0] / "cifar-10-binary.tar.gz"
CNN_ARMS = ("DP-SGD", "AdaCliP", "DPIS")
LINEAR = "NoisyGD, scattering"
# Accuracy % at epsilon .5, 1, 2, 3 (Wei et al. 2022, table 3). HF: on scattering features.
PUBLISHED = {
    "mnist": {"DP-SGD": (93.1, 94.9, 96.1, 96.8), "DP-SGD-HF": (96.1, 97.2, 98.3, 98.4),
              "DPIS-HF": (96.8, 97.7, 98.6, 98.8)},
    "fashion-mnist": {"DP-SGD": (78.4, 80.8, 82.3, 84.1), "DP-SGD-HF": (83.9, 86.0, 87.8, 88.3),
                      "DPIS-HF": (84.6, 86.6, 88.3, 88.8)},
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


def pictures(name: str) -> tuple[TensorDataset, torch.Tensor, np.ndarray]:
    """The training records, the test images and their labels."""
    cifar = name == "cifar-10"
    X, y, test_X, test_y = datasets.cifar10(CIFAR) if cifar else datasets.images(name)
    shape = (-1, 3, 32, 32) if cifar else (-1, 1, 28, 28)
    images, test = (torch.from_numpy(x).view(shape) for x in (X, test_X))
    return TensorDataset(images, torch.from_numpy(y.astype(np.int64))), test, test_y


def loss(model: Any, batch: Any) -> Any:
    return cross_entropy(model(batch[0]), batch[1], reduction="none")


def evaluate(task: Cell) -> Cell:
    torch.set_num_threads(1)
    set_max_threads(1)
    start = time.process_time()
    found = linear(task) if task["arm"] == LINEAR else network(task)
    return {**found, "cpu_seconds": time.process_time() - start}


def network(task: Cell) -> Cell:
    records, test, test_y = pictures(task["data"])
    torch.manual_seed(task["seed"])
    model, important = cnn(task["data"]), task["arm"] == "DPIS"
    named = {"DP-SGD": "dp-sgd", "AdaCliP": AdaCliP(), "DPIS": DPIS(norm_share=SHARE)}[task["arm"]]
    share = SHARE if important else 1.0  # the same steps, with the same charge
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=task["rate"], momentum=0.9), records, algorithm=named,
        epsilon=task["epsilon"], delta=DELTA, batch_size=task["batch"] * share, epochs=task["epochs"] * share,
        max_norm=task["norm"], public_size=len(records), physical_batch_size=1024, random_state=task["seed"],
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
    X, y, test_X, test_y = scattered(task["data"])
    clf = LogisticRegression(NoisyGD(), task["epsilon"], DELTA, public_size=len(y), random_state=task["seed"])
    clf.fit(X, y)
    assert clf.privacy_.upper <= task["epsilon"]
    return {"scores": 100 * clf.score(test_X, test_y), "bound": clf.privacy_.upper}


def task_of(name: str, arm: str, epsilon: float, seed: int, arithmetic: str) -> Cell:
    plain = {"data": name, "arm": arm, "epsilon": epsilon, "seed": seed}
    if arm == LINEAR:
        return plain
    return {**plain, "arithmetic": arithmetic, "batch": BATCH, "rate": RATE, "norm": NORM, "epochs": EPOCHS[epsilon]}


def main() -> None:
    o = options(
        __doc__, data=list(PUBLISHED), arms=[*CNN_ARMS, LINEAR], epsilons=list(EPOCHS), seeds=5, jobs=1,
        arithmetic="exact", out=RESULTS / "images.json",
    )  # fmt: skip
    for name, epsilon in itertools.product(o.data, o.epsilons):
        column = list(EPOCHS).index(epsilon)
        print(f"{name}, epsilon {epsilon:g}, delta {DELTA:g}")
        for arm, row in PUBLISHED[name].items():
            print(f"  {arm:22s} {row[column]:6.2f}  published")
        for arm in o.arms:
            tasks = [task_of(name, arm, epsilon, seed, o.arithmetic) for seed in range(o.seeds)]
            found = cells.run(tasks, evaluate, o.out, o.jobs)
            seconds = np.median([c["cpu_seconds"] for c in found])
            print(f"  {arm:22s} {interval([c['scores'] for c in found])}  {seconds:6.0f} s CPU", flush=True)


if __name__ == "__main__":
    main()
