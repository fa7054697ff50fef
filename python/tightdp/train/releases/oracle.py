"""The oracle: the only part that sees records. It answers no question; it makes queries that the gate may release.

A query knows, before anything is computed, how far one record can move its value (``sensitivity``) and with what
probability that record is looked at (``sampling_probability``). Each evaluation draws its own Poisson batch, so no
batch can be released twice under one charge. See docs/theory/training.md for the sensitivities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...release.noise import RandomSource
from ..models import dense
from ..models.grid import COARSE, clipped_rows, confined, grid_below
from ..models.linear import LinearModel, Loss
from ..models.model import Gradients, Model, Vector
from ..models.records import Records

CHUNK = 8192
"""Records whose gradients are held at once: 32 MB for each layer of 1,000 units in float32."""


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Query:
    """A sum over records that may be released with noise: integers, in units of a public grid.

    One record changes the integers by a vector m with ``|m * grid| <= sensitivity``, in exact arithmetic and whatever
    the other records are; with ``scale`` by one with ``|m * grid / scale| <= sensitivity``, coordinate by coordinate.
    For ``scores`` one record adds between 0 and ``sensitivity`` to every one. ``evaluate`` is for the gate alone; its
    sums wrap modulo 2^64, so no refusal depends on the records (docs/theory/exact.md).
    """

    shape: tuple[int, ...]
    sensitivity: float
    sampling_probability: float
    grid: float
    """A power of two, public: the value is ``evaluate(source) * grid``."""
    evaluate: Callable[[RandomSource], Integers] = field(repr=False, compare=False)
    scale: Vector | None = field(default=None, repr=False, compare=False)
    """One positive number for each coordinate, public or from releases; the noise there is multiplied by it."""
    scores: bool = False
    """Whether the value is a vector of scores to choose from."""


@dataclass(frozen=True)
class Public:
    """All that an algorithm may know without a release: none of it depends on the records."""

    records: int
    """The public number of records; sampling probabilities and divisors come from it."""
    size: int
    """Length of the parameter vector."""
    regularization: float = 0.0
    """lambda: the objective is (sum of losses) / records + lambda / 2 |w|^2, with the public number of records."""
    linear: LinearModel | None = None
    """The model if it is linear, for algorithms that need its form; None for other models."""

    @property
    def loss(self) -> Loss | None:
        """The loss of a linear model."""
        return None if self.linear is None else self.linear.loss


def poisson_sample(source: RandomSource, records: int, probability: float) -> NDArray[np.intp] | None:
    """Each of ``records`` rows independently with ``probability``, ascending; None (every row) when it is 1."""
    return None if probability >= 1.0 else np.flatnonzero(source.bernoulli(probability, records))


class Oracle:
    """Builds queries over records for one model.

    ``state`` holds what a query must remember about each record between evaluations (DPIS keeps the last norms there).
    It is as private as the records: only queries read and write it.
    """

    def __init__(self, model: Model, records: Records, public: Public) -> None:
        self.model, self.public, self._records = model, public, records
        self.state: dict[str, NDArray[Any]] = {}

    def batch(self, source: RandomSource, sampling_probability: float) -> tuple[NDArray[np.intp] | None, Records]:
        """For queries: a fresh Poisson batch, as row numbers (None: every row) and records."""
        rows = poisson_sample(source, len(self._records), sampling_probability)
        return rows, self._records.take(rows)

    def chosen(self, source: RandomSource, probabilities: Vector) -> tuple[NDArray[np.intp], Records]:
        """For queries: a batch that holds each record independently with a probability of its own."""
        rows = np.flatnonzero(source.uniform(len(self._records)) < probabilities)
        return rows, self._records.take(rows)

    def gradients(self, w: Vector, records: Records) -> Gradients:
        """For queries: the model's gradients of those records."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.model.gradients(w, records)

    def pieces(self, records: Records) -> Iterable[Records]:
        """For queries: a batch in parts that fit into memory. A linear model gets it whole, because it keeps only the
        scores, and needs them for its next question."""
        return (records,) if self.public.linear is not None else records.pieces(CHUNK)

    def gradient_sum(
        self,
        w: Vector,
        max_norm: float,
        *,
        sampling_probability: float = 1.0,
        center: Vector | None = None,
        scale: Vector | None = None,
    ) -> Query:
        """sum_k (g_k - center) min(1, max_norm / |(g_k - center) / scale|) over a Poisson batch. The sum is not divided
        by the scale: the noise is multiplied by it. Sensitivity: max_norm.

        ``center`` and ``scale`` must come from past releases or public knowledge; ``scale`` is positive.
        """

        def evaluate(source: RandomSource) -> Integers:
            _, records = self.batch(source, sampling_probability)
            total = np.zeros(self.public.size, np.int64)
            for part in self.pieces(records):
                total += self.gradients(w, part).clipped_sum(max_norm, center, scale, grid=grid)
            return total

        grid = dense.grid_for(max_norm, center, scale, self.public.records)
        return Query((self.public.size,), max_norm, sampling_probability, grid, evaluate, scale)

    def count(self) -> Query:
        """The number of records. Sensitivity 1."""
        return Query((1,), 1.0, 1.0, 1.0, lambda source: np.array([len(self._records)], np.int64))

    def feature_sum(self, max_norm: float) -> Query:
        """sum_k clip(x_k, max_norm) over the features of all records. Sensitivity: max_norm."""
        width = self._records.features.shape[1]

        grid = grid_below(max_norm)

        def evaluate(source: RandomSource) -> Integers:
            _, records = self.batch(source, 1.0)
            total = np.zeros(width, np.int64)
            for part in records.pieces(CHUNK):
                rows = clipped_rows(part.features.astype(np.float64), max_norm, grid)
                total += rows.sum(axis=0).astype(np.int64)  # exact: a piece has 2^13 rows of entries below 2^22
            return total

        return Query((width,), max_norm, 1.0, grid, evaluate)

    def centered(self, center: Vector) -> Oracle:
        """An oracle over the same records with ``center`` subtracted from their features: a public function of a
        record and past releases, so that nothing is revealed by it. Its ``state`` is new."""
        old = self._records
        moved = np.subtract(old.features, center, dtype=old.features.dtype, casting="same_kind")
        return Oracle(self.model, Records(moved, old.targets, old.valid & np.isfinite(moved).all(axis=1)), self.public)

    def norm_sum(self, w: Vector, max_norm: float) -> Query:
        """sum_k min(|g_k|, max_norm), shape (1,). Sensitivity: max_norm."""

        grid = grid_below(max_norm, COARSE)

        def evaluate(source: RandomSource) -> Integers:
            _, records = self.batch(source, 1.0)
            total = np.zeros(1, np.int64)
            for part in self.pieces(records):
                total += confined(self.gradients(w, part).norms(), max_norm, grid).sum()
            return total

        return Query((1,), max_norm, 1.0, grid, evaluate)

    def line_loss_sums(
        self, w: Vector, direction: Vector, steps: Vector, max_loss: float, *, sampling_probability: float = 1.0
    ) -> Query:
        """For each step s: sum_k clip(loss_k(w - s direction), [0, max_loss]), shape (steps,).

        One record adds between 0 and ``max_loss`` to every entry, so the scores are monotone, and noise of scale
        max_loss / eta is enough for the gate's selections (docs/theory/selection.md).
        """

        grid = grid_below(max_loss)

        def evaluate(source: RandomSource) -> Integers:
            _, records = self.batch(source, sampling_probability)
            sums = np.zeros(len(steps), np.int64)
            with np.errstate(over="ignore", invalid="ignore"):
                for part in self.pieces(records):
                    for i, losses in enumerate(self.model.line_losses(w, direction, steps, part)):
                        sums[i] += confined(losses, max_loss, grid).sum()
            return sums

        return Query((len(steps),), max_loss, sampling_probability, grid, evaluate, scores=True)
