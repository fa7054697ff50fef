"""Times a step of private training in PyTorch, with its optimizer step, beside the same step without privacy.

    python bench/torch_step.py [--rounds 15] [--models mlp cnn] [--ways ...] [--memory] [--cpu] [--page] [--cuda]

The models are a CNN on 512 images, an MLP 784-1000-1000-10 on 256 images, a transformer of 4 layers on 64 sentences,
and the transformer with LoRA. The ways to train are:

- a step without privacy
- tightdp with float sums from one pass, with the default exact sums, and with exact sums of formed gradients
- Opacus with hooks, with hooks and tightdp's optimizer instead of its own, and with ghost clipping
- ``torch.func``, written by hand

Each way has a process of its own, as it has for its users, and the processes take turns. A turn is two steps, and the
second is timed: other processes have filled the caches before the first. The ratio of a way is the median, over rounds,
of its time divided by the time without privacy in the same round. The steps of tightdp are ``run.step`` with all its
checks, and include getting the batch from ``run.loader``. The first step of a process, which checks records as well, is
shown separately. Before anything is timed, the clipped sums of all ways are compared at noise 0.

``--cpu`` counts processor time on one thread, for a machine that others use too. ``--cuda`` puts models and records
on a device, and waits for the device before the clock is read. ``--memory`` measures the peak memory of each way in a
process of its own, above the memory before the first step. Writes bench/results/torch_step.json. ``--page`` puts the
ratios into the table of docs/tutorials/torch.md, for the models and ways that were run.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from shared import RESULTS, options
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tightdp._core import set_max_threads
from tightdp.torch import make_private
from tightdp.torch.ghost_clipping.clipping import OnePassSums
from tightdp.torch.ghost_clipping.products import ProductSums
from tightdp.torch.gradient_sums.exact_sums import ExactSums
from tightdp.torch.plan.plan import Plan

NORM, SIGMA = 1.0, 1.0
DEVICE = "cuda" if "--cuda" in sys.argv else "cpu"
"""The device that holds models and records."""


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.shrink(F.gelu(self.grow(self.after(x))))


class Transformer(nn.Module):
    def __init__(self, words: int = 4000, width: int = 256, length: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Attention(width, 4) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: Any) -> Any:
        # Opacus' ghost clipping needs contiguous indices.
        places = torch.arange(x.shape[1], device=x.device).expand_as(x).contiguous()
        return self.head(self.norm(self.layers(self.words(x) + self.places(places))).mean(1))


class LoRA(nn.Module):
    def __init__(self, inner: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.inner = inner
        self.a, self.b = nn.Linear(inner.in_features, rank, bias=False), nn.Linear(rank, inner.out_features, bias=False)
        nn.init.normal_(self.b.weight, std=1e-3)

    def forward(self, x: Any) -> Any:
        return self.inner(x) + self.b(self.a(x))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10))


def lora() -> nn.Module:
    model = Transformer().requires_grad_(False)
    for layer in model.layers:
        layer.qkv, layer.out = LoRA(layer.qkv), LoRA(layer.out)
    model.head.requires_grad_(True)
    return model


def sentences() -> Any:
    return torch.randint(0, 4000, (64, 64))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], int]] = {
    "cnn": (cnn, lambda: torch.randn(512, 1, 28, 28), 10),
    "mlp": (mlp, lambda: torch.randn(256, 784), 10),
    "transformer": (Transformer, sentences, 2),
    "lora": (lora, sentences, 2),
}


def loss_fn(model: Any, batch: Any) -> Any:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


class Way:
    """A way to train. ``step`` takes a whole step, and ``sums`` returns the clipped sums of a step."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        build, inputs, classes = MODELS[name]
        self.model, x = build().to(DEVICE), inputs().to(DEVICE)
        self.batch = [x, torch.arange(len(x), device=DEVICE) % classes]
        self.parameters = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        self.optimizer: Any = torch.optim.SGD(self.parameters.values(), lr=1e-3)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss_fn(self.model, self.batch).mean().backward()
        self.optimizer.step()

    def sums(self) -> list[Any] | None:
        return None


