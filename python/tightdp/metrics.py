"""Private accuracy and confusion matrices: noisy counts of held-out records, with error bars.

    from tightdp.metrics import accuracy, confusion_matrix
    found = accuracy(y_test, model.predict(X_test), epsilon=0.1, delta=1e-6)
    found.value, found.interval, found.population

Proofs: docs/theory/tuning.md, section 1. The predictions must come from a model that did not see these records, or
whose training was charged for them. Each prediction must depend only on the record that it is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._support import _check
from .audit.binomial import MOST_TRIALS, lower_limit
from .bound import Bound
from .clipping_and_noise.noise import Philox, RandomSource, resolve_random_source
from .composition import Composition
from .ledger import Ledger
from .ledger.payment import LedgerPayment
from .mechanisms import Gaussian
from .records.record_cells import NESTED, as_column_of_cells, match_record_cells
from .release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from .release_gate.gate import Gate
from .release_gate.oracle import Integers, Query
from .statement import Statement
from .statement.wording import AGAIN, list_stated_texts

__all__ = ["Accuracy", "ConfusionMatrix", "accuracy", "confusion_matrix"]

Interval = tuple[float, float]
MOST_NOISE = 2.0**31
"""Largest standard deviation of the noise of a count, in records. With more noise a count says nothing, and the gate
would round the count."""


class Accuracy(NamedTuple):
    """The result of ``accuracy``. All of its fields may be published.

    Fields
    ------
    value : the estimated share of right predictions, in [0, 1]
    interval : the interval of the share among these records
    population : the interval of the probability on a new record
    charged : the composition of the release
    privacy : the bound on epsilon, in nats
    statement : the ``Statement`` of the release

    The function ``accuracy`` returns this result, or raises an error about its arguments.

    >>> found = accuracy(["a"] * 500, ["a"] * 500, epsilon=1.0, delta=1e-6)
    >>> found.value > 0.9, found.privacy <= 1.0
    (True, True)
    """

    value: float
    """The estimate, in [0, 1]."""
    interval: Interval
    """Interval that holds the share of right predictions among these records, with probability ``confidence``."""
    population: Interval
    """Interval that holds the probability of a right prediction on a new record, with probability ``confidence``. This
    interval assumes that all records are independent draws from one distribution."""
    charged: Composition
    privacy: Bound
    """Bound on epsilon at the ``delta`` that was given."""
    statement: Statement


class ConfusionMatrix(NamedTuple):
    """The result of ``confusion_matrix``. All of its fields may be published.

    Fields
    ------
    matrix : the noisy counts, shape (k, k)
    classes : the labels of rows and columns
    half_width : the bound on the error of each count, in records
    charged : the composition of the release
    privacy : the bound on epsilon, in nats
    statement : the ``Statement`` of the release

    The function ``confusion_matrix`` returns this result, or raises an error about its arguments.

    >>> y = ["a", "b"] * 500
    >>> found = confusion_matrix(y, y, classes=["a", "b"], delta=1e-6, noise_multiplier=2.0)
    >>> found.classes, found.half_width, found.matrix.shape
    (('a', 'b'), 6.0, (2, 2))
    """

    matrix: NDArray[np.int64]
    """Noisy counts, shape (k, k), some of which may be negative. Rows are true labels and columns are predictions."""
    classes: tuple[Any, ...]
    """The labels of rows and columns."""
    half_width: float
    """Bound on the distance of each count from the true count. The bound holds for all counts at once with probability
    ``confidence``."""
    charged: Composition
    privacy: Bound
    """Bound on epsilon at the ``delta`` that was given."""
    statement: Statement


def accuracy(
    y_true: Any,
    y_pred: Any,
    *,
    epsilon: float | None = None,
    delta: float,
    noise_multiplier: float | None = None,
    confidence: float = 0.95,
    rng: RandomSource | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    note: str = "accuracy",
) -> Accuracy:
    """Returns an estimate of the share of right predictions, from noisy counts of right and of wrong predictions.

    Parameters
    ----------
    y_true, y_pred : labels of held-out records and their predictions, shape (n,): arrays, columns or lists. Each
        prediction is compared with its label, numbers as numbers and texts as texts. The type of an array or a column
        is taken to be public.
    epsilon, delta : the guarantee to meet, add/remove one record: epsilon > 0, in nats, and delta in (0, 1).
    noise_multiplier : the standard deviation of the noise in each count, in records, > 0, in place of ``epsilon``.
    confidence : the confidence of each interval, in (0, 1).
    rng : None is the operating system's secure generator; a ``Philox`` is for experiments.
    ledger : a ledger that is charged before the release, with ``note``.

    Each record adds one to a single count. The number of records stays private. Guarantee: the privacy of
    Gaussian(noise_multiplier), add/remove one record.

    Raises ValueError or TypeError, which names the argument, before anything is charged. Raises ``BudgetExceeded`` if
    the ledger refuses the charge.

    >>> import tightdp as dp
    >>> from tightdp.metrics import accuracy

    Nine in ten of these predictions are right, and the released interval holds that share.

    >>> found = accuracy([1] * 900 + [0] * 100, [1] * 1000, epsilon=1.0, delta=1e-6, rng=dp.Philox(1))
    >>> found.interval[0] < 0.9 < found.interval[1], found.privacy.upper <= 1.0
    (True, True)
    """
    true, predicted = _read_labels_for_metrics(y_true, y_pred)
    confidence = _check.open_unit("confidence", confidence)
    counts = _count_predictions_for_metrics(_count_right_and_wrong_predictions, true, predicted)
    noisy, charged, privacy, sigma, statement = _release_metric_counts(
        2, counts, "the accuracy on held-out records", ("noisy numbers of right and wrong predictions",), {},
        epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, rng=rng, ledger=ledger, note=note,
    )  # fmt: skip
    # The interval for the population may fail because of the noise or because of the sample. Each of these failures
    # gets half of the allowed probability.
    failing = 1 - confidence
    wide = _bound_noise_of_predictions(sigma, failing / 2)
    low, high = _bound_accuracy_metric(noisy, wide)
    inner, outer = _bound_counts_for_metrics(noisy, _bound_noise_of_predictions(sigma, failing / 4))
    population = (
        _bound_accuracy_metric_below(*inner, failing / 4),
        1 - _bound_accuracy_metric_below(*outer[::-1], failing / 4),
    )
    hits, misses = (max(float(count), 0.0) for count in noisy)
    value = hits / (hits + misses) if hits + misses else 0.5
    return Accuracy(value, (low, high), population, charged, privacy, statement)


def confusion_matrix(
    y_true: Any,
    y_pred: Any,
    *,
    classes: Any,
    epsilon: float | None = None,
    delta: float,
    noise_multiplier: float | None = None,
    confidence: float = 0.95,
    rng: RandomSource | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    note: str = "confusion matrix",
) -> ConfusionMatrix:
    """Returns noisy counts of each true label with each prediction.

    ``classes`` are declared, which means that they must not be read off the data. A record with another label or
    prediction is not counted. Raises ValueError, before anything is charged, if no record is counted. The other
    parameters and the guarantee are as for ``accuracy``, since a record adds one to at most one count.

    Parameters
    ----------
    y_true, y_pred : labels of held-out records and their predictions, shape (n,).
    classes : two or more different labels, declared.
    epsilon, delta, noise_multiplier, rng, ledger, note : as for ``accuracy``.
    confidence : the probability, in (0, 1), with which all counts are within ``half_width`` of the true counts.

    >>> from tightdp.metrics import confusion_matrix
    >>> found = confusion_matrix(["a"] * 500 + ["b"] * 500, ["a"] * 990 + ["b"] * 10, classes=["a", "b"],
    ...                          delta=1e-6, noise_multiplier=2.0)
    >>> bool(abs(found.matrix - [[500, 0], [490, 10]]).max() <= 20)
    True
    """
    true, predicted = _read_labels_for_metrics(y_true, y_pred)
    confidence = _check.open_unit("confidence", confidence)
    try:
        known = list(classes)
        place = {label: i for i, label in enumerate(known)}
    except TypeError:
        raise TypeError(f"classes must be a sequence of labels, got {classes!r}") from None
    if isinstance(classes, str) or len(known) < 2 or len(place) < len(known):
        raise ValueError("classes must be two or more different labels")
    size = len(known)
    counts = _count_predictions_for_metrics(_count_confusion_pairs, true, predicted, place)
    if not counts.any():
        raise ValueError("classes must be labels of the records, in their type: no record has two of these")
    noisy, charged, privacy, sigma, statement = _release_metric_counts(
        size**2, counts, "the confusion matrix of held-out records", (f"{size} x {size} noisy counts",),
        {"labels": f"declared: {list_stated_texts([str(label) for label in known])}"},
        epsilon=epsilon, delta=delta, noise_multiplier=noise_multiplier, rng=rng, ledger=ledger, note=note,
    )  # fmt: skip
    wide = _bound_noise_of_predictions(sigma, (1 - confidence) / size**2)
    return ConfusionMatrix(noisy.reshape(size, size), tuple(known), wide, charged, privacy, statement)


def _read_labels_for_metrics(y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the labels and the predictions.

    Each cell keeps its own type. With one type for all, a record could change other records' cells.
    """
    true, predicted = (_read_labels_of_metric(name, given) for name, given in (("y_true", y_true), ("y_pred", y_pred)))
    if true.ndim != 1 or predicted.ndim != 1:
        raise ValueError(f"y_true and y_pred must have shape (n,), got {true.shape} and {predicted.shape}")
    if len(true) != len(predicted):
        raise ValueError(f"y_pred must have one prediction for each record: got {len(predicted)} for {len(true)}")
    return true, predicted


