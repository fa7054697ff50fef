"""Checks of a table before anything is paid for, in a pipeline and in a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators.labels import must_learn
from ..estimators.linear_models import PrivateClassifier
from ..estimators.pca import DPPCA
from ..estimators.preparation import count_block_labels, read_block_labels, read_labels
from ..estimators.private_estimator import PrivateEstimator
from ..estimators.regression import Ridge, validate_block_targets
from ..estimators.shared.sklearn_interface import validate_data, validate_numbers
from ..records.blocks import Blocks, resolve_largest_weight
from ..records.sources.estimator_input import check_numbers
from ..records.stream import scan_blocks
from .steps import copy_unfitted
from .transformer import PrivateTransformer


def is_learning_labels(last: Any) -> bool:
    """Tells whether the last step learns its labels."""
    return isinstance(last, PrivateClassifier) and must_learn(last.classes)


def scan_blocks_before_charge(last: Any, blocks: Blocks) -> tuple[Blocks, NDArray[Any]]:
    """The blocks after one pass, which no later one may contradict, and some targets that the last step takes if it
    takes all: of a classifier every label."""
    check_weights(last, blocks)
    if not isinstance(last, PrivateClassifier):
        return scan_blocks(blocks, validate_block_targets)[0], np.zeros(1)
    if is_learning_labels(last):
        counted, found = scan_blocks(blocks, count_block_labels)
        labels = [present for present, _ in found]
    else:
        counted, labels = scan_blocks(blocks, read_block_labels)
    return counted, np.repeat(np.unique(np.concatenate(labels)), 3)  # so often that they are no measurements


def check_targets(last: Any, y: Any, width: int | None = None) -> None:
    """Raises the last step's error about the targets before anything is paid for. ``width`` is None if the number of
    features is not known."""
    if isinstance(last, PrivateClassifier):
        trial = copy_unfitted(last) if width is not None else copy_unfitted(last).set_params(bounds=None)
        if is_learning_labels(last):  # once they are paid for
            trial._learned, trial.classes_ = True, read_labels("y", y, few=True)[1]
            trial._compute_class_weights()
        else:
            trial._prepare_array(np.zeros((len(np.asarray(y)), width or 1)), y)
    else:
        validate_numbers(y)


def check_weights(last: Any, blocks: Blocks | None) -> None:
    """Raises ValueError where blocks hold weights, and the last step declares no largest one."""
    if isinstance(last, PrivateEstimator) and blocks is not None:
        resolve_largest_weight(last.max_sample_weight, blocks.weighted)


def check_table(steps: Sequence[Any], X: Any) -> None:
    """Raises the first step's error about the table before anything is paid for.

    One row shows the kind of an array of numbers, and blocks have said what they hold.
    """
    trial = copy_unfitted(next(step for step in steps if step is not None))
    few = X[:1] if isinstance(X, np.ndarray) and X.dtype.kind in "bfiu" else X
    if isinstance(trial, PrivateTransformer):
        trial._prepare_input(few)
    elif isinstance(X, Blocks):
        check_numbers(X)
    elif isinstance(trial, (PrivateEstimator, Ridge, DPPCA)):
        validate_data(trial, few, reset=True)
