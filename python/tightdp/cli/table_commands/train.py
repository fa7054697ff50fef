"""tightdp train: a CSV file in, a private linear model and its privacy statement out.

--model logistic and svm predict one of the --classes. --model ridge predicts a number within --target-bounds. The ridge
model is computed from one noisy second moment, and takes no --algorithm."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._support.number_texts import format_up
from ..._support.strict_json import parse_json
from ...accounting.running_accounts.filters import BudgetExceeded
from ...estimators.catalog import ALGORITHMS, MODELS
from ...estimators.regression import Ridge
from ...ledger import Ledger, LedgerError
from ...ledger.payment import list_ledger_releases
from ...records.column_encodings import (
    LEARN,
    CategoryColumn,
    Column,
    LearnedColumn,
    NumberColumn,
    encode_record_columns,
)
from ...records.schema import MOST, Schema, plan_record_schema_columns
from ...records.sources.rows import Rows
from ...records.text import parse_cell_number
from ...statement import Statement
from ...statement.column_words import (
    StatedColumnFact,
    state_fact_of_categories,
    state_fact_of_column_bounds,
    state_fact_of_labels,
    state_fact_of_missing,
)
from ...statement.wording import AGAIN, RECORDS, list_stated_values, make_statement_line
from ...tables.model_file import REGRESSION, TableModel
from .. import command_files
from ..accounting_commands.number import parse_integer_argument, parse_real_argument
from ..progress import ProgressBar
from . import declarations
from .learned_columns import (
    build_command_pipeline,
    count_command_classes,
    fit_learned_columns,
    warn_command_of_doubtful_bounds,
)
from .verify import MISSING_CHECKER, verify_certificate_for_command

KEPT_FACTS = (RECORDS, "bounds of the target")
"""Names of the public facts that the statement in a model file copies from the statement of the fit."""
DOUBTFUL_SHARE = 0.5
"""A note is printed if more than this share of the records lies beyond a column's bounds, because the bounds are then
probably wrong."""
EPILOG = f"""\
A column of numbers is clipped to public --bounds and mapped to [0, 1]. Without bounds all of its values must lie in
[0, 1]. A column of texts makes one feature for each category. You may publish the model file: it holds the weights,
the encoding and the privacy statement.

The model file lists labels and categories, so a value that only one record has would reveal that record. Therefore
declare them by --classes and --categories, at most {MOST:,} of each, chosen without looking at the data. Values that
were not declared appear nowhere: such a category becomes a row of zeros, as a missing one does, and a record with such
a label contributes nothing. --public-values declares instead that all values that occur are public knowledge, as the
sexes in a census are. Nobody can check this for you. --schema declares everything in a file, which tightdp schema
drafts for your review.

What you do not know without the records can be learned with noise, and the charge then includes it: --learn-classes and
--learn-categories release the values that occur often, by noisy counts; --learn-bounds releases private quantiles, and
--fill COLUMN=learn a private median. Records with a label that was not learned contribute nothing.

These facts are taken to be public, and you must check them: the names of the columns, the declared labels, categories
and bounds, and --public-size (without it, a noisy count of the records is released). Accuracy on the training data is
not printed, because it is not private. What is printed on standard error is for those who hold the data. """


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    _add_train_model_arguments(p)
    _add_train_charge_arguments(p)
    _add_train_output_arguments(p)


def _add_train_model_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options that say what is trained on which table."""
    p.add_argument("data", type=Path, help="CSV file with a header, plain or gzip, or a Parquet or Arrow file")
    declarations.add_declaration_arguments(p)
    p.add_argument(
        "--model",
        choices=[*MODELS, REGRESSION],
        default=next(iter(MODELS)),
        help="kind of model (default: %(default)s)",
    )
    p.add_argument(
        "--target-bounds", metavar="LOW:HIGH", help="public bounds of the label, for --model ridge (default: none)"
    )
    p.add_argument(
        "--algorithm",
        choices=list(ALGORITHMS),
        default=next(iter(ALGORITHMS)),
        help="how it is trained (default: %(default)s)",
    )
    p.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the algorithm (default: its own)"
    )


