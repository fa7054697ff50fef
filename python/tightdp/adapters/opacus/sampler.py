"""Samplers of batches, which count their batches.

Opacus' accountant charges for a sampling probability. ``PoissonSampler`` draws no record with a larger probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
from torch.utils.data import BatchSampler

from ..._support import _check
from ...clipping_and_noise.noise import SecureRandom

_Base: Any = object


class CountingOpacusSampler(_Base):
    """A sampler of batches that counts its iterations and batches, so that an optimiser can tell batches apart."""

    iterations = 0
    """Number of iterations that have begun."""
    drawn = 0
    """Number of batches that were drawn in all iterations."""
    skips = False
    """True if an optimiser was told to skip steps, so that a step adds up several batches of an iteration. An iteration
    then raises an error if it goes on after another iteration has begun."""

    def __iter__(self) -> Iterator[list[int]]:
        self.iterations += 1
        return self._count_batches_drawn_by_opacus(self._draw_batches(), self.iterations)

    def _draw_batches(self) -> Iterator[list[int]]:
        """Yields the batches of the next class in the method resolution order."""
        batches: Iterator[list[int]] = super().__iter__()
        return batches

    def _count_batches_drawn_by_opacus(self, batches: Iterator[list[int]], iteration: int) -> Iterator[list[int]]:
        for batch in batches:
            if self.skips and iteration != self.iterations:
                raise RuntimeError(
                    "data_loader must not be iterated anew within an iteration whose batches are split: use another "
                    "loader for what is done in between"
                )
            self.drawn += 1
            yield batch


class PoissonSampler(CountingOpacusSampler, UniformWithReplacementSampler):
    """A sampler of Poisson batches: each index is in each batch independently with probability ``sample_rate``.

    Batches are drawn from the operating system's randomness, and ``sample_rate`` is rounded down to a multiple of
    2^-64. Opacus' own sampler uses single-precision random numbers of PyTorch's generator. These numbers in effect
    round the probability up to a multiple of 2^-24, so the probability is a little larger than the charged one.

    num_samples : the number of records, at least 1
    sample_rate : the sampling probability, a float in (0, 1]
    generator : not used to draw batches, and accepted because Opacus' sampler has this parameter
    steps : the number of batches, at least 0, by default ``int(1 / sample_rate)``
    """

    def __init__(
        self, *, num_samples: int, sample_rate: float, generator: Any = None, steps: int | None = None
    ) -> None:
        super().__init__(
            num_samples=_check.check_count_argument("num_samples", num_samples),
            sample_rate=_check.probability("sample_rate", sample_rate),
            generator=generator,
            steps=None if steps is None else _check.check_count_argument("steps", steps, least=0),
        )

    def _draw_batches(self) -> Iterator[list[int]]:
        source = SecureRandom()
        for _ in range(self.steps):
            yield np.flatnonzero(source.bernoulli(self.sample_rate, self.num_samples)).tolist()


class _Uniform(CountingOpacusSampler, UniformWithReplacementSampler):
    pass


class _Distributed(CountingOpacusSampler, DistributedUniformWithReplacementSampler):
    pass


class _Batches(CountingOpacusSampler, BatchSampler):
    pass


_COUNTED: dict[type, type[CountingOpacusSampler]] = {
    UniformWithReplacementSampler: _Uniform,
    DistributedUniformWithReplacementSampler: _Distributed,
    BatchSampler: _Batches,
}


def make_opacus_sampler_count(loader: Any) -> CountingOpacusSampler | None:
    """Replaces the batch sampler of a loader by a sampler that counts batches, and returns the new sampler.

    A sampler that counts already stays, and is returned. Returns None if the class of the batch sampler is neither
    Opacus' nor PyTorch's own.
    """
    sampler = loader.batch_sampler
    cls = _COUNTED.get(type(sampler))
    if cls is not None:
        made = cls.__new__(cls)
        made.__dict__.update(vars(sampler))
        set_opacus_batch_sampler(loader, sampler := made)
    return sampler if isinstance(sampler, CountingOpacusSampler) else None


def set_opacus_batch_sampler(loader: Any, sampler: Any) -> None:
    """Replaces the batch sampler of a loader. A loader forbids plain assignment to this attribute."""
    object.__setattr__(loader, "batch_sampler", sampler)
