"""The oracle, which is the only part of a run that sees records. The oracle makes queries, whose values only the gate
can release.

Before anything is computed, a query states its ``sensitivity``, how far one record can move the query's value. It also
states its ``sampling_probability``, the probability that a batch holds a given record. Each evaluation draws its own
Poisson batch, so no batch can be released twice under one charge. See docs/theory/training.md for the sensitivities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..clipping_and_noise.noise import RandomSource
from ..clipping_and_noise.sampling import draw_poisson_sample
from ..models import dense
from ..models.contribution_grid import (
    COARSE,
    choose_contribution_grid,
    clip_model_contribution_rows_to_grid,
    clip_model_contributions_to_grid,
)
from ..models.linear import LinearModel, Loss
from ..models.model_interface import Model, ModelGradients, Vector
from ..models.model_records import Records
from ..records.stream import Part, RecordStream

CHUNK = 8192
"""Number of records whose gradients are in memory together. The gradients are kept as the inputs and errors of the
layers (``models.dense``). For a layer of 1,000 units, the errors of so many records take 32 MB in float32."""


Integers = NDArray[np.int64]
"""Array of integers, each a sum modulo 2^64."""


@dataclass(frozen=True)
class Query:
    """A sum over records that may be released with noise. Its values are integers, in units of ``grid``, a public
    number.

    One record changes the integers by a vector m with ``|m * grid| <= sensitivity``, in exact arithmetic, whatever the
    other records are. With ``scale``, the condition is ``|m * grid / scale| <= sensitivity``, where the division is
    coordinate by coordinate. If ``scores`` is True, the value is a vector of scores. The gate then releases only the
    index of a small score. One record then adds between 0 and ``sensitivity`` to every score. Only the gate calls
    ``evaluate``. The sums of ``evaluate`` wrap modulo 2^64, so large values raise no error that would depend on the
    records (docs/theory/exact.md).

    Parameters
    ----------
    shape : the shape of the value.
    sensitivity : the most that one record moves the value, > 0.
    sampling_probability : the probability that a record is in the query's batch, in (0, 1]; 1 for all records.
    grid, evaluate, scale, scores : as below.

    Raises no error: the ``Oracle`` that builds a query checks its numbers.

    An ``Oracle`` builds queries:

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, Oracle, Public, Records
    >>> records = Records(np.ones((5, 2)), np.zeros(5))
    >>> oracle = Oracle(CallableModel(2, lambda w, X, y: X), records, Public(records=5, size=2))
    >>> query = oracle.record_count_query()
    >>> query.shape, query.sensitivity, query.sampling_probability
    ((1,), 1.0, 1.0)
    """

    shape: tuple[int, ...]
    sensitivity: float
    sampling_probability: float
    grid: float
    """Public power of two. The query's value is ``evaluate(source) * grid``."""
    evaluate: Callable[[RandomSource], Integers] = field(repr=False, compare=False)
    scale: Vector | None = field(default=None, repr=False, compare=False)
    """Positive factors on the noise, one for each coordinate. They are public or computed from releases."""
    scores: bool = False
    """Whether the value is a vector of scores to choose from."""


MOST_NUMBERS = 2**28
"""Largest number of parameters of a model, and of numbers in one release: 2 GiB of doubles."""


def check_number_of_parameters(name: str, size: int) -> None:
    """Raises ValueError if ``name`` would have more numbers than MOST_NUMBERS, before memory is taken for them."""
    if size > MOST_NUMBERS:
        raise ValueError(f"{name} must have at most {MOST_NUMBERS:,} numbers, got {size:,}: use fewer columns")


