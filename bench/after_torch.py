"""Times clipping, summing and noise right after an operation of PyTorch, as in training: tightdp and Opacus.

    python bench/after_torch.py [--rounds 101] [--shapes 0 1 2 3]
    TIGHTDP_OPENMP=0 python bench/after_torch.py       # tightdp in threads of its own, for comparison

There are no rests and no hot loops, and the numbers of threads are the defaults. Before each timed call PyTorch
multiplies matrices for a millisecond. The contenders take turns, in the opposite order every second round. Ratios are
medians over rounds, of times in the same round. Answers are compared before anything is timed. Writes
bench/results/after_torch.json.

Two contenders only read the gradients, once and twice in a row, in PyTorch's threads. tightdp uses the same threads,
except with ``TIGHTDP_OPENMP=0``. A computation that needs each entry cannot be faster than one read of all entries. A
row that is longer than the second-level cache of a thread has to be read twice. The reason is that no entry can be
added before the norm of its whole row is known (docs/theory/clipping.md, section 4). The column "reads" shows how near
tightdp comes to the speed of memory. It is the time of tightdp divided by that of one read, or of two reads for such
long rows.

A cache that threads share could serve the second read of the shape 64 x 2,002,000. On two cores of an EPYC with a
shared cache of 32 MiB, reading one row (8 MB) again at once took .34 of the first time. For two rows this ratio was
.45, for four rows .66, and for eight rows 1.4. But each block of rows reads and writes the sums, 8 bytes a column, and
this traffic is that of four rows. So a block of four rows or fewer saves nothing, and for a block of eight rows the
second read comes from memory. For this shape no method is faster than two reads, and tightdp took 1.07 of their time.
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

SIZE = 400  # rows and columns of the matrices, whose product takes about a millisecond


def timed_after(operation: Callable[[], object], call: Callable[[], object]) -> float:
    operation()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run(case: Case, rounds: int) -> dict[str, float]:
    """Returns the median milliseconds of each contender, and ratios of times.

    "ratio" and the quartiles are of Opacus' time over that of tightdp. "reads" is the time of tightdp over that of the
    reads that no method can do without.
    """
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
