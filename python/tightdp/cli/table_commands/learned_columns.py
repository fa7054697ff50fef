"""Learns bounds, categories or medians of columns by noisy releases, in one private pipeline with the model."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...pipeline import PrivatePipeline
from ...preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder, PrivateTransformer, SimpleImputer
from ...preprocessing.quantiles import count_records_for_quantiles
from ...records.column_encodings import (
    LEARN,
    CategoryColumn,
    Column,
    LearnedColumn,
    NumberColumn,
    run_attempts_for_record_columns,
)
from ...records.sources.rows import Rows
from ...records.text import join_record_column_names
from ...release_gate.shares import NoiseShare
from ...statement import Statement
from ...statement.column_words import state_fact_of_categories, state_fact_of_column_bounds, state_fact_of_missing

Group = tuple[bool, bool, bool | None]
"""Three facts about a column, by which columns are grouped. They say whether it holds categories, whether its
categories or bounds are learned, and whether the number that replaces missing numbers is learned. The last fact is None
if nothing replaces missing numbers."""


class FittedColumns(NamedTuple):
    """The columns and the classifier that the pipeline of a table learned."""

    columns: tuple[Column, ...]
    """Columns in the order of the model's features."""
    classifier: Any
    statement: Statement


def build_command_pipeline(
    columns: Sequence[Column | LearnedColumn], classifier: Any, arguments: argparse.Namespace
) -> PrivatePipeline:
    """Returns the pipeline that learns a table's columns and trains the model under one budget."""
    if arguments.epsilon is None:
        raise ValueError("--epsilon must be given where bounds, labels, categories or missing numbers are learned")
    groups: dict[Group, list[Any]] = {}
    for column in columns:
        groups.setdefault(_find_group_of_command_column(column), []).append(column)
    parts = [
        (f"part {i}", _build_transformer_of_command(group, members), [column.name for column in members])
        for i, (group, members) in enumerate(groups.items())
    ]
    classifier.set_params(epsilon=None, delta=None, random_state=None)  # the pipeline sets these
    return PrivatePipeline(
        [("columns", ColumnTransformer(parts)), ("model", classifier)],
        arguments.epsilon,
        arguments.delta,
        random_state=arguments.seed,
        ledger=arguments.ledger,
    )


def count_command_classes(classifier: Any) -> int:
    """Returns the number of declared labels, or 2 if labels are to be learned or the model is a regression."""
    classes = getattr(classifier, "classes", "")
    return 2 if isinstance(classes, str) else len(classes)


def fit_learned_columns(
    rows: Rows,
    kept: NDArray[np.bool_],
    labels: NDArray[np.str_],
    columns: Sequence[Column | LearnedColumn],
    classifier: Any,
    arguments: argparse.Namespace,
) -> FittedColumns:
    """Learns the columns and trains on the records that are ``kept``, under one budget."""
    model = build_command_pipeline(columns, classifier, arguments)

    def read_command_cells(column: Column | LearnedColumn) -> Any:
        """Returns a column's texts or numbers for the records that are ``kept``."""
        if _find_group_of_command_column(column)[0]:
            return np.array(rows.get_source_column(column.name), dtype=object)[kept]
        allowed = arguments.allow_missing or getattr(column, "missing", None) is not None
        return rows.read_source_numbers(column.name, allow_missing=allowed)[kept]

    read = run_attempts_for_record_columns([lambda c=c: read_command_cells(c) for c in columns])  # type: ignore[misc]
    table = dict(zip([c.name for c in columns], read, strict=True))
    records = int(kept.sum()) if arguments.public_size is None else arguments.public_size
    warn_command_of_doubtful_bounds(model, len(columns), classifier, records)
    model.fit(table, labels[kept])
    doubtful = find_doubtful_command_bounds(model.steps_[0][1], model.steps_[-1][1].public_size_)
    (_, transformer), (_, trained) = model.steps_
    found = [_read_command_columns(member, names) for _, member, names in transformer.transformers_]
    made = [column for part in found for column in part]
    whole = tuple(column for column in made if isinstance(column, NumberColumn) or column.categories)
    return FittedColumns(
        whole, trained, _state_command_columns(model.statement_, trained.statement_, columns, made, doubtful)
    )


