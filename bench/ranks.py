"""Times a private step on one process and on two, and projects the times for more processes by a cost model.

    python bench/ranks.py [--rounds 7] [--steps 3] [--wall]

The model is an MLP 784-256-10 (203,530 parameters), with batches of 512 records, physical batches of 32, and exact
sums. A group of one process and a group of two processes, of one thread each, take turns of ``--steps`` steps. The time
of a step is that of its slowest process. It is processor time, for a machine that others use too. With ``--wall`` it is
the time of a clock, for a machine with two free cores. The parameters of both groups must have the same bits at the
end. Writes bench/results/ranks.json.

The cost model gives the time T(W) of a step on W nodes with one process each, for d parameters:

    T(W) = compute * pieces(W) / pieces(1) + noise / W + rest + 16 d (W - 1) / W / bandwidth + 4 latency (W - 1)

``pieces(W)`` is the expected number of physical batches on the node that gets most of them, for a Poisson batch.
``compute`` is the time for the gradients, and ``noise`` the time for drawing noise. ``rest`` is the time of the work
that every node does: drawing the batch, estimating the gradient, and the optimizer. The all-reduce of d int64 sums (in
a ring) sends 16 d (W - 1) / W bytes in 2 (W - 1) messages. Two further exchanges of 80 bytes take W - 1 messages each.
``compute``, ``noise`` and ``rest`` are measured on one process. The output has times for batches of 512 records on all
nodes together, and for batches of 512 records on each node.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from shared import RESULTS, options
from torch import distributed
from torch.utils.data import TensorDataset

from tightdp.torch import Batches, make_private
from tightdp.torch.gradient_sums import sum_noise

RECORDS, BATCH, PIECE = 20_000, 512, 32
BANDWIDTH, LATENCY = 1.25e9, 5e-5
"""Bandwidth in bytes a second (10 Gbit/s) and latency in seconds a message, as in an ordinary network."""


def loss(model: Any, batch: Any) -> Any:
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y, reduction="none")


def model_of() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.Tanh(), torch.nn.Linear(256, 10))


def rank(rank: int, size: int, folder: Path, rounds: int, steps: int, wall: bool, turns: Any) -> None:
    """Runs one process: takes its turns, and writes the seconds of each step, and of the step's noise, to a file."""
    torch.set_num_threads(1)
    os.environ["TIGHTDP_THREADS"] = "1"
    distributed.init_process_group("gloo", init_method=f"file://{folder}/{size}", rank=rank, world_size=size)
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(RECORDS, 784), torch.randint(0, 10, (RECORDS,)))
    model = model_of()
    run = make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), data, noise_multiplier=1.0, delta=1e-5, batch_size=BATCH,
        epochs=(rounds + 1) * steps * BATCH / RECORDS, max_norm=1.0, public_size=RECORDS, random_state=0,
        batches=Batches(PIECE),
    )  # fmt: skip
    clock = time.perf_counter if wall else time.process_time
    noise, whole = 0.0, sum_noise.add_rounded_normals

    def timed(*arguments: Any) -> None:
        nonlocal noise
        start = clock()
        whole(*arguments)
        noise += clock() - start

    sum_noise.add_rounded_normals = timed
    found: list[dict[str, float]] = []
    batches = (batch for _ in iter(int, 1) for batch in run.loader)
    for turn in range(rounds + 1):
        turns[size][0].acquire()
        for _ in range(steps):
            noise, start = 0.0, clock()
            run.step(loss, next(batches))
            if turn:  # the first turn warms up
                found.append({"step": clock() - start, "noise": noise})
        turns[size][1].release()
    bits = [p.detach().numpy().tobytes().hex()[:64] for p in model.parameters()]
    (folder / f"{size}-{rank}.json").write_text(json.dumps({"steps": found, "bits": bits}))
    os._exit(0)


def pieces(size: int, batch: int = BATCH, draws: int = 2000) -> float:
    """Returns the mean number of physical batches on the rank that gets most of them, over random Poisson batches."""
    batches = np.random.default_rng(0).poisson(batch, draws)
    return float(np.ceil(np.ceil(batches / PIECE) / size).mean())


def projected(size: int, batch: int, compute: float, noise: float, rest: float, parameters: int) -> float:
    """Returns the seconds of a step by the cost model."""
    sent = 16 * parameters * (size - 1) / size / BANDWIDTH + 4 * LATENCY * (size - 1)
    return compute * pieces(size, batch) / pieces(1) + noise / size + rest + sent


def replicated() -> float:
    """Returns the seconds of the work that every rank does: drawing a batch, estimating a gradient, the optimizer."""
    from tightdp import Philox
    from tightdp.clipping_and_noise.sampling import draw_poisson_sample

    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sums = [torch.ones(p.shape, dtype=torch.int64) for p in model.parameters()]
    times = []
    for k in range(20):
        start = time.process_time()
        draw_poisson_sample(Philox(k), RECORDS, BATCH / RECORDS)
        for p, total in zip(model.parameters(), sums, strict=True):
            p.grad = (total.to(torch.float64) * 1e-9).to(p.dtype)
        optimizer.step()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    given = options(__doc__, rounds=7, steps=3, wall=False)
    torch.set_num_threads(1)
    context = torch.multiprocessing.get_context("fork")
    turns = {size: (context.Semaphore(0), context.Semaphore(0)) for size in (1, 2)}
    rest = replicated()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [
            context.Process(target=rank, args=(r, size, folder, given.rounds, given.steps, given.wall, turns))
            for size in turns
            for r in range(size)
        ]
        for process in processes:
            process.start()
        for _ in range(given.rounds + 1):
            for size, (go, done) in turns.items():
                for _ in range(size):
                    go.release()
                for _ in range(size):
                    done.acquire()
        for process in processes:
            process.join()
        found = {(s, r): json.loads((folder / f"{s}-{r}.json").read_text()) for s in turns for r in range(s)}
    assert all(one["bits"] == found[1, 0]["bits"] for one in found.values()), "the groups differ"
    one = [step["step"] for step in found[1, 0]["steps"]]
    two = [max(a["step"], b["step"]) for a, b in zip(found[2, 0]["steps"], found[2, 1]["steps"], strict=True)]
    ratio = statistics.median(a / b for a, b in zip(one, two, strict=True))
    noise = statistics.median(step["noise"] for step in found[1, 0]["steps"])
    seconds = statistics.median(one)
    compute, parameters = seconds - noise - rest, sum(p.numel() for p in model_of().parameters())
    kind = "wall" if given.wall else "processor"
    print(f"1 process: {1e3 * seconds:.1f} ms a step ({kind} time), noise {1e3 * noise:.2f}, alike {1e3 * rest:.2f}")
    print(f"2 processes: {ratio:.2f} times as fast; the same bits. The model says, network included:")
    print("nodes   ms a step, times as fast   ms a step, times the records a second")
    table = []
    for size in (1, 2, 4, 8, 16, 32, 64):
        same, grown = (projected(size, batch, compute, noise, rest, parameters) for batch in (BATCH, BATCH * size))
        table.append((size, same, seconds / same, grown, seconds / grown * size))
        print(f"{size:5d} {1e3 * same:11.1f} {seconds / same:14.2f} {1e3 * grown:11.1f} {seconds / grown * size:18.2f}")
    RESULTS.mkdir(exist_ok=True)
    result = {"clock": kind, "seconds": one, "seconds of two": two, "noise": noise, "alike": rest, "projected": table}
    (RESULTS / "ranks.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
