"""scikit-learn classifiers whose ``fit`` is private: the driver that joins a model, an algorithm, a budget and a
gate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import _check
from ..bound import Bound
from ..composition import Composition
from ..mechanisms import Mechanism
from ..statement import Statement
from . import stated
from ._sklearn import BaseEstimator, ClassifierMixin, NotFittedError, validate_data, validate_labels
from .algorithms.algorithm import Algorithm
from .algorithms.noisygd import NoisyGD
from .blocks.blocks import Blocks
from .blocks.given import as_blocks, parts, sparse
from .blocks.stream import Stream, scanned
from .driver import Callback, fit, opened
from .models.linear import Hinge, LinearModel, Logistic, Loss, Multinomial
from .models.model import Model, Vector
from .models.records import Array, Records
from .price import price
from .searches import warn_of_search


def _labels(name: str, given: Any, *, few: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labels, and the sorted set of them. Errors do not quote a label, which may belong to one record alone."""
    try:
        labels = validate_labels(given, once_each=few)
        return labels, np.unique(labels)
    except (TypeError, OverflowError):
        raise TypeError(
            f"{name} must hold labels of one type that can be sorted: all text, or all whole numbers of 64 bits"
        ) from None
    except ValueError as error:  # only its first line: in the second scikit-learn may quote its input
        why = str(error).partition("\n")[0]
        raise ValueError(f"{name} must hold labels, text or whole numbers of 64 bits: {why}") from None


def _present(features: Array, targets: NDArray[Any]) -> NDArray[Any]:
    """The labels of a block."""
    return _labels("y", targets, few=True)[1]


Bounds = tuple[Array, Array, Array]
"""The least of each feature, the largest, and their difference."""


def _bounds(given: Any, width: int, dtype: np.dtype[Any]) -> Bounds | None:
    """The checked bounds of so many features."""
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # refused below
            low, high = (_check.reals("bounds", b).astype(dtype) for b in given)
            span = np.broadcast_to(high - low, (width,))
    except (TypeError, ValueError):
        raise ValueError("bounds must be (low, high), each a number or one number for each feature") from None
    if not (np.isfinite(span).all() and (span > 0).all()):
        raise ValueError(
            f"bounds must be finite and low < high in every feature, and so must be the width high - low: "
            f"below {np.finfo(span.dtype).max:.2g} for features of {span.dtype}"
        )
    return low, high, span


def _within(bounds: Bounds | None, features: Array) -> Array:
    if bounds is None:
        return features
    low, high, span = bounds
    mapped: Array = (np.clip(features, low, high) - low) / span
    return mapped


@dataclass(frozen=True)
class Prepare:
    """Records of a block: features within bounds, and labels as indices into the classes."""

    bounds: Bounds | None
    classes: NDArray[Any]

    def __call__(self, features: Array, targets: NDArray[Any]) -> Records:
        return Records(_within(self.bounds, features), np.searchsorted(self.classes, targets))