def _read_labels_of_metric(name: str, given: Any) -> NDArray[Any]:
    try:
        found = as_column_of_cells(given)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of labels, one for each record") from None
    if found.dtype == object and any(isinstance(cell, NESTED) for cell in found.flat):
        raise ValueError("y_true and y_pred must have shape (n,), one label for each record: a cell holds several")
    return found


def _count_predictions_for_metrics(count: Callable[..., Integers], *labels: Any) -> Integers:
    """Returns ``count(*labels)``. Raises TypeError, before anything is charged, if labels cannot be compared."""
    try:
        return count(*labels)
    except Exception as error:  # the text of the error is left out, because it may quote a label
        raise TypeError(
            f"y_true and y_pred must hold labels that can be compared: a comparison raised {type(error).__name__}"
        ) from None


def _count_right_and_wrong_predictions(true: NDArray[Any], predicted: NDArray[Any]) -> Integers:
    """Counts the right and the wrong predictions."""
    right = int(match_record_cells(true, predicted).sum())
    return np.array([right, len(true) - right], np.int64)


def _count_confusion_pairs(true: NDArray[Any], predicted: NDArray[Any], place: Mapping[Any, int]) -> Integers:
    """Counts the records with each pair of label and prediction. The result is the confusion matrix, row after row."""
    size = len(place)
    rows, columns = (np.array([place.get(label, -1) for label in side.tolist()], np.intp) for side in (true, predicted))
    inside = (rows >= 0) & (columns >= 0)
    return np.bincount(rows[inside] * size + columns[inside], minlength=size * size).astype(np.int64)