class Ours(Way):
    kind: Any = OnePassSums
    arithmetic: Any = "float"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        n = len(self.batch[0])
        plan = Plan(10 * n, n, 10, SIGMA, (NORM,), 1e-5, self.arithmetic, None, None)
        self.clipped = self.kind(plan, self.parameters)
        self.run = make_private(
            self.model, self.optimizer, TensorDataset(*self.batch), batch_size=n, epochs=100_000, max_norm=NORM,
            noise_multiplier=SIGMA, delta=1e-9, public_size=n, arithmetic=self.arithmetic,
        )  # fmt: skip

    def step(self) -> None:
        self.run.step(loss_fn, next(iter(self.run.loader)))

    def sums(self) -> list[Any]:
        self.clipped.clear_gradient_sums()
        self.clipped.add(self.model, loss_fn, self.batch, len(self.batch[0]))
        return list(self.clipped.convert_to_floats())


class Exact(Ours):
    kind, arithmetic = ExactSums, "exact"


class Auto(Ours):
    kind, arithmetic = ProductSums, "auto"


class Opacus(Way):
    """Opacus with hooks and its own optimizer."""

    engine, mode, clipping = "opacus", "hooks", "flat"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        from torch.utils.data import DataLoader

        made = (
            importlib.import_module(self.engine)
            .PrivacyEngine()
            .make_private(
                module=self.model,
                optimizer=self.optimizer,
                criterion=nn.CrossEntropyLoss(),
                data_loader=DataLoader(TensorDataset(*self.batch), batch_size=len(self.batch[0])),
                noise_multiplier=SIGMA,
                max_grad_norm=NORM,
                poisson_sampling=False,
                grad_sample_mode=self.mode,
                clipping=self.clipping,
            )
        )
        self.model, self.optimizer = made[:2]
        self.criterion = made[2] if self.mode == "ghost" else nn.CrossEntropyLoss()

    def backward(self) -> None:
        self.optimizer.zero_grad()
        self.criterion(self.model(self.batch[0]), self.batch[1]).backward()

    def step(self) -> None:
        self.backward()
        self.optimizer.step()

    def sums(self) -> list[Any] | None:
        self.backward()
        self.optimizer.clip_and_accumulate()
        return [p.summed_grad.detach().clone() for p in self.optimizer.params]


class Adapter(Opacus):
    """Opacus with hooks and tightdp's optimizer."""

    engine = "tightdp.adapters.opacus"


class Ghost(Opacus):
    mode = "ghost"

    def sums(self) -> None:
        return None


class Func(Way):
    """Gradients by ``torch.func``, clipped and added up by hand, with PyTorch's noise."""

    def clipped_sums(self) -> list[Any]:
        values = {name: p.detach() for name, p in self.model.named_parameters()}
        frozen = {name: value for name, value in values.items() if name not in self.parameters}

        def loss(trained: Any, x: Any, y: Any) -> Any:
            scores = torch.func.functional_call(self.model, {**frozen, **trained}, (x[None],))
            return F.cross_entropy(scores, y[None])

        trained = {name: values[name] for name in self.parameters}
        found = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(trained, *self.batch)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
        factors = (NORM / norms).clamp(max=1.0)
        return [torch.einsum("k,k...->...", factors, g) for g in found.values()]

    def step(self) -> None:
        for p, total in zip(self.parameters.values(), self.clipped_sums(), strict=True):
            p.grad = (total + SIGMA * NORM * torch.randn_like(total)) / len(self.batch[0])
        self.optimizer.step()

    def sums(self) -> list[Any]:
        return self.clipped_sums()


WAYS: dict[str, type[Way]] = {
    "no privacy": Way, "one pass": Ours, "auto": Auto, "exact": Exact, "opacus hooks": Opacus,
    "adapter": Adapter, "opacus ghost": Ghost, "torch.func": Func,
}  # fmt: skip


ROUNDED_UP = (256 + 1024 + 16) * 2**-24 * 64 / 2
"""Largest relative amount by which one pass may clip too much if the terms of 64 positions do not point the same way.
It clips too much because norms are rounded up (docs/theory/clipping.md, section 5). The amount is largest for a layer
with 256 inputs and 1,024 outputs."""


def assert_same_sums(found: list[list[Any] | None]) -> float:
    """Asserts that the ways have nearly the same sums, except for ways that do not return sums.

    Returns the largest difference between the sums of two ways, divided by the largest sum.
    """
    shown = [sums for sums in found if sums is not None]
    worst = 0.0
    for other in shown[1:]:
        largest = max(float(abs(total).max()) for total in shown[0])
        worst = max([worst, *(float(abs(a - b).max()) / largest for a, b in zip(shown[0], other, strict=True))])
    assert worst < ROUNDED_UP, worst
    return worst


