"""Times clipping, summing and noise: tightdp beside Opacus, flat torch, NumPy and a plain read of the array.

    python bench/kernels.py [--rounds 21] [--threads 2] [--shapes 0 1 2 3]

Opacus and tightdp get the same arrays, one for each parameter. The flat versions get all of them as one array of shape
(batch, parameters). A turn repeats its call in a loop, as training does, and the contenders take turns. Answers are
compared before anything is timed. "clip_and_noise" is exact, which is the default, and "float" is its idealised form.
"exact/float" is the median of the ratios of neighbouring turns. Writes the table and the figure to bench/results.
"""

from __future__ import annotations

import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from shared import RESULTS, draw, interleaved, options, timed

import tightdp as dp
from tightdp import _core

MAX_NORM, NOISE_MULTIPLIER = 1.0, 1.0

# Seconds of rest and of warming up before each turn. The threads of OpenMP and of NumPy's BLAS spin for up to a tenth
# of a second after their last call, and would take a processor from the next contender. Warming up wakes threads that
# sleep.
REST, WARM = 0.15, 0.03
# Number of columns from which on no second-level cache holds a row. The row must then be read a second time, since its
# clip factor depends on all of its entries.
LONG = 1_000_000

# Batch sizes and shapes of parameters, of a logistic regression, two small networks and one large layer.
SHAPES: list[tuple[int, list[tuple[int, ...]]]] = [
    (256, [(10, 784), (10,)]),
    (256, [(90, 784), (90,), (4, 90)]),
    (512, [(33, 784), (33,), (3, 33), (6,)]),
    (64, [(1000, 2000), (2000,)]),
]


@dataclass
class Case:
    """One batch, as a list of arrays and as one flat array.

    The norms are spread around the norm bound, so that some examples are clipped.
    """

    batch: int
    shapes: list[tuple[int, ...]]

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        scale = torch.exp(torch.randn(self.batch, generator=generator)) / math.sqrt(self.columns)
        self.flat = torch.randn(self.batch, self.columns, generator=generator) * scale[:, None]
        pieces = torch.split(self.flat, [math.prod(s) for s in self.shapes], dim=1)
        self.list = [p.reshape(self.batch, *s).contiguous() for p, s in zip(pieces, self.shapes, strict=True)]
        self.numpy = self.flat.numpy()
        self.arrays = [t.numpy() for t in self.list]

    @property
    def columns(self) -> int:
        return sum(math.prod(s) for s in self.shapes)


class Opacus:
    """Opacus: clip_and_accumulate and add_noise of DPOptimizer, on parameters that have a grad_sample."""

    def __init__(self, case: Case) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from opacus.optimizers import DPOptimizer

            self.parameters = [torch.nn.Parameter(torch.zeros(s)) for s in case.shapes]
            self.optimizer = DPOptimizer(
                torch.optim.SGD(self.parameters, lr=0.1),
                noise_multiplier=NOISE_MULTIPLIER,
                max_grad_norm=MAX_NORM,
                expected_batch_size=case.batch,
            )
        self.samples = case.list

    def reset(self) -> None:
        for p, g in zip(self.parameters, self.samples, strict=True):
            if hasattr(g, "_processed"):
                del g._processed
            p.grad_sample, p.summed_grad = g, None

    def __call__(self) -> None:
        self.reset()
        self.optimizer.clip_and_accumulate()
        self.optimizer.add_noise()

    def total(self) -> np.ndarray:
        return torch.cat([p.summed_grad.reshape(-1) for p in self.parameters]).numpy()

    def noisy(self) -> np.ndarray:
        return torch.cat([p.grad.reshape(-1) for p in self.parameters]).numpy()


