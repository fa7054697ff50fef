"""Private linear and ridge regression. The weights are computed from one noisy second moment.

The second moment is the sum of x x^T over the rows x = (features, 1, target). The release and its proof are those of
``DPPCA`` (docs/theory/adaclip.md, sections 5 and 6). Everything after the release is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..algorithms.driver import make_algorithm_source
from ..algorithms.record_count import rehearse_releases_for_record_count
from ..composition import Composition
from ..mechanisms import Gaussian
from ..models.contribution_grid import exact_bound
from ..models.model_records import Records
from ..records.blocks import CHANGED
from ..records.sources.choose_source import (
    as_source_blocks,
    is_sparse_matrix,
    refuse_weighted_blocks,
    split_sparse_source_rows,
)
from ..records.stream import RecordStream
from ..release_gate.budget import FixedPlan
from ..statement import Statement
from ..statement.wording import AGAIN
from .scale import EstimatorScale
from .second_moment import (
    SecondMomentEstimator,
    build_second_moment_query,
    check_second_moment_size,
    unpack_second_moment,
)
from .shared.private_fit import wrap_private_fit
from .shared.public_facts import UNSCALED, describe_public_fact_of_bounds
from .shared.sklearn_interface import (
    BaseEstimator,
    RegressorMixin,
    require_fitted,
    validate_estimator_features,
    validate_regression_numbers,
)


@dataclass(eq=False, repr=False)
class Ridge(SecondMomentEstimator, RegressorMixin, BaseEstimator):
    """Private linear regression with an L2 penalty, by one noisy second moment.

    Parameters
    ----------
    epsilon, delta : the guarantee to meet under adding or removing one record.
    noise_multiplier : the standard deviation of the noise divided by max_norm^2, given in place of ``epsilon``. The
        largest Frobenius norm that one record can add is max_norm^2.
    bounds : public (low, high) of the features, each a number or one number for each feature. Features are clipped to
        the bounds and mapped to [-1, 1]. Bounds lie in [-1e60, 1e60], at least 1e-60 apart. None leaves features as
        they are.
    target_bounds : public (low, high) of the target. The limits of ``bounds`` hold for these numbers too. The target is
        clipped to these bounds and mapped to [-1, 1]. Required.
    max_norm : L2 bound on a mapped record (features, 1, target). A record of larger norm is scaled down to this norm.
        None takes sqrt(1 + (d + 1)/3) for d features. If mapped values are uniform, this is the root mean square of the
        records' norms. If ``fit_intercept`` is False, records have no 1, and None takes sqrt((d + 1)/3).
    regularization : lambda of the penalty lambda |w|^2 that is added to the sum of squared errors, where w are the
        weights of the mapped features. None takes noise_multiplier max_norm^2 sqrt(d), about the largest eigenvalue of
        the noise. With a smaller penalty, the inverse of the second moment would be mostly noise.
    fit_intercept : whether a constant is fitted.
    random_state, ledger : as for classifiers, such as ``LogisticRegression``.

    Attributes
    ----------
    coef_, intercept_ : an array (d,) and a number, in the units of X and y as they are given. Within ``bounds`` the
        prediction is X @ coef_ + intercept_.
    privacy_, charged_, history_, statement_ : as for classifiers

    The number of records is not used, so it need be neither public nor released. A record with NaN among its features
    or as its target contributes nothing. An infinite target is clipped to ``target_bounds``, and infinite features are
    clipped to ``bounds``. Without ``bounds``, a record with an infinite feature contributes nothing. Guarantee: the
    privacy of one Gaussian(noise_multiplier) under adding or removing one record.

    Raises ValueError or TypeError, which names the argument, before any record is used, and ``BudgetExceeded`` if
    the ledger refuses the charge.

    >>> import numpy as np
    >>> from tightdp.train import Ridge

    The targets are linear, so the coefficients are close to 3 and -1.

    >>> x = np.random.default_rng(0).uniform(0, 10, size=(20000, 2))
    >>> y = 3 * x[:, 0] - x[:, 1] + 5

    The fit is close to the line, although its epsilon is at most 1.

    >>> model = Ridge(1.0, 1e-6, bounds=(0, 10), target_bounds=(-10, 40), random_state=0).fit(x, y)
    >>> bool(np.abs(model.coef_ - [3, -1]).max() < 0.1), model.privacy_.upper <= 1
    (True, True)
    """

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    noise_multiplier: float | None = None
    bounds: Any = None
    target_bounds: Any = None
    max_norm: float | None = None
    regularization: float | None = None
    fit_intercept: bool = True
    random_state: int | None = None
    ledger: Any = None

    @wrap_private_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fits privately to features X (n, d) and numbers y (n,), or to ``Blocks``, which hold both.

        Blocks are read twice. Errors name the argument, and are raised before anything is released.

        Returns the estimator itself.
        """
        source = make_algorithm_source(self.random_state)
        blocks = as_source_blocks(X, y)
        refuse_weighted_blocks(blocks, "Ridge")
        if blocks is None:
            features = validate_estimator_features(self, X, reset=True)
        else:
            self.n_features_in_ = blocks.width
        size = self.n_features_in_
        noise, penalty, bound, rows = self._check_ridge_estimator_settings(size)
        inputs, output, constant = rows.inputs, rows.output, rows.constant
        deviation = noise * bound**2
        if blocks is not None:
            query = build_second_moment_query(
                RecordStream.from_blocks(blocks, rows, validate_regression_block), bound, size + constant + 1
            )
        else:
            query = build_second_moment_query(rows(features, validate_regression_targets(y, len(features))), bound)
        released, ledger = self._release_moment(query, noise, source)
        moment = unpack_second_moment(released, size + constant + 1)
        w = _solve_ridge_weights(moment, size, deviation * math.sqrt(size) if penalty is None else penalty, deviation)
        self._inputs = inputs
        self.coef_: NDArray[np.float64] = w[:size] * output.half / inputs.half
        level = output.middle[0] + (output.half[0] * w[size] if constant else 0.0)
        self.intercept_ = float(level - self.coef_ @ inputs.middle)
        self.statement_ = Statement(
            f"Ridge, {size} features",
            self.privacy_,
            self._delta,
            self.charged_,
            released=(
                f"a noisy second moment, {len(moment)} x {len(moment)}, and the coefficients that follow from it",
            ),
            public={
                "columns": f"their number, {size}, and their order",
                "bounds of the features": "none"
                if self.bounds is None
                else f"declared: {describe_public_fact_of_bounds(self.bounds)}",
                "bounds of the target": f"declared: {describe_public_fact_of_bounds(self.target_bounds)}",
            },
            seeded=self.random_state is not None,
            outside=(AGAIN,) if self.bounds is not None else (UNSCALED, AGAIN),
            ledger=ledger,
        )
        return self

    def _check_ridge_estimator_settings(self, size: int) -> _Settings:
        """Returns the settings for ``size`` features. Raises ValueError or TypeError for a setting out of range."""
        check_second_moment_size(size + 1)
        noise, penalty = self._resolve_second_moment_noise(), self.regularization
        penalty = None if penalty is None else _check.nonnegative("regularization", penalty)
        inputs = EstimatorScale.build_estimator_scale("bounds", self.bounds, size)
        if self.target_bounds is None:
            raise ValueError("target_bounds must be given, public (low, high) of the target")
        output = EstimatorScale.build_estimator_scale("target_bounds", self.target_bounds, 1)
        constant = _check.check_flag_argument("fit_intercept", self.fit_intercept)
        usual = math.sqrt(constant + (size + 1) / 3)
        bound = exact_bound("max_norm", usual if self.max_norm is None else self.max_norm)
        return _Settings(noise, penalty, bound, _MomentPreparation(inputs, output, constant))

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit`` on records of ``n_features`` features, without reading any record.

        ``n_features`` is an integer >= 1, and ``n_classes`` is ignored. Raises the errors that ``fit`` would raise
        about the settings.
        """
        make_algorithm_source(self.random_state)
        size = _check.check_count_argument("n_features", n_features)
        noise, _, bound, rows = self._check_ridge_estimator_settings(size)
        query = build_second_moment_query(rows(np.zeros((0, size)), np.zeros(0)), bound)
        plan = FixedPlan(Gaussian(noise))
        rehearse_releases_for_record_count(plan, lambda gate: gate.release_gaussian(query, noise))
        return plan.charge()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns the expected target of each row, shape (n,). Features are clipped to ``bounds``.

        Raises ValueError if a feature is not finite.
        """
        require_fitted(self, "coef_")
        if is_sparse_matrix(X):
            return np.concatenate([self.predict(part) for part in split_sparse_source_rows(X)])
        features = validate_estimator_features(self, X, reset=False).astype(np.float64)
        if not np.isfinite(features).all():
            raise ValueError("X must be finite for predictions: it holds NaN or infinity")
        return np.asarray(self._inputs.clip_values(features) @ self.coef_ + self.intercept_)


