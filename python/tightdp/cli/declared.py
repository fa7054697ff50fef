"""Which labels and categories a model file may name: declared ones, or all that occur where those are public."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .csv_table import Rows

MOST = 1000
"""The most labels, or categories of a column: a column with more values holds measurements, names or keys."""


@dataclass(frozen=True)
class Declared:
    """What was declared on the command line, before the file is read."""

    classes: tuple[str, ...] | None
    categories: Mapping[str, tuple[str, ...] | None]
    """Of each text column. None, here and above, stands for the values that occur: declared public."""

    def labels_of(self, rows: Rows, label: str) -> tuple[str, ...]:
        labels = _occurring(rows, label, "--classes ") if self.classes is None else self.classes
        if len(labels) < 2:
            raise ValueError(f"{rows.file}: column {label!r} has one label only")
        return labels

    def categories_of(self, rows: Rows) -> dict[str, tuple[str, ...]]:
        return {
            column: _occurring(rows, column, f"--categories {column}=") if given is None else given
            for column, given in self.categories.items()
        }


def declared(classes: str | None, categories: Sequence[str], categorical: str, public_values: bool) -> Declared:
    """What the options of ``train`` declare. ValueError where something is left undeclared."""
    given: dict[str, tuple[str, ...] | None] = {}
    for option in categories:
        column, equals, text = option.partition("=")
        if not (column and equals) or column in given:
            raise ValueError(f"--categories {option}: must be COLUMN=VALUE,VALUE,..., once a column")
        given[column] = _values(f"--categories {option}", text)
    for column in filter(None, categorical.split(",")):
        if column not in given and not public_values:
            raise ValueError(
                f"--categorical {column}: its categories must be declared, --categories {column}=VALUE,VALUE,..., "
                f"because the model file lists them; or declare all that occur to be public, --public-values"
            )
        given.setdefault(column, None)
    if classes is None and not public_values:
        raise ValueError(
            "--classes must be given, LABEL,LABEL,..., because the model file lists them; or declare all that occur "
            "to be public, --public-values"
        )
    labels = None if classes is None else _values(f"--classes {classes}", classes)
    if labels is not None and len(labels) < 2:
        raise ValueError(f"--classes {classes}: must be at least two classes")
    return Declared(labels, given)


def _values(option: str, text: str) -> tuple[str, ...]:
    """a,b,"c,d" as three values."""
    values = tuple(value.strip() for value in next(csv.reader([text], skipinitialspace=True), []))
    if not values or not all(values) or len(set(values)) < len(values):
        raise ValueError(f"{option}: must be one or more different values with commas between")
    if len(values) > MOST:
        raise ValueError(f"{option[:40]}...: must be at most {MOST:,} values, got {len(values):,}")
    return values


def _occurring(rows: Rows, column: str, option: str) -> tuple[str, ...]:
    found = set(rows.column(column)) - {""}
    if len(found) > MOST:
        raise ValueError(
            f"{rows.file}: column {column!r} has {len(found):,} different values, and at most {MOST:,} can be listed "
            f"as public: declare those to keep, {option}VALUE,VALUE,..., or leave the column out of the file"
        )
    return tuple(sorted(found))
