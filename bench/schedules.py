"""Times epsilon for schedules of sampled Gaussians, with very many noise multipliers or with few steps.

    python bench/schedules.py [--levels 100 1000 10000] [--rounds 5] [--slow 100]

For schedules with up to ``--slow`` different settings, dp-accounting's PLD is called once as well. Its mesh is 1e-4,
and coarser for long schedules, because it composes one distribution for each setting. For up to 100 different settings,
Opacus' PRV accountant (eps_error 0.01) is called once as well. It takes a tenth of a second for each noise multiplier.
It is asserted that the bounds of tightdp are narrower than 1e-6 (relative), and that the answers of the peers agree
with them within the errors that the peers state. The output has milliseconds of processor time of the call to
``epsilon``, as medians and means, then the time for composing, and the absolute width of tightdp's bound.
"""

from __future__ import annotations

import statistics
import time

from contenders import EPS_ERROR
from peers import opacus, pld
from shared import options

import tightdp as dp

DELTA, Q = 1e-5, 256 / 60000
FEW = [(1.0, Q, 60), (0.8, Q, 40), (0.7, 0.001, 300), (1.0, Q, 20), (1.0, Q, 10), (0.7, 0.001, 100)]
Settings = list[tuple[float, float]]


def composed(settings: Settings) -> dp.Composition:
    return dp.Composition((dp.PoissonSampled(dp.Gaussian(sigma), q), 1) for sigma, q in settings)


def row(name: str, settings: Settings, rounds: int, slow: int) -> None:
    merged: dict[tuple[float, float], int] = {}
    for setting in settings:
        merged[setting] = merged.get(setting, 0) + 1
    mesh = max(1e-4, len(merged) * 1e-6)
    theirs = {}
    if len(merged) <= 100:
        theirs["opacus"] = lambda: opacus(merged, DELTA), EPS_ERROR
    if len(merged) <= slow:
        theirs["dp-accounting"] = lambda: pld(merged, DELTA, mesh), len(settings) * mesh
    built: list[float] = []
    ours: list[float] = []
    others: dict[str, list[float]] = {peer: [] for peer in theirs}
    for turn in range(rounds):
        start = time.process_time()
        run = composed(settings)
        middle = time.process_time()
        bound = run.epsilon(DELTA)
        ours.append(time.process_time() - middle)
        built.append(middle - start)
        assert 0 <= bound.lower <= bound.upper, (name, bound)
        assert bound.width <= 1e-6 * bound.upper, (name, bound)
        if turn:
            continue
        for peer, (call, error) in theirs.items():
            start = time.process_time()
            epsilon = call()
            others[peer].append(time.process_time() - start)
            assert bound.lower <= epsilon + EPS_ERROR, (name, peer, epsilon, bound)
            assert epsilon <= bound.upper + error + EPS_ERROR, (name, peer, epsilon, bound)
    shown = " ".join(
        f"{1e3 * others[peer][0]:14.1f}" if peer in others else f"{'':14}" for peer in ("opacus", "dp-accounting")
    )
    milliseconds = [1e3 * statistics.median(ours), 1e3 * statistics.mean(ours), 1e3 * statistics.median(built)]
    print(f"{name:30} {' '.join(f'{x:9.2f}' for x in milliseconds)} {shown}   {bound.width:.1e}", flush=True)


def main() -> None:
    given = options(__doc__, levels=[100, 1000, 10000], rounds=5, slow=100)
    print(
        f"{'milliseconds':30} {'median':>9} {'mean':>9} {'composing':>9} {'opacus':>14} {'dp-accounting':>14}   width"
    )
    for count in given.levels:
        settings = [(0.8 + 0.7 * i / count, Q) for i in range(count)]
        row(f"{count} noise multipliers", settings, given.rounds, given.slow)
    for sigma, q, steps in FEW:
        row(f"sigma {sigma:g}, q {q:.4g}, {steps} steps", [(sigma, q)] * steps, given.rounds, given.slow)


if __name__ == "__main__":
    main()
