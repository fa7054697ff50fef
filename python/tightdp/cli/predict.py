"""tightdp predict: what a model that tightdp train wrote says of new records, as CSV.

Whoever has the model learns nothing more about its training data from this. The new records have no protection.
"""

from __future__ import annotations

import argparse
import csv
import sys
from contextlib import nullcontext
from pathlib import Path

from ..tables.model import load
from ..tables.rows import Rows
from . import files
from .composition import check_writable


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("model", type=Path, help="model file")
    p.add_argument(
        "data", type=Path, help="CSV, Parquet or Arrow file with the model's columns in any order, among others"
    )
    p.add_argument("--probabilities", action="store_true", help="a column of probabilities for each label as well")
    p.add_argument("--allow-missing", action="store_true", help="nothing is said of records with missing numbers")
    p.add_argument("--out", type=Path, help="CSV file (default: standard output)")
    files.add_arguments(p)


def run(arguments: argparse.Namespace) -> int:
    """Writes one line for each record, in their order."""
    if arguments.out is not None:
        for given in (arguments.data, arguments.model):
            files.keep_apart("--out", arguments.out, given)
        check_writable("--out", arguments.out)
    model = load(arguments.model)
    if arguments.probabilities and model.model != "logistic":
        raise ValueError(f"--probabilities: a model of kind {model.model!r} has none")
    rows = Rows.read(arguments.data, files.written(arguments))
    predicted = model.rows(rows, allow_missing=arguments.allow_missing, probabilities=arguments.probabilities)
    to = nullcontext(sys.stdout) if arguments.out is None else arguments.out.open("w", encoding="utf-8", newline="")
    with to as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([model.label, *(f"{model.label}={each}" for each in model.classes * arguments.probabilities)])
        writer.writerows(predicted)
    return 0
