"""Base class of private estimators. It trains a model by an algorithm within a budget and keeps the account."""

from __future__ import annotations

import operator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._support import _check
from ...algorithms.building_blocks.algorithm import Algorithm
from ...algorithms.driver import (
    Callback,
    Fit,
    check_driver_algorithm_settings,
    check_records_for_algorithm,
    fit,
    make_algorithm_source,
)
from ...algorithms.noisygd import NoisyGD
from ...algorithms.record_count import (
    check_algorithm_beside_record_count,
    compute_algorithm_charge_with_count,
    rehearse_algorithm_run,
)
from ...bound import Bound
from ...composition import Composition
from ...ledger.payment import LedgerPayment
from ...mechanisms import Mechanism
from ...models.linear import LinearModel
from ...models.model_interface import Model, Vector
from ...models.model_records import Array, Records
from ...records.blocks import Blocks, resolve_largest_weight_of_records
from ...records.sources.choose_source import as_source_blocks
from ...records.stream import RecordStream
from ...release_gate.budget import Target
from ...release_gate.oracle import Oracle, Public, check_number_of_parameters
from ...statement import Statement
from . import public_facts as stated
from .continued_account import combine_estimator_fit_charges
from .labels import LabelRelease
from .nested_parameters import NestedParameters
from .preparation import (
    Bounds,
    Pair,
    broadcast_estimator_bounds,
    is_same_estimator_bounds,
    prepare_estimator_bounds,
    scale_features_for_estimator,
    warn_estimator_of_unscaled_features,
)
from .private_fit import wrap_private_fit
from .sklearn_interface import require_fitted, validate_estimator_features

NONE = 0, 0
"""Counts before the first run: of all runs, and of the later runs on records that were in no earlier run."""


def _shift_seed_of_estimator(random_state: Any, runs: int) -> Any:
    """Returns the seed of the run that follows ``runs`` earlier runs, so that the new noise differs from theirs."""
    return (int(random_state) + runs) % 2**64 if runs and random_state is not None else random_state


