"""Runs long benchmarks in pieces. Each cell of a table is kept in a JSON file once it is known, and not run again.

A task is a dictionary of plain values. It has everything on which its result depends, such as the settings of the
algorithm. A cell is a task together with its result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a fit uses one thread, because several fits run at once
import numpy as np

Cell = dict[str, Any]


def run(tasks: Iterable[Cell], evaluate: Callable[[Cell], Cell], file: Path, jobs: int = 1) -> list[Cell]:
    """Returns the cells of all tasks, in the order of the tasks.

    Tasks whose cells are not in ``file`` are evaluated, and their cells are added to ``file``.
    """
    wanted = list(tasks)
    kept: dict[str, Cell] = json.loads(file.read_text()) if file.exists() else {}
    todo = [task for task in wanted if _key(task) not in kept]
    file.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        for done, (task, result) in enumerate(zip(todo, pool.map(evaluate, todo), strict=True), 1):
            kept[_key(task)] = {**task, **result}
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(kept, indent=1) + "\n")
            partial.replace(file)
            named = " ".join(str(task.get(name, "")) for name in ("data", "model", "algorithm", "epsilon"))
            print(f"{time.perf_counter() - start:7.0f} s  {done}/{len(todo)}  {named}", file=sys.stderr, flush=True)
    return [kept[_key(task)] for task in wanted]


def kept(file: Path) -> dict[str, Cell]:
    """Returns the finished cells in ``file``, by their tasks. Each line of ``file`` has a cell."""
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return {_key(cell["task"]): cell["task"] | cell["result"] for cell in found}


def until(tasks: Iterable[Cell], evaluate: Callable[[Cell], Cell], file: Path, minutes: float) -> dict[str, Cell]:
    """Returns the finished cells of these tasks, by their tasks.

    This process evaluates the tasks whose cells are not in ``file``, and appends a line to ``file`` for each. It begins
    no task after ``minutes``. Several processes may share a file, because each looks into the file before it begins a
    task. A line is written whole, so that a process that is stopped leaves none of its cell.
    """
    wanted, start = list(tasks), time.monotonic()
    file.parent.mkdir(parents=True, exist_ok=True)
    for number, task in enumerate(wanted, 1):
        if time.monotonic() - start > 60 * minutes:
            break
        if _key(task) not in kept(file):
            line = json.dumps({"task": task, "result": evaluate(task)}, sort_keys=True)
            if _key(task) in kept(file):
                continue  # another process was faster
            with file.open("ab", buffering=0) as lines:
                lines.write(line.encode() + b"\n")
            minute = (time.monotonic() - start) / 60
            print(f"{minute:7.1f} min  {number}/{len(wanted)}  {line}", file=sys.stderr, flush=True)
    found = kept(file)
    return {_key(task): found[_key(task)] for task in wanted if _key(task) in found}


def _key(task: Cell) -> str:
    return json.dumps(task, sort_keys=True)


def mean(scores: list[float]) -> float:
    return float(np.mean(scores))


def error(scores: list[float]) -> float:
    """Returns the standard error of the mean, or NaN for a single score."""
    return float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def spread(scores: list[float], form: str = ".2f") -> str:
    """Returns the text of the mean +- the standard error."""
    return f"{mean(scores):{form}} +- {error(scores):{form}}"
