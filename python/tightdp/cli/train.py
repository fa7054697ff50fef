"""tightdp train: a CSV file in, a private linear model and its privacy statement out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..train.catalog import ALGORITHMS, MODELS
from .composition import check_writable
from .csv_table import Category, Column, Rows, encode, plan_columns
from .declared import MOST, Declared, declared
from .progress import Progress

EPILOG = f"""\
Features are numbers clipped to public --bounds (default 0:1, and then all values must lie inside) and mapped to [0,
1], and text columns as one feature a category. The model file holds all that may be published: weights, encoding,
privacy statement. It lists labels and categories, so a value that one record alone has would give that record away.
They are therefore declared, --classes and --categories, at most {MOST:,} of each, chosen without looking at the data;
what occurs and was not declared appears nowhere: a category is then a row of zeros, as one that is missing, and a
record with such a label contributes nothing. --public-values declares instead that all those which occur are public
knowledge, as the sexes in a census are: a promise about the data that nobody can check for you.

Taken as public, and to be checked by you: the names of the columns, labels, categories and bounds, and --public-size
where it is given (a noisy count of the records is released otherwise). Accuracy on the training data is not printed,
for it is not private. What is printed on standard error is for whoever holds the data. """


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("data", type=Path, help="CSV file with a header")
    p.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
    p.add_argument("--model", choices=list(MODELS), default=next(iter(MODELS)))
    p.add_argument("--algorithm", choices=list(ALGORITHMS), default=next(iter(ALGORITHMS)))
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the algorithm")
    p.add_argument("--epsilon", type=float, help="target; left out, the algorithm's own noise_multiplier is reported")
    p.add_argument("--delta", type=float, required=True)
    p.add_argument("--classes", metavar="LABEL,...", help="the labels that the model may predict")
    p.add_argument(
        "--categories", action="append", default=[], metavar="COLUMN=VALUE,...", help="a text column and its values"
    )
    p.add_argument("--categorical", default="", metavar="COLUMN,...", help="text columns whose values are public")
    p.add_argument("--public-values", action="store_true", help="the labels and categories that occur are public")
    p.add_argument("--bounds", action="append", default=[], metavar="COLUMN=LOW:HIGH,...", help="public bounds")
    p.add_argument("--public-size", type=int, help="a public number of records (default: a noisy count is released)")
    p.add_argument("--regularization", type=float, default=0.0)
    p.add_argument("--allow-missing", action="store_true", help="records with missing numbers contribute nothing")
    p.add_argument("--test", type=Path, metavar="CSV", help="also print the accuracy on this file; that is not private")
    p.add_argument("--seed", type=int, help="reproducible noise, NOT for releases (default: the secure generator)")
    p.add_argument("--ledger", metavar="LEDGER", help="spend from this ledger first (tightdp ledger)")
    p.add_argument("--out", type=Path, help="model file (default: DATA.model.json)")
    p.add_argument("--progress", action="store_true", help="draw the progress bar even when not on a terminal")
    p.add_argument("--json", action="store_true", help="print the statement as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Trains and writes. Raises ValueError, TypeError or OSError with one clear line for bad input."""
    out = arguments.out or arguments.data.with_suffix(".model.json")
    for given in (arguments.data, arguments.test):
        if given is not None and given.exists() and out.exists() and out.samefile(given):
            raise ValueError(f"--out {out}: must not be the file that records are read from")
    check_writable("--out", out)
    values = declared(arguments.classes, arguments.categories, arguments.categorical, arguments.public_values)
    bounds = _bounds(arguments.bounds)
    rows = Rows.read(arguments.data)
    labels = values.labels_of(rows, arguments.label)
    columns = plan_columns(rows, arguments.label, values.categories_of(rows), bounds)
    X = encode(rows, columns, allow_missing=arguments.allow_missing)
    y = _labels(rows, arguments.label, labels, X)
    _note_undeclared(rows, columns)
    if arguments.test is not None:
        test = Rows.read(arguments.test)
        test_X, test_y = encode(test, columns, allow_missing=False), test.column(arguments.label)
    progress = Progress(arguments.progress or (sys.stderr.isatty() and not arguments.json))
    classifier = MODELS[arguments.model](
        _algorithm(arguments.algorithm, arguments.set),
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        classes=np.array(labels),
        public_size=arguments.public_size,
        regularization=arguments.regularization,
        random_state=arguments.seed,
        callback=progress,
        ledger=arguments.ledger,
    )
    try:
        classifier.fit(X, y)
    finally:
        progress.close()
    report = _statement(arguments, values, classifier)
    out.write_text(json.dumps(_model(arguments, columns, classifier, report), indent=1) + "\n")
    if arguments.test is not None:
        report["test_accuracy_not_private"] = round(float(classifier.score(test_X, test_y)), 6)
    report["model_file"] = str(out)
    print(json.dumps(report) if arguments.json else "\n".join([*_sentences(report), *_private(report)]))
    return 0


