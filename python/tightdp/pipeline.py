"""A pipeline of private steps, with one account and one budget for all of them.

from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.train import LogisticRegression
model = PrivatePipeline([("scale", MinMaxScaler()), ("model", LogisticRegression())], epsilon=1.0, delta=1e-6)
model.fit(X, y).privacy_
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._support import _check
from .accounting.questions.calibration import calibrate
from .algorithms.driver import check_records_for_algorithm, make_algorithm_source
from .bound import Bound
from .composition import Composition
from .estimators.linear_models import PrivateClassifier
from .estimators.pca import DPPCA
from .estimators.regression import Ridge, validate_regression_block
from .estimators.shared.labels import check_label_type_of_blocks, must_learn_labels, require_typed_classifier_labels
from .estimators.shared.ownership import mark_as_estimator_part
from .estimators.shared.preparation import (
    count_classifier_classes_of_block,
    count_features_for_preparation,
    list_classifier_classes_of_block,
    read_classifier_labels,
)
from .estimators.shared.private_estimator import PrivateEstimator
from .estimators.shared.private_fit import wrap_private_fit
from .estimators.shared.public_facts import UNSCALED
from .estimators.shared.sklearn_interface import (
    BaseEstimator,
    copy_unfitted_estimator,
    require_fitted,
    validate_estimator_features,
    validate_regression_numbers,
)
from .ledger.payment import LedgerPayment
from .mechanisms import Gaussian, Mechanism
from .preprocessing.steps import NamedTransformers, check_named_transformer_steps
from .preprocessing.transformer import PrivateTransformer
from .preprocessing.transformer_input import (
    check_shape_to_preprocess,
    check_width_to_preprocess,
    select_columns_to_preprocess,
    split_columns_to_preprocess,
)
from .records.blocks import Blocks, resolve_largest_weight_of_records
from .records.sources.choose_source import (
    as_source_blocks,
    check_source_blocks_of_numbers,
    is_sparse_matrix,
    split_sparse_source_rows,
)
from .records.stream import scan_blocks
from .records.views import MappedBlocks
from .release_gate.budget import Caps, Target
from .release_gate.shares import (
    FAILURE,
    NoiseShare,
    build_caps_for_gate_charge,
    check_gate_charge_within_caps,
    find_remaining_gate_budget_share,
)
from .statement import Statement
from .statement.wording import AGAIN

__all__ = ["PrivatePipeline"]

PLAIN = ("ledger", "random_state", "epsilon", "delta", "noise_multiplier")
"""Settings that steps must leave at None: the first two always, and the last three if the pipeline has an epsilon.
``random_state`` must be None because two steps with equal seeds would draw the same noise."""

UNKNOWN = (
    "steps must leave the last one a cost that is known in advance: with the features that the others made it would be "
    "{}. Declare the categories, or take an algorithm on all records, such as NoisyGD"
)
PRIVATE = (PrivateTransformer, DPPCA, PrivateEstimator, Ridge)
"""Classes of the steps that make private releases."""


class _PipelinePlan(NamedTuple):
    """Steps and charges of a pipeline, which are fixed before a record is used."""

    steps: list[tuple[str, Any]]
    """Copies of the steps, which will be fitted. The noise or budget of each step is set."""
    before: Composition
    """Charge of all steps but the last."""
    last: Caps
    """Caps on the charge of the last step."""

    @property
    def charge(self) -> Composition:
        """Charge of all steps."""
        return self.before + self.last.charge()


@dataclass(eq=False, repr=False)
class PrivatePipeline(NamedTransformers, BaseEstimator):
    """An estimator that consists of private transformers and a private estimator after them, with one account.

    Parameters
    ----------
    steps : a list of (name, step). The last step is a classifier or a regressor of ``tightdp.train``. Each other step
        is a transformer of ``tightdp.preprocessing``, a ``DPPCA``, a transformer of scikit-learn that learns nothing
        (``Normalizer``, ``FunctionTransformer``), or "passthrough".
    epsilon, delta : the guarantee of all steps together, for adding or removing one record. Leave out the epsilon,
        delta and noise multiplier of each step. With ``epsilon=None`` each step has its own budget instead, and
        ``privacy_`` bounds the epsilon of all steps at ``delta``.
    share : the part of the budget that the steps before the last step get, in [1e-6, 1). The budget is measured by
        mu^2, where mu is the parameter of Gaussian differential privacy. This part is divided equally among
        the steps that make releases. Learning the labels counts as such a step. The last step gets the rest of the
        budget.
    random_state : None draws from the operating system's secure generator; an int is for experiments. Each step draws
        from its own stream; leave out the ``random_state`` of the steps.
    ledger : a ``tightdp.Ledger``, or its path or URL. It is charged for all steps before a record is used.

    Attributes
    ----------
    steps_ : the fitted steps, each with its own ``privacy_``. Further training of a step raises RuntimeError
    privacy_, charged_, history_, statement_ : as for classifiers, but of all steps together
    classes_, n_features_in_ : as in scikit-learn.

    Predictions find the columns of a data frame by their names, in any order. Further columns are ignored.

    The last step's charge is fixed before the first release. If the outputs of the other steps would raise this charge,
    ``fit`` raises ValueError. Statement and proof: docs/theory/quantiles.md, section 4.

    >>> import numpy as np
    >>> from tightdp.pipeline import PrivatePipeline
    >>> from tightdp.preprocessing import MinMaxScaler
    >>> from tightdp.train import LogisticRegression

    One epsilon pays for the scaler and the classifier.

    >>> x = np.random.default_rng(0).normal(40, 10, size=(5000, 1))
    >>> model = PrivatePipeline([("scale", MinMaxScaler()), ("model", LogisticRegression())], 1.0, 1e-6, random_state=0)
    >>> model.fit(x, x[:, 0] > 40).privacy_.upper <= 1, model.score(x, x[:, 0] > 40) > 0.9
    (True, True)
    """

    steps: Sequence[tuple[str, Any]]
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    share: float = 0.05
    random_state: int | None = None
    ledger: Any = None
    _steps = "steps"

    @wrap_private_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fits all steps privately to X (n, d), an array or a table of columns, and y (n,).

        X may also be a memory map, a sparse matrix or a collection of Dask, or ``Blocks``, which hold both X and y.
        Every release then reads the blocks at least once, and features are computed when blocks are read. The fitted
        pipeline is the same, to the last bit, as for an array.

        Returns the pipeline itself. Raises ValueError or TypeError, which names the argument, before anything is
        released, and ``BudgetExceeded`` if the ledger refuses the charge.
        """
        target, (*_, (_, last)) = self._check_settings()
        blocks = as_source_blocks(X, y, _is_pipeline_in_memory(last), texts=True)
        if blocks is None:
            y = require_typed_classifier_labels(y) if is_pipeline_learning_labels(last) else y
            targets, width = self._check_target_table_of_pipeline(X, y)
        else:
            width = blocks.width
            if is_pipeline_learning_labels(last):
                check_label_type_of_blocks(blocks)
            check_records_for_algorithm(getattr(last, "algorithm", None), True)
            check_width_to_preprocess(self, blocks, width, reset=True)
            X, targets = scan_pipeline_blocks(last, blocks)
        check_pipeline_targets(last, targets)
        if self.ledger is not None:  # a step must not refuse the table after the ledger has paid
            check_pipeline_table([step for _, step in self._check_pipeline_steps()], X)
        plan = self._plan_pipeline(width, _count_classes_of_pipeline(last, targets))
        payment = LedgerPayment(self.ledger, "PrivatePipeline.fit")
        payment.spend_charge(plan.charge)
        values = X
        for _, step in plan.steps[:-1]:
            values = _run_pipeline_step(step, values)
        _, estimator = plan.steps[-1]
        found = values.width if isinstance(values, Blocks) else len(split_columns_to_preprocess(values))
        if not found:
            raise ValueError("steps must leave at least one feature: no category reached its threshold")
        if found != width:  # the plan was made for ``width``
            check_gate_charge_within_caps(
                estimator.charge_for(found, _count_classes_of_pipeline(last, targets)), plan.last, UNKNOWN
            )
        estimator.fit(values, None if isinstance(values, Blocks) else y)
        for step in (step for _, step in plan.steps if isinstance(step, PRIVATE)):
            mark_as_estimator_part(step, self)
        self.steps_: list[tuple[str, Any]] = plan.steps
        self.charged_: Composition = plan.charge
        self.privacy_: Bound = plan.charge.epsilon(target.delta)
        self.history_: tuple[Mechanism, ...] = sum(
            (tuple(step.history_) for _, step in plan.steps if hasattr(step, "history_")), ()
        )
        self.statement_ = self._build_statement(target.delta, payment.ledger_text)
        return self

    def _check_target_table_of_pipeline(self, X: Any, y: Any) -> tuple[Any, int]:
        """Returns the targets of a table in memory, and the number of its columns."""
        if y is None:
            raise ValueError("y must be given: PrivatePipeline requires y to be passed, but the target y is None")
        columns, records = split_columns_to_preprocess(X), len(np.asarray(y, dtype=object))
        check_shape_to_preprocess(self, X, columns, reset=True)
        if len(columns[0]) != records:
            raise ValueError(f"y must have one target for each record: got {records} for {len(columns[0])} records")
        return y, len(columns)

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit`` on tables of ``n_features`` columns, without reading a record.

        ``n_classes`` is the number of labels, an integer >= 2. Raises the errors that ``fit`` would raise about the
        settings.
        """
        return self._plan_pipeline(_check.check_count_argument("n_features", n_features), n_classes).charge

    def _check_settings(self) -> tuple[Target, list[tuple[str, Any]]]:
        """Returns the target and the steps. Raises TypeError or ValueError for the first wrong argument."""
        steps, target = self._check_pipeline_steps(), Target.from_arguments(self.epsilon, self.delta)
        make_algorithm_source(self.random_state)
        if target.epsilon is not None:
            _check.build_argument_check("[1e-6, 1)")("share", self.share)
        return target, steps

    def _check_pipeline_steps(self) -> list[tuple[str, Any]]:
        """Returns the steps, with None for "passthrough". Raises TypeError or ValueError for other kinds of steps."""
        steps = [
            (name, None if isinstance(step, str) and step == "passthrough" else step)
            for name, step in check_named_transformer_steps(self.steps, "steps", 2)
        ]
        for name, step in steps[:-1]:
            if not (step is None or isinstance(step, (PrivateTransformer, DPPCA)) or _is_pipeline_step_stateless(step)):
                raise TypeError(
                    f"steps must be private: {name!r} learns from records outside the account "
                    "(tightdp.preprocessing has scalers, encoders and imputers)"
                )
        name, last = steps[-1]
        if not isinstance(last, (PrivateEstimator, Ridge)):
            raise TypeError(f"steps must end with a classifier or a regressor of tightdp.train: {name!r} is {last!r}")
        for name, step in steps:
            for setting in PLAIN[:2] if self.epsilon is None else PLAIN:
                if isinstance(step, PRIVATE) and getattr(step, setting, None) is not None:
                    raise ValueError(f"{setting} of step {name!r} must be None: the pipeline has one for all steps")
        return steps

    def _plan_pipeline(self, n_features: int, n_classes: int) -> _PipelinePlan:
        """Copies the steps, and plans the charge of each."""
        target, given = self._check_settings()
        steps = [(name, copy_unfitted_estimator(step)) for name, step in given]
        for i, (_, step) in enumerate(steps):
            if self.random_state is not None and hasattr(step, "random_state"):
                step.set_params(random_state=(int(self.random_state) + 1 + i) % 2**64)
        *first, (_, last) = [step for step in steps if step[1] is not None]
        private = [step for _, step in first if hasattr(step, "charge_for")]
        learned = is_pipeline_learning_labels(last)
        if target.epsilon is not None:
            self._divide_pipeline_budget(target.epsilon, target.delta, private, last if learned else None)
        # ``known`` is the number of features that a step gets, or 0 if this number is not known before ``fit``.
        before, known = Composition(), n_features
        rows, are_sure = _make_up_pipeline_rows(n_features), False
        for name, step in first:
            if hasattr(step, "charge_for"):
                before += step.charge_for(known) if known else step.charge_for()
            if isinstance(step, PrivateTransformer) and known and step is not first[0][1]:
                step._check_columns(known)  # ``fit`` checks the first step, which may name columns of the table
            if isinstance(step, PRIVATE):
                known = _count_features_after_pipeline_step(step, known)
                rows, are_sure = _make_up_pipeline_rows(known), True
            else:
                rows = _rehearse_pipeline_step(name, step, rows, are_sure, for_last=step is first[-1][1])
                known = 0 if rows is None else np.shape(rows)[1]
        features = known or count_features_for_preparation(last.bounds) or n_features
        if target.epsilon is None:
            return _PipelinePlan(steps, before, build_caps_for_gate_charge(last.charge_for(features, n_classes)))
        # If there are other releases, the last step gets only half of delta. If a last step that is only known to be
        # (epsilon, delta)-DP got the whole delta, no delta would be left for the other releases.
        shared = bool(before) or learned
        last.set_params(delta=target.delta / 2 if shared else target.delta)

        def plan_pipeline_caps(epsilon: float) -> Caps:
            return build_caps_for_gate_charge(last.set_params(epsilon=epsilon).charge_for(features, n_classes))

        start = target.epsilon * math.sqrt(1 - self.share) if shared else target.epsilon
        found = find_remaining_gate_budget_share(
            plan_pipeline_caps,
            lambda held: before + held.charge(),
            epsilon=target.epsilon,
            delta=target.delta,
            start=start,
        )
        return _PipelinePlan(steps, before, found)

    def _divide_pipeline_budget(self, epsilon: float, delta: float, private: list[Any], learner: Any) -> None:
        """Divides the budget among the ``private`` transformers and the learning of labels by ``learner``, if any."""
        for step in private:
            step.set_params(noise_multiplier=1.0, delta=delta)
        paying = [step for step in private if step.charge_for()]
        whole = float(calibrate(Gaussian, epsilon=epsilon, delta=delta)) / math.sqrt(self.share)
        each = NoiseShare(whole, delta).divide_equally(max(1, len(paying) + (learner is not None)))
        for step in paying:
            step.set_params(noise_multiplier=each.noise_multiplier, delta=each.failure)
        if learner is not None:
            learner._spent = each._replace(failure=FAILURE * each.failure)

    def _build_statement(self, delta: float, ledger: str | None) -> Statement:
        """Joins the statements of the steps. Each fact is preceded by the name of its step."""
        released: list[str] = []
        public: dict[str, str] = {}
        taken: list[str] = []
        outside: list[str] = []
        for name, step in self.steps_:
            made = getattr(step, "statement_", None)
            if made is None:
                if step is not None:
                    outside.append(f"Step {name!r} was taken to treat each record by itself.")
                continue
            released += [f"{name}: {line}" for line in made.released]
            public |= {f"{name}: {key}": how for key, how in made.public.items()}
            taken += [f"{name}: {key}" for key in made.taken]
            outside += [line for line in made.outside if line not in (AGAIN, UNSCALED, *outside)]
        statements = [step.statement_ for _, step in self.steps_ if hasattr(step, "statement_")]
        return Statement(
            f"PrivatePipeline: {', then '.join(made.subject for made in statements)}",
            self.privacy_,
            delta,
            self.charged_,
            released=tuple(released),
            public=public,
            size=statements[-1].size,
            taken=tuple(taken),
            seeded=any(made.seeded for made in statements),
            outside=(*outside, AGAIN),
            ledger=ledger,
        )

    # The following methods apply the last step to the output of the other steps.

    def _transform_values(self, X: Any) -> Any:
        """Applies the steps before the last one. Sparse tables are transformed part by part."""
        require_fitted(self, "steps_")
        if is_sparse_matrix(X):
            return np.concatenate([self._transform_block(part) for part in split_sparse_source_rows(X)])
        X = select_columns_to_preprocess(self, X)
        check_shape_to_preprocess(self, X, split_columns_to_preprocess(X), reset=False)
        for _, step in self.steps_[:-1]:
            X = X if step is None else step.transform(X)
        return X

    def _transform_block(self, rows: Any) -> Any:
        """Returns the features that the last step gets for some rows of a block."""
        for _, step in self.steps_[:-1]:
            if step is not None:
                rows = step._transform_block(rows) if isinstance(step, PrivateTransformer) else step.transform(rows)
        return rows

    @property
    def _last_step(self) -> Any:
        return (self.steps_ if hasattr(self, "steps_") else self.steps)[-1][1]

    def predict(self, X: Any) -> Any:
        """Returns the last step's predictions for the rows of ``X`` (n, d), shape (n,).

        Raises ``NotFittedError`` before ``fit``.
        """
        return self._last_step.predict(self._transform_values(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the accuracy on features ``X`` (n, d) and labels ``y`` (n,), or R^2 for a regressor.

        ``sample_weight`` has one number >= 0 for each record. The score is not private. ``tightdp.metrics`` has private
        scores.
        """
        found: float = self._last_step.score(self._transform_values(X), y, sample_weight)
        return found

    def __getattr__(self, name: str) -> Any:
        """Returns a prediction method that the last step has, or an attribute that it learned."""
        passed = {"predict_proba", "predict_log_proba", "decision_function"}
        learned = {"classes_", "coef_", "intercept_", "public_size_"}
        if name in passed and hasattr(self.steps[-1][1], name):
            return lambda X: getattr(self._last_step, name)(self._transform_values(X))
        if name in learned and "steps_" in vars(self):
            return getattr(self._last_step, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        last = self.steps[-1][1].__sklearn_tags__()
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(last, name))
        first = self.steps[0][1]
        tags.input_tags = first.__sklearn_tags__().input_tags if hasattr(first, "__sklearn_tags__") else last.input_tags
        tags.input_tags.allow_nan = False  # predictions refuse missing numbers that no step has filled in
        tags.input_tags.sparse = not _is_pipeline_in_memory(self.steps[-1][1])
        return tags


