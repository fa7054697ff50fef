"""Private linear regression by noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..composition import Composition
from ..models.linear import LinearModel, Squared
from ..models.model_records import Array, Records
from ..records.blocks import Blocks, scale_weights_of_records, validate_record_block_weights
from ..records.sources.choose_source import is_sparse_matrix, split_sparse_source_rows
from ..records.stream import RecordStream
from .regression import convert_regression_targets, validate_regression_block, validate_regression_targets
from .scale import EstimatorScale
from .shared import public_facts as stated
from .shared.labels import exclude_records_of_estimator
from .shared.preparation import Bounds, prepare_estimator_bounds, scale_features_for_estimator
from .shared.private_estimator import PrivateEstimator
from .shared.sklearn_interface import RegressorMixin, validate_estimator_features


@dataclass(eq=False, repr=False)
class SGDRegressor(RegressorMixin, PrivateEstimator):
    """Private linear regression with the squared loss, by any algorithm that takes gradients.

    Parameters
    ----------
    algorithm : the training algorithm, such as ``DPSGD()``; None stands for ``NoisyGD()``. ``OutputPerturbation`` and
        ``ObjectivePerturbation`` are refused, because they need losses of bounded slope.
    epsilon, delta : the guarantee to meet under adding or removing one record; see ``LogisticRegression``.
    target_bounds : public (low, high) of the target, which is clipped to these bounds and mapped to [-1, 1]. Required.
        A record contributes nothing if its target or one of its features is NaN.
    bounds : public (low, high) of the features, which are clipped to the bounds and mapped to [0, 1]. None leaves
        features as they are.
    regularization : lambda of the penalty lambda/2 |w|^2 that is added to half the mean squared error of the mapped
        features and targets.

    Attributes: ``coef_`` (d,) and ``intercept_`` are in the units of the given X and y. Within ``bounds`` the
    prediction is X @ coef_ + intercept_. ``bounds_`` and ``target_bounds_`` are the bounds of the last fit, which
    predictions use. The other attributes are as for ``LogisticRegression``.

    For few features ``Ridge`` is the better choice. ``Ridge`` releases one second moment, of about d^2/2 numbers for d
    features, and takes one pass over the data.

    The other settings, ``public_size``, ``fit_intercept``, ``random_state``, ``callback``, ``ledger``,
    ``warm_start`` and ``max_sample_weight``, are those of ``LogisticRegression``. So are weights of records.

    >>> import numpy as np
    >>> from tightdp.train import SGDRegressor

    The bounds of features and targets are public.

    >>> x = np.random.default_rng(0).uniform(0, 10, size=(20000, 2))
    >>> y = 3 * x[:, 0] - x[:, 1] + 5

    The model explains most of the variance.

    >>> model = SGDRegressor(epsilon=1.0, delta=1e-6, bounds=(0, 10), target_bounds=(-10, 40), random_state=0)
    >>> bool(model.fit(x, y).score(x, y) > 0.9)
    True
    """

    target_bounds: Any = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Trains privately on features X ``(n, d)`` and numbers y ``(n,)``, or on ``Blocks``, which hold both.

        Returns the regressor itself. Everything else, ``sample_weight`` and the errors included, is as in ``fit`` of
        ``LogisticRegression``.
        """
        return self._train_estimator_model(
            X, y, sample_weight, "fit", again=bool(self.warm_start) and hasattr(self, "_w")
        )

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, disjoint: bool = False) -> Any:
        """Continues from the last fit, and returns the regressor itself.

        The method, with ``sample_weight`` and ``disjoint``, works as ``partial_fit`` of ``LogisticRegression``.
        """
        return self._train_estimator_model(
            X, y, sample_weight, "partial_fit", again=hasattr(self, "_w"), disjoint=bool(disjoint)
        )

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit`` on records of ``n_features`` features, without reading any record.

        ``n_features`` is an integer >= 1, and ``n_classes`` is ignored. Raises the errors that ``fit`` would raise
        about the settings.
        """
        size = _check.check_count_argument("n_features", n_features)
        self._build_target_scale()
        return self._rehearse_private_estimator_fit(size, self._build_estimator_model(size), self.epsilon, self.delta)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, of shape (features,), in the units of X and y as they are given."""
        return self._compute_regressor_line()[0]

    @property
    def intercept_(self) -> float:
        """Constant of the predictions, in the unit of y."""
        return self._compute_regressor_line()[1]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the expected target of each row, shape (n,). Features are clipped to ``bounds``.

        Raises ValueError if a feature is not finite.
        """
        if is_sparse_matrix(X):
            return np.concatenate([self.predict(part) for part in split_sparse_source_rows(X)])
        scores, target = self._compute_private_estimator_scores(X)[:, 0], self._get_target_scale()
        return np.asarray(scores * target.half[0] + target.middle[0])

    def _compute_regressor_line(self) -> tuple[NDArray[np.float64], float]:
        """Returns the coefficients and the intercept in the units of X and y."""
        w, target, width = self._require_parameters(), self._get_target_scale(), self.n_features_in_
        constant = w[width] if self._model.intercept else 0.0
        bounds = prepare_estimator_bounds(self.bounds_, width, np.dtype(np.float64))
        slopes = w[:width]
        if bounds is not None:
            low, _, span = (np.broadcast_to(each, (width,)) for each in bounds)
            slopes = slopes / span
            constant -= float(slopes @ low)
        return slopes * target.half[0], float(constant * target.half[0] + target.middle[0])

    def _set_target_scale(self, again: bool) -> EstimatorScale:
        """Returns the scale of the target, and keeps the bounds of the target in ``target_bounds_``.

        Raises ValueError if the run continues the last fit (``again``) and the last fit had other bounds.
        """
        scale = self._build_target_scale()
        pair = float(scale.low[0]), float(scale.high[0])
        if again and pair != self.target_bounds_:
            raise ValueError("target_bounds must be those of the last fit, because its parameters are for those bounds")
        self.target_bounds_: tuple[float, float] = pair
        return scale

    def _build_target_scale(self) -> EstimatorScale:
        """Returns the scale of the declared bounds of the target. Raises ValueError for bad or missing bounds."""
        if self.target_bounds is None:
            raise ValueError("target_bounds must be given, public (low, high) of the target")
        return EstimatorScale.build_estimator_scale("target_bounds", self.target_bounds, 1)

    def _get_target_scale(self) -> EstimatorScale:
        return EstimatorScale.build_estimator_scale("target_bounds", self.target_bounds_, 1)

    def _build_estimator_model(self, features: int) -> LinearModel:
        return LinearModel(
            features, Squared(), intercept=_check.check_flag_argument("fit_intercept", self.fit_intercept)
        )

    def _make_untrained_model(self) -> LinearModel:
        return self._build_estimator_model(self.n_features_in_)

    def _prepare_array(self, X: Any, y: Any, sample_weight: Any, largest: float, again: bool, **given: Any) -> Records:
        """Returns the records of a table, with features and targets confined to their bounds."""
        target = self._set_target_scale(again)
        table = validate_estimator_features(self, X, reset=not again)
        prepare = _RegressorPreparation(self._keep_private_estimator_bounds(table.shape[1], table.dtype, again), target)
        features, values = prepare.map_regressor_numbers(table, validate_regression_targets(y, len(table)))
        if sample_weight is not None:
            sample_weight = scale_weights_of_records(validate_record_block_weights(sample_weight, len(values)), largest)
        return Records(features, values, weights=sample_weight)

    def _prepare_stream(self, blocks: Blocks, largest: float, again: bool, **given: Any) -> RecordStream:
        prepare = _RegressorPreparation(
            self._keep_private_estimator_bounds(blocks.width, blocks.dtype, again), self._set_target_scale(again)
        )
        return RecordStream.from_blocks(blocks, prepare, validate_regression_block, largest)

    def _list_target_facts(self) -> stated.TargetFacts:
        return stated.TargetFacts(
            {"bounds of the target": f"declared: {stated.describe_public_fact_of_bounds(self.target_bounds)}"}
        )


@dataclass(frozen=True)
class _RegressorPreparation:
    """A function that makes the records of a block, with clipped and mapped features and targets."""

    bounds: Bounds | None
    target: EstimatorScale

    def __call__(self, features: Array, targets: NDArray[Any]) -> Records:
        return Records(*self.map_regressor_numbers(features, convert_regression_targets(targets)))

    def map_regressor_numbers(self, features: Array, targets: NDArray[np.float64]) -> tuple[Array, NDArray[np.float64]]:
        """Returns features and targets, clipped to their bounds and mapped to [0, 1] and [-1, 1].

        A record whose target is NaN contributes nothing. Without ``bounds``, features are not changed.
        """
        values = self.target.map_values(targets[:, None])[:, 0]
        missing = np.isnan(values)
        return exclude_records_of_estimator(scale_features_for_estimator(self.bounds, features), missing), np.where(
            missing, 0.0, values
        )
