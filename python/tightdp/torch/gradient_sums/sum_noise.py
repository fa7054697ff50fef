"""The one place where PyTorch's sums get their noise."""

from __future__ import annotations

from typing import Any

from ...release.kernels import add_rounded_normals
from ...release.noise import RandomSource
from ...release.noisy_sums import add_noise


def add_noise_to_sums(totals: list[Any], deviation: float, grid: float, source: RandomSource) -> None:
    """Adds a step's noise to all of its integer sums in steps of ``grid``, in place."""
    add_noise(totals, deviation, grid=grid, rng=source)


def add_noise_share(stream: Any, deviation: float, flat: Any, start: int, end: int) -> None:
    """Adds one process' share of a step's noise: that of the entries from ``start`` to ``end``, which the other
    processes leave out."""
    add_rounded_normals(stream, deviation, flat[start:end].numpy(), start)