def _count_features_after_pipeline_step(step: Any, given: int) -> int:
    """Returns how many features a step makes of ``given`` ones, or 0 if this is not known before it is fitted."""
    if isinstance(step, DPPCA):
        return step.n_components
    return step._count_outputs(given) if isinstance(step, PrivateTransformer) else 0


def _make_up_pipeline_rows(width: int) -> Any:
    """Returns two rows of ``width`` numbers for ``_rehearse_pipeline_step``, or None if ``width`` is 0."""
    return np.full((2, width), 0.5) if width else None


def _rehearse_pipeline_step(name: str, step: Any, rows: Any, are_sure: bool, for_last: bool) -> Any:
    """Returns what a transformer of scikit-learn makes of made-up rows.

    So a step that cannot work is refused before anything is charged. ``rows`` is None if the number of features is not
    known. Before the first private step it is not sure that a table has numbers and no names of columns, so a failure
    then counts as not known. ``for_last`` says that the last step of the pipeline gets the result. Raises ValueError
    for parameters that scikit-learn refuses, for a failure, and for a result that no later step takes.
    """
    trial = copy_unfitted_estimator(step)
    try:
        if hasattr(trial, "_validate_params"):
            trial._validate_params()
    except (TypeError, ValueError) as problem:
        raise ValueError(f"steps must have good settings: {name!r} says: {problem}") from problem
    if rows is None:
        return None
    try:
        made = trial.fit_transform(rows)
    except Exception as problem:
        if not are_sure:
            return None
        raise ValueError(
            f"steps must transform any rows, each by itself: on two made-up rows of 0.5, {name!r} raised {problem!r}"
        ) from problem
    shape = np.shape(made)
    if len(shape) != 2 or shape[0] != 2 or not shape[1]:
        raise ValueError(f"steps must return a row for each row: of two made-up rows {name!r} made shape {shape}")
    if is_sparse_matrix(made) or np.ma.isMaskedArray(made):
        raise ValueError(f"steps must return dense tables without masks: {name!r} made a {type(made).__name__}")
    dtype = np.asarray(made).dtype
    if dtype.kind not in ("biufO" if for_last else "biufOUST"):  # a later private step may encode texts
        raise ValueError(f"steps must return numbers: of two made-up rows {name!r} made {dtype}")
    return made


