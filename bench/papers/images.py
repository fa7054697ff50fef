"""Networks in PyTorch on images and reviews, beside the published rows.

MNIST and Fashion-MNIST: the CNN of Papernot et al. (AAAI 2021) with tanh, by DP-SGD, AdaCliP and DPIS, or with ReLU by
DP-SGD; and linear models on scattering features (Tramer and Boneh, ICLR 2021) by NoisyGD, DP-SGD and DPIS. IMDb: the
sum of 16-dimensional embeddings of 1,000 hashed words and a linear layer, with tanh between them or without, and a
linear model on their counts; 4,000 reviews train and 1,000 test. CIFAR-10 is taken from your own download,
cifar-10-binary.tar.gz, where bench/data.py looks first.

    python bench/papers/images.py [--parts accuracy] [--data mnist] [--arms DP-SGD ...] [--epsilons 1] [--seeds 5]
                                  [--minutes 60] [--table]

    choice      candidate settings of the tanh network, trained on 50,000 training images with the noise and the number
                of steps of epsilon 1 and an eighth of the batch, and scored on the other 10,000
    accuracy    the networks and the linear model on the test part
    budget, multiplier      DPIS on scattering features at epsilon 1 with one setting varied, a_E or k

delta = 1e-5. A cell is one data set, arm, epsilon and seed, and a line of bench/papers/images.jsonl. Means with 95%
confidence intervals are printed as Markdown and drawn as networks.png.

The networks are the papers' or the smallest of their kind. Learning rate, batch and norm bound were chosen by DP-SGD at
epsilon 1 on 10,000 training images of MNIST (rates 2 and 4), which is not charged; they are the same for all data sets
(but batches of 500 on IMDb), epsilons and arms. Epochs are 15 for each unit of epsilon, and at least 15. Nothing was
chosen on Fashion-MNIST, and on IMDb the network alone, once (docs/algorithms/networks.md). The arm "DP-SGD, chosen" has
the settings that are best in "choice", on the mean of both data sets. That is not charged. On networks DPIS aims at
half as many records a step as DP-SGD with the same probability for a record of the largest norm, and releases no share
of norms. Accuracies are those of the mean of the last half of iterates, and of the arm "DP-SGD, chosen" those of the
average of iterates. The arm "DP-SGD, decaying noise" is DP-SGD-Decay (Yu et al. 2019): from epoch to epoch the noise
falls by the same factor, exp(-.01), the largest decay that the paper names. On images it has the chosen settings.

Linear models have the library's defaults, which depend on public facts alone. DPIS has the batch and the epochs of
DP-SGD there and releases its share of norms, as in the paper. Scattering features are functions of each image alone.
They need kymatio, are made once and kept (1 GB). One thread.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
import time
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command  # before NumPy: it sets the number of threads
import data
import data_sets
import numpy as np
import torch
from cells import Cell
from contents import BEST, TABLE_3, split_label
from dpis import SWEEPS, half
from scattering import scattered
from shared import Points, draw
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp._core import set_max_threads
from tightdp.torch import Batches, make_private
from tightdp.train import DPIS, DPSGD, AdaCliP, LogisticRegression, NoisyGD

FILE = Path(__file__).with_suffix(".jsonl")
DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0)
EPOCHS = 15
"""For each unit of epsilon, and at least so many."""
IMAGE_BATCH, REVIEW_BATCH = 2048, 500
RATE, NORM = 2.0, 0.1
WORDS, LENGTH, WIDTH = 1000, 400, 16
SHARE, REACH = 0.5, 2.0
CIFAR = data.folders()[0] / "cifar-10-binary.tar.gz"
CHOSEN, RELU, TEMPERED, DECAYING = "DP-SGD, chosen", "DP-SGD, ReLU", "DP-SGD, tanh", "DP-SGD, decaying noise"
NETWORKS = ("DP-SGD", "AdaCliP", "DPIS", CHOSEN, RELU, TEMPERED, DECAYING)
IMPORTANT = "DPIS, linear"
LINEAR = {
    "NoisyGD, linear": NoisyGD(),
    "DP-SGD, linear": DPSGD(1200, 20),
    IMPORTANT: DPIS(1200, 20, norm_share=None),
    "DPIS, linear, adaptive clipping": DPIS(1200, 20, norm_share=None, adapt=1.0),
}
"""Algorithms of the linear model. Batches are a fiftieth of the images, as the library's default."""
PIXELS = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}
"""Mean and deviation of the training pixels, which are in many tutorials and taken as public."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the tanh network that "choice" varies."""

    rate: float = RATE
    initial: Literal["default", "xavier"] = "default"
    pixels: Literal["raw", "standardised"] = "raw"


