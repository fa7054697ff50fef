"""scikit-learn's estimator interface if scikit-learn is installed. Otherwise this module has its own versions of the
classes and functions that the estimators need."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...records.numbers import (
    as_table_of_numbers,
    check_column_names,
    convert_record_numbers_to_doubles,
    refuse_dates_in_records,
)

if TYPE_CHECKING:

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None) -> Any: ...

    class RegressorMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class NotFittedError(ValueError, AttributeError): ...

    def validate_estimator_features(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]: ...
    def validate_classifier_labels(y: Any, *, once_each: bool = False) -> NDArray[Any]: ...
    def validate_regression_numbers(y: Any) -> NDArray[np.float64]: ...

else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
        from sklearn.exceptions import NotFittedError
        from sklearn.utils import assert_all_finite
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import column_or_1d
        from sklearn.utils.validation import validate_data as _validate

        def validate_estimator_features(estimator, X, *, reset):
            """Returns X as a 2-D float32 or float64 array. NaN and infinity are accepted."""
            check_column_names(X)
            refuse_dates_in_records(X)
            try:
                return _validate(
                    estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False, order="C"
                )
            except (TypeError, ValueError, OverflowError) as error:
                if not hasattr(X, "tocsr"):  # scikit-learn's own message about a sparse matrix is clear
                    shape = as_table_of_numbers(X).shape
                    if len(shape) != 2:
                        raise ValueError(f"X must be a 2-D array, got shape {shape}. Reshape your data") from None
                # Only the first line is kept, because the next line may quote X.
                raise type(error)(str(error).partition("\n")[0]) from None

        def validate_classifier_labels(y, *, once_each=False):
            """Returns y as a 1-D array of labels. With ``once_each``, labels that occur only once are accepted."""
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(np.repeat(y, 3) if once_each else y)
            return y

        def validate_regression_numbers(y):
            """Returns y as a 1-D array of doubles. NaN and infinity are accepted. Errors do not quote a number."""
            y = column_or_1d(convert_record_numbers_to_doubles(y), warn=True)
            try:
                return y.astype(np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ValueError("y must hold numbers") from None

    except ImportError:

        class NotFittedError(ValueError, AttributeError):
            """An error of methods that need a fitted estimator."""

        class BaseEstimator:
            """A base class with get_params and set_params for the arguments of __init__."""

            @classmethod
            def _list_parameter_names(cls):
                return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

            def get_params(self, deep=True):
                return {name: getattr(self, name) for name in self._list_parameter_names()}

            def set_params(self, **params):
                for name, value in params.items():
                    if name not in self._list_parameter_names():
                        raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}")
                    setattr(self, name, value)
                return self

            def __repr__(self):
                return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

        class TransformerMixin:
            """A base class whose fit_transform fits and then transforms."""

            def fit_transform(self, X, y=None):
                return self.fit(X, y).transform(X)

        class RegressorMixin:
            """A base class whose score is R^2."""

            def score(self, X, y, sample_weight=None):
                y = np.asarray(y, dtype=np.float64)
                off, mean = y - self.predict(X), np.average(y, weights=sample_weight)
                return float(
                    1 - np.average(off**2, weights=sample_weight) / np.average((y - mean) ** 2, weights=sample_weight)
                )

        class ClassifierMixin:
            """A base class whose score is the mean accuracy."""

            def score(self, X, y, sample_weight=None):
                return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))

        def validate_estimator_features(estimator, X, *, reset):
            """Returns X as a 2-D float32 or float64 array. NaN and infinity are accepted."""
            check_column_names(X)
            refuse_dates_in_records(X)
            X = as_table_of_numbers(X)
            if X.ndim != 2 or 0 in X.shape:
                raise ValueError(f"X must be a non-empty 2-D array, got shape {X.shape}")
            if reset:
                estimator.n_features_in_ = X.shape[1]
            elif X.shape[1] != estimator.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(estimator).__name__} "
                    f"is expecting {estimator.n_features_in_} features as input"
                )
            return np.ascontiguousarray(X)

        def validate_classifier_labels(y, *, once_each=False):
            """Returns y as a 1-D array of labels."""
            y = np.asarray(y)
            if y.ndim != 1:
                raise ValueError(f"y must be a 1-D array of labels, got shape {y.shape}")
            if y.dtype.kind == "f" and not (y == np.floor(y)).all():  # NaN is refused too, as NaN != NaN
                raise ValueError("y must hold labels: it holds numbers that are not whole")
            return y

        def validate_regression_numbers(y):
            """Returns y as a 1-D array of doubles. NaN and infinity are accepted. Errors do not quote a number."""
            try:
                y = np.asarray(convert_record_numbers_to_doubles(y)).astype(np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ValueError("y must hold numbers") from None
            if y.ndim != 1:
                raise ValueError(f"y must be a 1-D array of numbers, got shape {y.shape}")
            return y


def require_fitted(estimator: Any, attribute: str) -> None:
    """Raises NotFittedError unless the estimator has ``attribute``, which ``fit`` sets."""
    if not hasattr(estimator, attribute):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet: call fit first")


def copy_unfitted_estimator(estimator: Any) -> Any:
    """Returns an unfitted copy of an estimator. Returns None for None."""
    if estimator is None:
        return None
    try:
        from sklearn.base import clone
    except ImportError:
        return _copy_estimator_parameter(estimator)
    return clone(estimator)


def _copy_estimator_parameter(value: Any) -> Any:
    """Returns a copy of a parameter. Estimators are copied, and so are estimators in lists and tuples."""
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return type(value)(**{name: _copy_estimator_parameter(each) for name, each in params.items()})
    return type(value)(map(_copy_estimator_parameter, value)) if type(value) in (list, tuple) else value
