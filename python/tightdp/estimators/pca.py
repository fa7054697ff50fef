"""Private principal components: a second-moment matrix with symmetric Gaussian noise (Dwork et al., STOC 2014)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _check
from ..algorithms.driver import seeded
from ..models.dense import affine
from ..models.grid import exact_bound
from ..models.records import Records
from ..records.copied import decoded_once
from ..records.given import parts, refuse_weights, sparse, without_targets
from ..records.stream import Stream
from ..statement import Statement
from ..statement.words import AGAIN
from .all_or_nothing import whole
from .ownership import check_free
from .second_moment import SecondMoment, second_moment, unpacked
from .sklearn_interface import BaseEstimator, NotFittedError, TransformerMixin, validate_data
from .statements import UNSCALED


@dataclass(eq=False, repr=False)
class DPPCA(SecondMoment, TransformerMixin, BaseEstimator):
    """Projection to the leading eigenvectors of sum x x^T + noise, over rows clipped to ``max_norm``.

    Parameters
    ----------
    n_components : at most the number of features
    epsilon, delta : the guarantee to meet, add/remove one record
    noise_multiplier : in place of ``epsilon``: standard deviation of the noise divided by max_norm^2, which is the most
        that one record can add in Frobenius norm
    max_norm : L2 bound on a row, in ``fit`` alone
    random_state : None draws from the operating system's secure generator; an int is for experiments
    ledger : as for classifiers

    Attributes: ``components_`` (n_components, features); ``privacy_``, ``charged_``, ``history_``, ``statement_``
    as in classifiers.

    These are second moments and not covariances: nothing is centred, because a mean would cost a release. Guarantee:
    that of one Gaussian(noise_multiplier); proof in docs/theory/adaclip.md, section 5. Rows that are not finite add
    nothing.

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
    @decoded_once
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learns the components of X (n, features), which may come in blocks; y is not used."""
        check_free(self)
        noise = self._noise()
        bound = exact_bound("max_norm", self.max_norm)
        source = seeded(self.random_state)
        blocks = without_targets(X)
        refuse_weights(blocks, "DPPCA")
        records: Records | Stream
        if blocks is None:
            features = validate_data(self, X, reset=True)
            records = Records(features, np.zeros(len(features)))
        else:
            records = Stream.of(blocks, _without_targets)
            self.n_features_in_ = blocks.width
        size = self.n_features_in_
        count = _check.count("n_components", self.n_components, most=size)
        moment, ledger = self._released(second_moment(records, bound), noise, source)
        _, vectors = np.linalg.eigh(unpacked(moment, size))
        self.components_: NDArray[np.float64] = vectors[:, : -count - 1 : -1].T.copy()
        self.statement_ = Statement(
            f"DPPCA, {count} of {size} components",
            self.privacy_,
            self._delta,
            self.charged_,
            released=(f"a noisy second moment, {size} x {size}, and the components that follow from it",),
            public={"columns": f"their number, {size}, and their order", "max_norm": f"{self.max_norm:g}"},
            seeded=self.random_state is not None,
            outside=(UNSCALED, AGAIN),
            ledger=ledger,
        )
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Coordinates in the components, shape (n, n_components), in the dtype of X."""
        if not hasattr(self, "components_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        if sparse(X):
            return np.concatenate([self.transform(part) for part in parts(X)])
        features = validate_data(self, X, reset=False)
        return affine(features, self.components_, None)


def _without_targets(features: NDArray[Any], targets: NDArray[Any]) -> Records:
    return Records(features, np.zeros(len(features)))