CANDIDATES = {
    "rate 2": Settings(),
    "rate 4": Settings(4.0),
    "rate 8": Settings(8.0),
    "rate 4, standardised": Settings(4.0, pixels="standardised"),
    "rate 4, Xavier": Settings(4.0, "xavier"),
    "rate 4, standardised, Xavier": Settings(4.0, "xavier", "standardised"),
}
DECAY = 0.97
"""Weight of the average of iterates in the next average."""
NOISE_DECAY = 0.01
"""Logarithm of the noise of an epoch over that of the next one."""
HELD_OUT, PROXY_BATCH, PROXY_STEPS = 10_000, 256, 440
PUBLISHED = {name: {split_label(label)[0]: scores for label, scores, _ in rows} for name, rows in TABLE_3.items()}
"""Accuracy in % of Wei et al. (2022), table 3, at the same epsilons. TS: tempered sigmoids, as our tanh. HF: on
scattering features. IMDb: 25,000 reviews there."""


def cnn(name: str, activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    """Returns the network of a data set of images."""
    if name == "cifar-10":
        blocks: list[nn.Module] = []
        for inputs, width in ((3, 32), (32, 64), (64, 128)):
            blocks += [nn.Conv2d(inputs, width, 3, padding=1), activation(), nn.Conv2d(width, width, 3, padding=1),
                       activation(), nn.MaxPool2d(2)]  # fmt: skip
        return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(2048, 128), activation(), nn.Linear(128, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), activation(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), activation(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), activation(), nn.Linear(32, 10),
    )  # fmt: skip


class Reviews(nn.Module):
    """The sum of the embeddings of a review's words over the square root of their number, and a linear layer."""

    def __init__(self, activation: type[nn.Module] = nn.Identity) -> None:
        super().__init__()
        self.words, self.linear, self.activation = nn.Embedding(WORDS + 1, WIDTH), nn.Linear(WIDTH, 2), activation()

    def forward(self, words: Any) -> Any:
        there = (words > 0).unsqueeze(-1)
        total = (self.words(words) * there).sum(1)
        return self.linear(self.activation(total / there.sum(1).clamp(min=1).sqrt()))


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
    found = linear(task) if task["arm"] in LINEAR else choose(task) if "part" in task else network(task)
    return {**found, "cpu_seconds": time.process_time() - start}


def network(task: Cell) -> Cell:
    records, test, test_y = records_of(task["data"])
    torch.manual_seed(task["seed"])
    if task["data"] == "imdb":
        model: nn.Module = Reviews(nn.Tanh if task["arm"] == TEMPERED else nn.Identity)
    else:
        model = cnn(task["data"], nn.ReLU if task["arm"] == RELU else nn.Tanh)
    chosen = "candidate" in task
    if chosen:
        records, test = apply_settings(model, records, test, task["data"], CANDIDATES[task["candidate"]])
    important = task["arm"] == "DPIS"
    named = {"AdaCliP": AdaCliP(), "DPIS": DPIS(norm_share=SHARE, reach=REACH)}.get(task["arm"], "dp-sgd")
    share = SHARE if important else 1.0  # about the same steps, with the same probability
    stages = stages_of(task, len(records), round(task["epochs"] * share))
    optimizer = torch.optim.SGD(model.parameters(), lr=task["rate"], momentum=0.9)
    half_mean, decayed = averages(model)

    def after(done: int, total: int) -> None:
        if chosen:
            decayed.update_parameters(model)
        elif 2 * (stage * total + done) > len(stages) * total:
            half_mean.update_parameters(model)

    charged = dp.Composition()
    for stage, asked in enumerate(stages):
        run = make_private(
            model, optimizer, records, algorithm=named, delta=DELTA, batch_size=task["batch"] * share,
            max_norm=task["norm"], public_size=len(records), batches=Batches(1024),
            random_state=task["seed"] * len(stages) + stage,
            arithmetic="exact" if task["arm"] == "AdaCliP" else task["arithmetic"], **asked,
        )  # fmt: skip
        run.fit(loss, after)
        charged += run.charged_
    bound = charged.epsilon(DELTA).upper
    assert bound <= task["epsilon"]
    return {"scores": accuracy(decayed if chosen else half_mean, test, test_y), "bound": bound}


