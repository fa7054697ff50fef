"""Times epsilon after every step of a long run, with and without results that are kept from earlier calls.

    python bench/stepping.py [--steps 100] [--every 10] [--width 1e-6] [--interval 1e-4] [--run PART-OF-NAME]
        [--gaussians 1000]

The first part has ``--gaussians`` steps of sampled Gaussians, once with one noise multiplier and once with a new noise
multiplier in every step. An account of tightdp computes epsilon after every step, and an account that keeps nothing
after every tenth step. After each fifth of the run, Opacus' PRV accountant (eps_error 0.01) and dp-accounting compute
epsilon too. Opacus takes part with up to 100 noise multipliers, because each takes it a tenth of a second.
dp-accounting composes one distribution a step on a mesh of 1e-3, and its time includes that of composing. It is
asserted that the bounds with and without kept results have a point in common, and that the bound of tightdp is at most
1e-6 wide (relative). The answers of the peers must agree with it within the errors that the peers state. The output has
microseconds of processor time. For a step and its epsilon by tightdp, these are the median and the mean over the run,
and the mean of the first hundred steps. For the others they are medians. The last column is the largest absolute width.

The second part has mechanisms that the grid engine serves. Three accounts get the same steps. The first is tightdp's.
The second is tightdp's in a process where nothing is kept, and computes epsilon after every ``--every`` steps. The
third is dp-accounting's, which composes one distribution a step on a mesh of ``--interval``. It is asserted that
answers with and without kept results are the same to the last bit. The upper bound of dp-accounting must be above the
lower bound of tightdp, and exceed tightdp's upper bound by at most a mesh width a step. The output has medians over the
steps at which all three accounts computed epsilon: milliseconds of processor time, and the ratios of the accounts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from contenders import EPS_ERROR
from peers import PLD, opacus
from shared import options

import tightdp as dp
from tightdp import _core

DELTA, GAUSSIAN_DELTA = 1e-6, 1e-5
Theirs = Callable[[float], object]


def peer(scale: float, q: float, interval: float) -> object:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_laplace_mechanism(scale, value_discretization_interval=interval, sampling_prob=q)


def runs(steps: int) -> Iterator[tuple[str, list[dp.Mechanism], list[Theirs] | None]]:
    """Yields a name, the steps of a run, and functions that make dp-accounting's distribution of each step, or None."""
    decay = [float(scale) for scale in np.linspace(1, 0.5, steps)]

    def laplace(name: str, scales: list[float], q: float) -> tuple[str, list[dp.Mechanism], list[Theirs]]:
        ours = [dp.PoissonSampled(dp.Laplace(s), q) if q < 1 else dp.Laplace(s) for s in scales]
        return name, ours, [lambda interval, s=s: peer(s, q, interval) for s in scales]

    yield laplace("one law", [1.0] * steps, 0.01)
    yield laplace("decaying noise", [40 * s for s in decay], 1.0)
    yield laplace("decaying noise, sampled", [2 * s for s in decay], 0.01)
    random = np.random.default_rng(1)
    yield laplace("random noise, sampled", [float(s) for s in random.uniform(1, 2, steps)], 0.01)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    others = [0.9 * p + 0.1 * q / q.sum() for q in random.dirichlet([2, 3, 2, 1], steps)]
    yield "four outcomes", [dp.PrivacyLoss.from_distributions(p, q / q.sum()) for q in others], None


