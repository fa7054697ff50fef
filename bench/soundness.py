"""Checks that bounds contain the truth, for random settings, by ball arithmetic with 40 digits.

    python bench/soundness.py [--settings 10000] [--seconds 60] [--seed 1]

The settings have noise multipliers from 1e-3 to 1e6, sampling probabilities from 1e-9 to 1, 1 to 1e9 steps, delta from
1e-300 to 1, and either direction. Every answer must be an ordered pair of finite or infinite numbers. If the ball
arithmetic proves a value, the bound must contain it. In the corners of these ranges the ball arithmetic proves nothing,
because its integrand decays slowly or has too narrow a strip. A third of the settings is from the part where it usually
proves a value. Prints the number of checked settings and the widths of their bounds. Exits with 1 on any violation.
"""

import math
import random
import statistics
import sys
import time
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from reference import sampled_gaussian
from shared import options

import tightdp as dp


def draw(rng, wide):
    """Returns a random setting (noise multiplier, sampling probability, steps, delta, direction)."""
    if wide:
        sigma, q = 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-9, 0)
        steps, delta = int(10 ** rng.uniform(0, 9)), 10 ** -(10 ** rng.uniform(-2, 2.477))
    else:
        sigma, q = 10 ** rng.uniform(-0.4, 1.5), 10 ** rng.uniform(-4, -0.01)
        steps, delta = int(10 ** rng.uniform(1, 8)), 10 ** rng.uniform(-100, -1)
    return sigma, q, steps, delta, rng.choice(["add", "remove"])


def main():
    args = options(__doc__, settings=10_000, seconds=math.inf, seed=1)
    rng = random.Random(args.seed)
    wrong, checked, widths, times, engines = 0, 0, [], [], {}
    end = time.monotonic() + args.seconds
    for i in range(args.settings):
        if time.monotonic() > end:
            break
        sigma, q, steps, delta, direction = setting = draw(rng, wide=i % 3 != 0)
        start = time.perf_counter()
        bound = (dp.PoissonSampled(dp.Gaussian(sigma), q) * steps).epsilon(delta, neighbors=direction)
        times.append(time.perf_counter() - start)
        engines[bound.engine] = engines.get(bound.engine, 0) + 1
        if not 0 <= bound.lower <= bound.upper:
            print("not an interval:", setting, bound)
            wrong += 1
        if bound.upper == 0 or not math.isfinite(bound.upper):
            continue
        try:
            truth = sampled_gaussian.epsilon(sigma, q, steps, delta, direction == "add")
        except (ValueError, OverflowError, ZeroDivisionError, MemoryError):
            truth = None
        if truth is None:
            continue
        checked += 1
        widths.append(bound.width / float(truth))
        if not Decimal(bound.lower) <= Decimal(truth) <= Decimal(bound.upper):
            print("wrong:", setting, bound, truth)
            wrong += 1
        if i % 1000 == 999:
            print(f"{i + 1} settings, {checked} checked, {wrong} wrong", file=sys.stderr, flush=True)
    times.sort()
    print(f"{len(times)} settings, {checked} checked against ball arithmetic, {wrong} wrong")
    if widths:
        print(f"relative width of the checked: median {statistics.median(widths):.1e}, largest {max(widths):.1e}")
    print(f"time: median {times[len(times) // 2] * 1e3:.3f} ms, largest {times[-1] * 1e3:.1f} ms")
    print("engines:", ", ".join(f"{name} {n}" for name, n in sorted(engines.items(), key=lambda e: -e[1])))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
