"""The figures of Gopi, Lee and Wutschitz (2021), "Numerical Composition of Differential Privacy".

    python bench/papers/prv.py [--figures mesh ...] [--methods tightdp ...] [--minutes 60] [--table]

Methods: our PRV engine ("tightdp prv") and our default engine ("tightdp"); the authors' prv-accountant; the Fourier
accountant of Koskela et al. (the package fourier-accountant, a point estimate); the moments accountant ("renyi") and
the limit of Gaussian DP ("gdp"). All answer for sigma = .8, q = .004 and "remove" at delta = 1e-7, as in the paper.

    mesh           error against time: each method with finer and finer meshes          (figures 3 and 9b)
    compositions   upper and lower ends against the number of steps                     (figures 1a, 1b and 4)
    small delta    one Gaussian of mu = .25, whose curve has a closed form              (figure 6)
    time           seconds against the number of steps at the same eps_error            (figure 9a, theorem on time)

A cell is one figure, method and setting, and a line of bench/papers/prv.jsonl. Tables are printed as Markdown, and
figures are drawn. Errors are distances from the default engine's lower end, which is within a part in
1e9 of the truth (asserted). Seconds are CPU seconds of a call on one thread.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command  # before NumPy: it sets the number of threads
from baselines.gaussian_dp import approximate_epsilon
from cells import Cell
from shared import Points, draw

import tightdp as dp
from tightdp._core import set_max_threads

FILE = Path(__file__).with_suffix(".jsonl")
SIGMA, Q, DELTA = 0.8, 0.004, 1e-7
DELTA_ERROR = 1e-10
STEPS = (1, 10, 100, 1_000, 3_000, 10_000)
LONG_STEPS = (100_000, 1_000_000)
"""Numbers of steps that only methods whose time grows slowly are asked for."""
SMALL_MU = 0.25
SMALL_DELTAS = tuple(10.0**-k for k in range(4, 17, 2))
SMALL_REACH = 8.0
"""Length of the window of the Fourier accountant in units of the largest epsilon that it is asked for."""
KOSKELA_MESH = 1e-5
"""Spacing of the Fourier accountant where others are asked for an error of .01: it has no answer at a coarse one."""
MESHES = {
    "tightdp prv": (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001),
    "prv-accountant": (0.1, 0.03, 0.01, 0.003, 0.001),
    "koskela": (3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6),
}
"""The eps_error that a method is asked for; the spacing of the Fourier accountant."""
LEAST_SECONDS = 0.2
"""CPU seconds over which calls are repeated, since one may be shorter than the clock's tick."""
PATIENCE = 60.0
"""CPU seconds after which a call is stopped: the Fourier accountant's iteration need not end."""
FIGURES = ("mesh", "compositions", "small delta", "time")
METHODS = ("tightdp", "tightdp prv", "prv-accountant", "koskela", "renyi", "gdp")


def run_of(task: Cell) -> dp.Composition:
    step = dp.Gaussian(task["sigma"])
    return (step if task["q"] == 1 else dp.PoissonSampled(step, task["q"])) * task["steps"]


def ask_default(task: Cell) -> tuple[float, float]:
    bound = run_of(task).epsilon(task["delta"], neighbors="remove")
    return bound.lower, bound.upper


def ask_prv(task: Cell) -> tuple[float, float]:
    bound = run_of(task).epsilon(
        task["delta"], neighbors="remove", engine="prv", eps_error=task["mesh"],
        delta_error=task["delta"] * DELTA_ERROR / DELTA,
    )  # fmt: skip
    return bound.lower, bound.upper


def ask_authors(task: Cell) -> tuple[float, float]:
    from prv_accountant import GaussianMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    if task["q"] == 1:
        loss = GaussianMechanism(noise_multiplier=task["sigma"])
    else:
        loss = PoissonSubsampledGaussianMechanism(noise_multiplier=task["sigma"], sampling_probability=task["q"])
    accountant = PRVAccountant(
        prvs=[loss], max_self_compositions=[task["steps"]], eps_error=task["mesh"],
        delta_error=task["delta"] * DELTA_ERROR / DELTA,
    )  # fmt: skip
    lower, _, upper = accountant.compute_epsilon(delta=task["delta"], num_self_compositions=[task["steps"]])
    return float(lower), float(upper)


def ask_koskela(task: Cell) -> tuple[float, float]:
    from fourier_accountant import get_epsilon_R

    window = SMALL_REACH * max(1.0, ask_default(task)[1])
    points = 2 * round(window / task["mesh"])
    estimate = float(get_epsilon_R(task["delta"], task["sigma"], task["q"], task["steps"], points, window))
    return estimate, estimate


def ask_renyi(task: Cell) -> tuple[float, float]:
    bound = run_of(task).epsilon(task["delta"], neighbors="remove", engine="renyi")
    return -math.inf, bound.upper


def ask_gdp(task: Cell) -> tuple[float, float]:
    epsilon = approximate_epsilon(task["sigma"], task["q"], task["steps"], task["delta"])
    return epsilon, epsilon


ASKED: dict[str, Callable[[Cell], tuple[float, float]]] = dict(
    zip(METHODS, (ask_default, ask_prv, ask_authors, ask_koskela, ask_renyi, ask_gdp), strict=True)
)


