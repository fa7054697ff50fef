"""Private principal components: a second-moment matrix with symmetric Gaussian noise (Dwork et al., STOC 2014)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _check
from ..bound import Bound
from ..composition import Composition
from ..mechanisms import Gaussian, Mechanism
from ..release.noise import RandomSource
from ..statement import Statement
from ._sklearn import BaseEstimator, NotFittedError, TransformerMixin, validate_data
from .blocks.given import parts, sparse, without_targets
from .blocks.stream import Stream
from .driver import opened, paid, seeded
from .models.dense import affine
from .models.grid import clipped_rows, exact_bound, grid_below
from .models.records import Records
from .owned import check_free
from .releases.budget import FixedPlan, Target, noise_for
from .releases.gate import Gate
from .releases.oracle import CHUNK, Integers, Query
from .searches import warn_of_search
from .stated import AGAIN, UNSCALED, name_of
from .whole import whole

DIGITS = 16
"""Binary digits of a row: products of two entries then add up exactly in doubles over 2^19 rows."""


@dataclass(eq=False, repr=False)
class DPPCA(TransformerMixin, BaseEstimator):
    """Projection to the leading eigenvectors of sum x x^T + noise, over rows clipped to ``max_norm``.

    Parameters
    ----------
    n_components : at most the number of features
    epsilon, delta : the guarantee to meet, add/remove one record; or leave ``epsilon`` out and give
    noise_multiplier : over max_norm^2, which is what one record can add in Frobenius norm
    max_norm : L2 bound on a row, in ``fit`` alone
    random_state : None draws from the operating system's secure generator; an int is for experiments
    ledger : as for classifiers

    Attributes: ``components_`` (n_components, features); ``privacy_``, ``charged_``, ``history_``, ``statement_``
    as in classifiers.

    Second moments, not covariances: nothing is centred, because a mean would cost a release. Guarantee: that of one
    Gaussian(noise_multiplier); proof in docs/theory/adaclip.md, section 5. Rows that are not finite add nothing.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(4000, 3)) * [0.5, 0.1, 0.1]
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
    random_state: int | None = None
    ledger: Any = None

    @whole
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learns the components of X (n, features), which may come in blocks; y is not used."""
        check_free(self)
        target = Target.of(self.epsilon, self.delta)
        own = self.noise_multiplier
        own = None if own is None else _check.positive("noise_multiplier", own)
        bound = exact_bound("max_norm", self.max_norm)
        source = seeded(self.random_state)
        blocks = without_targets(X)
        records: Records | Stream
        if blocks is None:
            features = validate_data(self, X, reset=True)
            records = Records(features, np.zeros(len(features)))
        else:
            records = Stream.of(blocks, _without_targets)
            self.n_features_in_ = blocks.width
        size = self.n_features_in_
        count = _check.count("n_components", self.n_components, most=size)
        noise = noise_for(Gaussian, own, target)
        budget = FixedPlan(Gaussian(noise))
        gate = Gate(budget, source)
        ledger = opened(self.ledger)
        paid(ledger, budget.charge(), "DPPCA.fit")
        released = gate.gaussian(second_moment(records, bound), noise).value
        _, vectors = np.linalg.eigh(unpacked(released, size))
        self.components_: NDArray[np.float64] = vectors[:, : -count - 1 : -1].T.copy()
        self.history_: tuple[Mechanism, ...] = gate.history
        self.charged_: Composition = budget.charge()
        self.privacy_: Bound = self.charged_.epsilon(target.delta)
        self.statement_ = Statement(
            f"DPPCA, {count} of {size} components",
            self.privacy_,
            target.delta,
            self.charged_,
            released=(f"a noisy second moment, {size} x {size}, and the components that follow from it",),
            public={"columns": f"their number, {size}, and their order", "max_norm": f"{self.max_norm:g}"},
            seeded=self.random_state is not None,
            outside=(UNSCALED, AGAIN),
            ledger=name_of(ledger),
        )
        warn_of_search(self.charged_, target.delta)
        return self

    def charge_for(self, n_features: int = 1, n_classes: int = 2) -> Composition:
        """What ``fit`` will be charged, without a record: the same for any numbers of features and classes."""
        own = self.noise_multiplier
        own = None if own is None else _check.positive("noise_multiplier", own)
        return Gaussian(noise_for(Gaussian, own, Target.of(self.epsilon, self.delta))) * 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def transform(self, X: Any) -> NDArray[Any]:
        """Coordinates in the components, shape (n, n_components), in the dtype of X."""
        if not hasattr(self, "components_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        if sparse(X):
            return np.concatenate([self.transform(part) for part in parts(X)])
        features = validate_data(self, X, reset=False)
        return affine(features, self.components_, None)


def second_moment(records: Records | Stream, max_norm: float, size: int | None = None) -> Query:
    """sum of x x^T over rows clipped to ``max_norm``, as the vector of its diagonal and what is above it. ``size`` is
    the number of features, where it is not that of the stream.

    With ``scale`` 1 on the diagonal and 1/sqrt(2) above, the norm of the scaled vector is the Frobenius norm, so the
    sensitivity is max_norm^2: docs/theory/adaclip.md, section 5.
    """
    size = size or records.width
    unit = grid_below(max_norm, DIGITS)
    length = size * (size + 1) // 2
    part = partial(_moment, max_norm, unit)

    def evaluate(source: RandomSource) -> Integers:
        return part(records) if isinstance(records, Records) else records.total(part, length, source)

    scale = np.full(length, np.nextafter(math.sqrt(0.5), 1))
    scale[:size] = 1
    return Query((length,), math.nextafter(max_norm**2, math.inf), 1.0, unit**2, evaluate, scale)


def _moment(max_norm: float, unit: float, records: Records) -> Integers:
    total = np.zeros((records.width, records.width), np.int64)
    for part in records.pieces(CHUNK):
        rows = clipped_rows(part.features.astype(np.float64), max_norm, unit)
        total += (rows.T @ rows).astype(np.int64)  # 2^13 rows of entries below 2^17: exact
    return packed(total)


def _without_targets(features: NDArray[Any], targets: NDArray[Any]) -> Records:
    return Records(features, np.zeros(len(features)))


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """The diagonal of a symmetric matrix, then what is above it."""
    return np.concatenate([np.diag(matrix), matrix[np.triu_indices(len(matrix), 1)]])


def unpacked(vector: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The inverse of ``packed``."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[size:]
    matrix += matrix.T
    matrix[np.diag_indices(size)] = vector[:size]
    return matrix
