"""Poisson batches that are drawn with the probability that is charged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from ...release.noise import SecureRandom


class PoissonSampler(UniformWithReplacementSampler):
    """Batches of indices, each index in each batch independently with probability ``sample_rate``.

    Drawn from the operating system's randomness, with ``sample_rate`` rounded down to a multiple of 2^-64. Opacus' own
    sampler compares single-precision uniforms of PyTorch's generator, which rounds the probability up to a multiple of
    2^-24: a little more than is charged.

    num_samples : the number of records
    sample_rate : float in (0, 1]
    steps : the number of batches, by default ``int(1 / sample_rate)``
    """

    def __iter__(self) -> Iterator[list[int]]:
        source = SecureRandom()
        for _ in range(self.steps):
            yield np.flatnonzero(source.bernoulli(self.sample_rate, self.num_samples)).tolist()