def loop(name: str, settings: list[tuple[float, float]]) -> None:
    """Runs the first part, sampled Gaussians with these settings, and prints its line."""
    kept, cold, composed = dp.Accountant(), dp.Accountant(keep=False), PLD(1e-3)
    ours: list[float] = []
    without: list[float] = []
    theirs: dict[str, list[float]] = {"opacus": [], "dp-accounting": []}
    widest, seen = 0.0, 0
    for k, (sigma, q) in enumerate(settings, 1):
        step = dp.PoissonSampled(dp.Gaussian(sigma), q)
        start = time.process_time()
        kept.compose(step)
        found = kept.epsilon(GAUSSIAN_DELTA)
        ours.append(time.process_time() - start)
        assert 0 <= found.lower <= found.upper, (name, k, found)
        assert found.width <= 1e-6 * found.upper, (name, k, found)
        widest = max(widest, found.width)
        start = time.process_time()
        cold.compose(step)
        if k % 10 == 0:
            exact = cold.epsilon(GAUSSIAN_DELTA)
            without.append(time.process_time() - start)
            assert max(found.lower, exact.lower) <= min(found.upper, exact.upper), (name, k, found, exact)
        if k % max(1, len(settings) // 5):
            continue
        counts: dict[tuple[float, float], int] = {}
        for setting in settings[:k]:
            counts[setting] = counts.get(setting, 0) + 1
        answers = {}
        if len(counts) <= 100:
            start = time.process_time()
            answers["opacus"] = opacus(counts, GAUSSIAN_DELTA), EPS_ERROR
            theirs["opacus"].append(time.process_time() - start)
        start = time.process_time()
        for sigma_, q_ in settings[seen:k]:
            composed.compose(sigma_, q_)
        seen = k
        answers["dp-accounting"] = composed.epsilon(GAUSSIAN_DELTA), k * 1e-3
        theirs["dp-accounting"].append(time.process_time() - start)
        for peer, (epsilon, error) in answers.items():
            assert found.lower <= epsilon + EPS_ERROR, (name, k, peer, epsilon, found)
            assert epsilon <= found.upper + EPS_ERROR + error, (name, k, peer, epsilon, found)
    figures = [statistics.median(ours), statistics.mean(ours), statistics.mean(ours[:100]), statistics.median(without)]
    peers = [statistics.median(seconds) if seconds else float("nan") for seconds in theirs.values()]
    shown = " ".join(f"{1e6 * seconds:10.0f}" for seconds in figures + peers)
    print(f"{name:26} {shown}   {widest:.1e}", flush=True)


def keep_nothing() -> None:
    _core.grid_keep(0)


def asked(run: dp.Composition, width: float) -> tuple[float, tuple[float, float]]:
    start = time.process_time()
    bound = run.epsilon(DELTA, engine="grid", width=width)
    return time.process_time() - start, (bound.lower, bound.upper)


def compare(
    name: str,
    steps: list[dp.Mechanism],
    theirs: list[Theirs] | None,
    given: argparse.Namespace,
    without: ProcessPoolExecutor,
) -> None:
    account, composed = dp.Composition(), None
    warm: list[float] = []
    cold: list[float] = []
    other: list[float] = []
    for k, step in enumerate(steps, 1):
        account = account + step
        seconds, answer = asked(account, given.width)
        start = time.process_time()
        if theirs is not None:
            law = theirs[k - 1](given.interval)
            composed = law if composed is None else composed.compose(law)
        if k % given.every:
            continue
        warm.append(seconds)
        if composed is not None:
            epsilon = composed.get_epsilon_for_delta(DELTA)
            other.append(time.process_time() - start)
            assert answer[0] <= epsilon * (1 + 1e-9), (name, k, answer, epsilon)
            assert epsilon <= answer[1] + k * given.interval, (name, k, answer, epsilon)
        seconds, again = without.submit(asked, account, given.width).result()
        cold.append(seconds)
        assert again == answer, (name, k, again, answer)
    print(
        f"{name:26} {1e3 * statistics.median(warm):9.1f} {1e3 * statistics.median(cold):9.1f} "
        + (f"{1e3 * statistics.median(other):9.1f}" if other else f"{'':9}")
        + f" {statistics.median(c / w for c, w in zip(cold, warm, strict=True)):9.1f}"
        + (f" {statistics.median(o / w for o, w in zip(other, warm, strict=True)):9.1f}" if other else ""),
        flush=True,
    )


def main() -> None:
    given = options(__doc__, steps=100, every=10, width=1e-6, interval=1e-4, run="", gaussians=1000)
    names = "median", "mean", "first 100", "not kept", "opacus", "dp-acc."
    print(f"{'us a step':26} {' '.join(f'{name:>10}' for name in names)}   width")
    n = given.gaussians
    for name, settings in {
        "one noise multiplier": [(1.0, 0.01)] * n,
        "a new one every step": [(1.5 - 0.7 * k / n, 256 / 60000) for k in range(n)],
    }.items():
        if given.run in name:
            loop(name, settings)
    print(f"{'ms a question':26} {'kept':>9} {'not kept':>9} {'peer':>9} {'ratio':>9} {'peer':>9}")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=keep_nothing) as without:
        for name, steps, theirs in runs(given.steps):
            if given.run in name:
                compare(name, steps, theirs, given, without)


if __name__ == "__main__":
    main()
