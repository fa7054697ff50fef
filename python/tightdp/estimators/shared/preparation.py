"""Prepares records for a model: maps features by their bounds, and turns labels into indices of classes."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._support import _check
from ...models.model_interface import Vector
from ...models.model_records import Array, Records
from ...records.record_cells import as_labels_of_record_cells
from .labels import (
    count_records_of_estimator_labels,
    exclude_records_of_estimator,
    find_indices_of_labels,
    find_places_of_labels,
)
from .sklearn_interface import validate_classifier_labels


def read_classifier_labels(name: str, given: Any, *, few: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the labels, and the distinct labels in ascending order.

    With ``few``, labels are accepted even if all of them differ, as they may in a small block. Errors do not quote a
    label, because a label may belong to a single record. The labels of a list must be of one kind, because no label is
    converted to the type of another label.
    """
    try:
        if isinstance(given, (list, tuple)):
            given = as_labels_of_record_cells(given)
        labels = validate_classifier_labels(given, once_each=few or name == "classes")
        return labels, np.unique(labels)
    except (TypeError, OverflowError):
        raise TypeError(
            f"{name} must hold labels of one type that can be sorted: all text, or all whole numbers of 64 bits"
        ) from None
    except ValueError as error:  # only the first line is kept, because scikit-learn's second line may quote its input
        why = str(error).partition("\n")[0]
        raise ValueError(f"{name} must hold labels, text or whole numbers of 64 bits: {why}") from None


def list_classifier_classes_of_block(features: Array, targets: NDArray[Any]) -> NDArray[Any]:
    """Returns the different labels of a block."""
    return read_classifier_labels("y", targets, few=True)[1]


def count_classifier_classes_of_block(features: Array, targets: NDArray[Any]) -> tuple[NDArray[Any], Counter[str]]:
    """Returns the different labels of a block, and the number of records of each label."""
    labels, present = read_classifier_labels("y", targets, few=True)
    return present, count_records_of_estimator_labels(labels)


LARGE = 10.0
"""Magnitude above which a feature is surely not scaled. The noise is sized for features in [0, 1]."""
LOOKED_AT = 1000
"""Number of records at the beginning that are searched for large features. These records are enough, because a column
of large numbers is large in most records."""


def warn_estimator_of_unscaled_features(features: Array) -> None:
    """Warns if more than half of the first records have a feature of magnitude above ``LARGE``.

    The clipped gradients of such records say little about their other features. The warning depends on the records, so
    only those who hold the records may see it.
    """
    with np.errstate(invalid="ignore"):
        large = np.asarray((np.abs(features[:LOOKED_AT]) > LARGE).any(axis=1))
    if 2 * np.count_nonzero(large) > len(large):
        warnings.warn(
            f"X has features beyond {LARGE:g} and no bounds: gradients are clipped to one norm, so almost "
            "nothing is learned from the other features. Give public bounds=(low, high), or scale X in a "
            "PrivatePipeline. Do not publish this warning, which follows from the records",
            UserWarning,
            stacklevel=2,
        )


Bounds = tuple[Array, Array, Array]
"""The lower bound of each feature, the upper bound, and their difference."""


Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The lower and the upper bound of each column."""


def prepare_estimator_bounds(given: Any, width: int, dtype: np.dtype[Any]) -> Bounds | None:
    """Returns the checked bounds of ``width`` features. Returns None if ``given`` is None."""
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # an infinite width is refused below
            low, high = (_check.check_array_argument("bounds", b).astype(dtype) for b in given)
            span = np.broadcast_to(high - low, (width,))
    except (TypeError, ValueError):
        raise ValueError("bounds must be (low, high), each a number or one number for each feature") from None
    _check.check_bounds_argument("bounds", given, width)
    if not (np.isfinite(span).all() and (span > 0).all()):
        raise ValueError(
            f"bounds must be finite and low < high in every feature, and so must be the width high - low: "
            f"below {np.finfo(span.dtype).max:.2g} for features of {span.dtype}"
        )
    return low, high, span


def count_features_for_preparation(given: Any) -> int | None:
    """Returns the number of features for which bounds are declared.

    Returns None if the bounds are two numbers, which suit any number of features. Returns None also if ``given`` is not
    a pair of bounds.
    """
    try:
        return max(np.ndim(each) and len(each) for each in given) or None
    except (TypeError, ValueError):
        return None


def broadcast_estimator_bounds(given: Any, width: int) -> Pair | None:
    """Returns checked bounds as new arrays of doubles, with one number for each feature."""
    if given is None:
        return None
    low, high = (np.array(np.broadcast_to(_check.check_array_argument("bounds", each), (width,))) for each in given)
    return low, high


def is_same_estimator_bounds(one: Pair | None, other: Pair | None) -> bool:
    """Tells whether two bounds are the same."""
    if one is None or other is None:
        return one is other
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def scale_features_for_estimator(bounds: Bounds | None, features: Array) -> Array:
    """Returns features clipped to their bounds and mapped to [0, 1]. Without bounds, features do not change."""
    if bounds is None:
        return features
    low, high, span = bounds
    mapped: Array = np.clip(features, low, high)
    mapped -= low
    mapped /= span
    return mapped


@dataclass(frozen=True)
class LabelPreparation:
    """A function that makes the records of a block.

    It maps features by their bounds (``scale_features_for_estimator``) and turns labels into indices into the classes.
    """

    bounds: Bounds | None
    classes: NDArray[Any]
    weights: Vector | None
    """Weights of the classes, or None if all of them are 1."""
    learned: bool = False
    """Whether the classes were learned. Records with any other label then contribute nothing."""

    def __call__(self, features: Array, targets: NDArray[Any]) -> Records:
        if self.learned:
            labels, others = find_places_of_labels(targets, self.classes)
            features = exclude_records_of_estimator(features, others)
        else:
            labels = find_indices_of_labels(targets, self.classes)
        weights = None if self.weights is None else self.weights[labels]
        return Records(scale_features_for_estimator(self.bounds, features), labels, weights=weights)
