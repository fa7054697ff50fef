"""Reads declarations from the command line: bounds, and the labels and categories that a model file may list.

There are three ways to know labels and categories. The user declares them, or declares that all values in the file are
public, or lets the command learn them with noise.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from ...records.column_encodings import LEARN, Bounds, Fill
from ...records.schema import MOST, Schema, Values
from ...records.sources.rows import Rows
from ...records.text import NO_VALUE, parse_cell_number
from ...tables.model_file import REGRESSION


def list_labels_declared_on_command_line(declared: Schema, rows: Rows) -> Values:
    """Returns the declared labels, or LEARN if the labels are to be learned.

    If all labels in the table were declared to be public, returns the labels that occur in the table.

    Raises ValueError if there is only one label.
    """
    labels = declared.classes
    if labels is None:
        labels = _declare_occurring_values(rows, declared.label, "--classes ")
    if labels != LEARN and len(labels) < 2:
        raise ValueError(f"{rows.file}: column {declared.label!r} has one label only")
    return labels


def list_categories_declared_on_command_line(declared: Schema, rows: Rows) -> dict[str, Values]:
    """Returns the declared categories of each text column, or LEARN if its categories are to be learned.

    If all values of a column were declared to be public, its categories are the values that occur in the table.
    """
    for column, values in declared.categories.items() if not declared.complete else ():
        for value in () if values is None or values == LEARN else values:
            other, equals, _ = value.partition("=")
            if equals and other in rows.columns:
                raise ValueError(
                    f"--categories {column}: {value!r} would be a category of {column!r}, and not of {other!r}: "
                    f"give each column its own --categories, its name once; a category of this form can be "
                    f"declared with --schema"
                )
    return {
        column: _declare_occurring_values(rows, column, f"--categories {column}=") if given is None else given
        for column, given in declared.categories.items()
    }


OPTIONS = ("label", "classes", "categories", "categorical", "bounds", "drop", "public_values", "fill", "learn_classes",
           "learn_bounds", "learn_categories")  # fmt: skip
"""Names of the options that a schema replaces."""


def add_declaration_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options that declare facts about the table."""
    p.add_argument(
        "--schema", type=Path, metavar="JSON", help="a file that declares all of these (tightdp schema; default: none)"
    )
    p.add_argument("--label", metavar="COLUMN", help="the column to predict (default: that of the schema)")
    p.add_argument("--classes", metavar="LABEL,...", help="the labels that the model may predict (default: none)")
    p.add_argument(
        "--categories",
        action="append",
        default=[],
        metavar="COLUMN=VALUE,...",
        help="a text column and its values (default: none)",
    )
    p.add_argument(
        "--categorical", default="", metavar="COLUMN,...", help="text columns whose values are public (default: none)"
    )
    p.add_argument("--public-values", action="store_true", help="the labels and categories that occur are public")
    p.add_argument(
        "--bounds", action="append", default=[], metavar="COLUMN=LOW:HIGH,...", help="public bounds (default: 0 to 1)"
    )
    p.add_argument("--learn-classes", action="store_true", help="frequent labels in place of --classes, charged")
    p.add_argument(
        "--learn-bounds",
        action="append",
        default=[],
        metavar="COLUMN,...",
        help="bounds by private quantiles, charged (default: none)",
    )
    p.add_argument(
        "--learn-categories",
        action="append",
        default=[],
        metavar="COLUMN,...",
        help="frequent values, charged (default: none)",
    )
    p.add_argument(
        "--fill",
        action="append",
        default=[],
        metavar="COLUMN=NUMBER,...",
        help="replaces missing numbers; COLUMN=learn takes a private median, charged (default: none)",
    )
    p.add_argument(
        "--drop", action="append", default=[], metavar="COLUMN,...", help="columns that are left out (default: none)"
    )


