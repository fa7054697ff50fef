"""The functions that add noise to the sums of PyTorch runs. No other code adds noise to them."""

from __future__ import annotations

from typing import Any

from ...release.kernels import add_rounded_normals
from ...release.noise import RandomSource
from ...release.noisy_sums import add_noise


def add_noise_to_sums(totals: list[Any], deviation: float, grid: float, source: RandomSource) -> None:
    """Adds the noise of a step to its integer sums, in place. The sums are in units of ``grid``."""
    add_noise(totals, deviation, grid=grid, rng=source)


def add_noise_share(stream: Any, deviation: float, flat: Any, start: int, end: int) -> None:
    """Adds the share of one process of a step's noise.

    This is the noise of the entries from ``start`` to ``end``, to which the other processes add none.
    """
    add_rounded_normals(stream, deviation, flat[start:end].numpy(), start)
