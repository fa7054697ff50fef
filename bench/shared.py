"""Code that the benchmarks share, for their options, for calls that take turns, and for figures."""

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
"""Number of seconds for which a turn repeats its call. So a call of microseconds does not only meet caches that another
contender has filled."""


def options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Returns the options of a benchmark's command line. Each keyword is an option with the type of its default.

    A default of False makes a flag. A list makes an option with several values, which have the type of the list's first
    entry. For a list of texts, only these texts are accepted.
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
    """Returns the seconds of a call, on average over a turn of at least ``least`` seconds.

    The turn begins after a pause of ``rest`` seconds. Calls in the first ``warm`` seconds do not count.
    """
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
    """Returns the median seconds of each call.

    The calls take turns, so that other work of the machine slows all of them. Every round runs all calls, and begins
    with another call than the round before.
    """
    times: list[list[float]] = [[] for _ in calls]
    for r in range(rounds):
        for i in range(len(calls)):
            slot = (i + r) % len(calls)
            times[slot].append(timed(calls[slot], warm, rest, least))
    return [statistics.median(t) for t in times]


MARKERS = "osD^v<>PX*hp"
"""Markers of lines and scatters, in order, so that they can be told apart without colour."""
Points = tuple[Sequence[Any], Sequence[float], Sequence[float] | None]
"""Arguments, values and errors of the values. Arguments are numbers, or names that are placed side by side."""


def draw(
    path: Path, panels: Mapping[str, Mapping[str, Points]], x: str, y: str, joined: bool = True, **scales: str
) -> None:
    """Draws points with their errors. There is a panel for each title, and a line or a scatter for each label."""
    from matplotlib.figure import Figure

    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5.5 * columns, 4.2 * rows), dpi=130, layout="constrained")
    for place, (title, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, columns, place)
        names = max((at for at, *_ in lines.values()), key=len)
        side_by_side = isinstance(names[0], str)
        if side_by_side:
            axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
        for i, (label, (at, values, errors)) in enumerate(lines.items()):
            places = [k + 0.1 * (i - 0.5 * len(lines)) for k in range(len(at))] if side_by_side else at
            marker = MARKERS[i % len(MARKERS)]
            line = "--" if label.endswith("published") else "-"
            fmt = f"{marker}{line}" if joined and not side_by_side else marker
            filled = None if joined or label.startswith("tightdp") else "none"  # peers have hollow markers
            axes.errorbar(places, values, errors, fmt=fmt, ms=5, mfc=filled, lw=0.8, label=label)
        axes.set(title=title, xlabel=x, ylabel=y, **scales)
        axes.tick_params(axis="x", which="minor", labelbottom=False)  # on short logarithmic axes they overlap
        axes.grid(alpha=0.3)
        if len(lines) > 6:  # a long legend is placed outside, so that it covers no point
            axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        else:
            axes.legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"written: {path}")