def flat_torch(g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    factor = (MAX_NORM / (g.norm(dim=1) + 1e-6)).clamp(max=1.0)
    total = factor @ g
    return total, total + NOISE_MULTIPLIER * MAX_NORM * torch.randn_like(total)


def flat_numpy(g: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    norms = np.sqrt(np.einsum("ij,ij->i", g, g))
    total = np.minimum(1, MAX_NORM / norms).astype(g.dtype) @ g
    noise = rng.standard_normal(total.size, dtype=g.dtype)
    return total, total + g.dtype.type(NOISE_MULTIPLIER * MAX_NORM) * noise


def assert_answers(case: Case, opacus: Opacus, rng: np.random.Generator) -> None:
    """Asserts that each contender's sum agrees with a sum in float64, and its noise has the requested deviation."""
    norms = np.linalg.norm(case.numpy.astype(np.float64), axis=1)
    exact = np.minimum(1, MAX_NORM / norms) @ case.numpy.astype(np.float64)
    opacus()
    ours, reported = dp.clipped_sum(case.arrays, MAX_NORM)
    np.testing.assert_allclose(reported, norms, rtol=1e-12)
    torch_total, torch_noisy = flat_torch(case.flat)
    numpy_total, numpy_noisy = flat_numpy(case.numpy, rng)
    totals = {
        "tightdp": np.concatenate([a.reshape(-1) for a in ours]),
        "tightdp flat": dp.clipped_sum(case.numpy, MAX_NORM)[0],
        "Opacus": opacus.total(),
        "torch": torch_total.numpy(),
        "NumPy": numpy_total,
    }
    scale = np.abs(exact).max()
    for name, total in totals.items():
        worst = np.abs(total - exact).max() / scale
        assert worst < (1e-6 if name.startswith("tightdp") else 1e-3), (name, worst)  # peers add in float32
    grid, (integers, _) = dp.exact_grid(MAX_NORM), dp.clipped_sum(case.numpy, MAX_NORM, arithmetic="exact")
    # An example loses less than a grid step in each coordinate, and its clip factor at most three units of a float32.
    lost = case.batch * grid + 4 * 2.0**-24 * (np.minimum(1, MAX_NORM / norms) @ np.abs(case.numpy.astype(np.float64)))
    assert (np.abs(integers * grid - exact) <= lost).all()
    backwards, _ = dp.clipped_sum(case.numpy[::-1], MAX_NORM, arithmetic="exact")
    assert (backwards == integers).all(), "integers add up in any order"
    noisy = {
        "tightdp": dp.clip_and_noise(case.numpy, MAX_NORM, NOISE_MULTIPLIER),
        "tightdp, float": dp.clip_and_noise(case.numpy, MAX_NORM, NOISE_MULTIPLIER, arithmetic="float"),
        "Opacus": opacus.noisy(),
        "torch": torch_noisy.numpy(),
        "NumPy": numpy_noisy,
    }
    for name, y in noisy.items():
        deviation = (y - exact).std() / (NOISE_MULTIPLIER * MAX_NORM)
        assert abs(deviation - 1) < 6 / math.sqrt(2 * y.size), (name, deviation)


def run(case: Case, rounds: int) -> dict[str, float]:
    """Returns the median milliseconds of each contender."""
    rng = np.random.default_rng(0)
    opacus = Opacus(case)
    assert_answers(case, opacus, rng)
    secure = dp.SecureRandom()
    calls: dict[str, Callable[[], Any]] = {
        "one read": case.flat.sum,
        "clipped_sum": lambda: dp.clipped_sum(case.numpy, MAX_NORM),
        "clip_and_noise": lambda: released(case, secure, "exact"),
        "float": lambda: released(case, secure, "float"),
        "Opacus": opacus,
        "torch, flat": lambda: flat_torch(case.flat),
        "NumPy": lambda: flat_numpy(case.numpy, rng),
    }
    return dict(zip(calls, (1e3 * t for t in interleaved(list(calls.values()), rounds, WARM, REST)), strict=True))


def released(case: Case, rng: dp.SecureRandom, arithmetic: Literal["exact", "float"]) -> Any:
    return dp.clip_and_noise(case.arrays, MAX_NORM, NOISE_MULTIPLIER, rng=rng, arithmetic=arithmetic)


def exact_over_float(case: Case, rounds: int) -> float:
    """Returns the median ratio of the times of exact and float turns that follow each other.

    The order of the two turns changes from round to round.
    """
    secure, ratios = dp.SecureRandom(), []
    for r in range(rounds):
        turns = {a: lambda a=a: released(case, secure, a) for a in ("exact", "float")}
        order = list(turns) if r % 2 else list(turns)[::-1]
        seconds = {a: timed(turns[a], WARM) for a in order}
        ratios.append(seconds["exact"] / seconds["float"])
    return statistics.median(ratios)


def again_over_first(case: Case, rounds: int) -> float:
    """Returns the time of reading eight rows a second time, at once, divided by the time of the first reading.

    The ratio shows the time that a shared cache would save.
    """
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for rows in case.flat.split(8):
            for reading in times:
                start = time.perf_counter()
                rows.sum()
                reading.append(time.perf_counter() - start)
    first, again = map(statistics.median, times)
    return again / first


def main() -> None:
    given = options(__doc__, rounds=21, threads=2, shapes=list(range(len(SHAPES))))
    torch.set_num_threads(given.threads)
    _core.set_max_threads(given.threads)
    print(f"{_core.isa()}, {given.threads} threads, torch {torch.__version__}, median of {given.rounds} turns, ms")
    rows: list[dict[str, Any]] = []
    for batch, shapes in (SHAPES[i] for i in given.shapes):
        case = Case(batch, shapes)
        ms = run(case, given.rounds)
        if not rows:
            heads = "".join(f"{n:>15}" for n in ms) + f"{'sum/read':>10}{'Opacus/ours':>13}{'exact/float':>13}"
            print(f"{'':>16}{heads}")
        ratio = exact_over_float(case, 2 * given.rounds)
        rows.append({"batch": batch, "columns": case.columns, "ms": ms, "exact_over_float": ratio})
        print(
            f"{f'{batch} x {case.columns}':>16}"
            + "".join(f"{t:>15.3f}" for t in ms.values())
            + f"{ms['clipped_sum'] / ms['one read']:>10.2f}{ms['Opacus'] / ms['clip_and_noise']:>13.2f}"
            + f"{ratio:>13.2f}",
            flush=True,
        )
        if case.columns >= LONG:
            print(f"{'':>16} eight rows read again: {again_over_first(case, rounds=3):.2f} of the first time")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "kernels.json").write_text(json.dumps(rows, indent=1))
    labels = [f"{row['batch']} x {row['columns']:,}" for row in rows]
    lines = {n: (labels, [row["ms"][n] / row["ms"]["one read"] for row in rows], None) for n in rows[0]["ms"]}
    draw(RESULTS / "kernels.png", {"": lines}, "batch x parameters, float32", "time over one read of the array")


if __name__ == "__main__":
    main()
