"""The frame of the papers' scripts: which cells run, in which order and for how long, and where results are kept.

A script lists its cells as dictionaries of plain values, first those that are worth most, and says how one is
evaluated. The command line selects among them by the values that they have; what was left out is not selected by:

    --parts, --data, --models, --arms, --epsilons    only cells that have one of these values
    --seeds N                                        only seeds below N
    --minutes M                                      no cell is begun after so many minutes (0: all cells run)
    --table                                          no cell runs: what is known is shown
    --draw-into FOLDER                               where figures are drawn (bench/results; the site's: docs/figures)

Each finished cell is a line of the file beside the script (or of --out), so that a script that was stopped goes on
where it was, and several processes may share the file. Progress goes to the standard error.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import cells  # before NumPy: it sets the number of threads
import data
from cells import Cell
from shared import RESULTS

SELECTORS = {"parts": "part", "data": "data", "models": "model", "arms": "arm", "epsilons": "epsilon"}
SELECTORS |= {"figures": "figure", "methods": "method"}
"""Options that select cells, each with the key of a cell that it looks at."""


def value_of(task: Cell, key: str) -> Any:
    """Returns what a cell has under a key, or None; a cell that names no part is one of accuracies."""
    return task.get(key, "accuracy" if key == "part" else None)


def parse_options(doc: str | None, tasks: Sequence[Cell], file: Path, seeds: int) -> argparse.Namespace:
    """Returns the command line's choices. Values that no cell has are refused, and so are selections without a cell."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, key in SELECTORS.items():
        values = [value for value in dict.fromkeys(value_of(task, key) for task in tasks) if value is not None]
        if len(values) > 1:
            parser.add_argument(f"--{option}", nargs="+", type=type(values[0]), choices=values, metavar=key.upper(),
                                help=" ".join(shlex.quote(str(value)) for value in values))  # fmt: skip
    most = 1 + max(task.get("seed", 0) for task in tasks)
    parser.add_argument(
        "--seeds", type=int, default=min(seeds, most), choices=range(1, most + 1), metavar="N",
        help=f"number of seeds, at most {most} (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no cell after so many minutes (0: no limit)")
    parser.add_argument("--table", action="store_true", help="run nothing, show what is known")
    parser.add_argument("--draw-into", type=Path, default=RESULTS, help="folder of the figures")
    parser.add_argument("--out", type=Path, default=file, help="file of the finished cells")
    chosen = parser.parse_args()
    if not select(tasks, chosen):
        parser.error("no cell has all of these values together")
    return chosen


def select(tasks: Sequence[Cell], chosen: argparse.Namespace) -> list[Cell]:
    """Returns the tasks that the command line names, in the order in which they run: seed after seed."""
    kept = [task for task in tasks if task.get("seed", 0) < chosen.seeds]
    for option, key in SELECTORS.items():
        values = getattr(chosen, option, None)
        if values is not None:
            kept = [task for task in kept if value_of(task, key) in values]
    return sorted(kept, key=lambda task: task.get("seed", 0))


def main(
    doc: str | None,
    file: Path,
    tasks: Sequence[Cell],
    evaluate: Callable[[Cell], Cell],
    show: Callable[[list[Cell], Path], None],
    seeds: int = 5,
) -> int:
    """Runs a script's selected cells as its command line says. ``show`` then prints and draws what is known of them."""
    chosen = parse_options(doc, tasks, file, seeds)
    minutes = -1.0 if chosen.table else chosen.minutes or math.inf
    try:
        found = cells.until(select(tasks, chosen), evaluate, chosen.out, minutes)
    except data.Missing as problem:
        print(f"{file.stem}: {problem}", file=sys.stderr)
        return 2
    show(list(found.values()), chosen.draw_into)
    return 0
