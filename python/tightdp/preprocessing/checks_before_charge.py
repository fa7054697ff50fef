"""Checks of a table that pipelines and searches make before anything is charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators.labels import must_learn_labels
from ..estimators.linear_models import PrivateClassifier
from ..estimators.pca import DPPCA
from ..estimators.preparation import count_classes_of_block, list_classes_of_block, read_classifier_labels
from ..estimators.private_estimator import PrivateEstimator
from ..estimators.regression import Ridge, validate_regression_block
from ..estimators.shared.sklearn_interface import validate_data, validate_numbers
from ..records.blocks import Blocks, resolve_largest_record_weight
from ..records.sources.estimator_input import check_blocks_of_numbers
from ..records.stream import scan_blocks
from .steps import copy_unfitted
from .transformer import PrivateTransformer


def is_learning_labels(last: Any) -> bool:
    """Tells whether the last step of a pipeline is a classifier that learns its labels."""
    return isinstance(last, PrivateClassifier) and must_learn_labels(last.classes)


def scan_blocks_before_charge(last: Any, blocks: Blocks) -> tuple[Blocks, NDArray[Any]]:
    """Passes once over blocks, so that later passes can be checked against this one. Returns the blocks and a sample of
    targets.

    The sample has every label of a classifier. If the last step accepts the sample, it accepts all targets."""
    check_weights(last, blocks)
    if not isinstance(last, PrivateClassifier):
        return scan_blocks(blocks, validate_regression_block)[0], np.zeros(1)
    if is_learning_labels(last):
        counted, found = scan_blocks(blocks, count_classes_of_block)
        labels = [present for present, _ in found]
    else:
        counted, labels = scan_blocks(blocks, list_classes_of_block)
    return counted, np.repeat(np.unique(np.concatenate(labels)), 3)  # repeated, so that they are not taken for numbers


def check_targets(last: Any, y: Any, width: int | None = None) -> None:
    """Raises the last step's error about the targets, if there is one, before anything is charged.

    ``width`` is None if the number of features is not known."""
    if isinstance(last, PrivateClassifier):
        trial = copy_unfitted(last) if width is not None else copy_unfitted(last).set_params(bounds=None)
        if is_learning_labels(last):  # acts as if the labels had been learned
            trial._learned, trial.classes_ = True, read_classifier_labels("y", y, few=True)[1]
            trial._compute_class_weights()
        else:
            trial._prepare_array(np.zeros((len(np.asarray(y)), width or 1)), y)
    else:
        validate_numbers(y)


def check_weights(last: Any, blocks: Blocks | None) -> None:
    """Raises ValueError if blocks hold weights and the last step declares no largest weight."""
    if isinstance(last, PrivateEstimator) and blocks is not None:
        resolve_largest_record_weight(last.max_sample_weight, blocks.weighted)


def check_table(steps: Sequence[Any], X: Any) -> None:
    """Raises the first step's error about the table, if there is one, before anything is charged.

    One row of an array of numbers is enough for this. Blocks state the types of their columns.
    """
    trial = copy_unfitted(next(step for step in steps if step is not None))
    few = X[:1] if isinstance(X, np.ndarray) and X.dtype.kind in "bfiu" else X
    if isinstance(trial, PrivateTransformer):
        trial._prepare_input(few)
    elif isinstance(X, Blocks):
        check_blocks_of_numbers(X)
    elif isinstance(trial, (PrivateEstimator, Ridge, DPPCA)):
        validate_data(trial, few, reset=True)