def _release_metric_counts(
    size: int,
    counts: Integers,
    subject: str,
    released: tuple[str, ...],
    public: dict[str, str],
    *,
    epsilon: float | None,
    delta: float,
    noise_multiplier: float | None,
    rng: RandomSource | None,
    ledger: Any,
    note: str,
) -> tuple[NDArray[np.int64], Composition, Bound, float, Statement]:
    """Charges for ``size`` counts, and then adds noise to them. One record must change at most one count, by 1.

    Returns the noisy counts, the charge, the bound on epsilon, the noise multiplier and the statement.
    """
    target = Target.from_arguments(epsilon, delta)
    sigma = resolve_noise_from_gate_budget(Gaussian, noise_multiplier, target)
    if not sigma <= MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    charged, payment = Gaussian(sigma) * 1, LedgerPayment(ledger, note)
    gate = Gate(FixedPlan(charged), resolve_random_source(rng), pay=partial(payment.spend_charge, charged))
    noisy = gate.release_gaussian(Query((size,), 1.0, 1.0, 1.0, lambda _: counts), sigma).value.astype(np.int64)
    privacy = charged.epsilon(target.delta)
    statement = Statement(
        subject,
        privacy,
        target.delta,
        charged,
        released=released,
        public=public,
        seeded=isinstance(rng, Philox),
        outside=("The model, unless it was trained privately or on other records.", AGAIN),
        ledger=payment.ledger_text,
    )
    return noisy, charged, privacy, sigma, statement


def _bound_noise_of_predictions(sigma: float, failing: float) -> float:
    """Returns an integer t with P(|floor(sigma Z + 1/2)| > t) <= failing, where Z is standard normal."""
    return float(math.ceil(-sigma * NormalDist().inv_cdf(max(failing / 2, 1e-300)) * (1 + 1e-9) + 0.5))


def _bound_counts_for_metrics(noisy: NDArray[np.int64], wide: float) -> tuple[Interval, Interval]:
    """Returns the counts (right, wrong) in the worst and in the best case, if each true count is within ``wide`` of the
    noisy count."""
    right, wrong = noisy.tolist()
    return (max(right - wide, 0.0), max(wrong + wide, 0.0)), (max(right + wide, 0.0), max(wrong - wide, 0.0))


def _bound_accuracy_metric(noisy: NDArray[np.int64], wide: float) -> Interval:
    """Returns bounds of the share of right predictions, if each noisy count is within ``wide`` of the true count."""
    worst, best = _bound_counts_for_metrics(noisy, wide)
    low = worst[0] / sum(worst) if sum(worst) else 0.0
    return low, best[0] / sum(best) if sum(best) else 1.0


def _bound_accuracy_metric_below(successes: float, failures: float, error: float) -> float:
    """Returns a lower confidence limit of the probability of a success. The limit fails with probability at most
    ``error``.

    The limit is Clopper and Pearson's up to ``MOST_TRIALS`` trials. For more trials it is Hoeffding's, which is fast.
    """
    trials = successes + failures
    if not trials:
        return 0.0
    if trials <= MOST_TRIALS:
        return lower_limit(int(successes), int(trials), error)
    return max(0.0, successes / trials - math.sqrt(-math.log(error) / (2 * trials)))
