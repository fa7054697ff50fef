"""A step of private training in PyTorch: Opacus' engine, and ours in its place, on Opacus' network for MNIST.

    python bench/opacus_step.py [--rounds 31] [--batch 512]

Images are drawn; their values do not matter to the time. The two take turns, each first in every second round, with
default threads and no rests: forward, backward, clipping, noise and the optimiser. First both run three steps without
noise on the same batches, and must agree. The ratio is the median over rounds. Writes bench/results/opacus_step.json.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from shared import RESULTS, options
from torch.utils.data import DataLoader, TensorDataset

PARTS = ("forward", "backward", "step")


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 8, 2, padding=3), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 1),
        torch.nn.Conv2d(16, 32, 4, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 1),
        torch.nn.Flatten(), torch.nn.Linear(512, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10),
    )  # fmt: skip


class Training:
    """A model that trains on one batch again and again."""

    def __init__(self, engine: Callable[[], Any], batch: int, noise_multiplier: float) -> None:
        self.images = torch.randn(batch, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        self.labels = torch.arange(batch) % 10
        model = network()
        self.model, self.optimizer, _ = engine().make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
            data_loader=DataLoader(TensorDataset(self.images, self.labels), batch_size=batch),
            noise_multiplier=noise_multiplier,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )

    def step(self) -> list[float]:
        """Seconds of each part."""
        self.optimizer.zero_grad()
        times = [time.perf_counter()]
        loss = torch.nn.functional.cross_entropy(self.model(self.images), self.labels)
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.optimizer.step()
        times.append(time.perf_counter())
        return [b - a for a, b in itertools.pairwise(times)]

    def sums(self) -> torch.Tensor:
        return torch.cat([p.summed_grad.reshape(-1) for p in self.model.parameters()])


def assert_same_sums(engines: dict[str, Callable[[], Any]], batch: int) -> float:
    """The largest difference of a sum over the largest sum."""
    theirs, ours = (Training(engine, batch, 0.0) for engine in engines.values())
    worst = 0.0
    for _ in range(3):
        theirs.step()
        ours.step()
        worst = max(worst, float((theirs.sums() - ours.sums()).abs().max() / theirs.sums().abs().max()))
    assert worst < 1e-4, worst
    return worst


def main() -> None:
    given = options(__doc__, rounds=31, batch=512)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import opacus

        from tightdp.adapters import opacus as ours

        engines: dict[str, Callable[[], Any]] = {"Opacus": opacus.PrivacyEngine, "tightdp": ours.PrivacyEngine}
        worst = assert_same_sums(engines, given.batch)
        runs = {name: Training(engine, given.batch, 1.0) for name, engine in engines.items()}
        times: dict[str, list[list[float]]] = {name: [] for name in runs}
        for r in range(given.rounds + 2):
            for name in list(runs) if r % 2 else reversed(runs):
                times[name].append(runs[name].step())
    rows = {}
    for name, found in times.items():
        warm = found[2:]
        rows[name] = {part: 1e3 * statistics.median(t) for part, t in zip(PARTS, zip(*warm, strict=True), strict=True)}
        rows[name]["all"] = 1e3 * statistics.median(map(sum, warm))
        print(f"{name:>10}" + "".join(f"{part:>12} {ms:8.2f} ms" for part, ms in rows[name].items()))
    ratios = [sum(a) / sum(b) for a, b in zip(times["Opacus"][2:], times["tightdp"][2:], strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    print(
        f"Opacus / tightdp: {ratio:.2f}, quartiles {low:.2f} and {high:.2f}; sums differ by {worst:.1e} of the largest"
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "opacus_step.json").write_text(json.dumps({**rows, "ratio": ratio, "difference": worst}, indent=1))


if __name__ == "__main__":
    main()
