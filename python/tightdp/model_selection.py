"""Private search over settings, with one account for all fits, their scores and the choice.

    from tightdp.model_selection import PrivateSearchCV
    search = PrivateSearchCV(LogisticRegression(), {"regularization": [0, 1e-3, 1e-2]}, epsilon=1.0, delta=1e-6)
    search.fit(X, y).best_params_

Source: Papernot and Steinke (ICLR 2022), with the bounds of ``RepeatAndSelect``. Proofs: docs/theory/tuning.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ._support import _check
from .algorithms.driver import check_records_for_algorithm, make_algorithm_source
from .bound import Bound
from .clipping_and_noise.noise import RandomSource
from .composition import Composition
from .estimators.linear_models import PrivateClassifier
from .estimators.shared.labels import check_label_type_of_blocks, must_learn_labels, require_typed_classifier_labels
from .estimators.shared.ownership import list_estimator_parts as parts_within
from .estimators.shared.ownership import mark_as_estimator_part
from .estimators.shared.preparation import list_classifier_classes_of_block, read_classifier_labels
from .estimators.shared.private_fit import wrap_private_fit
from .estimators.shared.sklearn_interface import BaseEstimator, copy_unfitted_estimator, require_fitted
from .ledger.payment import LedgerPayment
from .mechanisms import Mechanism, RepeatAndSelect
from .pipeline import PrivatePipeline, check_pipeline_table, check_pipeline_targets, check_pipeline_weights
from .preprocessing.transformer_input import (
    check_shape_to_preprocess,
    check_width_to_preprocess,
    select_rows_to_preprocess,
    split_columns_to_preprocess,
)
from .records.blocks import Blocks, Lengths, UnweightedBlockFunction
from .records.sources.choose_source import as_source_blocks
from .records.stream import scan_blocks
from .records.views import BlockView, MappedBlocks, RandomRecordSubset, SelectedRows
from .release_gate.budget import Target
from .release_gate.gate import Gate
from .release_gate.oracle import Query
from .release_gate.search_charge import (
    SearchRun,
    check_search_charge_covered,
    compute_fewest_search_records,
    convert_search_charge_for_ledger,
    find_covering_search_run,
)
from .release_gate.selection import SelectionCoins
from .release_gate.shares import find_remaining_gate_budget_share
from .statement import Statement
from .statement.column_words import state_fact_of_labels
from .statement.wording import AGAIN, format_stated_exactly, list_stated_values

__all__ = ["PrivateSearchCV"]

MOST_SETTINGS = 10_000
"""Largest number of combinations of settings in the grids of a search."""


@dataclass(eq=False, repr=False)
class PrivateSearchCV(BaseEstimator):
    """Chooses settings of a private classifier by private scores, and keeps the model that scored best.

    Each record is held out with probability ``holdout``. The number of runs is random, and ``mean`` on average. Each
    run draws settings from the grid and trains a model on the records that are not held out. The score of the model is
    a noisy count of its right predictions on the held-out records. The best run's model, settings and score are
    released. Nothing else is released, not even the number of runs.

    Parameters
    ----------
    estimator : a classifier of ``tightdp.train``, or a ``PrivatePipeline`` that ends with a classifier. Leave out the
        estimator's epsilon, delta, ledger and random_state.
    param_grid : a mapping of names of settings, as in ``set_params``, to lists of their values; or a list of such
        mappings.
    epsilon, delta : the guarantee of the whole search, add/remove one record.
    mean : the expected number of runs, at least 1. The number of runs has a geometric distribution. More runs cost
        little: ten runs have about 1.6 times the epsilon of one run, and a hundred runs about 2 times.
    holdout : the expected share of records to score on, in (0, 1). ``fit`` raises ValueError if there are so few
        records that all might be held out: fewer than 33 for ``holdout=0.2`` and delta 1e-6.
    random_state : None draws from the operating system's secure generator; an int is for experiments.
    ledger : a ``tightdp.Ledger``, or its path or URL. It is charged for the whole search before a record is used.

    Attributes
    ----------
    best_estimator_, best_params_ : the model of the best run, trained on the records that are not held out, and its
        settings. The model's account and statement cover the whole search, because the choice is part of the cost.
        Training the model further raises RuntimeError. A clone of the model has the search's epsilon and delta, and can
        be trained on other records
    best_score_ : the best model's accuracy on the held-out records, estimated by noisy counts. The estimate is somewhat
        too high, because the model was chosen by its score.
    privacy_, charged_, history_, statement_ : as for classifiers, but of the whole search
    classes_, n_features_in_ : as in scikit-learn.

    Two settings may be charged for different mechanisms besides Gaussians on all records, for example if their batch
    sizes differ. The search is then charged by the epsilon and delta of the settings alone, which costs more. The
    running time depends on the number of runs, and is not protected. Guarantee: docs/theory/tuning.md, section 3.

    >>> import numpy as np
    >>> from tightdp.model_selection import PrivateSearchCV
    >>> from tightdp.train import LogisticRegression

    The labels need an intercept, so the search selects the setting that fits one.

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(6000, 2))
    >>> grid, y = {"fit_intercept": [True, False]}, x[:, 0] > 0.5
    >>> search = PrivateSearchCV(LogisticRegression(), grid, 2.0, 1e-6, mean=8, random_state=0).fit(x, y)
    >>> search.privacy_.upper <= 2, search.best_params_, search.score(x, y) > 0.9
    (True, {'fit_intercept': True}, True)
    """

    estimator: Any
    param_grid: Any
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    mean: float = 10.0
    holdout: float = 0.2
    random_state: int | None = None
    ledger: Any = None

    @wrap_private_fit
    def fit(self, X: Any, y: Any = None) -> Any:
        """Searches privately with X (n, d), an array or a table of columns, and labels y (n,).

        X may also be a memory map, a sparse matrix or a collection of Dask, or ``Blocks``, which hold both X and y. The
        way that the table is divided into blocks has no effect on the result, not even on its last bit.

        Returns the search itself. Raises ValueError or TypeError, which names the argument, before anything is
        released, and ``BudgetExceeded`` if the ledger refuses the charge.
        """
        declared, algorithms = (
            _get_model_selection_classifier(self.estimator).classes,
            self._list_model_selection_algorithms(),
        )
        in_memory = any(getattr(each, "in_memory", False) for each in algorithms)
        blocks = as_source_blocks(X, y, in_memory, texts=isinstance(self.estimator, PrivatePipeline))
        if blocks is None:
            labels, classes, width = self._check_table_for_model_selection(
                X, require_typed_classifier_labels(y) if must_learn_labels(declared) else y
            )
            records = len(labels)
        else:
            counted, classes = self._scan_blocks_for_model_selection(blocks, algorithms, must_learn_labels(declared))
            width, records = blocks.width, int(cast(Lengths, counted.block_lengths).sum())
        present = np.repeat(classes, 3)  # since labels that occur once look like measurements
        if declared is not None and not must_learn_labels(declared):
            classes = read_classifier_labels("classes", declared)[1]
        run, found = self._plan_budget(width, max(2, len(classes)))
        piped = isinstance(self.estimator, PrivatePipeline)
        for _, each in found:
            check_pipeline_targets(_get_model_selection_classifier(each), present, None if piped else width)
            check_pipeline_weights(_get_model_selection_classifier(each), blocks)
        steps = [step for _, step in self.estimator._check_pipeline_steps()] if piped else [self.estimator]
        # Errors in the table are found here, because a fit or a score would find them only after other releases.
        check_pipeline_table(steps, X if blocks is None else counted)
        charge, target = self._charge(run), Target.from_arguments(self.epsilon, self.delta)
        least = compute_fewest_search_records(float(self.holdout), target.delta)
        if records < least:
            raise ValueError(
                f"holdout must leave records to train on: with fewer than {least:,} of them all may be held out"
            )
        source = make_algorithm_source(self.random_state)
        payment = LedgerPayment(self.ledger, "PrivateSearchCV.fit")
        if payment.ledger is not None:
            payment.spend_charge(convert_search_charge_for_ledger(charge, target.delta))
        if blocks is None:
            inner, outer = self._split_table_for_model_selection(X, labels, source)
        else:
            inner, outer = self._split_blocks_for_model_selection(counted, source)
        # Labels that are not declared are taken from all records, and not only from the records to train on.
        self._make_model_selection_runs(found, classes if declared is None else None, inner, outer, run, source)
        self.charged_: Composition = charge
        self.history_: tuple[Mechanism, ...] = tuple(m for m, _ in charge.parts)
        self.privacy_: Bound = charge.epsilon(target.delta)
        self.statement_ = self._build_statement(target.delta, payment.ledger_text)
        self._charge_for_model_selection(self.best_estimator_, target)
        return self

    def _split_table_for_model_selection(
        self, X: Any, labels: NDArray[Any], source: RandomSource
    ) -> tuple[_TablePart, _TablePart]:
        """Returns the records to train on, and the records that are held out at random."""
        outside = source.bernoulli(self.holdout, len(labels))
        _require_records_outside_holdout(len(labels) - int(outside.sum()))
        inner, outer = (
            _TablePart(select_rows_to_preprocess(X, chosen), labels[chosen]) for chosen in (~outside, outside)
        )
        return inner, outer

    def _split_blocks_for_model_selection(
        self, counted: BlockView, source: RandomSource
    ) -> tuple[_TablePart, _TablePart]:
        """Returns two views of the blocks: the records to train on, and the records that are held out at random."""
        stream, lengths = source.stream(), cast(Lengths, counted.block_lengths)
        within, beyond = (RandomRecordSubset(stream, self.holdout, lengths, heads) for heads in (False, True))
        _require_records_outside_holdout(int(within.counts.sum()))
        return _TablePart(SelectedRows(counted, within), None), _TablePart(SelectedRows(counted, beyond), None)

    def _scan_blocks_for_model_selection(
        self, blocks: Blocks, algorithms: Sequence[Any], learned: bool
    ) -> tuple[BlockView, NDArray[Any]]:
        """Returns the blocks, whose records are now counted, and the distinct labels in them."""
        check_width_to_preprocess(self, blocks, blocks.width, reset=True)
        for each in algorithms:
            check_records_for_algorithm(each, True)
        if learned:
            check_label_type_of_blocks(blocks)
        counted, seen = scan_blocks(blocks, list_classifier_classes_of_block)
        return counted, np.unique(np.concatenate(seen))

    def _check_table_for_model_selection(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any], int]:
        """Returns the labels of a table in memory, the distinct labels, and the number of columns of the table."""
        if y is None:
            raise ValueError("y must be given: PrivateSearchCV requires y to be passed, but the target y is None")
        columns = split_columns_to_preprocess(X)
        check_shape_to_preprocess(self, X, columns, reset=True)
        labels, classes = read_classifier_labels("y", y)
        if len(labels) != len(columns[0]):
            raise ValueError(f"y must have one label for each record: got {len(labels)} for {len(columns[0])} records")
        return labels, classes, len(columns)

    def _list_model_selection_algorithms(self) -> list[Any]:
        """Returns the algorithm of each combination of settings. The default algorithm is None."""
        made = (
            copy_unfitted_estimator(self.estimator).set_params(**copy_model_selection_settings(each))
            for each in self._list_model_selection_candidates()
        )
        return [_get_model_selection_classifier(each).algorithm for each in made]

    def _charge_for_model_selection(self, best: Any, target: Target) -> None:
        """Makes the best model and each part of it report the charge of the search.

        The charge of a single fit would not cover the choice among the fits.
        """
        for part in parts_within(best):
            part.charged_, part.history_, part.privacy_ = self.charged_, self.history_, self.privacy_
            part.statement_ = self.statement_
            mark_as_estimator_part(part, self)
        best.set_params(epsilon=target.epsilon, delta=target.delta)

    def charge_for(self, n_features: int, n_classes: int = 2) -> Composition:
        """Returns the charge of ``fit`` on tables of ``n_features`` columns, without reading a record.

        ``n_classes`` is the number of labels, an integer >= 2. Raises the errors that ``fit`` would raise about the
        settings.
        """
        return self._charge(self._plan_budget(_check.check_count_argument("n_features", n_features), n_classes)[0])

    def _charge(self, run: SearchRun) -> Composition:
        return RepeatAndSelect(run.charge, self.mean) * 1

    def _list_model_selection_candidates(self) -> list[dict[str, Any]]:
        """Returns all combinations of settings in the grids."""
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        if not isinstance(grids, Sequence) or not grids or not all(isinstance(grid, Mapping) for grid in grids):
            raise TypeError(f"param_grid must map settings to lists of values, or be a list of such: {grids!r}")
        for grid in grids:
            for name, values in grid.items():
                if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
                    raise ValueError(f"param_grid must map {name!r} to a list of one or more values, got {values!r}")
        if sum(math.prod(len(values) for values in grid.values()) for grid in grids) > MOST_SETTINGS:
            raise ValueError(f"param_grid must have at most {MOST_SETTINGS:,} settings")
        return [dict(zip(grid, values, strict=True)) for grid in grids for values in itertools.product(*grid.values())]

    def _plan_budget(self, n_features: int, n_classes: int) -> tuple[SearchRun, list[tuple[dict[str, Any], Any]]]:
        """Returns the charge of one run, and each combination of settings with its estimator. Reads no record."""
        target = Target.from_arguments(self.epsilon, self.delta)
        if target.epsilon is None:
            raise ValueError("epsilon must be given, a number in (0, 1e6]")
        make_algorithm_source(self.random_state)
        mean, _ = _check.at_least_one("mean", self.mean), _check.open_unit("holdout", self.holdout)
        _get_model_selection_classifier(self.estimator)
        for setting in ("epsilon", "delta", "ledger", "random_state"):
            if getattr(self.estimator, setting) is not None:
                raise ValueError(f"{setting} of the estimator must be None: the search has one for all runs")
        candidates = self._list_model_selection_candidates()
        if any(name in ("epsilon", "delta", "ledger", "random_state") for each in candidates for name in each):
            raise ValueError("param_grid must not hold epsilon, delta, ledger or random_state: these are the search's")
        # A mechanism with a delta may fail in every run, so the delta of a run is only a small part of the search's.
        failing = target.delta / (4 * mean)
        made = [
            (
                each,
                copy_unfitted_estimator(self.estimator).set_params(
                    **copy_model_selection_settings(each), delta=failing
                ),
            )
            for each in candidates
        ]
        for _, estimator in made:
            for name, value in estimator.get_params().items():
                if name.rpartition("__")[2] == "public_size" and value is not None:
                    whole = _check.check_count_argument("public_size", value)
                    estimator.set_params(**{name: max(1, round((1 - self.holdout) * whole))})

        def find_run_for_model_selection(epsilon: float) -> SearchRun:
            charges = [each.set_params(epsilon=epsilon).charge_for(n_features, n_classes) for _, each in made]
            return find_covering_search_run(charges, epsilon, failing)

        asked = {"epsilon": target.epsilon, "delta": target.delta, "start": target.epsilon / 2}
        return find_remaining_gate_budget_share(find_run_for_model_selection, self._charge, **asked), made

    def _make_model_selection_runs(
        self,
        found: list[tuple[dict[str, Any], Any]],
        classes: NDArray[Any] | None,
        inner: _TablePart,
        outer: _TablePart,
        run: SearchRun,
        source: RandomSource,
    ) -> None:
        """Makes the runs, and keeps the best model. If the runs are interrupted, nothing is kept."""
        coins, trials = SelectionCoins(source), 0
        best: tuple[tuple[float, int], Any, dict[str, Any]] = (-math.inf, 0), None, {}
        while True:
            settings, estimator = found[coins.draw_gate_selection_index(len(found))]
            model = copy_unfitted_estimator(estimator)
            if classes is not None:
                _get_model_selection_classifier(model).classes = classes
            if self.random_state is not None:
                model.set_params(random_state=(int(self.random_state) + 1000 * (trials + 1)) % 2**64)
            model.fit(inner.X, inner.y)
            check_search_charge_covered(model.charged_, run.charge)
            right = build_model_selection_query(model, outer.X, outer.y)
            count = Gate(_PaidModelSelection(), source).release_gaussian(right, run.score).value[0]
            score = count, int(source.integers(1)[0])  # ties between equal counts are broken at random
            if score > best[0]:
                best = score, model, dict(settings)
            trials += 1
            if not draw_another_model_selection_run(float(self.mean), coins):
                break
        (count, _), self.best_estimator_, self.best_params_ = best
        trained = _get_model_selection_classifier(self.best_estimator_).public_size_
        held = trained * self.holdout / (1 - self.holdout)
        self.best_score_ = float(min(max(count / held, 0.0), 1.0))
        self.classes_ = _get_model_selection_classifier(self.best_estimator_).classes_

    def _build_statement(self, delta: float, ledger: str | None) -> Statement:
        """Makes the statement of the whole search from the best model's statement."""
        made: Statement = self.best_estimator_.statement_
        names = sorted({name for each in self._list_model_selection_candidates() for name in each})
        labels = next((key for key in made.public if key == "labels" or key.endswith(": labels")), "labels")
        own = _get_model_selection_classifier(self.estimator).classes is None
        public = dict(made.public)  # learned labels have no entry
        if own:
            public[labels] = state_fact_of_labels([str(label) for label in self.classes_]).occurring_text
        return Statement(
            f"PrivateSearchCV over {list_stated_values(names)}; the best of its runs: {made.subject}",
            self.privacy_,
            delta,
            self.charged_,
            released=(*made.released, "the settings of the best run", "its noisy number of right predictions"),
            public={
                **public,
                "settings to choose from": f"declared: {len(self._list_model_selection_candidates()):,}",
                "share of records that are held out": f"declared: {format_stated_exactly(self.holdout)}",
            },
            size=made.size,
            taken=(labels,) if own else made.taken,
            seeded=self.random_state is not None or made.seeded,
            outside=(*(line for line in made.outside if line != AGAIN), AGAIN),
            ledger=ledger,
        )

    def _require_best_estimator(self) -> Any:
        require_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """Returns the best model's predictions for the rows of ``X`` (n, d), shape (n,).

        Raises ``NotFittedError`` before ``fit``.
        """
        return self._require_best_estimator().predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Returns the best model's accuracy on other records, features ``X`` (n, d) and labels ``y`` (n,).

        ``sample_weight`` has one number >= 0 for each record. The accuracy is not private. ``tightdp.metrics`` has a
        private accuracy.
        """
        found: float = self._require_best_estimator().score(X, y, sample_weight)
        return found

    def __getattr__(self, name: str) -> Any:
        """Returns ``predict_proba``, ``predict_log_proba`` or ``decision_function`` if the best model has it."""
        if name in ("predict_proba", "predict_log_proba", "decision_function"):
            owner = vars(self).get("best_estimator_", self.estimator)
            if hasattr(owner, name):
                return lambda X: getattr(self._require_best_estimator(), name)(X)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        tags, of = super().__sklearn_tags__(), self.estimator.__sklearn_tags__()
        for name in ("estimator_type", "classifier_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(of, name))
        return tags


class _TablePart(NamedTuple):
    """Records that a run trains on or scores on."""

    X: Any
    y: NDArray[Any] | None
    """Labels of the records. None if X is ``Blocks``, which hold the labels."""


class _PaidModelSelection:
    """A budget that charges nothing. A score uses this budget, because the whole search was charged before."""

    def spend(self, mechanism: Mechanism) -> None:
        pass

    def charge(self) -> Composition:
        return Composition()


def _require_records_outside_holdout(number: int) -> None:
    """Raises ValueError if no record is left to train on."""
    if not number:
        raise ValueError("holdout must leave records to train on: all were held out. The charge stands")


def draw_another_model_selection_run(mean: float, coins: SelectionCoins) -> bool:
    """Draws whether another run follows: True with probability 1 - 1/mean, exactly.

    There are ``mean`` runs on average.
    """
    chance = 1 - 1 / Fraction(mean)
    return coins.flip_gate_coin_with_probability(chance.numerator, chance.denominator)


def build_model_selection_query(model: Any, X: Any, y: NDArray[Any] | None) -> Query:
    """Returns the query for the number of right predictions.

    A record with a feature that is not finite counts as wrong.
    """
    last = model.steps_[-1][1] if isinstance(model, PrivatePipeline) else model

    def evaluate_model_selection_score(source: RandomSource) -> NDArray[np.int64]:
        if isinstance(X, Blocks):
            made = X if last is model else MappedBlocks(X, model._transform_block)
            count = UnweightedBlockFunction(partial(_count_right_for_model_selection, last))
            return sum(made.map_each_block(count), np.zeros(1, np.int64))
        if y is None or not len(y):
            return np.zeros(1, np.int64)
        return _count_right_for_model_selection(last, X if last is model else model._transform_values(X), y)

    return Query((1,), 1.0, 1.0, 1.0, evaluate_model_selection_score)


def _count_right_for_model_selection(last: Any, features: Any, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the number of right predictions of a classifier on some records, as an array of one number."""
    if not len(labels):
        return np.zeros(1, np.int64)
    features = np.asarray(features, dtype=np.float64)
    whole = np.asarray(np.isfinite(features).all(axis=1))
    predicted = last.predict(np.where(whole[:, None], features, 0.0))
    return np.array([np.sum(np.asarray(predicted == labels) & whole)], np.int64)


def copy_model_selection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in which estimators are copied, so that no two runs share an estimator."""
    return {
        name: copy_unfitted_estimator(value) if hasattr(value, "get_params") else value
        for name, value in settings.items()
    }


def _get_model_selection_classifier(estimator: Any) -> Any:
    """Returns the classifier, which is the estimator itself or the last step of a pipeline."""
    last = estimator
    if isinstance(estimator, PrivatePipeline):
        last = (estimator.steps_ if hasattr(estimator, "steps_") else estimator.steps)[-1][1]
    if not isinstance(last, PrivateClassifier):
        raise TypeError(f"estimator must be a private classifier, or a PrivatePipeline with one, got {estimator!r}")
    return last
