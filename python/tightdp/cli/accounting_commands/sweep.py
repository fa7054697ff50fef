"""tightdp sweep: bounds on epsilon or delta over ranges of settings, as CSV.

Each setting is a number, such as 1.1 or 256/60000, a list, such as 0.5,1,2, or a range. The range 0.6:2:0.1 has steps
of 0.1 and includes both ends. The range 100:100000:x10 has factors of 10. There is one row for each combination of
settings, in the order of the options. Each row is written as soon as it is computed.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
from contextlib import nullcontext
from functools import partial

from ...mechanisms import Gaussian, PoissonSampled
from .. import command_files
from ..progress import ProgressBar
from . import composition as shared
from .number import parse_numbers_argument

SETTINGS = ("noise_multiplier", "sampling_probability", "steps")
"""Settings of DP-SGD, in the order of their columns."""
HEADERS = {
    "delta": (*SETTINGS, "delta", "epsilon_lower", "epsilon_upper", "engine"),
    "epsilon": (*SETTINGS, "epsilon", "delta_lower", "delta_upper", "engine"),
}
"""Column names of the table, for the option --delta and for the option --epsilon."""
MOST_ROWS = 1_000_000
"""Largest number of rows, about as many as a spreadsheet can hold. For a longer table, use the library in a program."""


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    form, add = "a number, a list or FROM:TO:STEP", partial(p.add_argument, type=parse_numbers_argument)
    add("--noise-multiplier", metavar="SIGMA", required=True, help=f"noise over the L2 norm: {form}")
    probability = f"sampling probability of a record: {form} (default: 1)"
    add("--sampling-probability", metavar="Q", default=[1.0], help=probability)
    add("--steps", metavar="K", default=[1.0], help=f"number of steps: {form} (default: 1)")
    at = p.add_mutually_exclusive_group(required=True)
    at.add_argument("--delta", type=parse_numbers_argument, help="bound epsilon at this delta (default: none)")
    at.add_argument("--epsilon", type=parse_numbers_argument, help="bound delta at this epsilon (default: none)")
    p.add_argument("--out", type=command_files.read_output_path, help="CSV file (default: standard output)")
    p.add_argument("--force", action="store_true", help="replace the file of --out if tightdp sweep wrote it")
    p.add_argument("--progress", action="store_true", help="show a progress bar even where there is no terminal")
    shared.add_question_arguments(p)


def run_command(arguments: argparse.Namespace) -> int:
    """Writes a row for each combination of settings."""
    at, quantity = ("delta", "epsilon") if arguments.delta is not None else ("epsilon", "delta")
    names = (*SETTINGS, at)
    values = [getattr(arguments, name) for name in names]
    total = math.prod(map(len, values))
    if total > MOST_ROWS:
        raise ValueError(f"the ranges must have at most {MOST_ROWS} combinations, got {total}")
    rows = []
    for sigma, q, steps, given in itertools.product(*values):
        if steps != int(steps):
            raise ValueError(f"steps must be integers, got {steps!r}")
        rows.append((PoissonSampled(Gaussian(sigma), q) * int(steps), (sigma, q, int(steps), given)))
    command_files.check_command_output(
        arguments.out, arguments.force, writes=command_files.TABLE, headers=HEADERS.values()
    )
    # No bar is needed if the rows themselves appear on a terminal.
    to_terminal = arguments.out is None and sys.stdout.isatty()
    progress = ProgressBar(arguments.progress or (sys.stderr.isatty() and not to_terminal), unit="rows")
    asked = shared.get_question_arguments(arguments)
    to = nullcontext(sys.stdout) if arguments.out is None else arguments.out.open("w", encoding="utf-8", newline="")
    with to as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADERS[at])
        for done, (mechanisms, row) in enumerate(rows, 1):
            bound = getattr(mechanisms, quantity)(row[-1], **asked)
            writer.writerow([*row, bound.lower, bound.upper, bound.engine])
            out.flush()
            progress(done, total)
    progress.close()
    return 0
