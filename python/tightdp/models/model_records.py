"""The raw data: features, targets, weights, and values computed from them. No algorithm can reach these arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dense import Array as Array
from .dense import DenseRowUnits, round_dense_inputs_to_units


class Records:
    """Records with features ``(n, d)`` in float32 or float64, and a target for each record.

    If ``valid`` is None, a record with a non-finite feature is kept as a row of zeros and marked invalid. An invalid
    record contributes 0 to every sum. An error about it, or a sum of NaN, would reveal its presence. ``weights`` are
    relative to the largest weight. If ``weights`` is None, every weight is 1. A contribution to a sum is clipped first,
    and then multiplied by its record's weight.

    Parameters
    ----------
    features : finite or non-finite numbers, (n, d), of float32 or float64.
    targets : one for each record, in the form that the model takes.
    valid : booleans (n,), False for records that contribute nothing; None computes them from the features.
    weights : numbers in [0, 1], (n,), or None.

    No method raises an error that depends on the values of the records.

    >>> import numpy as np
    >>> from tightdp.train import Records
    >>> records = Records(np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 4.0]]), np.zeros(3))
    >>> records.valid.tolist(), records.features[1].tolist()
    ([True, False, True], [0.0, 0.0])
    >>> [len(piece) for piece in records.split_into_pieces(2)], len(records.take(np.array([2])))
    ([2, 1], 1)
    """

    memo: tuple[NDArray[np.float64], Array] | None = None
    """The parameters and scores that a model computed last for these records."""

    def __init__(
        self,
        features: Array,
        targets: NDArray[Any],
        valid: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        if valid is None:
            valid = np.asarray(np.isfinite(features).all(axis=1))
            if not valid.all():
                features = np.where(valid[:, None], features, features.dtype.type(0))
        self.features, self.targets, self.weights = np.ascontiguousarray(features), targets, weights
        self._units: dict[bool, DenseRowUnits] = {}
        self._whole: tuple[Records, slice | NDArray[np.intp]] | None = None
        self.valid: NDArray[np.bool_] = valid

    def __len__(self) -> int:
        return len(self.features)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    def get_units_of_model_records(self, bias: bool) -> DenseRowUnits:
        """Returns the rows of features as integers (``DenseRowUnits``), with an appended 1 if ``bias`` is true.

        The integers are computed once for all steps of a fit.
        """
        if bias not in self._units:
            if self._whole is None:
                self._units[bias] = round_dense_inputs_to_units(self.features, bias, self.valid)
            else:
                records, rows = self._whole
                self._units[bias] = DenseRowUnits(*(part[rows] for part in records.get_units_of_model_records(bias)))
        return self._units[bias]

    def split_into_pieces(self, size: int) -> Iterator[Records]:
        """Returns an iterator over the records in order, ``size`` at a time, without a copy."""
        for start in range(0, len(self), size):
            yield self._take_part_of_model_records(slice(start, start + size))

    @property
    def has_weights(self) -> bool:
        """Whether some weight may be below 1."""
        return self.weights is not None

    def multiply_weights(self, weights: NDArray[np.float64]) -> Records:
        """Returns the same records, with their weights multiplied by ``weights`` in [0, 1]."""
        weights = weights if self.weights is None else self.weights * weights
        return Records(self.features, self.targets, self.valid, weights)

    def center_features(self, center: NDArray[np.float64]) -> Records:
        """Returns the same records with ``center``, which is public or released, subtracted from their features."""
        moved = np.subtract(self.features, center, dtype=self.features.dtype, casting="same_kind")
        return Records(moved, self.targets, self.valid & np.isfinite(moved).all(axis=1), self.weights)

    def take(self, rows: NDArray[np.intp] | None) -> Records:
        """Returns the chosen rows. None stands for all rows, which are not copied."""
        return self if rows is None else self._take_part_of_model_records(rows)

    def _take_part_of_model_records(self, rows: slice | NDArray[np.intp]) -> Records:
        weights = None if self.weights is None else self.weights[rows]
        part = Records(self.features[rows], self.targets[rows], self.valid[rows], weights)
        part._whole = (self, rows)
        return part