@dataclass(frozen=True)
class Public:
    """Facts that an algorithm may know without a release, because they do not depend on the records.

    Parameters
    ----------
    records : the public number of records, > 0.
    size : the number of parameters, an integer >= 1.
    regularization : lambda, >= 0.
    linear : the model if it is linear, or None.

    Raises no error: the estimators check the numbers.

    >>> from tightdp.train import Public
    >>> Public(records=5000, size=3).loss is None
    True
    """

    records: int
    """Public number of records. Sampling probabilities and divisors are computed from this number."""
    size: int
    """Length of the parameter vector."""
    regularization: float = 0.0
    """lambda in the objective (sum of losses) / records + lambda / 2 |w|^2, with the public number of records."""
    linear: LinearModel | None = None
    """The model if it is linear, for algorithms that need a linear model. It is None for any other model."""

    @property
    def loss(self) -> Loss | None:
        """The loss of a linear model."""
        return None if self.linear is None else self.linear.loss


class Oracle:
    """An oracle, which builds queries over records for one model.

    ``records`` are in memory, or a ``RecordStream`` of blocks. ``sampler`` draws the Poisson batches. None stands for
    the gate's random source. ``state`` holds values for each record that queries keep between evaluations, such as
    bounds on the norms of gradients. The state is as private as the records, and only queries read and write it.

    Methods that end in ``_query`` return a ``Query`` for the gate. All other methods serve queries, and their results
    are as private as the records. ``w`` is the parameter vector, and ``chosen`` a mask of ``records``. The argument
    ``sampling_probability`` is in (0, 1], where 1 takes all records. Bounds of norms and losses are > 0. ``public``
    holds the public facts. Raises TypeError if an algorithm needs records in memory and gets a ``RecordStream``.

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, Oracle, Public, Records
    >>> model = CallableModel(2, lambda w, X, y: X, lambda w, X, y: X[:, 0])
    >>> oracle = Oracle(model, Records(np.ones((5, 2)), np.zeros(5)), Public(records=5, size=2))
    >>> w = np.zeros(2)
    >>> oracle.gradient_sum_query(w, 1.0, sampling_probability=0.5).sampling_probability
    0.5
    >>> oracle.line_loss_query(w, np.ones(2), np.linspace(0, 1, 3), max_loss=2.0).shape
    (3,)
    >>> oracle.norm_sum_query(w, 1.0).shape, oracle.feature_sum_query(1.0).shape
    ((1,), (2,))
    >>> empty = oracle.build_empty_oracle(oracle.public)
    >>> rows, taken = oracle.select_records(np.array([True, False, True, False, False]))
    >>> rows.tolist(), len(taken)
    ([0, 2], 2)
    """

    def __init__(
        self, model: Model, records: Records | RecordStream, public: Public, sampler: RandomSource | None = None
    ) -> None:
        self.model, self.public, self._records, self._sampler = model, public, records, sampler
        self.state: dict[str, NDArray[Any]] = {}

    @property
    def _records_in_memory(self) -> Records:
        if isinstance(self._records, RecordStream):
            raise TypeError("X must be in memory for this algorithm, which needs more than sums over the records")
        return self._records

    def draw_batch(self, source: RandomSource, sampling_probability: float) -> tuple[NDArray[np.intp] | None, Records]:
        """Draws a Poisson batch for a query. Returns the row numbers, or None for every row, and the records."""
        rows = draw_poisson_sample(self._sampler or source, len(self._records), sampling_probability)
        return rows, self._records_in_memory.take(rows)

    def select_records(self, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Records]:
        """Selects records for a query by a mask. Returns their row numbers and the records."""
        rows = np.flatnonzero(chosen)
        return rows, self._records_in_memory.take(rows)

    def compute_gradients(self, w: Vector, records: Records) -> ModelGradients:
        """Returns the model's gradients of some records at ``w``, for a query."""
        return _compute_gate_query_gradients(self.model, w, records)

    def split_gate_query_batch(self, records: Records) -> Iterable[Records]:
        """Returns pieces of a query's batch whose gradients fit into memory. A linear model gets the whole batch,
        because it stores no gradients, and reuses the scores w . x of the batch.
        """
        return (records,) if self._piece_size is None else records.split_into_pieces(self._piece_size)

    @property
    def _piece_size(self) -> int | None:
        return None if self.public.linear is not None else CHUNK

    def sum_over_batch(
        self, part: Part, length: int, source: RandomSource, sampling_probability: float = 1.0
    ) -> Integers:
        """Returns the sum of ``part`` over a fresh Poisson batch, modulo 2^64, for a query.

        ``part`` is a function that maps some records to ``length`` integers, the sum of their contributions.
        """
        if isinstance(self._records, RecordStream):
            return self._records.sum_over_batch(
                part, length, self._sampler or source, sampling_probability, self._piece_size
            )
        total = np.zeros(length, np.int64)
        for records in self.split_gate_query_batch(self.draw_batch(source, sampling_probability)[1]):
            total += part(records)
        return total

    def gradient_sum_query(
        self,
        w: Vector,
        max_norm: float,
        *,
        sampling_probability: float = 1.0,
        center: Vector | None = None,
        scale: Vector | None = None,
    ) -> Query:
        """Returns the query of sum_k weight_k (g_k - center) min(1, max_norm / |(g_k - center) / scale|) over a Poisson
        batch, where g_k is the gradient of record k.

        The sensitivity is max_norm, because no weight is above 1. The sum is not divided by the scale. Instead, the
        noise is multiplied by the scale. ``center`` and ``scale`` must be public or computed from past releases, and
        ``scale`` must be positive.
        """
        size = self.public.size
        grid = dense.choose_dense_gradient_grid(max_norm, center, scale, self.public.records)
        part = partial(_sum_gate_query_gradients, self.model, w, max_norm, center, scale, grid)
        return self._build_gate_sum_query(part, (size,), max_norm, grid, sampling_probability, scale=scale)

    def record_count_query(self) -> Query:
        """Returns the query of the sum of the records' weights, or of the number of records if there are no weights.
        The sensitivity is 1."""
        grid = choose_contribution_grid(1.0)

        def evaluate_record_count_query(source: RandomSource) -> Integers:
            if self._records.has_weights:
                return self.sum_over_batch(partial(_sum_gate_query_weights, grid), 1, source)
            return np.array([len(self._records) * int(1 / grid)], np.int64)

        return Query((1,), 1.0, 1.0, grid, evaluate_record_count_query)

    def feature_sum_query(self, max_norm: float) -> Query:
        """Returns the query of sum_k weight_k clip(x_k, max_norm) over the features x_k of all records. The sensitivity
        is max_norm."""
        grid = choose_contribution_grid(max_norm)
        return self._build_gate_sum_query(
            partial(_sum_gate_query_features, max_norm, grid), (self._records.width,), max_norm, grid
        )

    def center_features(self, center: Vector) -> Oracle:
        """Returns an oracle over the same records, with ``center`` subtracted from their features.

        The centre is a released value, so the subtraction reveals nothing. The new oracle's ``state`` is empty."""
        return Oracle(self.model, self._records.center_features(center), self.public, self._sampler)

    def build_empty_oracle(self, public: Public) -> Oracle:
        """Returns an oracle over no records, with the same number of features."""
        nothing = Records(np.zeros((0, self._records.width)), np.zeros(0))
        return Oracle(self.model, nothing, public, self._sampler)

    def norm_sum_query(self, w: Vector, max_norm: float) -> Query:
        """Returns the query of sum_k weight_k min(|g_k|, max_norm), of shape (1,), where g_k is the gradient of record
        k. The sensitivity is max_norm."""
        return norm_sum_query(
            max_norm,
            lambda grid, source: self.sum_over_batch(
                partial(_sum_gate_query_norms, self.model, w, max_norm, grid), 1, source
            ),
        )

    def line_loss_query(
        self, w: Vector, direction: Vector, steps: Vector, max_loss: float, *, sampling_probability: float = 1.0
    ) -> Query:
        """Returns the query of sum_k weight_k clip(loss_k(w - s direction), [0, max_loss]) at each step s of ``steps``.

        The result has one score for each step. One record adds between 0 and ``max_loss`` to every score, and so moves
        all scores in the same direction, as the gate's selections require (docs/theory/selection.md).
        """
        grid = choose_contribution_grid(max_loss)
        part = partial(_sum_gate_query_line_losses, self.model, w, direction, steps, max_loss, grid)
        return self._build_gate_sum_query(part, (len(steps),), max_loss, grid, sampling_probability, scores=True)

    def _build_gate_sum_query(
        self,
        part: Part,
        shape: tuple[int],
        sensitivity: float,
        grid: float,
        q: float = 1.0,
        *,
        scale: Vector | None = None,
        scores: bool = False,
    ) -> Query:
        """Returns the query of the sum of ``part`` over a Poisson batch. The query's value is in units of ``grid``."""
        evaluate = partial(self.sum_over_batch, part, shape[0], sampling_probability=q)
        return Query(shape, sensitivity, q, grid, evaluate, scale, scores)