def stages_of(task: Cell, records: int, epochs: int) -> list[dict[str, float]]:
    """Returns what is asked of each of the runs that follow one another on a model.

    There is one run, which meets epsilon, but where noise decays: then each epoch is a run with its own noise, and all
    of them together meet epsilon."""
    if "noise_decay" not in task:
        return [{"epsilon": task["epsilon"], "epochs": epochs}]
    q, factors = task["batch"] / records, [math.exp(-task["noise_decay"] * epoch) for epoch in range(epochs)]

    def compose_epochs(noise: float) -> dp.Composition:
        step = [dp.PoissonSampled(dp.Gaussian(noise * factor), q) for factor in factors]
        return dp.Composition((mechanism, math.ceil(1 / q)) for mechanism in step)

    noise = dp.calibrate(compose_epochs, epsilon=task["epsilon"], delta=DELTA)
    return [{"noise_multiplier": noise * factor, "epochs": 1} for factor in factors]


def averages(model: nn.Module) -> tuple[Any, Any]:
    """Returns a mean of iterates, and an average that gives DECAY to its past."""
    swa = torch.optim.swa_utils
    return swa.AveragedModel(model), swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(DECAY))


def accuracy(model: Any, test: torch.Tensor, test_y: np.ndarray) -> float:
    """Returns the accuracy in %."""
    with torch.no_grad():
        return 100 * float((model(test).argmax(1).numpy() == test_y).mean())


def apply_settings(
    model: nn.Module, records: TensorDataset, test: torch.Tensor, name: str, settings: Settings
) -> tuple[TensorDataset, torch.Tensor]:
    """Draws the model's first weights and returns the training records and the test images as settings say."""
    if settings.initial == "xavier":
        for layer in model.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
    if settings.pixels == "standardised":
        mean, deviation = PIXELS[name]
        images, labels = records.tensors
        records, test = TensorDataset((images - mean) / deviation, labels), (test - mean) / deviation
    return records, test


def choose(task: Cell) -> Cell:
    """Returns held-out accuracies of a candidate: of the last iterate, the mean of the last half, and the average."""
    records, _, _ = records_of(task["data"])
    images, labels = records.tensors
    parts = TensorDataset(images[:-HELD_OUT], labels[:-HELD_OUT])
    torch.manual_seed(task["seed"])
    model, settings = cnn(task["data"]), CANDIDATES[task["arm"]]
    parts, held_out = apply_settings(model, parts, images[-HELD_OUT:], task["data"], settings)
    # The noise of the mean gradient is that of epsilon 1 with all records, batches of 2,048 and 15 epochs.
    q = IMAGE_BATCH / len(labels)
    noise = float(dp.noise_multiplier(epsilon=1.0, delta=DELTA, sampling_probability=q, steps=PROXY_STEPS))
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=settings.rate, momentum=0.9), parts, delta=DELTA,
        noise_multiplier=noise * PROXY_BATCH / IMAGE_BATCH, batch_size=PROXY_BATCH, max_norm=NORM,
        public_size=len(parts), epochs=PROXY_STEPS * PROXY_BATCH / len(parts), random_state=task["seed"],
        arithmetic="float",
    )  # fmt: skip
    half_mean, decayed = averages(model)

    def after(done: int, total: int) -> None:
        decayed.update_parameters(model)
        if 2 * done > total:
            half_mean.update_parameters(model)

    run.fit(loss, after)
    y = labels[-HELD_OUT:].numpy()
    names = {"last": model, "half": half_mean, "average": decayed}
    return {name: accuracy(used, held_out, y) for name, used in names.items()}


def linear(task: Cell) -> Cell:
    X, y, test_X, test_y = features_of(task["data"])
    used = varied(task["part"], task["value"]) if "part" in task else LINEAR[task["arm"]]
    clf = LogisticRegression(used, task["epsilon"], DELTA, public_size=len(y), random_state=task["seed"])
    clf.fit(X, y)
    assert clf.privacy_.upper <= task["epsilon"]
    return {"scores": 100 * clf.score(test_X, test_y), "bound": clf.privacy_.upper}


def varied(part: str, value: float) -> DPIS:
    """Returns DPIS on scattering features with one setting changed."""
    return dataclasses.replace(LINEAR[IMPORTANT], **SWEEPS[part][value])  # type: ignore[arg-type]


