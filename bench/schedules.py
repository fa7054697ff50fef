"""Sampled Gaussians in a training loop: epsilon after every step, and of schedules with a new noise level every step.

    python bench/schedules.py [--steps 1000] [--every 250] [--levels 100 1000]

First a loop: an account is asked after every step, one that keeps nothing after every tenth, and after every
``--every`` steps Opacus' PRV accountant (eps_error 0.01) and dp-accounting's (one distribution a step on a mesh of
1e-3) are asked about the same history. Then one question about as many distinct noise multipliers as ``--levels`` says.
Each answer is asserted: what is kept and what is not have a bound in common, ours are at most 1e-6 wide (relative), and
the others' lie above our lower end within the errors that they state. Printed are medians: microseconds a step and
question of ours (kept: of the second half), milliseconds a question of the others. Opacus is asked about 100 levels
at most: it takes a tenth of a second for each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from contenders import DELTA_ERROR, EPS_ERROR
from shared import options

import tightdp as dp

DELTA, Q = 1e-5, 256 / 60000
Settings = list[tuple[float, float]]


def opacus(settings: Settings) -> float:
    from opacus.accountants import PRVAccountant

    account = PRVAccountant()
    merged: dict[tuple[float, float], int] = {}
    for setting in settings:
        merged[setting] = merged.get(setting, 0) + 1
    account.history = [(sigma, q, count) for (sigma, q), count in merged.items()]
    return float(account.get_epsilon(delta=DELTA, eps_error=EPS_ERROR, delta_error=DELTA_ERROR))


class DPAccounting:
    """Composes as it goes, like an account; what was composed is charged to the question that follows."""

    def __init__(self) -> None:
        self.composed, self.seen = None, 0

    def __call__(self, settings: Settings) -> float:
        from dp_accounting.pld import privacy_loss_distribution as pld

        for sigma, q in settings[self.seen :]:
            law = pld.from_gaussian_mechanism(sigma, sampling_prob=q, value_discretization_interval=1e-3)
            self.composed = law if self.composed is None else self.composed.compose(law)
        self.seen = len(settings)
        return float(self.composed.get_epsilon_for_delta(DELTA))


def timed(call: Callable[[], dp.Bound | float]) -> tuple[float, dp.Bound | float]:
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def checked(bound: dp.Bound) -> dp.Bound:
    assert 0 <= bound.lower <= bound.upper, bound
    assert bound.width <= 1e-6 * bound.upper, bound
    return bound


def loop(name: str, settings: Settings, every: int) -> None:
    kept, cold = dp.Accountant(), dp.Accountant(keep=False)
    peers: dict[str, Callable[[Settings], float]] = {"opacus": opacus, "dp-accounting": DPAccounting()}
    ours: list[float] = []
    without: list[float] = []
    theirs: dict[str, list[float]] = {peer: [] for peer in peers}
    for k, (sigma, q) in enumerate(settings, 1):
        step = dp.PoissonSampled(dp.Gaussian(sigma), q)

        def ask(account: dp.Accountant, step: dp.Mechanism = step) -> dp.Bound:
            account.compose(step)
            return account.epsilon(DELTA)

        seconds, found = timed(lambda: ask(kept))
        ours.append(seconds)
        checked(found)
        if k % 10:
            cold.compose(step)
            continue
        seconds, exact = timed(lambda: ask(cold))
        without.append(seconds)
        assert max(found.lower, exact.lower) <= min(found.upper, exact.upper), (name, k, found, exact)
        if k % every:
            continue
        for peer, call in peers.items():
            seconds, epsilon = timed(lambda call=call, k=k: call(settings[:k]))
            theirs[peer].append(seconds)
            assert found.lower <= epsilon + EPS_ERROR, (name, k, peer, epsilon, found)
            assert epsilon <= found.upper + max(2 * EPS_ERROR, k * 1e-3), (name, k, peer, epsilon, found)
    shown = " ".join(f"{1e3 * statistics.median(seconds):14.1f}" for seconds in theirs.values())
    half = len(ours) // 2
    print(f"{name:28} {1e6 * statistics.median(ours[half:]):10.0f} {1e6 * statistics.median(without):10.0f} {shown}")


def levels(count: int) -> None:
    settings = [(0.8 + 0.7 * i / count, Q) for i in range(count)]
    run = dp.Composition((dp.PoissonSampled(dp.Gaussian(sigma), q), 1) for sigma, q in settings)
    cold = min((timed(lambda: dp.Composition(run).epsilon(DELTA)) for _ in range(5)), key=lambda one: one[0])
    bound = checked(cold[1])
    seconds, epsilon = timed(lambda: opacus(settings)) if count <= 100 else (float("nan"), bound.upper)
    assert bound.lower <= epsilon + EPS_ERROR, (count, epsilon, bound)
    assert epsilon <= bound.upper + 2 * EPS_ERROR, (count, epsilon, bound)
    print(
        f"{f'{count} levels at once':28} {1e6 * cold[0]:10.0f} {'':10} {1e3 * seconds:14.1f}   width {bound.width:.1e}"
    )


def main() -> None:
    given = options(__doc__, steps=400, every=200, levels=[100, 1000])
    print(f"{'':28} {'us, kept':>10} {'not kept':>10} {'ms, opacus':>14} {'dp-accounting':>14}")
    loop("one noise multiplier", [(1.0, 0.01)] * given.steps, given.every)
    loop("a new one every step", [(1.5 - 0.7 * k / given.steps, Q) for k in range(given.steps)], given.every)
    for count in given.levels:
        levels(count)


if __name__ == "__main__":
    main()