def _is_pipeline_step_stateless(step: Any) -> bool:
    """Returns whether ``step`` is a transformer of scikit-learn whose tags say that it learns nothing."""
    return hasattr(step, "transform") and hasattr(step, "__sklearn_tags__") and not step.__sklearn_tags__().requires_fit


def _is_pipeline_in_memory(last: Any) -> bool:
    return bool(getattr(getattr(last, "algorithm", None), "in_memory", False))


def _run_pipeline_step(step: Any, values: Any) -> Any:
    """Fits a step to the values of the step before it, and returns the transformed values."""
    if step is None:
        return values
    if not isinstance(values, Blocks):
        return step.fit_transform(values)
    if hasattr(step, "charge_for"):
        step.fit(values)
    return step.transform(values) if isinstance(step, PrivateTransformer) else MappedBlocks(values, step.transform)


def _count_classes_of_pipeline(last: Any, y: Any) -> int:
    """Returns the number of labels of a classifier, at least 2. Labels that are still to be learned count as 2."""
    if not isinstance(last, PrivateClassifier) or is_pipeline_learning_labels(last):
        return 2
    return max(2, len(np.unique(np.asarray(y if last.classes is None else last.classes))))


def is_pipeline_learning_labels(last: Any) -> bool:
    """Tells whether the last step of a pipeline is a classifier that learns its labels."""
    return isinstance(last, PrivateClassifier) and must_learn_labels(last.classes)


