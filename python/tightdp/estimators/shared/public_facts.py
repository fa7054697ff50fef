"""Builds the statements of fitted models from the facts that a fit took to be public and from its releases."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...bound import Bound
from ...composition import Composition
from ...ledger.payment import LedgerPayment
from ...records.record_cells import describe_cell_type
from ...statement import Statement
from ...statement.column_words import OCCURRING, state_fact_of_labels
from ...statement.wording import (
    AGAIN,
    RECORDS,
    format_stated_exactly,
    list_stated_values,
    state_noisy_record_count,
    state_public_record_count,
)

# A sentence for statements of fits whose features have no declared bounds.
UNSCALED = (
    "How the features were made: they were used as they are, so the guarantee leaves out whatever was fitted to the "
    "data to make them, such as a scaler."
)


class TargetFacts(NamedTuple):
    """The facts about the targets in the statement of a fit."""

    public: Mapping[str, str]
    """Facts that the fit takes to be public, by name."""
    taken: tuple[str, ...] = ()
    """Names of the public facts that the fit read off the targets."""
    released: tuple[str, ...] = ()
    """Descriptions of the releases that came before the training."""


def describe_public_facts_of_labels(
    classes: NDArray[Any], how: str, weights: Mapping[Any, float] | None
) -> TargetFacts:
    """Returns the facts about the labels of a classifier and about their declared weights.

    ``how`` says how the labels are known: "declared", "those that occur" or "learned".
    """
    fact = state_fact_of_labels([str(label) for label in classes])
    public = {fact.name: fact.occurring_text if how == OCCURRING else fact.declared_text}
    if how == "learned":
        public = {"type of the labels": f"assumed, as y brings it: {describe_cell_type(classes.dtype)}"}
    if weights is not None:
        others = "" if all(label in weights for label in classes.tolist()) else "; 1 for the others"
        public["weights of labels"] = (
            f"declared: {list_stated_values([f'{k}: {format_stated_exactly(v)}' for k, v in weights.items()])}{others}"
        )
    shown = fact.describe_release("records with any other label contribute nothing")
    return TargetFacts(public, (fact.name,) if how == OCCURRING else (), (shown,) if how == "learned" else ())


def build_estimator_statement(
    subject: str,
    model: Any,
    facts: TargetFacts,
    *,
    privacy: Bound,
    charged: Composition,
    size: int,
    largest_weight: float | None,
    parameters: int,
    payment: LedgerPayment,
    settings: Mapping[str, str],
) -> Statement:
    """Returns the statement of a fitted ``PrivateEstimator``."""
    counted = model.public_size is None
    by_weight = largest_weight is not None or "weights of labels" in facts.public
    each = ", each counted by its weight over the largest" if by_weight else ""
    number = "private, and a noisy count was released" if counted else state_public_record_count(model.public_size)
    public = {
        RECORDS: number + each,
        "columns": f"their number, {model.n_features_in_}, and their order",
        **facts.public,
        "bounds of the features": "none"
        if model.bounds is None
        else f"declared: {describe_public_fact_of_bounds(model.bounds)}",
    }
    if largest_weight is not None:
        largest = f"at most {largest_weight!r}, as declared: larger ones count as that"
        public["weights of the records"] = f"each public, or a function of its own record; {largest}"
    runs, apart = model._runs
    if runs > 1:
        alone = f", of which {apart:,} on records that no earlier one has seen, as the caller states" if apart else ""
        public["runs"] = f"{runs:,}, each from where the last one ended{alone}"
    released = [*facts.released, f"the fitted parameters, {parameters:,} numbers"]
    if counted:
        released.append(f"{state_noisy_record_count(size)}{each}")
    return Statement(
        subject,
        privacy,
        float(model.delta),
        charged,
        released=tuple(released),
        public=public,
        size=size,
        taken=facts.taken,
        seeded=model.random_state is not None,
        outside=(AGAIN,) if model.bounds is not None else (UNSCALED, AGAIN),
        ledger=payment.ledger_text,
        settings=settings,
        dataset=None if payment.ledger is None else payment.ledger.dataset,
    )


def _list_chosen_algorithm_settings(algorithm: Any) -> dict[str, Any]:
    """Returns the settings of an algorithm that are not None."""
    fields = dataclasses.fields(algorithm) if dataclasses.is_dataclass(algorithm) else ()
    return {field.name: value for field in fields if (value := getattr(algorithm, field.name)) is not None}


def describe_algorithm_as_public_fact(algorithm: Any) -> str:
    """Returns an algorithm as text, without the settings that are None."""
    if not dataclasses.is_dataclass(algorithm):
        return repr(algorithm)
    settings = ", ".join(f"{name}={value!r}" for name, value in _list_chosen_algorithm_settings(algorithm).items())
    return f"{type(algorithm).__name__}({settings})"


def describe_estimator_settings(algorithm: Any, used: Mapping[str, Any], regularization: float) -> dict[str, str]:
    """Returns the settings of a run as texts: the algorithm's given settings, and the settings that the plan chose."""
    known = {**_list_chosen_algorithm_settings(algorithm), **used, "regularization": float(regularization)}
    return {name: repr(value) for name, value in known.items()}


def join_estimator_statements(earlier: Statement, last: Statement) -> Statement:
    """Returns one statement for runs that continued one another, with the entries of both statements."""
    return dataclasses.replace(
        last,
        subject=earlier.subject + ("" if earlier.subject.endswith(last.subject) else f", then {last.subject}"),
        released=_join_estimator_lines(earlier.released, last.released),
        public=_join_public_fact_entries(earlier.public, last.public),
        settings=_join_public_fact_entries(earlier.settings, last.settings),
        taken=_join_estimator_lines(earlier.taken, last.taken),
        seeded=earlier.seeded or last.seeded,
        outside=_join_estimator_lines(earlier.outside, last.outside),
        ledger="; ".join(_join_estimator_lines((earlier.ledger,), (last.ledger,))) or None,
    )


def _join_public_fact_entries(earlier: Mapping[str, str], last: Mapping[str, str]) -> dict[str, str]:
    """Joins two mappings. If the texts of an entry differ, the result has both texts, the earlier text first."""
    both = dict(last)
    for name, how in earlier.items():
        if name != "runs" and how not in (known := both.get(name, how)).split("; "):
            both[name] = f"{how}; {known}"
        else:
            both.setdefault(name, how)
    return both


def _join_estimator_lines(earlier: Sequence[str | None], last: Sequence[str | None]) -> tuple[str, ...]:
    """Returns the lines of both sequences, in order and each line once."""
    return tuple(line for line in dict.fromkeys((*earlier, *last)) if line is not None)


def describe_public_fact_of_bounds(given: Any) -> str:
    """Returns public bounds as text, one interval or one for each column."""
    low, high = (np.atleast_1d(np.asarray(b, dtype=np.float64)) for b in given)
    low, high = np.broadcast_arrays(low, high)
    return list_stated_values(
        [f"[{format_stated_exactly(a)}, {format_stated_exactly(b)}]" for a, b in zip(low, high, strict=True)]
    )