def _labels(rows: Rows, label: str, labels: tuple[str, ...], X: NDArray[np.float64]) -> NDArray[np.str_]:
    """The labels. A record whose label is none of them gets a row of NaN in ``X``, which contributes nothing."""
    undeclared = rows.undeclared(label, labels)
    X[undeclared] = np.nan
    _note(rows, label, undeclared, "contribute nothing")
    return np.array([labels[0] if skip else y for y, skip in zip(rows.column(label), undeclared, strict=True)])


def _note_undeclared(rows: Rows, columns: tuple[Column, ...]) -> None:
    for column in columns:
        if isinstance(column, Category):
            _note(rows, column.name, rows.undeclared(column.name, column.categories), "have a row of zeros there")


def _note(rows: Rows, column: str, undeclared: NDArray[np.bool_], what: str) -> None:
    """Tells whoever holds the data that a declaration may be wrong; the model file does not mention it."""
    if undeclared.any():
        print(
            f"tightdp: note, not to be published: {undeclared.sum():,} of {len(undeclared):,} records have no declared "
            f"value of {column!r}, and {what}",
            file=sys.stderr,
        )


def _algorithm(name: str, settings: list[str]) -> Any:
    kind = ALGORITHMS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            raise ValueError(f"--set {setting}: {name} has the settings {', '.join(sorted(known))} (NAME=VALUE)")
        try:
            values[key] = json.loads(text)
        except json.JSONDecodeError:
            values[key] = text
    return kind(**values)


def _bounds(given: list[str]) -> dict[str, tuple[float, float]]:
    bounds = {}
    for part in ",".join(given).split(","):
        if not part:
            continue
        name, _, span = part.rpartition("=")
        low, _, high = span.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError:
            pair = (0.0, 0.0)
        if not (name and np.isfinite(pair).all() and pair[0] < pair[1]):
            raise ValueError(f"--bounds {part}: must be COLUMN=LOW:HIGH with LOW < HIGH, both finite")
        bounds[name] = pair
    return bounds


def _statement(arguments: argparse.Namespace, values: Declared, classifier: Any) -> dict[str, Any]:
    """What was released and what it cost: all of it may be published."""
    bound = classifier.privacy_
    return {
        "epsilon": bound.upper,
        "epsilon_lower": bound.lower,
        "delta": arguments.delta,
        "neighbors": "add or remove one record",
        "charged": repr(classifier.charged_),
        "engine": bound.engine,
        "algorithm": repr(classifier.algorithm),
        "public_by_assumption": {
            "records": "given" if arguments.public_size is not None else "none: a noisy count was released",
            "columns": "their names and bounds",
            "labels": _origin(values.classes),
            "categories": {column: _origin(given) for column, given in values.categories.items()},
        },
        "reproducible_noise_not_for_release": arguments.seed is not None,
    }


def _origin(given: tuple[str, ...] | None) -> str:
    return "those that occur" if given is None else "declared"


def _model(
    arguments: argparse.Namespace, columns: tuple[Column, ...], classifier: Any, report: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model": arguments.model,
        "label": arguments.label,
        "classes": classifier.classes_.tolist(),
        "columns": [{"kind": type(c).__name__.lower(), **dataclasses.asdict(c)} for c in columns],
        "features": [name for c in columns for name in c.features],
        "coef": classifier.coef_.tolist(),
        "intercept": classifier.intercept_.tolist(),
        "privacy": {**report, "sentences": _sentences(report)},
    }


def _sentences(report: dict[str, Any]) -> list[str]:
    public = report["public_by_assumption"]
    categories = ", ".join(f"{column}: {origin}" for column, origin in public["categories"].items()) or "none"
    lines = [
        f"({report['epsilon']:.6g}, {report['delta']:g})-differentially private, {report['neighbors']}; "
        f"the bound is certified from {report['epsilon_lower']:.6g} to {report['epsilon']:.6g} ({report['engine']}).",
        f"Charged: {report['charged']}",
        f"Public by assumption: records ({public['records']}), columns ({public['columns']}), "
        f"labels ({public['labels']}), categories ({categories}).",
    ]
    if report["reproducible_noise_not_for_release"]:
        lines.append("The noise was seeded: whoever knows the seed can subtract it. Do not release this model.")
    return lines


def _private(report: dict[str, Any]) -> list[str]:
    """What is printed and not written to a file."""
    lines = [f"Model: {report['model_file']}"]
    if "test_accuracy_not_private" in report:
        lines.insert(0, f"Accuracy on the test file (not private): {report['test_accuracy_not_private']:.4f}")
    return lines
