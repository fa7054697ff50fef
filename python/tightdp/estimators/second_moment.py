"""Releases the second moment of clipped rows x, the sum of x x^T, from which ``DPPCA`` and ``Ridge`` are computed.

docs/theory/adaclip.md, section 5, states and proves the guarantee.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bound import Bound
from ..clipping_and_noise.noise import RandomSource
from ..composition import Composition
from ..ledger.payment import LedgerPayment
from ..mechanisms import Gaussian, Mechanism
from ..models.contribution_grid import choose_contribution_grid, clip_model_contribution_rows_to_grid
from ..models.model_records import Records
from ..records.stream import RecordStream
from ..release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.oracle import CHUNK, Integers, Query, check_number_of_parameters

DIGITS = 16
"""Number of binary digits of a row's entries, which are rounded to a grid. The entries, in units of the grid, are below
2^17. Sums of products of two entries over up to 2^19 rows are then below 2^53, and exact in doubles."""


class SecondMomentEstimator:
    """The noise, the charge and the account of an estimator that releases one second moment and nothing else."""

    epsilon: float | None
    delta: float | None
    noise_multiplier: float | None
    ledger: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    @property
    def _delta(self) -> float:
        return Target.from_arguments(self.epsilon, self.delta).delta

    def _resolve_second_moment_noise(self) -> float:
        """Returns the noise multiplier of the moment, which is given or follows from ``epsilon`` and ``delta``."""
        return resolve_noise_from_gate_budget(
            Gaussian, self.noise_multiplier, Target.from_arguments(self.epsilon, self.delta)
        )

    def _release_moment(
        self, query: Query, noise: float, source: RandomSource
    ) -> tuple[NDArray[np.float64], str | None]:
        """Pays for the moment and releases it. Returns the moment, and the statement's text about the ledger, which is
        None without a ledger."""
        budget, payment = FixedPlan(Gaussian(noise)), LedgerPayment(self.ledger, f"{type(self).__name__}.fit")
        gate = Gate(budget, source, pay=partial(payment.spend_charge, budget.charge()))
        found = gate.release_gaussian(query, noise).value
        self.history_: tuple[Mechanism, ...] = gate.history
        self.charged_: Composition = budget.charge()
        self.privacy_: Bound = self.charged_.epsilon(self._delta)
        return found, payment.ledger_text


def check_second_moment_size(size: int) -> None:
    """Raises ValueError if the second moment of rows of this length has more numbers than a release may have."""
    check_number_of_parameters("the second moment", size * (size + 1) // 2)


def build_second_moment_query(records: Records | RecordStream, max_norm: float, size: int | None = None) -> Query:
    """Returns the query for the sum of x x^T over the rows x, each clipped to ``max_norm``.

    The sum is a symmetric matrix. The query's value is a vector of the diagonal of this matrix, followed by the entries
    above the diagonal. ``size`` is the length of a row, if this differs from the width of ``records``.

    The query's ``scale`` is 1 for entries on the diagonal and 1/sqrt(2) for entries above it. The norm of the vector
    divided by ``scale`` is the Frobenius norm of the matrix, so the sensitivity is max_norm^2 (docs/theory/adaclip.md,
    section 5).
    """
    size = size or records.width
    unit = choose_contribution_grid(max_norm, DIGITS)
    length = size * (size + 1) // 2
    part = partial(_sum_second_moment, max_norm, unit)

    def evaluate_second_moment(source: RandomSource) -> Integers:
        return part(records) if isinstance(records, Records) else records.sum_over_batch(part, length, source)

    scale = np.full(length, np.nextafter(math.sqrt(0.5), 1))
    scale[:size] = 1
    return Query((length,), math.nextafter(max_norm**2, math.inf), 1.0, unit**2, evaluate_second_moment, scale)


def _sum_second_moment(max_norm: float, unit: float, records: Records) -> Integers:
    total = np.zeros((records.width, records.width), np.int64)
    for part in records.split_into_pieces(CHUNK):
        rows = clip_model_contribution_rows_to_grid(part.features.astype(np.float64), max_norm, unit)
        total += (rows.T @ rows).astype(np.int64)  # exact, as the piece has at most 2^19 rows
    return pack_second_moment(total)


def pack_second_moment(matrix: NDArray[Any]) -> NDArray[Any]:
    """Returns a vector of the diagonal of a symmetric matrix, followed by the entries above the diagonal."""
    return np.concatenate([np.diag(matrix), matrix[np.triu_indices(len(matrix), 1)]])


def unpack_second_moment(vector: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Returns the symmetric matrix from the vector that ``pack_second_moment`` returns."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:]
    matrix += matrix.T
    matrix[np.diag_indices(size)] = vector[:size]
    return matrix
