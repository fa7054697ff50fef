"""The base class of private transformers, which calibrates the noise, charges before the release, and keeps the
account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from ..algorithms.driver import make_algorithm_source
from ..bound import Bound
from ..clipping_and_noise.noise import RandomSource
from ..composition import Composition
from ..estimators.shared.private_fit import wrap_private_fit
from ..estimators.shared.sklearn_interface import (
    BaseEstimator,
    TransformerMixin,
    require_fitted,
    validate_estimator_features,
)
from ..ledger.payment import LedgerPayment
from ..mechanisms import Mechanism
from ..records.blocks import Blocks
from ..records.record_cells import list_column_types
from ..records.sources.choose_source import check_source_blocks_of_numbers
from ..records.views import MappedBlocks
from ..release_gate.budget import FixedPlan, Target, resolve_noise_from_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.shares import FAILURE, NoiseShare
from ..statement import Statement
from ..statement.wording import AGAIN, list_stated_values
from .passes import stream_features_to_preprocess
from .transformer_input import check_width_to_preprocess, convert_memory_map_to_preprocess

TYPES = "types of the columns"
"""Name of the public fact about the columns' types."""
NOTHING = 1e-300
"""Delta of a transformer that releases nothing, if no delta is given. Any value would do."""


class FittedAttributes:
    """The attributes that validation and ``fit`` set."""

    n_features_in_: int
    bounds_: tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateTransformer(FittedAttributes, TransformerMixin, BaseEstimator):
    """Base class of private transformers.

    Parameters
    ----------
    epsilon, delta : the guarantee to meet, add/remove one record.
    noise_multiplier : may be given in place of ``epsilon``. All releases together are then as private as one Gaussian
        with this noise multiplier. There are two cases in which epsilon, delta and noise_multiplier are left out. The
        first is a ``PrivatePipeline`` that has an epsilon. In the second case nothing is released, because other
        parameters declare all values that would be learned, such as bounds or categories.
    random_state : None draws from the operating system's secure generator; an int is for experiments.
    ledger : a ``tightdp.Ledger``, or its path or URL, which is charged before any record is used.

    Attributes: ``n_features_in_`` is as in scikit-learn, and ``privacy_``, ``charged_``, ``history_`` and
    ``statement_`` are as in classifiers.

    Raises ValueError or TypeError, which names the argument, before any record is used, and ``BudgetExceeded`` if
    the ledger refuses the charge.
    """

    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = None
    random_state: int | None = None
    ledger: Any = None

    @wrap_private_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learns privately from X (n, d), which is an array, a table of columns, a memory map or ``Blocks``. The
        argument y is not used.

        Returns the transformer itself. Errors name the argument, and are raised before any record is used.
        """
        X = convert_memory_map_to_preprocess(X)
        spent, delta = self._plan_budget()
        source = make_algorithm_source(self.random_state)
        payment = LedgerPayment(self.ledger, f"{type(self).__name__}.fit")
        values, charge = self._prepare_input(X), self._charge(spent)
        self._types = (
            list_stated_values(list_column_types(X)) if self._has_text_outputs() and not isinstance(X, Blocks) else ""
        )
        self._run_preprocessing_releases(values, spent, source, delta, partial(payment.spend_charge, charge))
        self.statement_ = self._build_statement(
            delta, self.random_state is not None, payment.ledger_text if charge else None
        )
        return self

    def transform(self, X: Any) -> Any:
        """Returns the features of X (n, d), as float64 of shape (n, n_features_out). For ``Blocks``, returns blocks
        whose features are computed when they are read.

        Raises ``NotFittedError`` before ``fit``, and ValueError for another number of columns.
        """
        require_fitted(self, "charged_")
        if isinstance(X, Blocks):
            self._read_table(X, reset=False)
            return MappedBlocks(X, self._transform_block)
        return self._transform_values(self._read_table(X, reset=False))

    def charge_for(self, n_features: int = 1, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit``, which does not depend on the records.

        ``n_features`` and ``n_classes`` are ignored. Raises the errors that ``fit`` would raise about the settings.
        """
        make_algorithm_source(self.random_state)
        return self._charge(self._plan_budget()[0])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Returns the names of the features, for scikit-learn.

        ``input_features`` are the names of the columns of X. None takes the names that ``fit`` found. Raises
        ``NotFittedError`` before ``fit``, and ValueError for names that differ from the names in ``fit``.
        """
        require_fitted(self, "charged_")
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = known if known is not None else [f"x{j}" for j in range(self.n_features_in_)]
        elif known is not None and list(known) != list(input_features):
            raise ValueError("input_features must equal feature_names_in_")
        if len(input_features) != self.n_features_in_:
            raise ValueError(f"input_features must have length n_features_in_, {self.n_features_in_}")
        return np.asarray(self._name_transformer_outputs([str(name) for name in input_features]), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # Each transformer defines the following methods.

    def _charge(self, spent: NoiseShare) -> Composition:
        """Checks the settings. Returns the composition of the releases, which is empty if nothing has to be learned."""
        raise NotImplementedError

    def _release_and_learn(self, values: Any, gate: Gate, spent: NoiseShare) -> None:
        """Makes the releases of ``_charge``, and learns from them alone."""
        raise NotImplementedError

    def _transform_values(self, values: Any) -> NDArray[np.float64]:
        raise NotImplementedError

    def _name_transformer_outputs(self, given: list[str]) -> list[str]:
        return given

    def _has_text_outputs(self) -> bool:
        """Tells whether a release contains the texts of cells. If so, the statement names the types of all columns,
        because the text of a number depends on the type of its column."""
        return False

    def _list_facts(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Returns, for the statement, descriptions of the releases, and the facts that were taken to be public."""
        raise NotImplementedError

    def _transform_block(self, rows: Any) -> NDArray[np.float64]:
        """Returns the features of some rows of a block, whose columns have no names."""
        return self._transform_values(self._read_table(rows, reset=False))

    def _read_table(self, X: Any, *, reset: bool) -> Any:
        """Checks X, and returns the input of ``_transform_values``. Blocks are returned unchanged."""
        if isinstance(X, Blocks):
            check_source_blocks_of_numbers(X)
            check_width_to_preprocess(self, X, None, reset=reset)
            return X
        values = validate_estimator_features(self, X, reset=reset)
        return values.astype(np.float64)

    def _prepare_input(self, X: Any) -> Any:
        """Checks X, and returns the input of ``_release_and_learn``. The input for blocks is a stream."""
        values = self._read_table(X, reset=True)
        return stream_features_to_preprocess(values) if isinstance(values, Blocks) else values

    # The following methods are the steps of a fit, which a pipeline calls too.

    def _plan_budget(self) -> tuple[NoiseShare, float]:
        """Returns the budget of the releases, and the delta of ``privacy_``."""
        if self.epsilon is None and not self._charge(NoiseShare(1.0, NOTHING)):
            return NoiseShare(1.0, NOTHING), NOTHING if self.delta is None else _check.open_unit("delta", self.delta)
        target = Target.from_arguments(self.epsilon, self.delta)
        own = self.noise_multiplier
        own = None if own is None else _check.positive("noise_multiplier", own)
        failure = FAILURE * target.delta
        if not self._charge(NoiseShare(1.0, failure)):
            return NoiseShare(1.0, failure), target.delta
        return NoiseShare(
            resolve_noise_from_gate_budget(lambda z: self._charge(NoiseShare(z, failure)), own, target), failure
        ), target.delta

    def _run_preprocessing_releases(
        self, values: Any, spent: NoiseShare, source: RandomSource, delta: float, pay: Callable[[], object]
    ) -> None:
        """Makes the releases and learns from them. The gate calls ``pay`` before the first release."""
        charge = self._charge(spent)
        gate = Gate(FixedPlan(charge), source, pay=pay)
        self._release_and_learn(values, gate, spent)
        self.charged_: Composition = charge
        self.history_: tuple[Mechanism, ...] = gate.history
        self.privacy_: Bound = charge.epsilon(delta)

    def _build_statement(self, delta: float, from_seed: bool, ledger: str | None) -> Statement:
        """Returns the statement of a fit, with the columns as public facts."""
        released, public = self._list_facts()
        columns = {"columns": f"their number, {self.n_features_in_}, and their order"}
        if self._types:
            columns[TYPES] = f"assumed, as X brings them: {self._types}"
        return Statement(
            type(self).__name__,
            self.privacy_,
            delta,
            self.charged_,
            released=released,
            public={**columns, **public},
            taken=(TYPES,) if self._types else (),
            seeded=from_seed and bool(self.charged_),
            outside=(AGAIN,) if self.charged_ else (),
            ledger=ledger,
        )
