"""Asking for epsilon after every step of a long run: what is kept between questions, and what it saves.

    python bench/stepping.py [--steps 100] [--every 10] [--width 1e-6] [--interval 1e-4] [--run PART-OF-NAME]

Three accounts see the same steps: ours; ours in a process where nothing is kept, asked after every tenth step; and
dp-accounting's, which composes one distribution a step on a mesh of ``--interval``. Answers with and without what is
kept must be the same to the last bit, and dp-accounting's, an upper bound, must lie above our lower bound and within a
mesh width a step of our upper one. Printed are medians over the steps that all three were asked after: milliseconds a
question (and step), and the ratios of each such question.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from shared import options

import tightdp as dp
from tightdp import _core

DELTA = 1e-6
Theirs = Callable[[float], object]


def peer(scale: float, q: float, interval: float) -> object:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_laplace_mechanism(scale, value_discretization_interval=interval, sampling_prob=q)


def runs(steps: int) -> Iterator[tuple[str, list[dp.Mechanism], list[Theirs] | None]]:
    """Name, steps, and how dp-accounting makes each of them, where it can."""
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


def keep_nothing() -> None:
    _core.grid_keep(0)


def asked(run: dp.Composition, width: float) -> tuple[float, tuple[float, float]]:
    start = time.perf_counter()
    bound = run.epsilon(DELTA, engine="grid", width=width)
    return time.perf_counter() - start, (bound.lower, bound.upper)


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
        start = time.perf_counter()
        if theirs is not None:
            law = theirs[k - 1](given.interval)
            composed = law if composed is None else composed.compose(law)
        if k % given.every:
            continue
        warm.append(seconds)
        if composed is not None:
            epsilon = composed.get_epsilon_for_delta(DELTA)
            other.append(time.perf_counter() - start)
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
    given = options(__doc__, steps=100, every=10, width=1e-6, interval=1e-4, run="")
    print(f"{'ms a question':26} {'kept':>9} {'not kept':>9} {'peer':>9} {'ratio':>9} {'peer':>9}")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=keep_nothing) as without:
        for name, steps, theirs in runs(given.steps):
            if given.run in name:
                compare(name, steps, theirs, given, without)


if __name__ == "__main__":
    main()
