"""tightdp predict: writes the predictions of a model for new records as CSV.

The model is a file that tightdp train wrote. Predictions reveal nothing about the training data that the model does
not. The new records are not protected. A label that a spreadsheet would take for a formula gets a quotation mark before
it, unless --raw is given.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from ...records.sources.rows import Rows
from ...records.text import parse_cell_number
from ...tables.model_file import load
from .. import command_files

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters that begin a formula in a spreadsheet, and white space that may stand before such a character."""


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("model", type=Path, help="model file")
    p.add_argument(
        "data", type=Path, help="CSV, Parquet or Arrow file with the model's columns in any order, and maybe others"
    )
    p.add_argument("--probabilities", action="store_true", help="add a column of probabilities for each label")
    p.add_argument("--allow-missing", action="store_true", help="leave the prediction empty where numbers are missing")
    p.add_argument("--raw", action="store_true", help="write labels as they are, even if a spreadsheet would run them")
    p.add_argument("--out", type=command_files.read_output_path, help="CSV file (default: standard output)")
    p.add_argument(
        "--force", action="store_true", help="replace the file of --out if it holds predictions of this label"
    )
    command_files.add_cli_file_format_arguments(p)


def run_command(arguments: argparse.Namespace) -> int:
    """Writes one line for each record, in the order of the records."""
    model = load(arguments.model)
    headers = [model.label], [model.label, *(f"{model.label}={each}" for each in model.classes)]
    command_files.check_command_output(
        arguments.out,
        arguments.force,
        (arguments.data, arguments.model),
        command_files.TABLE,
        (*headers, *map(_mark_formulas_for_predict_command, headers)),
    )
    if arguments.probabilities and model.model != "logistic":
        raise ValueError(f"--probabilities: a model of kind {model.model!r} has none")
    rows = Rows.read(arguments.data, command_files.read_cli_file_format_arguments(arguments))
    predicted = model.rows(rows, allow_missing=arguments.allow_missing, probabilities=arguments.probabilities)
    to = nullcontext(sys.stdout) if arguments.out is None else arguments.out.open("w", encoding="utf-8", newline="")
    with to as out:
        writer = csv.writer(out, lineterminator="\n")
        lines = [headers[arguments.probabilities], *predicted]
        writer.writerows(lines if arguments.raw else map(_mark_formulas_for_predict_command, lines))
    return 0


def _mark_formulas_for_predict_command(row: Iterable[str]) -> list[str]:
    return [_mark_formula_for_predict_command(cell) for cell in row]


def _mark_formula_for_predict_command(cell: str) -> str:
    """Returns a cell that no spreadsheet runs as a formula.

    A text that begins like a formula gets a quotation mark before it. Labels come from a model file, which others may
    have written. Numbers, such as -1, stay as they are.
    """
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) and parse_cell_number(cell) is None else cell