def find_doubtful_command_bounds(transformer: ColumnTransformer, records: int) -> dict[str, str]:
    """Returns a text for each column whose learned bounds cannot be right.

    The text says that there is too much noise for ``records``, the number of records.
    """
    # The pipeline has set both attributes. Infinity and 0.5 are never used: the type checker does not know that the
    # attributes are not None.
    spent = NoiseShare(transformer.noise_multiplier or math.inf, transformer.delta or 0.5)
    parts = [(member, names) for _, member, names in transformer.transformers if member._charge(spent)]
    each = spent.divide_equally(max(1, len(parts)))
    found: dict[str, str] = {}
    for member, names in parts:
        steps = [step for _, step in getattr(member, "transformers", [("", member)]) if step._charge(each)]
        scaler: Any = steps[-1] if steps else None
        if not isinstance(scaler, MinMaxScaler):
            continue
        noise = each.divide_equally(len(steps)).noise_multiplier
        enough = count_records_for_quantiles(len(names), scaler.quantiles, scaler.domain, noise)
        if records < enough:
            why = f"they are learned from about {records:,} records, and with this noise it takes {enough:,}"
            found |= dict.fromkeys(names, why)
    return found


def warn_command_of_doubtful_bounds(model: PrivatePipeline, columns: int, classifier: Any, records: int) -> None:
    """Prints a warning about learned bounds that cannot be right, before any budget is spent.

    The warning is for the holder of the records. It may depend on a private number of records, so it must not be
    published. The statement has the same warning, computed from a number of records that is public or was released.
    """
    plan = model._plan_pipeline(columns, count_command_classes(classifier))
    doubtful = find_doubtful_command_bounds(plan.steps[0][1], records)
    for why in dict.fromkeys(doubtful.values()):
        names = join_record_column_names(name for name, each in doubtful.items() if each == why)
        print(
            f"tightdp: warning, not to be published: bounds of {names} cannot be right: {why}. Declare them, or spend "
            "more",
            file=sys.stderr,
        )


def _find_group_of_command_column(column: Column | LearnedColumn) -> Group:
    """Returns the group of a column. All columns of a group share a transformer."""
    if isinstance(column, CategoryColumn) or (isinstance(column, LearnedColumn) and column.categories):
        return True, isinstance(column, LearnedColumn), None
    fill = None if column.missing is None else column.missing == LEARN
    return False, isinstance(column, LearnedColumn) and column.bounds == LEARN, fill


def _build_transformer_of_command(group: Group, columns: list[Any]) -> PrivateTransformer:
    """Returns the transformer of all columns of a group."""
    categories, learns, fills = group
    if categories:
        return OneHotEncoder(categories=None if learns else [column.categories for column in columns])
    pairs = [column.bounds if isinstance(column, LearnedColumn) else (column.low, column.high) for column in columns]
    scaler = MinMaxScaler(bounds=None if learns else tuple(np.array(ends) for ends in zip(*pairs, strict=True)))
    if fills is None:
        return scaler
    values = None if fills else np.array([column.missing for column in columns])
    filler = SimpleImputer() if fills else SimpleImputer(strategy="constant", fill_value=values)
    return Chain([("fill", filler), ("scale", scaler)])


def _read_command_columns(member: Any, names: list[str]) -> list[Column]:
    """Returns the columns ``names``, with the bounds or categories that the fitted transformer ``member`` has.

    A text column may have no categories, if no value was frequent.
    """
    if isinstance(member, OneHotEncoder):
        return [CategoryColumn(name, known) for name, known in zip(names, member.categories_, strict=True)]
    filler, scaler = (None, member) if isinstance(member, MinMaxScaler) else (step for _, step in member.transformers_)
    fills = [None] * len(names) if filler is None else filler.statistics_.tolist()
    low, high = (ends.tolist() for ends in scaler.bounds_)
    return [NumberColumn(*each) for each in zip(names, low, high, fills, strict=True)]


def _state_command_columns(
    whole: Statement,
    trained: Statement,
    columns: Sequence[Column | LearnedColumn],
    made: Sequence[Column],
    doubtful: dict[str, str],
) -> Statement:
    """Returns the pipeline's statement, with lines that name the table's columns and the learned facts about them."""
    found = {column.name: column for column in made}
    released = []
    for column in columns:
        if not isinstance(column, LearnedColumn):
            continue
        known = found[column.name]
        if isinstance(known, CategoryColumn):
            released.append(state_fact_of_categories(known.name, known.categories).describe_release())
            continue
        if column.bounds == LEARN:
            doubt = f"these cannot be right: {doubtful[column.name]}" if column.name in doubtful else ""
            released.append(state_fact_of_column_bounds(known.name, known.low, known.high).describe_release(doubt))
        if column.missing == LEARN and known.missing is not None:
            released.append(state_fact_of_missing(known.name, known.missing).describe_release())
    return dataclasses.replace(
        whole,
        subject=f"{trained.subject}, with columns as they were learned",
        released=(*released, *trained.released),
        public=trained.public,
        settings=trained.settings,
        taken=trained.taken,
        outside=trained.outside,
    )