def read_declarations(arguments: argparse.Namespace) -> Schema:
    """Returns the declarations that the options or the schema make. Raises ValueError if a declaration is missing."""
    if arguments.schema is not None:
        if arguments.model == REGRESSION:
            raise ValueError(f"--schema: must be left out with --model {REGRESSION}, since it declares classes")
        beside = [name for name in OPTIONS if getattr(arguments, name)]
        if beside:
            place = ', as the entry "missing" of its column' if beside[0] == "fill" else ""
            raise ValueError(
                f"--{beside[0].replace('_', '-')}: must be left out beside --schema, which declares it all{place}"
            )
        return Schema.read(arguments.schema)
    if arguments.label is None:
        raise ValueError("--label must be given, the column to predict, or --schema")
    classes, public_values = arguments.classes, arguments.public_values
    regression = arguments.model == REGRESSION
    if regression and (classes is not None or arguments.learn_classes):
        raise ValueError(
            f"--classes: must be left out with --model {REGRESSION}, which predicts numbers: --target-bounds"
        )
    given: dict[str, Values | None] = {}
    for option in arguments.categories:
        column, equals, text = option.partition("=")
        if not (column and equals) or column in given:
            raise ValueError(f"--categories {option}: must be COLUMN=VALUE,VALUE,..., once a column")
        given[column] = _parse_declared_values(f"--categories {option}", text)
    bounds: dict[str, Bounds] = {**_parse_declared_bounds(arguments.bounds)}
    for option, taken in (("--learn-bounds", bounds), ("--learn-categories", given)):
        for column in _split_declared_names(getattr(arguments, option[2:].replace("-", "_"))):
            if column in taken:
                raise ValueError(f"{option} {column}: is declared as well, and learned only where it is not")
            taken[column] = LEARN
    for column in filter(None, arguments.categorical.split(",")):
        if column not in given and not public_values:
            raise ValueError(
                f"--categorical {column}: its categories must be declared, --categories {column}=VALUE,VALUE,..., "
                f"because the model file lists them; or declare all that occur to be public, --public-values"
            )
        given.setdefault(column, None)
    if arguments.learn_classes and classes is not None:
        raise ValueError(f"--classes {classes}: must be left out beside --learn-classes")
    if classes is None and not public_values and not arguments.learn_classes and not regression:
        raise ValueError(
            "--classes must be given, LABEL,LABEL,..., because the model file lists them; or learn those of many "
            "records with noise, --learn-classes; or declare all that occur to be public, --public-values"
        )
    labels: Values | None = LEARN if arguments.learn_classes else None
    if regression:
        labels = ()
    if classes is not None:
        labels = _parse_declared_values(f"--classes {classes}", classes)
        if len(labels) < 2:
            raise ValueError(f"--classes {classes}: must be at least two classes")
    dropped = frozenset(_split_declared_names(arguments.drop))
    fills = _parse_declared_fills(arguments.fill)
    return Schema(arguments.label, labels, bounds, given, dropped, fills, complete=False)


def _split_declared_names(given: list[str]) -> list[str]:
    """Returns the column names in the options, split at commas. An empty option is itself the name of a column."""
    return [name for option in given for name in option.split(",") if name or not option]


def _parse_declared_fills(given: list[str]) -> dict[str, Fill]:
    """Returns the numbers that replace missing numbers, by column."""
    found: dict[str, Fill] = {}
    for part in _split_declared_names(given):
        name, equals, text = part.rpartition("=")
        value = parse_cell_number(text) if text != LEARN else None
        if not equals or name in found or (text != LEARN and (value is None or not np.isfinite(value))):
            raise ValueError(f"--fill {part}: must be COLUMN=NUMBER, a finite one, or COLUMN=learn, once a column")
        found[name] = LEARN if value is None else value
    return found


def _parse_declared_bounds(given: list[str]) -> dict[str, tuple[float, float]]:
    """Returns the bounds by column. Raises ValueError unless bounds are finite and each lower bound is below the upper
    bound."""
    bounds = {}
    for part in ",".join(given).split(","):
        if not part:
            continue
        name, equals, span = part.rpartition("=")
        low, _, high = span.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError:
            pair = (0.0, 0.0)
        if not (equals and np.isfinite(pair).all() and pair[0] < pair[1]) or name in bounds:
            raise ValueError(f"--bounds {part}: must be COLUMN=LOW:HIGH with LOW < HIGH, both finite, once a column")
        bounds[name] = pair
    return bounds


def _parse_declared_values(option: str, text: str) -> tuple[str, ...]:
    """Returns the values that commas separate. For example, a,b,"c,d" has three values."""
    values = tuple(value.strip() for value in next(csv.reader([text], skipinitialspace=True), []))
    if not values or not all(values) or len(set(values)) < len(values):
        raise ValueError(f"{option}: must be one or more different values with commas between")
    if len(values) > MOST:
        raise ValueError(f"{option[:40]}...: must be at most {MOST:,} values, got {len(values):,}")
    return values


def _declare_occurring_values(rows: Rows, column: str, option: str) -> tuple[str, ...]:
    """Returns all different values of a column. Raises ValueError, which names ``option``, if there is no value or if
    there are more than ``MOST`` values."""
    found = set(rows.get_source_column(column)).difference(NO_VALUE)
    without = f", or leave the column out, --drop {column}" if option.startswith("--categories") else ""
    if not found:
        raise ValueError(f"{rows.file}: column {column!r} has no value: declare some, {option}VALUE,VALUE,...{without}")
    if len(found) > MOST:
        raise ValueError(
            f"{rows.file}: column {column!r} has {len(found):,} different values, and at most {MOST:,} can be listed "
            f"as public: declare those to keep, {option}VALUE,VALUE,...{without}"
        )
    return tuple(sorted(found))