@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """What every private classifier shares: checks, bounds on features, the run, the account.

    Parameters
    ----------
    algorithm : what trains; None for ``NoisyGD()``
    epsilon, delta : the guarantee to meet, add/remove one record, epsilon at most 1e6; the noise follows. With
        ``epsilon=None`` the algorithm's own noise is used and ``privacy_`` reports what it costs at ``delta``. There is
        no default: a privacy parameter is a decision.
    classes : the label set, which is taken to be public. None takes it from ``y``, and thereby declares the labels that
        occur to be public.
    public_size : a public number of records, from which sampling probabilities and divisors come. None keeps it
        private: a noisy count is released first, at a hundredth of the budget, and the run uses that.
    bounds : public (low, high), scalars or one number for each feature: features are clipped to them and mapped to
        [0, 1]. They must not be computed from the data. None leaves features as they are; no scaling is fitted.
    regularization : lambda of lambda/2 |w|^2 beside the mean loss (the intercept included)
    fit_intercept : whether a constant feature 1 is added
    random_state : None draws from the operating system's secure generator. An int makes the run reproducible
        (Philox): for experiments, never for a release.
    callback : called after each release with the number of releases so far and their total (None if adaptive)
    ledger : a ``tightdp.Ledger``, or where it lies: each ``fit`` spends what it is charged there before it looks at a
        record, or raises ``BudgetExceeded``

    Attributes
    ----------
    privacy_ : ``Bound`` on epsilon at ``delta``, of ``charged_``
    charged_ : the ``Composition`` that the run was charged: all planned releases, or the caps of an adaptive run
    history_ : the mechanisms that were released, in order; the count comes first
    statement_ : the ``tightdp.Statement`` of the fit: what the bound covers and rests on, as text, JSON or a page
    public_size_ : the number of records that the run used, given or released
    classes_, n_features_in_, n_iter_ : as in scikit-learn; ``n_iter_`` counts releases

    What may be published: the fitted parameters and the public facts above, and nothing else. Errors are meant for
    whoever holds the data. Records with NaN or infinite features contribute nothing. What is released is what is
    charged, to the last bit: integer sums and exactly sampled noise (docs/theory/exact.md).
    """

    algorithm: Algorithm | None = None
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    classes: Any = None
    public_size: int | None = None
    bounds: Any = None
    regularization: float = 0.0
    fit_intercept: bool = True
    random_state: int | None = None
    callback: Callback | None = None
    ledger: Any = None
    _default: ClassVar[type[Any]] = NoisyGD

    def fit(self, X: Any, y: Any = None) -> Any:
        """Trains privately on features ``(n, d)`` and labels ``(n,)``, or on ``Blocks``, which hold both.

        Memory maps, sparse matrices and Dask's collections are read in blocks (the page "Tables larger than memory").
        One pass over blocks checks them, before the passes of the algorithm. Raises ``ValueError`` or ``TypeError``,
        naming the argument and its range, before anything is released.
        """
        algorithm = self._default() if self.algorithm is None else self.algorithm
        blocks = as_blocks(X, y, getattr(algorithm, "in_memory", False))
        features, targets = self._checked(X, y) if blocks is None else (self._streamed(blocks), None)
        self._model: Any = self._build(self.n_features_in_, len(self.classes_))
        ledger = opened(self.ledger)
        run = fit(
            self._model,
            features,
            targets,
            algorithm,
            epsilon=self.epsilon,
            delta=self.delta,
            public_size=self.public_size,
            regularization=self.regularization,
            random_state=self.random_state,
            callback=self.callback,
            ledger=ledger,
            note=f"{type(self).__name__}.fit",
        )
        self._w: Vector = run.parameters
        self.history_: tuple[Mechanism, ...] = run.history
        self.charged_: Composition = run.charged
        self.privacy_: Bound = run.privacy
        self.public_size_ = run.size
        self.n_iter_ = len(run.history)
        self.statement_: Statement = stated.classifier(
            f"{type(self).__name__}, trained by {algorithm!r}",
            self,
            privacy=run.privacy,
            charged=run.charged,
            size=run.size,
            parameters=len(run.parameters),
            ledger=ledger,
        )
        warn_of_search(run.charged, self.statement_.delta)
        return self

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """What ``fit`` will be charged on records of ``n_features`` features, without a record: ``charged_``.

        ``n_classes`` counts where ``classes`` is None. Raises what ``fit`` would raise of the settings.
        """
        size = _check.count("n_features", n_features)
        labels = n_classes if self.classes is None else len(_labels("classes", self.classes)[1])
        return price(
            self._build(size, _check.count("n_classes", labels, least=2)),
            self._default() if self.algorithm is None else self.algorithm,
            epsilon=self.epsilon,
            delta=self.delta,
            public_size=self.public_size,
            regularization=self.regularization,
        )

    def _loss(self, classes: int) -> Loss:
        raise NotImplementedError

    def _build(self, features: int, classes: int) -> Model:
        raise NotImplementedError

    def _checked(self, X: Any, y: Any) -> tuple[Array, NDArray[np.intp]]:
        """Features within bounds, and labels as indices into ``classes_``."""
        features = self._bounded(validate_data(self, X, reset=True))
        labels, present = _labels("y", y)
        if len(labels) != len(features):
            raise ValueError(f"y must have one label for each record: got {len(labels)} for {len(features)} records")
        self._declare(present)
        return features, np.searchsorted(self.classes_, labels)

    def _streamed(self, blocks: Blocks) -> Stream:
        """The same for blocks, after one pass that checks them."""
        self.n_features_in_ = blocks.width
        bounds = _bounds(self.bounds, blocks.width, np.dtype(blocks.dtype))
        lengths, labels = scanned(blocks, _present)
        self._declare(np.unique(np.concatenate(labels)))
        return Stream(blocks, Prepare(bounds, self.classes_), lengths)

    def _declare(self, present: NDArray[Any]) -> None:
        """Sets ``classes_``. ValueError for less than two, and for labels that are none of those declared."""
        name, self.classes_ = (
            ("y", present) if self.classes is None else ("classes", _labels("classes", self.classes, few=True)[1])
        )
        if len(self.classes_) < 2:
            raise ValueError(f"{name} must have at least two classes, got one class only")
        try:
            known = bool(np.isin(present, self.classes_).all())
        except TypeError:  # text and numbers cannot be compared
            known = False
        if not known:
            raise ValueError("y must hold no label but those declared in classes, and of their type: it holds another")

    def _bounded(self, features: Array) -> Array:
        return _within(_bounds(self.bounds, features.shape[1], features.dtype), features)

    def _fitted(self) -> Vector:
        if not hasattr(self, "_w"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self._w

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not getattr(self.algorithm, "in_memory", False)
        return tags

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: shape (n,) with two classes (positive for the second), else (n, classes)."""
        w = self._fitted()
        if sparse(X):
            return np.concatenate([self.decision_function(part) for part in parts(X)])
        features = validate_data(self, X, reset=False)
        if not np.isfinite(features).all():
            raise ValueError("X must be finite for predictions: it holds NaN or infinity")
        z = np.asarray(self._model.scores(w, self._bounded(features)), dtype=np.float64)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row, shape (n,)."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])


class LinearClassifier(PrivateClassifier):
    """A classifier whose scores are linear: ``coef_`` (classes or 1, features) and ``intercept_``."""

    def _build(self, features: int, classes: int) -> LinearModel:
        return LinearModel(features, self._loss(classes), intercept=bool(self.fit_intercept))

    @property
    def coef_(self) -> Vector:
        table = self._table()
        return table[:, :-1] if self._model.intercept else table

    @property
    def intercept_(self) -> Vector:
        table = self._table()
        return table[:, -1] if self._model.intercept else np.zeros(len(table))

    def _table(self) -> Vector:
        return np.reshape(self._fitted(), (self._model.loss.outputs, -1))


class Probabilities(PrivateClassifier):
    """A classifier whose scores are log-odds: the logistic loss of two classes or more."""

    def _loss(self, classes: int) -> Loss:
        return Logistic() if classes == 2 else Multinomial(classes)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities, shape (n, classes)."""
        z = self.decision_function(X)
        if z.ndim == 1:
            z = np.column_stack([np.zeros_like(z), z])
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class LogisticRegression(Probabilities, LinearClassifier):
    """Private logistic regression: binary with two classes, multinomial with more.

    >>> import numpy as np
    >>> from tightdp.train import LogisticRegression
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> clf = LogisticRegression(epsilon=1.0, delta=1e-5, random_state=0).fit(x, x[:, 0] > 0)
    >>> clf.privacy_.upper <= 1.0
    True
    >>> bool(clf.score(x, x[:, 0] > 0) > 0.9)
    True
    """

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""


@dataclass(eq=False, repr=False)
class LinearSVC(LinearClassifier):
    """Private linear support vector machine: hinge loss, one class against the rest jointly when there are more
    than two.

    ``huber`` > 0 rounds the hinge's kink over |1 - margin| <= huber.
    """

    __doc__ += PrivateClassifier.__doc__.partition("\n")[2] if PrivateClassifier.__doc__ else ""

    huber: float = field(default=0.0, kw_only=True)

    def _loss(self, classes: int) -> Loss:
        return Hinge(classes, _check.nonnegative("huber", self.huber))