def norm_sum_query(max_norm: float, total: Callable[[float, RandomSource], Integers]) -> Query:
    """Returns the query of sum_k min(|g_k|, max_norm), of shape (1,), where g_k is the gradient of record k.

    ``total`` is a function of the grid and a random source that returns the sum of clipped norms, in units of the
    grid."""
    grid = choose_contribution_grid(max_norm, COARSE)
    return Query((1,), max_norm, 1.0, grid, partial(total, grid))


# The following functions sum contributions of records. For a stream of blocks, the process that holds the records calls
# these functions.


def _compute_gate_query_gradients(model: Model, w: Vector, records: Records) -> ModelGradients:
    """Returns the gradients of some records, without warnings of overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return model.compute_gradients(w, records)


def _sum_gate_query_gradients(
    model: Model, w: Vector, max_norm: float, center: Vector | None, scale: Vector | None, grid: float, records: Records
) -> Integers:
    """Sums the clipped gradients of some records, as integers in units of ``grid``."""
    return _compute_gate_query_gradients(model, w, records).sum_clipped_model_gradients(
        max_norm, center, scale, grid=grid
    )


def _sum_gate_query_weights(grid: float, records: Records) -> Integers:
    """Sums the weights of some records, in units of ``grid``."""
    weights = np.ones(len(records)) if records.weights is None else records.weights
    return np.array([clip_model_contributions_to_grid(weights, 1.0, grid).sum()], np.int64)


def _sum_gate_query_features(max_norm: float, grid: float, records: Records) -> Integers:
    """Sums the clipped features of some records, in units of ``grid``."""
    total = np.zeros(records.width, np.int64)
    for piece in records.split_into_pieces(CHUNK):
        rows = clip_model_contribution_rows_to_grid(piece.features.astype(np.float64), max_norm, grid, piece.weights)
        total += rows.sum(axis=0).astype(np.int64)  # exact: a piece has 2^13 rows of entries below 2^22
    return total


def _sum_gate_query_norms(model: Model, w: Vector, max_norm: float, grid: float, records: Records) -> Integers:
    """Sums the clipped norms of the gradients of some records, in units of ``grid``."""
    found = clip_model_contributions_to_grid(
        _compute_gate_query_gradients(model, w, records).clip_model_gradient_norms(max_norm), max_norm, grid
    )
    return np.array([found.sum()], np.int64)


def _sum_gate_query_line_losses(
    model: Model, w: Vector, direction: Vector, steps: Vector, max_loss: float, grid: float, records: Records
) -> Integers:
    """Sums the clipped losses of some records at each step along a line, in units of ``grid``."""
    with np.errstate(over="ignore", invalid="ignore"):
        losses = model.compute_line_losses(w, direction, steps, records)
        return np.array(
            [clip_model_contributions_to_grid(each, max_loss, grid, records.weights).sum() for each in losses], np.int64
        )