def serve_steps(pipe: Connection, name: str, way: str, cpu: bool) -> None:
    """Sends the clipped sums of one way, and then the seconds of a step whenever it is asked for one."""
    warnings.simplefilter("ignore")
    if cpu:
        torch.set_num_threads(1)
        set_max_threads(1)
    clock = time.process_time if cpu else read_clock
    made = WAYS[way](name)
    sums = made.sums()
    pipe.send(None if sums is None else [total.double().cpu().numpy() for total in sums])
    while pipe.recv():
        start = clock()
        made.step()
        pipe.send(clock() - start)


def timed(name: str, ways: list[str], rounds: int, cpu: bool) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    pipes, found = {}, []
    for way in ways:
        pipes[way], other = context.Pipe()
        context.Process(target=serve_steps, args=(other, name, way, cpu), daemon=True).start()
        found.append(pipes[way].recv())

    def step(way: str) -> float:
        pipes[way].send(True)
        return float(pipes[way].recv())

    results: dict[str, Any] = {"difference": assert_same_sums(found)}
    first = {way: step(way) for way in ways}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for i in range(rounds):
        for way in ways if i % 2 == 0 else ways[::-1]:
            step(way)
            times[way].append(step(way))
    for way in ways:
        pipes[way].send(False)
        ratio = statistics.median(t / b for t, b in zip(times[way], times["no privacy"], strict=True))
        results[way] = {"first": 1e3 * first[way], "ms": 1e3 * statistics.median(times[way]), "ratio": ratio}
        results[way]["least"] = min(times[way]) / min(times["no privacy"])
    return results


def read_clock() -> float:
    """Returns the seconds of the wall clock, once the device has done its work."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def peak(name: str, way: str) -> float:
    """Returns the peak memory of this process in MiB, above its memory before the first step (Linux)."""
    made = WAYS[way](name)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak (ru_maxrss would begin with the parent's peak)
    before = held("VmRSS")
    for _ in range(3):
        made.step()
    return held("VmHWM") - before


def held(name: str) -> float:
    """Returns the resident memory in MiB, at this time (VmRSS) or at its peak (VmHWM)."""
    return float(re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024


PAGE = Path(__file__).parent.parent / "docs/tutorials/torch.md"
ROWS = {"auto": '`arithmetic="auto"`', "one pass": '`arithmetic="float"`', "exact": '`arithmetic="exact"`',
        "opacus hooks": "Opacus, hooks", "opacus ghost": "Opacus, ghost clipping"}  # fmt: skip
"""Names of the rows of the table in docs/tutorials/torch.md, by way. The columns of the table are the models."""


def write_page(results: dict[str, Any]) -> None:
    """Puts the ratios of ``results`` into the table of docs/tutorials/torch.md. Other cells stay as they are."""
    lines = PAGE.read_text().splitlines()
    for way, title in ROWS.items():
        for i, line in enumerate(lines):
            if line.startswith(f"| {title} |"):
                cells = line.strip("| ").split(" | ")
                for column, name in enumerate(MODELS, 1):
                    if way in results.get(name, {}):
                        ratio = results[name][way]["ratio"]
                        cells[column] = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
                lines[i] = f"| {' | '.join(cells)} |"
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    given = options(__doc__, rounds=15, models=list(MODELS), ways=list(WAYS), memory=False, cpu=False, peak="",
                    page=False, cuda=False)  # fmt: skip
    warnings.simplefilter("ignore")
    if given.cpu:
        torch.set_num_threads(1)
        set_max_threads(1)
    if given.peak:
        print(peak(*given.peak.split("/")))
        return
    results: dict[str, Any] = {}
    for name in given.models:
        results[name] = timed(name, given.ways, given.rounds, given.cpu)
        for way in given.ways:
            if given.memory:
                command = [sys.executable, __file__, "--peak", f"{name}/{way}"]
                results[name][way]["MiB"] = float(subprocess.run(command, check=True, capture_output=True).stdout)
            print(
                f"{name:12} {way:14}", {key: round(value, 3) for key, value in results[name][way].items()}, flush=True
            )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "torch_step.json").write_text(json.dumps(results, indent=1))
    if given.page:
        write_page(results)


if __name__ == "__main__":
    main()
