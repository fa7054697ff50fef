"""tightdp test: how well a model does on records that it has not seen, released with a guarantee for them.

The number of right predictions is released with noise. A record counts as wrong if its label is not one of the model's
classes, or if one of its numbers is missing. In a column of numbers, a cell that is neither missing nor a finite
number, such as abc or inf, is an error. Nothing is spent then.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...metrics import Accuracy, ConfusionMatrix, accuracy, confusion_matrix
from ...records.sources.rows import Rows
from ...statement.wording import list_stated_values
from ...tables.model_file import load
from .. import command_files
from ..accounting_commands.number import parse_real_argument


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("model", type=Path, help="model file that tightdp train wrote")
    p.add_argument("data", type=Path, help="CSV file with the model's columns and its label, or Parquet or Arrow")
    p.add_argument("--epsilon", type=parse_real_argument, required=True, help="of the guarantee, > 0, as 1")
    p.add_argument("--delta", type=parse_real_argument, required=True, help="in (0, 1), as 1e-6")
    p.add_argument("--confidence", type=parse_real_argument, default=0.95, help="of the error bars (default: 0.95)")
    p.add_argument("--matrix", action="store_true", help="release the confusion matrix in place of the accuracy")
    p.add_argument("--ledger", metavar="LEDGER", help="spend from this ledger first (tightdp ledger; default: none)")
    command_files.add_cli_file_format_arguments(p)
    p.add_argument("--json", action="store_true", help="print JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Releases the accuracy or the confusion matrix, and prints the statement and the release with its error bars."""
    model = load(arguments.model)
    if not model.classes:
        raise ValueError(f"{arguments.model}: predicts numbers, of which there is no accuracy")
    rows = Rows.read(arguments.data, command_files.read_cli_file_format_arguments(arguments))
    true = np.array(rows.get_source_column(model.label), dtype=object)
    predicted = np.array([said for said, *_ in model.rows(rows, allow_missing=True)], dtype=object)
    if rows.mark_undeclared(model.label, model.classes).all():
        raise ValueError(
            f"{rows.file}: no record has one of the model's labels in {model.label!r} "
            f"({list_stated_values(model.classes)}): nothing could be right, and nothing was spent"
        )
    budget = {"epsilon": arguments.epsilon, "delta": arguments.delta, "confidence": arguments.confidence}
    command_files.check_standard_output()
    if arguments.matrix:
        matrix = confusion_matrix(true, predicted, classes=model.classes, **budget, ledger=arguments.ledger)
        _print_command_metric(
            arguments,
            matrix,
            [f"Counts, each within {matrix.half_width:g} of the true one:", *_format_command_confusion_matrix(matrix)],
        )
        return 0
    # A record without a prediction never counts as right, not even if its label is empty.
    right = np.array([said != "" and said == label for said, label in zip(predicted, true, strict=True)])
    found = accuracy(np.ones(len(right), dtype=bool), right, **budget, ledger=arguments.ledger)
    _print_command_metric(arguments, found, _describe_command_accuracy(found, arguments.confidence))
    return 0


def _describe_command_accuracy(found: Accuracy, confidence: float) -> list[str]:
    """Returns a line with the accuracy and its error bars."""
    low, high = found.interval
    least, most = found.population
    return [
        f"Accuracy: {found.value:.4f}; at confidence {confidence:g} from {low:.4f} to {high:.4f} on these records, and "
        f"from {least:.4f} to {most:.4f} on records like these"
    ]


def _format_command_confusion_matrix(found: ConfusionMatrix) -> list[str]:
    """Returns the lines of a table whose rows are true labels and whose columns are predictions."""
    lines = [["true \\ predicted", *found.classes]]
    lines += [[label, *map(str, row)] for label, row in zip(found.classes, found.matrix.tolist(), strict=True)]
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.rjust(w) for cell, w in zip(line, wide, strict=True)) for line in lines]


def _print_command_metric(arguments: argparse.Namespace, found: Accuracy | ConfusionMatrix, lines: list[str]) -> None:
    """Prints the statement and the release. The release is printed as ``lines`` or as JSON."""
    if not arguments.json:
        command_files.print_cli_file_release("\n".join([str(found.statement), *lines]))
        return
    plain: dict[str, Any] = {"statement": found.statement.to_dict()}
    if isinstance(found, Accuracy):
        plain |= {"accuracy": found.value, "interval": found.interval, "population": found.population}
    else:
        plain |= {"classes": found.classes, "matrix": found.matrix.tolist(), "half_width": found.half_width}
    command_files.print_cli_file_release(json.dumps(plain))