@dataclass(eq=False, repr=False)
class PrivateEstimator(NestedParameters):
    """The parameters, the training and the account of an estimator. A subclass defines the model and the targets."""

    algorithm: Algorithm | None = None
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    public_size: int | None = None
    bounds: Any = None
    regularization: float = 0.0
    fit_intercept: bool = True
    random_state: int | None = None
    callback: Callback | None = None
    ledger: Any = None
    warm_start: bool = False
    max_sample_weight: float | None = None
    _default: ClassVar[type[Any]] = NoisyGD
    _fixed: ClassVar[tuple[str, ...]] = ("fit_intercept",)
    """Names of the settings of the model. A run that continues the last run cannot change these settings."""

    def _prepare_array(self, X: Any, y: Any, sample_weight: Any, largest: float, again: bool, **given: Any) -> Records:
        """Checks an array, its targets and its weights, and returns them as records.

        Weights above ``largest`` count as ``largest``, and all weights are divided by ``largest``. ``again`` says that
        this run continues the last one.
        """
        raise NotImplementedError

    def _prepare_stream(self, blocks: Blocks, largest: float, again: bool, **given: Any) -> RecordStream:
        """Returns the records of blocks as ``_prepare_array`` does, after one pass that checks the blocks."""
        raise NotImplementedError

    def _make_untrained_model(self) -> Model:
        """Returns an untrained model for the data that were prepared last."""
        raise NotImplementedError

    def _list_target_facts(self) -> stated.TargetFacts:
        """Returns the facts about the targets that a fit takes to be public."""
        raise NotImplementedError

    def _get_algorithm(self) -> Any:
        return self._default() if self.algorithm is None else self.algorithm

    def _compute_private_estimator_charge(
        self, model: Model, epsilon: float | None, delta: float | None
    ) -> Composition:
        """Returns the charge of training this model, which is the same for any records."""
        algorithm, target = self._get_algorithm(), Target.from_arguments(epsilon, delta)
        facts = self._list_private_estimator_facts(model)
        if self.public_size is None:
            return compute_algorithm_charge_with_count(algorithm, facts, target)
        charge: Composition = algorithm.plan(facts, target).budget.charge()
        return charge

    def _list_private_estimator_facts(self, model: Model) -> Public:
        """Returns the public facts of a run, with 0 records if their number is not public.

        Raises ValueError or TypeError for a bad ``public_size`` or ``regularization``.
        """
        regularization = _check.nonnegative("regularization", self.regularization)
        records = 0 if self.public_size is None else _check.check_count_argument("public_size", self.public_size)
        return Public(records, model.size, regularization, model if isinstance(model, LinearModel) else None)

    def _rehearse_private_estimator_fit(
        self, features: int, model: Model, epsilon: float | None, delta: float | None
    ) -> Composition:
        """Returns the charge of training this model, and raises the errors that a run would raise about its settings.

        The run is rehearsed on an empty set of records, before any charge.
        """
        check_number_of_parameters("the model", model.size)
        algorithm, target = self._get_algorithm(), Target.from_arguments(epsilon, delta)
        check_driver_algorithm_settings(algorithm, self.callback)
        make_algorithm_source(self.random_state)
        resolve_largest_weight_of_records(self.max_sample_weight, weighted=False)
        prepare_estimator_bounds(self.bounds, features, np.dtype(np.float64))
        facts = self._list_private_estimator_facts(model)
        nothing = Oracle(model, Records(np.zeros((0, features)), np.zeros(0)), facts)
        if self.public_size is None:
            check_algorithm_beside_record_count(algorithm, facts, target, nothing)
            return compute_algorithm_charge_with_count(algorithm, facts, target)
        plan = algorithm.plan(facts, target)
        charge: Composition = plan.budget.charge()
        rehearse_algorithm_run(plan, nothing, facts)
        return charge

    @wrap_private_fit
    def _train_estimator_model(
        self, X: Any, y: Any, sample_weight: Any, name: str, *, again: bool, disjoint: bool = False, **given: Any
    ) -> Any:
        """Runs the algorithm once. With ``again`` the run continues the last run, and adds to that run's account."""
        algorithm = self._get_algorithm()
        check_driver_algorithm_settings(algorithm, self.callback)
        given["note"] = note = f"{type(self).__name__}.{name}"
        self._check_fixed(again, **given)
        blocks = as_source_blocks(X, y, getattr(algorithm, "in_memory", False), sample_weight)
        check_records_for_algorithm(algorithm, blocks is not None)
        weighted = sample_weight is not None or (blocks is not None and blocks.weighted)
        largest = resolve_largest_weight_of_records(self.max_sample_weight, weighted)
        self._opened: tuple[LabelRelease, tuple[Mechanism, ...], LedgerPayment] | None = None
        records: Records | RecordStream
        if blocks is None:
            records = self._prepare_array(X, y, sample_weight, largest, again, **given)
            if self.bounds is None and isinstance(records, Records):
                warn_estimator_of_unscaled_features(records.features)
        else:
            if again and blocks.width != self.n_features_in_:
                raise ValueError(f"X has {blocks.width} features, but the last fit had {self.n_features_in_}")
            self.n_features_in_ = blocks.width
            records = self._prepare_stream(blocks, largest, again, **given)
        if not again:
            self._model: Any = self._make_untrained_model()
        opened = self._opened
        rest = None if opened is None else opened[0]
        payment = LedgerPayment(self.ledger, note) if opened is None else opened[2]
        del self._opened
        runs, _ = self._runs if again else NONE
        run = fit(
            self._model,
            records,
            None,
            algorithm,
            epsilon=self.epsilon if rest is None else rest.epsilon,
            delta=self.delta if rest is None else rest.delta,
            public_size=self.public_size,
            regularization=self.regularization,
            random_state=_shift_seed_of_estimator(self.random_state, runs),
            callback=self.callback,
            ledger=payment if rest is None else None,  # the release of labels has paid for the whole run
            note=note,
            initial=self._w if again else None,
        )
        self._keep_estimator_run(run, opened, again, disjoint)
        made = stated.build_estimator_statement(
            f"{type(self).__name__}, trained by {stated.describe_algorithm_as_public_fact(algorithm)}",
            self,
            self._list_target_facts(),
            privacy=self.privacy_,
            charged=self.charged_,
            size=run.size,
            largest_weight=largest if weighted else None,
            parameters=len(run.parameters),
            payment=payment,
            settings=stated.describe_estimator_settings(algorithm, run.used, self.regularization),
        )
        self.statement_: Statement = stated.join_estimator_statements(self.statement_, made) if again else made
        return self

    def _keep_estimator_run(
        self,
        run: Fit,
        opened: tuple[LabelRelease, tuple[Mechanism, ...], LedgerPayment] | None,
        again: bool,
        disjoint: bool,
    ) -> None:
        """Keeps the parameters of a run, and the account of this run and of earlier runs.

        ``opened`` has the plan, the mechanisms and the payment of the release of labels. It is None if no labels were
        learned.
        """
        charged, history = run.charged, run.history
        if opened is not None:
            charged, history = opened[0].charge, opened[1] + history
        if again:  # only a run on other records can share the charge of earlier runs (docs/theory/blocks.md, section 4)
            combine = combine_estimator_fit_charges if disjoint else operator.add
            charged, history = combine(self.charged_, charged), self.history_ + history
        runs, apart = self._runs if again else NONE
        self._runs: tuple[int, int] = runs + 1, apart + (again and disjoint)
        self._w: Vector = run.parameters
        self.history_: tuple[Mechanism, ...] = history
        self.charged_: Composition = charged
        delta = Target.from_arguments(None, self.delta).delta
        self.privacy_: Bound = run.privacy if charged == run.charged else charged.epsilon(delta)
        self.public_size_ = run.size
        self.n_iter_ = len(history)

    def _check_fixed(self, again: bool, **given: Any) -> None:
        """Raises ValueError if a run that continues the last run has other settings of the model."""
        settings = {name: np.array(getattr(self, name)) for name in self._fixed}
        for name in self._fixed if again else ():
            if not np.array_equal(settings[name], self._settings[name]):
                raise ValueError(f"{name} must be that of the last fit where a run goes on: the parameters are for it")
        self._settings: dict[str, NDArray[Any]] = settings

    def _scale_features(self, features: Array) -> Array:
        """Returns features clipped to the bounds of the last fit and mapped to [0, 1], or unchanged without bounds."""
        return scale_features_for_estimator(
            prepare_estimator_bounds(self.bounds_, features.shape[1], features.dtype), features
        )

    def _keep_private_estimator_bounds(self, width: int, dtype: Any, again: bool) -> Bounds | None:
        """Returns the bounds of this fit, and keeps them for predictions, even if ``bounds`` is changed afterwards."""
        bounds, pair = (
            prepare_estimator_bounds(self.bounds, width, np.dtype(dtype)),
            broadcast_estimator_bounds(self.bounds, width),
        )
        if again and not is_same_estimator_bounds(pair, self.bounds_):
            raise ValueError("bounds must be those of the last fit: its parameters are for these")
        self.bounds_: Pair | None = pair
        return bounds

    def _require_parameters(self) -> Vector:
        """Returns the trained parameters. Raises NotFittedError before ``fit``."""
        require_fitted(self, "_w")
        return self._w

    def _compute_private_estimator_scores(self, X: Any) -> Vector:
        """Returns the model's scores of rows, shape (n, outputs). Raises ValueError if a feature is not finite."""
        w = self._require_parameters()
        features = validate_estimator_features(self, X, reset=False)
        if not np.isfinite(features).all():
            raise ValueError("X must be finite for predictions: it holds NaN or infinity")
        return np.asarray(self._model.compute_scores(w, self._scale_features(features)), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not getattr(self.algorithm, "in_memory", False)
        return tags
