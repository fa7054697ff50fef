"""What benchmarks share: their options, calls that take turns, and figures."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LEAST_SECONDS = 0.01
"""A turn repeats its call for this long, so that microseconds are not timed on the caches of the call before."""


def options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """The command line of a benchmark: an option for each keyword, of its default's type.

    False is a flag. A list takes several values of the type of its first; of a list of texts those alone are accepted.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        given: dict[str, Any] = {"type": type(default), "default": default, "help": f"(default: {default})"}
        if default is False:
            given = {"action": "store_true"}
        elif isinstance(default, list):
            kind = type(default[0])
            given |= {"type": kind, "nargs": "+", "choices": default if kind is str else None}
        parser.add_argument(f"--{name}", **given)
    return parser.parse_args()


def timed(call: Callable[[], object], warm: float = 0.0, rest: float = 0.0, least: float = LEAST_SECONDS) -> float:
    """Seconds a call, over one turn of at least so long after a ``rest``. Calls in the first ``warm`` seconds do not
    count."""
    time.sleep(rest)
    until = time.perf_counter() + warm
    while time.perf_counter() < until:
        call()
    calls, start = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= least:
            return elapsed / calls


def interleaved(
    calls: Sequence[Callable[[], object]],
    rounds: int,
    warm: float = 0.0,
    rest: float = 0.0,
    least: float = LEAST_SECONDS,
) -> list[float]:
    """Median seconds of each call. Calls take turns, so that whatever else the machine does falls on all of them: every
    round runs all, each time from another one on."""
    times: list[list[float]] = [[] for _ in calls]
    for r in range(rounds):
        for i in range(len(calls)):
            slot = (i + r) % len(calls)
            times[slot].append(timed(calls[slot], warm, rest, least))
    return [statistics.median(t) for t in times]


MARKERS = "osD^v<>PX*"
"""Markers of lines and scatters, in order, so that they can be told apart without colour."""
Points = tuple[Sequence[Any], Sequence[float], Sequence[float] | None]
"""Arguments, values and their errors; arguments are numbers, or names that stand side by side."""


def draw(
    path: Path, panels: Mapping[str, Mapping[str, Points]], x: str, y: str, joined: bool = True, **scales: str
) -> None:
    """A figure of points with their errors: a panel for each title, a line or a scatter for each label."""
    from matplotlib.figure import Figure

    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5.5 * columns, 4.2 * rows), dpi=130, layout="constrained")
    for axes, (title, lines) in zip(figure.subplots(rows, columns, squeeze=False).flat, panels.items(), strict=False):
        names = max((at for at, *_ in lines.values()), key=len)
        side_by_side = isinstance(names[0], str)
        if side_by_side:
            axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
        for i, (label, (at, values, errors)) in enumerate(lines.items()):
            places = [k + 0.1 * (i - 0.5 * len(lines)) for k in range(len(at))] if side_by_side else at
            marker = MARKERS[i % len(MARKERS)]
            fmt = f"{marker}-" if joined and not side_by_side else marker
            filled = None if joined or label.startswith("tightdp") else "none"  # peers are hollow
            axes.errorbar(places, values, errors, fmt=fmt, ms=5, mfc=filled, lw=0.8, label=label)
        axes.set(title=title, xlabel=x, ylabel=y, **scales)
        axes.tick_params(axis="x", which="minor", labelbottom=False)  # on short logarithmic axes they overlap
        axes.grid(alpha=0.3)
        if len(lines) > 6:  # a legend beside the points covers none
            axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        else:
            axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"written: {path}")