def scan_pipeline_blocks(last: Any, blocks: Blocks) -> tuple[Blocks, NDArray[Any]]:
    """Passes once over blocks, so that later passes can be checked against this one. Returns the blocks and a sample of
    targets.

    The sample has every label of a classifier. A last step that accepts the sample accepts all targets."""
    check_pipeline_weights(last, blocks)
    if not isinstance(last, PrivateClassifier):
        return scan_blocks(blocks, validate_regression_block)[0], np.zeros(1)
    if is_pipeline_learning_labels(last):
        counted, found = scan_blocks(blocks, count_classifier_classes_of_block)
        labels = [present for present, _ in found]
    else:
        counted, labels = scan_blocks(blocks, list_classifier_classes_of_block)
    # Each label occurs three times, because numbers that occur only once look like the targets of a regression.
    return counted, np.repeat(np.unique(np.concatenate(labels)), 3)


def check_pipeline_targets(last: Any, y: Any, width: int | None = None) -> None:
    """Raises the last step's error about the targets, if there is one, before anything is charged.

    ``width`` is None if the number of features is not known."""
    if isinstance(last, PrivateClassifier):
        trial = (
            copy_unfitted_estimator(last)
            if width is not None
            else copy_unfitted_estimator(last).set_params(bounds=None)
        )
        if is_pipeline_learning_labels(last):  # the trial acts as if the labels had been learned
            trial._learned, trial.classes_ = True, read_classifier_labels("y", y, few=True)[1]
            trial._compute_class_weights()
        else:
            trial._prepare_array(np.zeros((len(np.asarray(y)), width or 1)), y)
    else:
        validate_regression_numbers(y)


def check_pipeline_weights(last: Any, blocks: Blocks | None) -> None:
    """Raises ValueError if blocks hold weights and the last step declares no largest weight."""
    if isinstance(last, PrivateEstimator) and blocks is not None:
        resolve_largest_weight_of_records(last.max_sample_weight, blocks.weighted)


def check_pipeline_table(steps: Sequence[Any], X: Any) -> None:
    """Raises the first step's error about the table, if there is one, before anything is charged.

    One row of an array of numbers is enough for this check. Blocks state the types of their columns.
    """
    trial = copy_unfitted_estimator(next(step for step in steps if step is not None))
    few = X[:1] if isinstance(X, np.ndarray) and X.dtype.kind in "bfiu" else X
    if isinstance(trial, PrivateTransformer):
        trial._prepare_input(few)
    elif isinstance(X, Blocks):
        check_source_blocks_of_numbers(X)
    elif isinstance(trial, (PrivateEstimator, Ridge, DPPCA)):
        validate_estimator_features(trial, few, reset=True)
