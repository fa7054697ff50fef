"""Compares random allocation with PLD_accounting (Feldman and Shenfeld): the width of the interval, and the time.

    python bench/allocation.py [--rounds 3] [--all]

Both libraries bound the same epsilon from both sides, so the two intervals must have a point in common, which is
asserted. Privacy loss distributions that are kept between calls are dropped before each call. ``--all`` adds settings
for which PLD_accounting takes minutes.
"""

from __future__ import annotations

import warnings

import PLD_accounting as peer
from shared import interleaved, options

import tightdp as dp
from tightdp.accounting.engines.random_allocation import allocation_atoms
from tightdp.accounting.engines.random_allocation import sums as allocation_sums

# Settings: noise multiplier, number of steps, number of steps in which a record takes part, and delta.
QUICK = [(1.0, 10, 1, 1e-5), (0.5, 100, 1, 1e-5), (0.8, 50, 1, 1e-6)]
SLOW = [(1.0, 1000, 1, 1e-9), (1.0, 1000, 1, 1e-5), (2.0, 1000, 1, 1e-6)]


def ours(sigma: float, steps: int, selected: int, delta: float) -> tuple[float, float]:
    allocation_atoms.bound_allocation_by_atoms.cache_clear()
    allocation_sums.build_allocation_score_sums.cache_clear()
    bound = dp.RandomAllocation(dp.Gaussian(sigma), steps, selected).epsilon(delta)
    return bound.lower, bound.upper


def theirs(sigma: float, steps: int, selected: int, delta: float) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        high, low = peer.gaussian_allocation_epsilon_range(
            delta=delta, sigma=sigma, num_steps=steps, num_selected=selected
        )
    return low, high


def main() -> None:
    given = options(__doc__, rounds=3, all=False)
    print(f"{'sigma, steps, selected, delta':32} {'relative width':>24} {'seconds':>18} {'ratio':>7}")
    for case in QUICK + (SLOW if given.all else []):
        mine, other = ours(*case), theirs(*case)
        assert mine[0] <= other[1] and other[0] <= mine[1], (case, mine, other)
        seconds = interleaved([lambda case=case: ours(*case), lambda case=case: theirs(*case)], given.rounds, least=0.0)
        widths = [(high - low) / high for low, high in (mine, other)]
        print(
            f"{case!s:32} {widths[0]:11.1e} {widths[1]:11.1e} {seconds[0]:9.3f} {seconds[1]:9.3f}"
            f" {seconds[1] / seconds[0]:7.0f}"
        )


if __name__ == "__main__":
    main()
