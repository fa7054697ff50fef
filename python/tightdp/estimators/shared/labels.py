"""Learns the labels of a classifier: a first release, which is charged, finds the labels that many records have.

The release compares the noisy count of each label with a threshold. docs/theory/frequent.md, section 3, states and
proves the guarantee.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...accounting.questions.calibration import calibrate
from ...clipping_and_noise.noise import Philox, RandomSource, SecureRandom
from ...composition import Composition
from ...mechanisms import ApproximateDP, Gaussian, Mechanism
from ...records.blocks import CHANGED, Blocks
from ...records.text import NO_VALUE, write_record_cell_as_text
from ...release_gate.budget import Caps, FixedPlan, Target
from ...release_gate.count_threshold import compute_count_noise_and_threshold
from ...release_gate.gate import Gate
from ...release_gate.shares import FAILURE, NoiseShare, build_caps_for_gate_charge, find_remaining_gate_budget_share

LEARN = "learn"
"""The value of ``classes`` for which labels are learned."""
SHARE = 0.01
"""Share of the run's mu^2 that the release of the labels gets, where mu is the parameter of Gaussian differential
privacy. At epsilon 1 and delta 1e-5, the noise of a label's count has a standard deviation of 37 records. A label is
then learned if about 190 records have it."""
# Text of the error that is raised if the charge grows with the number of labels.
UNKNOWN = "classes must be declared with this algorithm, whose cost depends on their number: it would be {}"
STREAM = 2**62
"""Number of the first random stream for the noise of the labels, if the noise is seeded. The noise of the training
takes streams from 0 on."""


class LabelRelease(NamedTuple):
    """The division of a run's budget between the release of its labels and the rest of the run.

    The division is decided before any record is read.
    """

    spent: NoiseShare
    """Budget of the release of the labels."""
    epsilon: float | None
    delta: float
    """Largest delta of the rest of the run. Training has to meet ``epsilon`` at this delta."""
    rest: Caps
    """Caps on the charge of the rest of the run."""

    @property
    def charge(self) -> Composition:
        return compute_label_charge(self.spent) + self.rest.charge()


def must_learn_labels(classes: Any) -> bool:
    """Tells whether labels are to be learned."""
    return isinstance(classes, str) and classes == LEARN


def require_typed_classifier_labels(labels: Any) -> Any:
    """Returns the labels as an array whose type does not depend on single records.

    Arrays and columns keep their type, but Python objects become texts. Raises TypeError for labels without a declared
    type, such as a list, because a single text in a list would turn all of its labels into texts.
    """
    if not hasattr(labels, "dtype"):
        raise TypeError(
            f"y must be an array or a column where labels are learned, got {type(labels).__name__}: its type is "
            "public, and that of a list depends on all that is in it"
        )
    values = np.asarray(labels)
    return (
        values
        if values.dtype != object
        else np.array([write_record_cell_as_text(each) for each in values.ravel()], str)
    )


def check_label_type_of_blocks(blocks: Blocks) -> None:
    """Raises ValueError for blocks in which the type of the labels depends on all labels."""
    if not blocks.typed:
        raise ValueError(
            "classes must be declared for CSV files in blocks, where the labels of all records decide their type. "
            "Parquet and Arrow files have types, and tightdp train --learn-classes takes all labels for text"
        )


def compute_label_charge(spent: NoiseShare) -> Composition:
    """Returns the charge of a release of labels."""
    return Gaussian(spent.noise_multiplier) + ApproximateDP(0.0, spent.failure)


def plan_label_release(
    rest: Callable[[float | None, float], Composition], target: Target, spent: NoiseShare | None
) -> LabelRelease:
    """Divides a budget between the release of the labels and training.

    ``rest(epsilon, delta)`` returns the charge of training. If a pipeline has divided the budget, ``spent`` is the
    budget of the labels, and is spent in addition to ``target``. If ``spent`` is None, the labels are paid from
    ``target``.
    """
    if spent is not None:
        compute_count_noise_and_threshold(1, *spent)  # raises ValueError for too much noise or too small a delta
        return LabelRelease(
            spent, target.epsilon, target.delta, build_caps_for_gate_charge(rest(target.epsilon, target.delta))
        )
    if target.epsilon is None:
        raise ValueError("epsilon must be given where labels are learned")
    noise = float(calibrate(Gaussian, epsilon=target.epsilon, delta=target.delta)) / math.sqrt(SHARE)
    own = NoiseShare(noise, FAILURE * target.delta)
    compute_count_noise_and_threshold(1, *own)  # raises the same errors
    # Training gets half of delta. Some algorithms are only known to be (epsilon, delta)-DP. If such an algorithm got
    # the whole delta, no delta would be left for the labels.
    part = target.delta / 2

    def plan_labels_for_epsilon(epsilon: float) -> LabelRelease:
        """Returns the division in which training gets this epsilon."""
        return LabelRelease(own, epsilon, part, build_caps_for_gate_charge(rest(epsilon, part)))

    start = target.epsilon * math.sqrt(1 - SHARE)
    return find_remaining_gate_budget_share(
        plan_labels_for_epsilon, lambda made: made.charge, epsilon=target.epsilon, delta=target.delta, start=start
    )


def release_classifier_labels(
    counts: Callable[[], Counter[str]], spent: NoiseShare, random_state: Any
) -> tuple[tuple[str, ...], tuple[Mechanism, ...]]:
    """Releases the frequent labels. Returns these labels as texts, and the mechanisms of the release.

    ``counts`` returns the number of records of each label. The caller must charge for the release first.
    """
    source: RandomSource = SecureRandom() if random_state is None else Philox(int(random_state), STREAM)
    gate = Gate(FixedPlan(compute_label_charge(spent)), source)
    (found,) = gate.release_frequent_values(1, lambda: [counts()], spent).value
    return found, gate.history


def select_classifier_labels(texts: tuple[str, ...], present: NDArray[Any]) -> NDArray[Any]:
    """Returns the labels of ``present`` whose text is in ``texts``, in the order and with the type of ``present``.

    The result reveals nothing about the labels that are left out. Raises ValueError if fewer than two labels are kept.
    """
    known = frozenset(texts)
    kept = [label for label in present.tolist() if write_record_cell_as_text(label) in known]
    if len(kept) < 2:
        raise ValueError(
            f"classes must be declared where labels have few records: {len(kept)} of them reached the threshold of "
            "learned ones, which is paid for, and a classifier needs two"
        )
    # NumPy's text types have a fixed width. The width of ``present`` would reveal the length of the longest label, even
    # if that label is not released.
    return np.array(kept) if present.dtype.kind in "US" else np.array(kept, dtype=present.dtype)


def count_records_of_estimator_labels(labels: NDArray[Any]) -> Counter[str]:
    """Counts the records of each label, by the label's text. Labels that stand for a missing value are not counted."""
    values, numbers = np.unique(labels, return_counts=True)
    found: Counter[str] = Counter()
    for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
        text = write_record_cell_as_text(value)
        if text not in NO_VALUE:
            found[text] += number
    return found


def find_places_of_labels(labels: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Returns the index of each label in the sorted classes, and a mask of the labels that are not among the classes.

    A label that is not among the classes gets the index 0.
    """
    others = ~np.isin(labels, classes)
    return np.where(others, 0, np.searchsorted(classes, labels)), others


def find_indices_of_labels(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Returns the index of each label in the sorted classes that a first pass found.

    Raises RuntimeError for a label that is not among the classes, which would otherwise get the index of another class.
    """
    try:
        if len(classes) == 2:  # faster than a search
            found = np.asarray(labels == classes[1], dtype=np.intp)
        else:
            found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        known = classes[found] == labels
    except TypeError:  # text and numbers cannot be compared
        known = False
    if not np.all(known):
        raise RuntimeError(f"{CHANGED}: y holds a label that it did not hold at first")
    return found


def exclude_records_of_estimator(features: NDArray[Any], others: NDArray[np.bool_]) -> NDArray[Any]:
    """Returns the features with NaN in the rows that the mask ``others`` marks, so that these records contribute
    nothing."""
    return np.where(others[:, None], features.dtype.type(np.nan), features) if others.any() else features
