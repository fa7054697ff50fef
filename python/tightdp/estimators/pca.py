"""Private principal components, from a second-moment matrix with symmetric Gaussian noise (Dwork et al., STOC 2014).

The second-moment matrix is the sum of x x^T over the rows x.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..algorithms.driver import make_algorithm_source
from ..clipping_and_noise.noise import RandomSource
from ..composition import Composition
from ..mechanisms import Gaussian
from ..models.contribution_grid import choose_contribution_grid, exact_bound
from ..models.dense import apply_dense_affine_map
from ..models.model_records import Records
from ..records.sources.choose_source import (
    as_source_blocks_without_targets,
    is_sparse_matrix,
    refuse_weighted_blocks,
    split_sparse_source_rows,
)
from ..records.stream import RecordStream
from ..statement import Statement
from ..statement.wording import AGAIN, format_stated_exactly
from .second_moment import (
    DIGITS,
    SecondMomentEstimator,
    build_second_moment_query,
    check_second_moment_size,
    unpack_second_moment,
)
from .shared.private_fit import wrap_private_fit
from .shared.public_facts import UNSCALED
from .shared.sklearn_interface import BaseEstimator, TransformerMixin, require_fitted, validate_estimator_features


class _Settings(NamedTuple):
    """The settings of ``fit`` after they were checked."""

    noise: float
    max_norm: float
    source: RandomSource
    center: bool


@dataclass(eq=False, repr=False)
class DPPCA(SecondMomentEstimator, TransformerMixin, BaseEstimator):
    """Projection to the leading eigenvectors of a noisy covariance, over rows clipped to ``max_norm``.

    Parameters
    ----------
    n_components : the number of components, at most the number of features.
    epsilon, delta : the guarantee to meet under adding or removing one record.
    noise_multiplier : the standard deviation of the noise divided by the sensitivity, given in place of ``epsilon``.
        The sensitivity is the largest Frobenius norm of the matrix that one record adds. This norm is 5/4 max_norm^2,
        or max_norm^2 without ``center``.
    max_norm : L2 bound on a row, which only ``fit`` applies. A row of larger norm is scaled down to this norm.
    center : whether a private mean is subtracted. With True, the release also contains the sum and the number of the
        rows. With False, which is for columns that are known to be centred, the components are eigenvectors of the
        second moment, and the noise is a fifth smaller.
    random_state : None draws from the operating system's secure generator; an int is for experiments.
    ledger : a ``tightdp.Ledger``, or its path or URL, as for classifiers.

    Attributes: ``components_`` has the shape (n_components, features). ``mean_`` has the shape (features,), and is zero
    without ``center``. ``privacy_``, ``charged_``, ``history_`` and ``statement_`` are as in classifiers.

    Guarantee: the privacy of one Gaussian(noise_multiplier) under adding or removing one record.
    docs/theory/adaclip.md, section 5, has the proof. Rows that are not finite add nothing.

    Raises ValueError or TypeError, which names the argument, before any record is used, and ``BudgetExceeded`` if
    the ledger refuses the charge.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4000, 3)) * [0.3, 0.1, 0.1] + [0.0, 0.5, 0.0]
    >>> pca = DPPCA(1, epsilon=1.0, delta=1e-5, random_state=0).fit(x)
    >>> bool(abs(pca.components_[0, 0]) > 0.9)
    True
    """

    n_components: int
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    noise_multiplier: float | None = None
    max_norm: float = 1.0
    center: bool = True
    random_state: int | None = None
    ledger: Any = None

    def charge_for(self, n_features: int | None = None, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit``, which does not depend on the records.

        ``n_features`` is an integer >= 1, or None if the number of features is not known. ``n_classes`` is ignored.
        Raises the errors that ``fit`` would raise about the settings.
        """
        noise, _, _, center = self._check_pca_settings()
        self._check_component_count(n_features, center)
        return Gaussian(noise) * 1

    def _check_pca_settings(self) -> _Settings:
        """Returns the settings that need no features. Raises ValueError or TypeError for one out of its range."""
        noise = self._resolve_second_moment_noise()
        bound = exact_bound("max_norm", self.max_norm)
        source = make_algorithm_source(self.random_state)
        return _Settings(noise, bound, source, _check.check_flag_argument("center", self.center))

    def _check_component_count(self, n_features: int | None, center: bool) -> int:
        """Returns ``n_components``. Raises ValueError or TypeError unless this many features have so many."""
        if n_features is None:
            return _check.check_count_argument("n_components", self.n_components)
        most = _check.check_count_argument("n_features", n_features)
        check_second_moment_size(most + center)
        return _check.check_count_argument("n_components", self.n_components, most=most)

    @wrap_private_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learns the components of X (n, features), which may be given in blocks. The argument y is not used.

        Returns the estimator itself.
        """
        noise, bound, source, center = self._check_pca_settings()
        blocks = as_source_blocks_without_targets(X)
        refuse_weighted_blocks(blocks, "DPPCA")
        length, constant = _choose_pca_constant(bound) if center else (bound, None)
        rows = _FeaturePreparation(constant)
        records: Records | RecordStream
        if blocks is None:
            features = validate_estimator_features(self, X, reset=True)
            records = rows(features, features)
        else:
            records = RecordStream.from_blocks(blocks, rows)
            self.n_features_in_ = blocks.width
        size = self.n_features_in_
        count = self._check_component_count(size, center)
        whole = size + center
        released, ledger = self._release_moment(build_second_moment_query(records, length, whole), noise, source)
        moment = unpack_second_moment(released, whole)
        self.mean_: NDArray[np.float64] = np.zeros(size)
        if constant is not None:
            # The last entry is the noisy number of records, times constant^2. The entry is raised to at least the
            # noise's standard deviation, since a smaller value cannot be told from 0.
            number, sums = max(moment[-1, -1], noise * length**2), moment[:-1, -1]
            self.mean_ = sums * (constant / number)
            moment = moment[:-1, :-1] - np.outer(sums, sums) / number
        _, vectors = np.linalg.eigh(moment)
        self.components_: NDArray[np.float64] = vectors[:, : -count - 1 : -1].T.copy()
        self.statement_ = Statement(
            f"DPPCA, {count} of {size} components",
            self.privacy_,
            self._delta,
            self.charged_,
            released=(
                f"a noisy second moment, {whole} x {whole}, and the {'mean and ' * self.center}components that follow "
                "from it",
            ),
            public={
                "columns": f"their number, {size}, and their order",
                "max_norm": format_stated_exactly(self.max_norm),
            },
            seeded=self.random_state is not None,
            outside=(UNSCALED, AGAIN),
            ledger=ledger,
        )
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Returns the coordinates of the rows of X along the components, shape (n, n_components), in the dtype of X.

        Raises ``NotFittedError`` before ``fit``.
        """
        require_fitted(self, "components_")
        if is_sparse_matrix(X):
            return np.concatenate([self.transform(part) for part in split_sparse_source_rows(X)])
        features = validate_estimator_features(self, X, reset=False)
        return apply_dense_affine_map(
            features, self.components_, -(self.components_ @ self.mean_) if self.center else None
        )


def _choose_pca_constant(max_norm: float) -> tuple[float, float]:
    """Returns a bound on the norm of rows to which a constant is appended, and the constant.

    The constant is half of ``max_norm``, rounded down to the grid of the rows. A larger constant would increase all
    noise, and a smaller one would increase the noise of the mean.
    """
    length = exact_bound("max_norm", max_norm * math.sqrt(1.25))
    grid = choose_contribution_grid(length, DIGITS)
    return length, math.floor(max_norm / 2 / grid) * grid


@dataclass(frozen=True)
class _FeaturePreparation:
    """A function that makes records of features. If there is a constant, the function appends it to the features."""

    constant: float | None

    def __call__(self, features: NDArray[Any], targets: NDArray[Any]) -> Records:
        nothing = np.zeros(len(features))
        if self.constant is None:
            return Records(features, nothing)
        return Records(np.column_stack([features.astype(np.float64), np.full(len(features), self.constant)]), nothing)