@dataclass(frozen=True)
class _MomentPreparation:
    """A function that maps features and targets by their bounds, and makes records of them.

    A record is (features, 1, target) if ``constant`` is True, and (features, target) otherwise.
    """

    inputs: EstimatorScale
    output: EstimatorScale
    constant: bool

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Records:
        x, t = features.astype(np.float64), convert_regression_targets(targets)
        one = [np.ones(len(x))] if self.constant else []
        rows = np.column_stack([self.inputs.map_values(x), *one, self.output.map_values(t[:, None])])
        return Records(rows, np.zeros(len(x)))  # the target is a column, so a NaN target excludes its record


class _Settings(NamedTuple):
    """The settings of ``fit`` after they were checked."""

    noise: float
    """Standard deviation of the moment's noise, divided by max_norm^2."""
    penalty: float | None
    """The setting ``regularization``, which may be None."""
    max_norm: float
    rows: _MomentPreparation


def validate_regression_targets(y: Any, records: int) -> NDArray[np.float64]:
    """Returns targets as doubles. Raises ValueError unless there is one number for each record."""
    values = validate_regression_numbers(y)
    if len(values) != records:
        raise ValueError(f"y must have one number for each record: got {len(values)} for {records} records")
    return values


def validate_regression_block(features: NDArray[Any], targets: NDArray[Any]) -> None:
    """Checks the targets of a block. Raises ValueError unless there is one number for each record."""
    validate_regression_targets(targets, len(features))


def convert_regression_targets(targets: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the targets of a block as doubles, after ``validate_regression_block`` has checked them. NaN stays NaN.

    Raises RuntimeError if a target is not a number. This happens only if a later pass over the blocks reads other
    targets than the first pass.
    """
    try:
        return np.asarray(targets.astype(np.float64))
    except (TypeError, ValueError, OverflowError):  # the message of this error may quote a target
        raise RuntimeError(f"{CHANGED}: y holds something that is no number") from None


def _solve_ridge_weights(moment: NDArray[np.float64], size: int, penalty: float, noise: float) -> NDArray[np.float64]:
    """Returns the weights that minimise the estimated squared error plus the penalty. The weights of the features come
    first, and the constant follows, if there is one.

    The constant has no penalty. Noise may make an eigenvalue tiny or negative, so all eigenvalues are raised to at
    least ``noise``, the standard deviation of the noise.
    """
    a, b = moment[:-1, :-1].copy(), moment[:-1, -1]
    a[np.arange(size), np.arange(size)] += penalty
    values, vectors = np.linalg.eigh(a)
    return np.asarray(vectors @ ((vectors.T @ b) / np.maximum(values, noise)))
