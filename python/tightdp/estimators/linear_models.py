"""scikit-learn classifiers whose ``fit`` is private."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..composition import Composition
from ..ledger.payment import LedgerPayment
from ..models.linear import Hinge, LinearModel, Logistic, Loss, Multinomial, compute_model_class_probabilities
from ..models.model_interface import Model, Vector
from ..models.model_records import Records
from ..records.blocks import Blocks, scale_weights_of_records, validate_record_block_weights
from ..records.sources.choose_source import is_sparse_matrix, split_sparse_source_rows
from ..records.stream import RecordStream, scan_blocks
from ..release_gate.budget import Target
from ..release_gate.shares import NoiseShare, check_gate_charge_within_caps
from ..statement.column_words import DECLARED, OCCURRING
from .shared import public_facts as stated
from .shared.labels import (
    UNKNOWN,
    LabelRelease,
    check_label_type_of_blocks,
    count_records_of_estimator_labels,
    exclude_records_of_estimator,
    find_places_of_labels,
    must_learn_labels,
    plan_label_release,
    release_classifier_labels,
    require_typed_classifier_labels,
    select_classifier_labels,
)
from .shared.preparation import (
    LabelPreparation,
    count_classifier_classes_of_block,
    list_classifier_classes_of_block,
    read_classifier_labels,
    scale_features_for_estimator,
)
from .shared.private_estimator import PrivateEstimator
from .shared.sklearn_interface import ClassifierMixin, validate_estimator_features

# A hint at the end of the error about undeclared labels, if these seem to be indices of the declared labels.
PLACES = (
    ". It holds whole numbers, as VotingClassifier, StackingClassifier and BaggingClassifier hand them on in place of "
    "texts: inside of them declare classes=[0, 1, ...], the places of the sorted texts"
)


def _require_two_classes(name: str, labels: NDArray[Any]) -> NDArray[Any]:
    """Returns distinct labels. Raises ValueError if there are fewer than two of them."""
    if len(labels) < 2:
        raise ValueError(f"{name} must have at least two classes, got one class only")
    return labels


def _read_declared_classes(classes: Any) -> NDArray[Any]:
    """Returns declared labels in ascending order, which are two or more."""
    return _require_two_classes("classes", read_classifier_labels("classes", classes)[1])


@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Base class of private classifiers, which checks the input, bounds the features, trains and keeps the account.

    Parameters
    ----------
    algorithm : the training algorithm; None stands for ``NoisyGD()``.
    epsilon, delta : the guarantee to meet under adding or removing one record; epsilon is at most 1e6. The noise is
        chosen to meet the guarantee. With ``epsilon=None`` the algorithm's own noise is used, and ``privacy_`` reports
        the resulting epsilon at ``delta``. Epsilon and delta have no defaults, because a privacy parameter is a
        decision.
    classes : the labels, which are taken to be public. None takes the labels that occur in ``y``, and thereby declares
        them to be public. A record with a label that is not declared is an error. This error is not charged, and
        reveals to whoever chooses ``classes`` that some record has another label. "learn" first releases, with noise,
        the labels that many records have, at a hundredth of the budget. Records with any other label then contribute
        nothing (docs/theory/frequent.md, section 3).
    public_size : a public number of records, from which sampling probabilities and divisors are computed. With None the
        number is private: a noisy count is released first, at a hundredth of the budget, and the run uses this count.
        If records have weights, each record counts as its weight divided by the largest possible weight. The number of
        records and batch sizes are then sums of these ratios.
    bounds : public (low, high), each a number or one number for each feature. Features are clipped to these bounds and
        mapped to [0, 1]. The bounds must not be computed from the data. With None, features stay as they are. If most
        records then have a feature beyond 10, a warning says so, because such a feature drowns the other features. The
        warning is for whoever holds the records.
    regularization : lambda of the penalty lambda/2 |w|^2 that is added to the mean loss; w includes the intercept.
    fit_intercept : whether a constant feature 1 is added.
    random_state : None draws from the operating system's secure generator. An int makes the run reproducible by the
        generator Philox, which is meant for experiments and never for a release.
    callback : a function that is called after each release with the number of releases so far and their total. The
        total is None if the run is adaptive.
    ledger : a ``tightdp.Ledger``, or its path or URL. Each ``fit`` spends its charge from the ledger before any record
        is read. If the budget does not cover the charge, ``fit`` raises ``BudgetExceeded``.
    class_weight : a dict of declared weights of classes, which multiply the losses. A class that is left out has weight
        1.
    warm_start : whether ``fit`` continues from the parameters of the last fit. The charges of both fits then add up.
    max_sample_weight : a public number, the largest ``sample_weight`` that counts. A larger weight counts as this
        number. The number is required if records have weights, and must not be computed from the weights.

    Training minimises the weighted mean of the losses plus the penalty. The largest possible weight is
    ``max_sample_weight`` times the largest weight of a class. Only the ratio of a weight to the largest possible weight
    matters. A record's gradient is clipped first and then multiplied by that ratio, which is at most 1. Therefore
    weights change no guarantee, and ``max_norm`` need not be adapted to the weights (docs/theory/training.md, section
    11). If few records have a weight near the declared largest weight, budget is wasted.

    Attributes
    ----------
    privacy_ : ``Bound`` on the epsilon of ``charged_`` at ``delta``
    charged_ : the ``Composition`` that the run was charged: all planned releases, or the caps of an adaptive run
    history_ : the mechanisms that were released, in order; if records were counted, the count comes before the training
    statement_ : the ``tightdp.Statement`` of the fit, which says what the bound covers and assumes
    public_size_ : the number of records that the run used, which was given or released; records with
        weights count as in ``public_size``
    bounds_ : the ``bounds`` that the last fit used and that predictions use, as two arrays (d,), or None
    classes_, n_features_in_, n_iter_ : as in scikit-learn; ``n_iter_`` counts releases

    You may publish the fitted parameters and the attributes above, and nothing else. Error messages are meant for
    those who hold the data. The release has, to the last bit, the distribution that is charged, because sums are sums
    of integers and noise is sampled exactly (docs/theory/exact.md).

    A record contributes nothing if one of its features is NaN, or if its gradient overflows. Without ``bounds``, a
    record with an infinite feature contributes nothing either. Gradients can only overflow without ``bounds``, for
    features beyond 1e100.
    """

    _spent: ClassVar[NoiseShare | None] = None
    """Share of the budget for learning the labels. A pipeline sets it if this estimator is one of its steps."""
    classes: Any = field(default=None, kw_only=True)
    class_weight: Mapping[Any, float] | None = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Trains privately on features X ``(n, d)`` and labels y ``(n,)``, or on ``Blocks``, which hold both.

        Memory maps, sparse matrices and Dask's collections are read in blocks (see the page "Tables larger than
        memory"). A first pass over blocks checks them. ``sample_weight`` has one number >= 0 for each record, which
        multiplies the record's loss. The number must be public, or a function of that record alone. ``Blocks`` may hold
        weights as well. Weights require ``max_sample_weight``.

        Returns the classifier itself. Raises ``ValueError`` or ``TypeError``, which names the argument and its range,
        before anything is released.
        """
        return self._train_estimator_model(
            X, y, sample_weight, "fit", again=bool(self.warm_start) and hasattr(self, "_w")
        )

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None, *, disjoint: bool = False
    ) -> Any:
        """Continues from the last fit with more records, or with the same records. Each call by itself meets
        ``epsilon`` and ``delta``.

        ``charged_`` and ``privacy_`` cover all calls since ``fit``, and every call adds its charge. ``disjoint=True``
        states that no record of this call was in an earlier call. You answer for the truth of this statement. If each
        record is in one call only, the total charge is the charge of the most expensive call (docs/theory/blocks.md,
        section 4). ``classes`` declares the labels if the estimator does not. A ledger is charged for every call.

        X, y and ``sample_weight`` are as for ``fit``, whose errors this method raises. Returns the classifier
        itself.
        """
        return self._train_estimator_model(
            X, y, sample_weight, "partial_fit", again=hasattr(self, "_w"), classes=classes, disjoint=bool(disjoint)
        )

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """Returns the ``charged_`` of ``fit`` on records of ``n_features`` features, without a look at any record.

        ``n_classes`` is the number of labels in the records, an integer >= 2, and at most the number of declared
        ``classes``. It decides the charge if ``classes`` is None. Raises the errors that ``fit`` would raise about the
        settings.
        """
        size = _check.check_count_argument("n_features", n_features)
        labels = _check.check_count_argument("n_classes", n_classes, least=2)
        self._check_settings(size)
        if must_learn_labels(self.classes):
            return self._plan_labels(size).charge
        known = self._read_known_classes()
        if known is not None:
            _check.check_count_argument("n_classes", labels, least=2, most=len(known))
            labels = len(known)
        return self._rehearse_private_estimator_fit(
            size, self._build_estimator_model(size, labels), self.epsilon, self.delta
        )

    def _check_settings(self, features: int | None = None) -> None:
        self._check_class_weights(self._read_known_classes())
        super()._check_settings(features)

    def _read_known_classes(self) -> NDArray[Any] | None:
        """Returns the declared classes. Returns None if labels are to be learned, or taken from the records."""
        return None if self.classes is None or must_learn_labels(self.classes) else _read_declared_classes(self.classes)

    def _plan_labels(self, features: int) -> LabelRelease:
        """Returns the division of the budget of a run that learns its labels, after a rehearsal of the run."""
        target, model = Target.from_arguments(self.epsilon, self.delta), self._build_estimator_model(features, 2)
        plan = plan_label_release(partial(self._compute_private_estimator_charge, model), target, self._spent)
        self._rehearse_private_estimator_fit(features, model, plan.epsilon, plan.delta)
        return plan

    def _loss(self, classes: int) -> Loss:
        """Returns the loss for this number of classes."""
        raise NotImplementedError

    def _prepare_array(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        largest: float = 1.0,
        again: bool = False,
        *,
        classes: Any = None,
        note: str = "fit",
        **given: Any,
    ) -> Records:
        """Returns records with features within bounds, labels as indices into ``classes_``, and weights.

        The weights are divided by ``largest``, the largest weight that counts.
        """
        values = validate_estimator_features(self, X, reset=not again)
        features = scale_features_for_estimator(
            self._keep_private_estimator_bounds(values.shape[1], values.dtype, again), values
        )
        learning = must_learn_labels(self.classes) or must_learn_labels(classes)
        labels, present = read_classifier_labels(
            "y", require_typed_classifier_labels(y) if learning else y, few=learning and not again
        )
        if len(labels) != len(features):
            raise ValueError(f"y must have one label for each record: got {len(labels)} for {len(features)} records")
        if sample_weight is not None:
            sample_weight = scale_weights_of_records(validate_record_block_weights(sample_weight, len(labels)), largest)
        self._set_classes(present, again, classes, lambda: count_records_of_estimator_labels(labels), note)
        if not self._learned:
            targets = np.searchsorted(self.classes_, labels)
        else:
            targets, others = find_places_of_labels(labels, self.classes_)
            features = exclude_records_of_estimator(features, others)
        table = self._compute_class_weights()
        if table is not None:
            sample_weight = table[targets] if sample_weight is None else sample_weight * table[targets]
        return Records(features, targets, weights=sample_weight)

    def _prepare_stream(
        self, blocks: Blocks, largest: float, again: bool, classes: Any = None, note: str = "fit", **given: Any
    ) -> RecordStream:
        """Returns the stream of prepared records, after a pass over the labels. If labels are to be learned, the pass
        counts the records of each label."""
        bounds = self._keep_private_estimator_bounds(blocks.width, blocks.dtype, again)
        counts: Counter[str] = Counter()
        if must_learn_labels(self.classes) or must_learn_labels(classes):
            check_label_type_of_blocks(blocks)
            blocks, found = scan_blocks(blocks, count_classifier_classes_of_block)
            labels = [values for values, _ in found]
            for _, each in found:
                counts.update(each)
        else:
            blocks, labels = scan_blocks(blocks, list_classifier_classes_of_block)
        self._set_classes(np.unique(np.concatenate(labels)), again, classes, lambda: counts, note)
        prepare = LabelPreparation(bounds, self.classes_, self._compute_class_weights(), self._learned)
        return RecordStream(blocks, prepare, largest=largest)

    def _make_untrained_model(self) -> Model:
        return self._build_estimator_model(self.n_features_in_, len(self.classes_))

    def _list_target_facts(self) -> stated.TargetFacts:
        how = "learned" if self._learned else DECLARED if self._declared else OCCURRING
        return stated.describe_public_facts_of_labels(self.classes_, how, self.class_weight)

    def _check_fixed(self, again: bool, classes: Any = None, **given: Any) -> None:
        """Raises ValueError if a run that continues the last fit declares other classes than that fit."""
        super()._check_fixed(again)
        declared = classes if self.classes is None else self.classes
        if not again or (declared is None and not self._own):
            # The classes of the last fit are kept if no classes are declared.
            return
        same = declared is not None and must_learn_labels(declared) == self._learned
        if same and not self._learned:
            same = np.array_equal(read_classifier_labels("classes", declared)[1], self.classes_)
        if not same:
            raise ValueError("classes must be those of the last fit where a run goes on: the parameters are for those")

    def _set_classes(
        self, present: NDArray[Any], again: bool, classes: Any, counts: Callable[[], Counter[str]], note: str
    ) -> None:
        """Sets ``classes_``. Raises ValueError for fewer than two classes, and for labels that are not declared.

        If labels are to be learned, this method pays for the whole run and then releases the labels.
        """
        if not again:
            given = self.classes if self.classes is not None else classes
            self._own, self._declared, self._learned = (
                self.classes is not None,
                given is not None,
                must_learn_labels(given),
            )
            if self._learned:
                self._learn_linear_model_classes(present, counts, note)
            else:
                self.classes_ = _require_two_classes("y", present) if given is None else _read_declared_classes(given)
        if self._learned:
            return
        try:
            known = bool(np.isin(present, self.classes_).all())
        except TypeError:  # text and numbers cannot be compared
            known = False
        if not known:
            raise ValueError(
                "y must hold no label but those declared in classes, and of their type: it holds another"
                + (PLACES if self._has_places(present) else "")
            )

    def _has_places(self, present: NDArray[Any]) -> bool:
        """Tells whether y seems to hold the indices of declared texts instead of the texts."""
        texts = self.classes_.dtype.kind in "USO"
        return bool(texts and present.dtype.kind in "iu" and np.isin(present, range(len(self.classes_))).all())

    def _learn_linear_model_classes(self, present: NDArray[Any], counts: Callable[[], Counter[str]], note: str) -> None:
        """Pays for the whole run, and then learns the labels."""
        self._check_class_weights(None)
        plan, payment = self._plan_labels(self.n_features_in_), LedgerPayment(self.ledger, note)
        payment.spend_charge(plan.charge)
        texts, history = release_classifier_labels(counts, plan.spent, self.random_state)
        self.classes_ = select_classifier_labels(texts, present)
        check_gate_charge_within_caps(
            self._compute_private_estimator_charge(self._make_untrained_model(), plan.epsilon, plan.delta),
            plan.rest,
            UNKNOWN,
        )
        self._opened = plan, history, payment

    def _check_class_weights(self, classes: NDArray[Any] | None) -> None:
        """Raises ValueError or TypeError for bad weights of classes.

        ``classes`` has all labels, or is None if labels are to be learned or are not known yet.
        """
        if self.class_weight is None:
            return
        if not isinstance(self.class_weight, Mapping):
            raise ValueError(
                f"class_weight must be a dict of declared weights, or None: 'balanced' would be computed from the "
                f"labels of all records, which are private; got {self.class_weight!r}"
            )
        weights = [_check.nonnegative("class_weight", weight) for weight in self.class_weight.values()]
        if classes is None:
            return
        known = classes.tolist()
        if not all(label in known for label in self.class_weight):
            raise ValueError("class_weight must name no label but the classes")
        if len(weights) == len(known) and not any(weights):
            raise ValueError("class_weight must leave some class a weight above 0")

    def _compute_class_weights(self) -> Vector | None:
        """Returns the weights of the classes divided by the largest weight, in the order of ``classes_``.

        A class that is left out has weight 1, which may be the largest weight. Returns None if no weights are declared.
        """
        self._check_class_weights(None if self._learned else self.classes_)
        if self.class_weight is None:
            return None
        weights = np.array([float(self.class_weight.get(label, 1.0)) for label in self.classes_.tolist()])
        largest = float(weights.max(initial=0.0))
        return weights if largest == 0 else weights / largest

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Returns the scores of the rows of X (n, d). With two classes the shape is (n,), and a positive score stands
        for the second class. With more classes the shape is (n, classes).

        Raises ``NotFittedError`` before ``fit``.
        """
        if is_sparse_matrix(X):
            return np.concatenate([self.decision_function(part) for part in split_sparse_source_rows(X)])
        z = self._compute_private_estimator_scores(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X: Any) -> NDArray[Any]:
        """Returns the likeliest class of each row of X (n, d), shape (n,).

        Raises ``NotFittedError`` before ``fit``.
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])


class LinearClassifier(PrivateClassifier):
    """A classifier with linear scores, whose weights are ``coef_`` (classes or 1, features) and ``intercept_``."""

    def _build_estimator_model(self, features: int, classes: int = 2) -> LinearModel:
        return LinearModel(
            features, self._loss(classes), intercept=_check.check_flag_argument("fit_intercept", self.fit_intercept)
        )

    @property
    def coef_(self) -> Vector:
        """Weights of the features, of shape (1, features) for two classes and (classes, features) for more."""
        table = self._get_table()
        return table[:, :-1] if self._model.intercept else table

    @property
    def intercept_(self) -> Vector:
        """Constants of the scores, of shape (1,) or (classes,)."""
        table = self._get_table()
        return table[:, -1] if self._model.intercept else np.zeros(len(table))

    def _get_table(self) -> Vector:
        """Returns the parameters as a matrix with one row for each score."""
        return np.reshape(self._require_parameters(), (self._model.loss.outputs, -1))


class ProbabilisticClassifier(PrivateClassifier):
    """A classifier whose scores are log-odds, and whose loss is the logistic loss of two or more classes."""

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Multinomial(classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns the probabilities of the classes for the rows of X (n, d), shape (n, classes)."""
        return np.asarray(compute_model_class_probabilities(self.decision_function(X)), dtype=np.float64)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Returns logarithms of ``predict_proba`` for the rows of X (n, d)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class LogisticRegression(ProbabilisticClassifier, LinearClassifier):
    """Private logistic regression: binary with two classes, multinomial with more.

    >>> import numpy as np
    >>> from tightdp.train import LogisticRegression
    >>> x = np.linspace(-1, 1, 2000)[:, None]

    The guarantee is met by the noise that the fit adds.

    >>> clf = LogisticRegression(epsilon=1.0, delta=1e-5, random_state=0).fit(x, x[:, 0] > 0)
    >>> clf.privacy_.upper <= 1.0
    True
    >>> bool(clf.score(x, x[:, 0] > 0) > 0.9)
    True
    """

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""


@dataclass(eq=False, repr=False)
class LinearSVC(LinearClassifier):
    """Private linear support vector machine with the hinge loss. If there are more than two classes, each class has a
    score that tells it from all other classes, and all scores are trained together.

    With ``huber`` > 0 the kink of the hinge is rounded where |1 - margin| <= huber.

    >>> import numpy as np
    >>> from tightdp.train import LinearSVC
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> clf = LinearSVC(epsilon=1.0, delta=1e-5, random_state=0).fit(x, x[:, 0] > 0)
    >>> bool(clf.score(x, x[:, 0] > 0) > 0.9), clf.privacy_ <= 1.0
    (True, True)
    >>> clf.predict([[-0.9], [0.9]]).tolist()
    [False, True]
    """

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""

    _fixed: ClassVar[tuple[str, ...]] = "fit_intercept", "huber"
    huber: float = field(default=0.0, kw_only=True)

    def _loss(self, classes: int) -> Loss:
        return Hinge(classes, _check.nonnegative("huber", self.huber))
