"""Clip, sum and add noise right after an operation of PyTorch, as a step of training does: tightdp beside Opacus.

    python bench/after_torch.py [--rounds 101] [--shapes 0 1 2 3]
    TIGHTDP_OPENMP=0 python bench/after_torch.py       # in threads of our own, for comparison

No rests, no hot loops, default threads: before each timed call PyTorch multiplies matrices for a millisecond. The
contenders take turns, in the opposite order every second round; ratios are medians over rounds of neighbouring times.
Answers are compared first. Writes bench/results/after_torch.json.

Two contenders only read the gradients, once and twice in a row, in PyTorch's threads, which are ours as well
(``TIGHTDP_OPENMP=0``: not). Nothing that needs each entry can be faster than one read of them. A row that is longer
than the second-level cache of a thread has to be read twice, since no entry can be added before the norm of its whole
row is known (docs/theory/clipping.md, section 4). So "reads" is how near to the speed of memory we are: ours over one
read, or over two for such rows.

A cache that threads share could serve the second read of 64 x 2,002,000. On two cores of an EPYC with 32 MiB of it, one
row (8 MB) read again at once took .34 of the first time, two rows .45, four .66, and eight 1.4. But each block of rows
reads and writes the sums, 8 bytes a column, which is the traffic of four rows: a block of four or fewer saves nothing,
and of eight the second read comes from memory. So two reads are the floor there; ours took 1.07 of them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from kernels import LONG, MAX_NORM, NOISE_MULTIPLIER, SHAPES, Case, Opacus, assert_answers
from shared import RESULTS, options

import tightdp as dp

SIZE = 400  # of the matrices: their product takes about a millisecond


def timed_after(operation: Callable[[], object], call: Callable[[], object]) -> float:
    operation()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run(case: Case, rounds: int) -> dict[str, float]:
    """Median milliseconds of each, quartiles of Opacus' time over ours, and ours over the reads that must be."""
    opacus, secure = Opacus(case), dp.SecureRandom()
    assert_answers(case, opacus, np.random.default_rng(0))
    a, b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    calls: dict[str, Callable[[], object]] = {
        "Opacus": opacus,
        "tightdp": lambda: dp.clip_and_noise(case.list, MAX_NORM, NOISE_MULTIPLIER, rng=secure),
        "one read": case.flat.sum,
        "two reads": lambda: (case.flat.sum(), case.flat.sum()),
    }
    floor = "two reads" if case.columns >= LONG else "one read"
    times: dict[str, list[float]] = {name: [] for name in calls}
    for r in range(rounds):
        for name in list(calls) if r % 2 else reversed(calls):
            times[name].append(timed_after(lambda: a @ b, calls[name]))
    ratios = sorted(x / y for x, y in zip(times["Opacus"], times["tightdp"], strict=True))
    low, ratio, high = statistics.quantiles(ratios, n=4)
    medians = {name: 1e3 * statistics.median(t) for name, t in times.items()}
    reads = statistics.median(x / y for x, y in zip(times["tightdp"], times[floor], strict=True))
    return {**medians, "ratio": ratio, "lower quartile": low, "upper quartile": high, "reads": reads}


def main() -> None:
    given = options(__doc__, rounds=101, shapes=list(range(len(SHAPES))))
    rows = []
    for batch, shapes in (SHAPES[i] for i in given.shapes):
        case = Case(batch, shapes)
        found = run(case, given.rounds)
        rows.append({"batch": batch, "columns": case.columns, **found})
        if len(rows) == 1:
            print(f"{'ms':>16}" + "".join(f"{name:>16}" for name in found))
        print(f"{f'{batch} x {case.columns}':>16}" + "".join(f"{value:>16.3f}" for value in found.values()), flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "after_torch.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