def _add_train_charge_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options that say what the training may cost, and which ledger pays."""
    p.add_argument("--epsilon", type=parse_real_argument, help="target, > 0 (default: the noise_multiplier of --set)")
    p.add_argument(
        "--delta",
        type=parse_real_argument,
        required=True,
        help="of the guarantee; below one over the number of records",
    )
    p.add_argument(
        "--public-size",
        type=parse_integer_argument,
        help="a public number of records (default: a noisy count is released)",
    )
    p.add_argument(
        "--regularization",
        type=parse_real_argument,
        help="strength of the penalty on weights, >= 0 (default: 0, and for --model ridge what the noise takes)",
    )
    p.add_argument("--allow-missing", action="store_true", help="records with missing numbers contribute nothing")
    p.add_argument(
        "--test", type=Path, metavar="CSV", help="also print the accuracy on this file, not private (default: none)"
    )
    p.add_argument(
        "--seed",
        type=parse_integer_argument,
        help="reproducible noise, NOT for releases (default: the secure generator)",
    )
    p.add_argument("--ledger", metavar="LEDGER", help="spend from this ledger first (tightdp ledger; default: none)")
    p.add_argument(
        "--certify",
        action="store_true",
        help="put a certificate of the bound into the statement, which tightdp verify proves (needs python-flint)",
    )


def _add_train_output_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options that say what is written and printed."""
    p.add_argument(
        "--dry-run", action="store_true", help="check everything, and print what it would charge; nothing is spent"
    )
    p.add_argument("--out", type=command_files.read_output_path, help="model file (default: DATA.model.json)")
    p.add_argument("--force", action="store_true", help="replace a model file if there is one, which cost budget")
    command_files.add_cli_file_format_arguments(p)
    p.add_argument("--progress", action="store_true", help="draw the progress bar even when not on a terminal")
    p.add_argument("--json", action="store_true", help="print the statement as JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Trains a model and writes it to a file. Raises ValueError, TypeError or OSError with one line for bad input."""
    out = arguments.out or command_files.make_cli_file_path_near_data(arguments.data, ".model.json")
    if arguments.certify and importlib.util.find_spec("flint") is None:
        raise ValueError(f"--certify {MISSING_CHECKER}")
    read = (arguments.data, arguments.test, arguments.schema)
    command_files.check_command_output(out, arguments.force, read, command_files.MODEL)
    if arguments.dry_run:
        return _train_command_model(arguments, out, None)
    with command_files.reserve_command_output(out) as place:
        return _train_command_model(arguments, out, place)


def _train_command_model(arguments: argparse.Namespace, out: Path, place: Path | None) -> int:
    """Reads the table, trains a model on it under one budget, writes the model and prints the statement.

    All errors in the files and settings are reported before anything is spent. The model is written to ``place``, a
    reserved file that is then renamed to ``out`` in one step. If ``place`` is None, nothing is trained or spent, and
    the charge of training is printed. Returns the exit code.
    """
    arguments.ledger = None if arguments.ledger is None else Ledger(arguments.ledger)
    regressor, values = _make_command_regressor(arguments), declarations.read_declarations(arguments)
    written = command_files.read_cli_file_format_arguments(arguments)
    written = dataclasses.replace(written, missing=written.missing.union(values.missing))
    rows = Rows.read(arguments.data, written)
    labels = () if regressor is not None else declarations.list_labels_declared_on_command_line(values, rows)
    planned = plan_record_schema_columns(
        rows, values, declarations.list_categories_declared_on_command_line(values, rows)
    )
    columns = tuple(column for column in planned if not isinstance(column, LearnedColumn))
    X = encode_record_columns(rows, columns, allow_missing=arguments.allow_missing) if columns == planned else None
    if X is None and regressor is not None:
        raise ValueError(f"--model {REGRESSION}: takes declared columns alone, not --learn-bounds and the like")
    y: Any
    if regressor is None:
        y, kept = _read_command_labels(rows, values.label, labels)
    else:
        y, kept = _read_command_targets(rows, values.label)
    _note_undeclared_command_columns(rows, columns)
    test = None if arguments.test is None else Rows.read(arguments.test, written)
    if test is not None and columns:  # errors in the test file are reported before anything is spent
        encode_record_columns(test, columns, allow_missing=False)
        _read_command_test_truth(test, values.label, regressor)
    progress = ProgressBar(arguments.progress or (sys.stderr.isatty() and not arguments.json))
    classifier: Any = regressor or _make_command_classifier(arguments, labels, progress)
    if place is None:
        return _print_command_charge(arguments, planned, classifier, X, int(kept.sum()))
    try:
        if X is None:
            columns, classifier, statement = fit_learned_columns(rows, kept, y, planned, classifier, arguments)
        else:
            X[~kept] = np.nan  # a record outside of the mask contributes nothing
            statement = classifier.set_params(ledger=arguments.ledger).fit(X, y).statement_
    finally:
        progress.close()
    classes = () if regressor is not None else tuple(classifier.classes_.tolist())
    statement = _describe_command_columns(values, classes, columns, planned, statement)
    weights = np.atleast_2d(classifier.coef_), np.atleast_1d(classifier.intercept_)
    statement = _complete_command_statement(arguments, statement)
    model = TableModel(arguments.model, values.label, classes, columns, *weights, statement)
    _save_command_model(model, place, out)
    if arguments.ledger is not None:
        _record_command_parameters(arguments.ledger, model.statement)
    command_files.put_command_output_in_place(place, out, arguments.force)
    private: dict[str, Any] = {"model_file": str(out)}
    if test is not None:
        features = encode_record_columns(test, columns, allow_missing=False)
        score = classifier.score(features, _read_command_test_truth(test, values.label, regressor))
        private["test_accuracy_not_private" if regressor is None else "test_r2_not_private"] = round(float(score), 6)
    _print_train_command_result(model.statement, private, arguments.json)
    return 0


def _complete_command_statement(arguments: argparse.Namespace, statement: Statement) -> Statement:
    """Returns the statement with the name of its data set and, if one is asked for, a certificate of its bound."""
    dataset = arguments.data.name if arguments.ledger is None else arguments.ledger.dataset
    statement = dataclasses.replace(statement, dataset=dataset)
    return _add_train_command_certificate(statement) if arguments.certify else statement


def _add_train_command_certificate(statement: Statement) -> Statement:
    """Returns the statement with a certificate of its bound.

    If the bound is not proved, or the certificate would be too long, prints a note and returns the statement as it is.
    """
    try:
        certified = dataclasses.replace(statement, certified=True)
        assert certified.certificate is not None
        found = verify_certificate_for_command(certified.certificate.to_json(), patient=False)
    except ValueError as error:
        _print_private_command_note(f"the statement has no certificate: {error}")
        return statement
    if found is not None and found[0]:
        return certified
    steps = [] if found is None else [line for line in found[1].split("\n") if "not verified" in line]
    _print_private_command_note(
        f"the statement has no certificate, because its bound was not proved: {'; '.join(steps)}"
    )
    return statement


def _save_command_model(model: TableModel, place: Path, out: Path) -> None:
    """Writes the model to ``place``.

    If that fails, the model is printed on standard output, because its budget is spent, and OSError is raised.
    """
    try:
        model.save(place)
    except OSError as error:
        print(json.dumps(model.to_dict(), allow_nan=False))
        raise OSError(
            f"--out {out}: {error.strerror}. The model, which cost budget, is on standard output: keep it"
        ) from error


def _record_command_parameters(ledger: Ledger, statement: Statement) -> None:
    """Writes the hash of the model to the ledger that paid for the model. If that fails, prints a note."""
    try:
        for release in list_ledger_releases(ledger, statement.ledger or ""):
            ledger.record_parameters(release, str(statement.parameters))
    except (LedgerError, BudgetExceeded) as error:  # the model is kept all the same, since it cost budget
        _print_private_command_note(
            f"the ledger was charged, and does not know which parameters were released: {error}"
        )


def _print_command_charge(
    arguments: argparse.Namespace,
    planned: tuple[Column | LearnedColumn, ...],
    classifier: Any,
    X: NDArray[np.float64] | None,
    records: int,
) -> int:
    """Prints the charge of training, and the spent share of the ledger before and after the charge.

    Returns the exit code, which is 3 if the ledger does not cover the charge.
    """
    model: Any = classifier
    width = len(planned) if X is None else X.shape[1]
    if X is None:
        model = build_command_pipeline(planned, classifier, arguments)
        warn_command_of_doubtful_bounds(model, width, classifier, arguments.public_size or records)
    classes, ledger = count_command_classes(classifier), arguments.ledger
    charge = model.charge_for(width, classes)
    bound = charge.epsilon(arguments.delta)
    plain: dict[str, Any] = {"epsilon": bound.upper, "delta": arguments.delta, "charged": repr(charge)}
    lines = [
        f"Would be charged: {charge!r}",
        f"epsilon <= {format_up(bound.upper)} at delta {arguments.delta:g}. Nothing was spent",
    ]
    covered = True
    if ledger is not None:
        before, after = ledger.spent, ledger.spent_after(charge)
        covered = math.isfinite(after)
        plain |= {"spent": before, "spent_after": after if covered else None}
        share = f"then {format_up(after, '.1%')}" if covered else "which does not cover this run"
        lines.append(f"Ledger of {make_statement_line(ledger.dataset)}: {format_up(before, '.1%')} spent, {share}")
    print(json.dumps(plain) if arguments.json else "\n".join(lines))
    return 0 if covered else 3


def _read_command_labels(
    rows: Rows, label: str, labels: tuple[str, ...] | Literal["learn"]
) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """Returns the labels, and a mask of the records whose label is declared.

    Records outside of the mask must contribute nothing. If labels are to be learned, the mask includes all records.
    """
    if labels == LEARN:
        cells = np.array(rows.get_source_column(label))
        return cells, np.ones(len(cells), dtype=bool)
    undeclared = rows.mark_undeclared(label, labels)
    _check_declared_command_values(rows, label, labels, undeclared)
    _note_undeclared_train_command_values(rows, label, undeclared, "contribute nothing")
    for name in sorted(set(labels) - set(rows.get_source_column(label))):
        _print_private_command_note(f"no record has the label {name!r}")
    known = np.array(
        [labels[0] if skip else y for y, skip in zip(rows.get_source_column(label), undeclared, strict=True)]
    )
    return known, ~undeclared


def _make_command_classifier(
    arguments: argparse.Namespace, labels: tuple[str, ...] | Literal["learn"], progress: ProgressBar
) -> Any:
    """Returns the classifier that the options describe. Its training is shown by ``progress``."""
    return MODELS[arguments.model](
        _build_command_algorithm(arguments.algorithm, arguments.set),
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        classes=labels if labels == LEARN else np.array(labels),
        public_size=arguments.public_size,
        regularization=arguments.regularization or 0.0,
        random_state=arguments.seed,
        callback=lambda done, total: progress(done, total),  # copies of the classifier share ``progress``
    )


def _make_command_regressor(arguments: argparse.Namespace) -> Ridge | None:
    """Returns the regression that the options describe, for features in [0, 1]. Returns None if the options describe a
    classifier."""
    text = arguments.target_bounds
    if arguments.model != REGRESSION:
        if text is not None:
            raise ValueError(f"--target-bounds {text}: must be left out unless --model {REGRESSION} is given")
        return None
    if arguments.set or arguments.public_size is not None or arguments.algorithm != next(iter(ALGORITHMS)):
        raise ValueError(f"--model {REGRESSION}: takes no --algorithm, --set or --public-size")
    if text is None:
        raise ValueError(
            f"--target-bounds LOW:HIGH must be given with --model {REGRESSION}: public bounds of the label"
        )
    low, _, high = text.partition(":")
    ends = parse_cell_number(low), parse_cell_number(high)
    if ends[0] is None or ends[1] is None or not -math.inf < ends[0] < ends[1] < math.inf:
        raise ValueError(f"--target-bounds {text}: must be LOW:HIGH with LOW < HIGH, both finite")
    return Ridge(
        arguments.epsilon,
        arguments.delta,
        bounds=(0.0, 1.0),
        target_bounds=ends,
        regularization=arguments.regularization,
        random_state=arguments.seed,
    )


def _read_command_targets(rows: Rows, label: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the numbers to predict, and a mask of the records that have such a number.

    Records outside of the mask must contribute nothing.
    """
    values = rows.read_source_numbers(label, allow_missing=True)
    missing = np.isnan(values)
    if missing.any():
        _print_private_command_note(
            f"{missing.sum():,} of {len(values):,} records have no number {label!r}, and contribute nothing"
        )
    return np.where(missing, 0.0, values), ~missing


def _read_command_test_truth(test: Rows, label: str, regressor: Ridge | None) -> Any:
    """Returns the true labels of the test file, or for a regression the true numbers."""
    return test.get_source_column(label) if regressor is None else test.read_source_numbers(label, allow_missing=False)


def _note_undeclared_command_columns(rows: Rows, columns: tuple[Column, ...]) -> None:
    """Prints notes on undeclared categories, and on columns whose numbers are mostly beyond the bounds.

    Raises ValueError if no record has a declared category.
    """
    for column in columns:
        if isinstance(column, CategoryColumn):
            undeclared = rows.mark_undeclared(column.name, column.categories)
            _check_declared_command_values(rows, column.name, column.categories, undeclared)
            _note_undeclared_train_command_values(rows, column.name, undeclared, "have a row of zeros there")
        elif isinstance(column, NumberColumn):
            values = rows.read_source_numbers(column.name, allow_missing=True)
            beyond = (values < column.low) | (values > column.high)
            if beyond.mean() > DOUBTFUL_SHARE:
                _print_private_command_note(
                    f"{beyond.sum():,} of {len(rows):,} records are beyond the bounds of {column.name!r}"
                )


def _check_declared_command_values(
    rows: Rows, column: str, values: Sequence[str], undeclared: NDArray[np.bool_]
) -> None:
    """Raises ValueError, before anything is spent, if no record has any of the declared values."""
    if undeclared.all():
        raise ValueError(
            f"{rows.file}: no record has a value of {column!r} that is declared ({list_stated_values(values)}): "
            "nothing could be learned, and nothing was spent. Values are compared letter by letter"
        )


def _note_undeclared_train_command_values(rows: Rows, column: str, undeclared: NDArray[np.bool_], what: str) -> None:
    """Prints a note if some records have an undeclared value, because the declaration may be wrong. The note is for
    whoever holds the data, and is not in the model file.
    """
    if undeclared.any():
        _print_private_command_note(
            f"{undeclared.sum():,} of {len(undeclared):,} records have no declared value of {column!r}, and {what}"
        )


def _print_private_command_note(note: str) -> None:
    """Prints a note for whoever holds the data on standard error."""
    print(f"tightdp: note, not to be published: {note}", file=sys.stderr)


def _build_command_algorithm(name: str, settings: list[str]) -> Any:
    """Returns the algorithm ``name`` with the settings that --set gives, each as a text NAME=VALUE."""
    kind = ALGORITHMS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise ValueError(f"--set {setting}: {name} has the settings {', '.join(sorted(known))} (NAME=VALUE)")
        try:
            values[key] = parse_json(text)
        except ValueError:
            values[key] = text
    return kind(**values)


def _describe_command_columns(
    values: Schema,
    classes: tuple[str, ...],
    columns: tuple[Column, ...],
    planned: tuple[Column | LearnedColumn, ...],
    made: Statement,
) -> Statement:
    """Returns the statement ``made`` of the fit, with the declarations of labels and columns as its public facts."""
    learned = {column.name: column for column in planned if isinstance(column, LearnedColumn)}
    public = {name: how for name, how in made.public.items() if name in KEPT_FACTS}
    labels = [state_fact_of_labels(classes)] if classes and values.classes != LEARN else []
    facts = []
    for column in columns:  # a learned fact is not an assumption
        known = learned.get(column.name)
        if isinstance(column, CategoryColumn):
            if known is None:
                facts.append(state_fact_of_categories(column.name, column.categories))
            continue
        if column.missing is not None and (known is None or known.missing != LEARN):
            facts.append(state_fact_of_missing(column.name, column.missing))
        if known is None or known.bounds != LEARN:
            facts.append(state_fact_of_column_bounds(column.name, column.low, column.high))
    given = {"labels": values.classes, **{f"categories of {name}": one for name, one in values.categories.items()}}
    taken = tuple(name for name, known_values in given.items() if known_values is None)

    def describe_command_facts(assumed: list[StatedColumnFact]) -> dict[str, str]:
        """Returns a text for each fact, by name. The text says whether the fact was declared or read off the
        records."""
        return {fact.name: fact.occurring_text if fact.name in taken else fact.declared_text for fact in assumed}

    public |= {**describe_command_facts(labels), "columns": "their names", **describe_command_facts(facts)}
    return dataclasses.replace(made, public=public, taken=taken, outside=(AGAIN,))


def _print_train_command_result(statement: Statement, private: dict[str, Any], as_json: bool) -> None:
    """Prints the statement, and the score on the test file. The score is written to no file."""
    if as_json:
        print(json.dumps({"statement": statement.to_dict(), **private}))
        return
    print(statement)
    if "test_accuracy_not_private" in private:
        print(f"Accuracy on the test file (not private): {private['test_accuracy_not_private']:.4f}")
    if "test_r2_not_private" in private:
        print(f"R^2 on the test file (not private): {private['test_r2_not_private']:.4f}")
    print(f"Model: {private['model_file']}")