def evaluate(task: Cell) -> Cell:
    """Returns the ends of a method, the true epsilon and the CPU seconds of a call; or why it refused."""
    set_max_threads(1)
    low, high = ask_default(task)
    assert high - low <= 1e-9 * high or high < 1e-9, task
    first, calls, start = None, 0, time.process_time()
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        while calls == 0 or time.process_time() - start < LEAST_SECONDS:
            # Another delta each time, so that no answer is one that was kept.
            found = ASKED[task["method"]](task | {"delta": task["delta"] * (1 - calls * 1e-12)})
            first, calls = first or found, calls + 1
        seconds = (time.process_time() - start) / calls
    except Exception as refusal:  # whatever a peer raises is its answer
        return {"truth": low, "refused": f"{type(refusal).__name__}: {str(refusal)[:80]}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert first is not None
    lower, upper = first
    if task["method"].startswith("tightdp"):
        assert lower <= high and low <= upper, task
    return {"truth": low, "lower": lower, "upper": upper, "seconds": seconds}


def stop_call(*_: object) -> None:
    """Ends a call that took too long."""
    raise TimeoutError(f"no answer in {PATIENCE:g} CPU seconds")


def tasks_of(figure: str) -> Iterator[Cell]:
    """Yields the cells of a figure, cheap ones first."""
    common = {"figure": figure, "sigma": SIGMA, "q": Q, "delta": DELTA}
    if figure == "mesh":
        for method, meshes in MESHES.items():
            for mesh in meshes:
                yield common | {"method": method, "steps": 1000, "mesh": mesh}
    elif figure == "compositions":
        for steps in STEPS:
            for method in METHODS:
                mesh = KOSKELA_MESH if method == "koskela" else 0.01
                yield common | {"method": method, "steps": steps, "mesh": mesh}
    elif figure == "small delta":
        gaussian = {"figure": figure, "sigma": 1 / SMALL_MU, "q": 1.0, "steps": 1, "mesh": 0.001}
        for delta in SMALL_DELTAS:
            for method in ("tightdp", "tightdp prv", "prv-accountant"):
                yield gaussian | {"method": method, "delta": delta}
    else:
        for steps in (*STEPS, *LONG_STEPS):
            for method in ("tightdp", "tightdp prv", "prv-accountant"):
                if steps <= 100_000 or method != "prv-accountant":  # at 1,000,000 it needs some 1e8 points
                    yield common | {"method": method, "steps": steps, "mesh": 0.01}


def print_rows(figure: str, found: list[Cell], x: str) -> None:
    """Prints a row for each value of ``x`` and method."""
    print(f"\n| {figure}: {x} | method | lower end | upper end | truth | seconds |\n|---|---|---|---|---|---|")
    for cell in found:
        refused = cell.get("refused")
        ends = f"{refused} | | " if refused else f"{cell['lower']:.9g} | {cell['upper']:.9g} | "
        seconds = "" if refused else f"{cell['seconds']:.4f}"
        print(f"| {cell[x]:g} | {cell['method']} | {ends}{cell['truth']:.9g} | {seconds} |")


def make_panels(figure: str, found: list[Cell]) -> dict[str, Points]:
    """Returns a line for each method."""
    lines: dict[str, Points] = {}
    for method in METHODS:
        own = [c for c in found if c["method"] == method and "refused" not in c]
        if figure == "mesh":
            own = sorted(own, key=lambda c: c["seconds"])
            at, values = [c["seconds"] for c in own], [largest_error(c) for c in own]
        elif figure == "time":
            at, values = [c["steps"] for c in own], [c["seconds"] for c in own]
        elif figure == "compositions":
            at, values = [c["steps"] for c in own], [abs(c["upper"] / c["truth"] - 1) for c in own]
        else:
            at, values = [c["delta"] for c in own], [largest_error(c) / c["truth"] for c in own]
        if own:
            lines[method] = at, values, None
    return lines


def largest_error(cell: Cell) -> float:
    return max(abs(end - cell["truth"]) for end in (cell["lower"], cell["upper"]) if math.isfinite(end))


AXES = {
    "mesh": ("mesh", "CPU seconds", "error of epsilon"),
    "compositions": ("steps", "steps", "|upper end over the truth - 1|"),
    "small delta": ("delta", "delta", "relative error of epsilon"),
    "time": ("steps", "steps", "CPU seconds"),
}
"""The column that tells the rows of a figure apart, and the labels of its axes."""


def show(found: list[Cell], folder: Path) -> None:
    """Prints a table and draws a figure for each figure of the paper."""
    for figure, (column, x, y) in AXES.items():
        own = [cell for cell in found if cell["figure"] == figure]
        if own:
            print_rows(figure, own, column)
            path = folder / f"prv_{figure.replace(' ', '_')}.png"
            draw(path, {figure: make_panels(figure, own)}, x, y, xscale="log", yscale="log")


def tasks() -> list[Cell]:
    """Returns the cells of all figures."""
    return [task for figure in FIGURES for task in tasks_of(figure)]


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, stop_call)
    sys.exit(command.main(__doc__, FILE, tasks(), evaluate, show))