def task_of(name: str, arm: str, epsilon: float, seed: int) -> Cell:
    plain = {"data": name, "arm": arm, "epsilon": epsilon, "seed": seed}
    if arm in LINEAR:
        return plain if arm == "NoisyGD, linear" else {**plain, "settings": repr(LINEAR[arm])}
    arithmetic = "exact" if arm == "AdaCliP" or name == "imdb" else "float"  # gradients of reviews are short
    batch = REVIEW_BATCH if name == "imdb" else IMAGE_BATCH
    epochs = round(EPOCHS * max(epsilon, 1.0))
    own: Cell = {"share": SHARE, "reach": REACH} if arm == "DPIS" else {}
    if arm in (CHOSEN, DECAYING) and name != "imdb":
        own = {"candidate": BEST, **dataclasses.asdict(CANDIDATES[BEST]), "decay": DECAY}
    if arm == DECAYING:
        own["noise_decay"] = NOISE_DECAY
    return {**plain, "arithmetic": arithmetic, "batch": batch, "rate": RATE, "norm": NORM, "epochs": epochs, **own}


def table(name: str, found: list[Cell]) -> dict[str, Points]:
    """Prints the rows of a data set at the epsilons that were run, and returns a line for each of ours."""
    epsilons = [epsilon for epsilon in EPSILONS if any(c["epsilon"] == epsilon for c in found)]
    print(f"\n| {name} | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " | CPU seconds |")
    print("|---|" + "---|" * (len(epsilons) + 1))
    published = PUBLISHED.get(name, {})
    for arm, row in published.items():
        known = [f"{score:.1f}" for epsilon, score in zip(EPSILONS, row, strict=True) if epsilon in epsilons]
        print(f"| {arm}, published | {' | '.join(known)} | |")
    lines: dict[str, Points] = {}
    for arm in (*NETWORKS, *LINEAR):
        own = [c for c in found if c["arm"] == arm]
        scores = {e: [c["scores"] for c in own if c["epsilon"] == e] for e in epsilons}
        if own:
            seconds = np.median([c["cpu_seconds"] for c in own])
            print(f"| {arm} | " + " | ".join(shown(scores[e]) for e in epsilons) + f" | {seconds:.0f} |")
            at = [e for e in epsilons if scores[e]]
            errors = [half(scores[e]) if len(scores[e]) > 1 else 0.0 for e in at]
            lines[arm] = at, [float(np.mean(scores[e])) for e in at], errors
    return lines | {f"{arm}, published": (EPSILONS, row, None) for arm, row in published.items()}


def shown(scores: list[float]) -> str:
    """Returns a mean with its 95% interval and the number of seeds, or that nothing was run."""
    if not scores:
        return "not run"
    mean = f"{np.mean(scores):.2f}"
    return f"{mean} +- {half(scores):.2f} ({len(scores)})" if len(scores) > 1 else f"{mean} (1)"


def tasks(seeds: int = 5) -> list[Cell]:
    """Returns all cells: the choice of settings, then accuracies, seed after seed, then settings of DPIS."""
    found: list[Cell] = [
        {"part": "choice", "data": name, "arm": candidate, "seed": seed}
        for seed in range(seeds) for name in PIXELS for candidate in CANDIDATES
    ]  # fmt: skip
    names = [*PUBLISHED, *(["cifar-10"] if CIFAR.is_file() else [])]
    everywhere = ("DP-SGD", "AdaCliP", "DPIS", "NoisyGD, linear")
    for seed, epsilon, name, arm in itertools.product(range(seeds), EPSILONS, names, (*NETWORKS, *LINEAR)):
        own = arm in (TEMPERED, DECAYING) if name == "imdb" else arm != TEMPERED and name in PIXELS
        if own or arm in everywhere:
            found.append(task_of(name, arm, epsilon, seed))
    return found + [
        {"part": part, "data": name, "arm": IMPORTANT, "epsilon": 1.0, "value": value, "seed": seed,
         "settings": repr(varied(part, value))}
        for seed in range(seeds) for name in PIXELS for part in ("budget", "multiplier") for value in SWEEPS[part]
        if varied(part, value) != LINEAR[IMPORTANT]  # that point is an accuracy
    ]  # fmt: skip


def show(found: list[Cell], folder: Path) -> None:
    """Prints the choice of settings and a table for each data set, and draws the tables."""
    for cell in (c for c in found if c.get("part") == "choice"):
        scores = "  ".join(f"{name} {cell[name]:.2f}" for name in ("last", "half", "average"))
        print(f"held out, {cell['data']}, {cell['arm']}: {scores}")
    for cell in (c for c in found if "value" in c):
        print(f"{cell['part']} {cell['value']:g}, {cell['data']}: {cell['scores']:.2f}")
    scored = [c for c in found if "part" not in c]
    panels = {
        name: table(name, [c for c in scored if c["data"] == name]) for name in dict.fromkeys(c["data"] for c in scored)
    }
    if panels:
        draw(folder / "networks.png", panels, f"epsilon (delta = {DELTA:g})", "accuracy %")


if __name__ == "__main__":
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show))
