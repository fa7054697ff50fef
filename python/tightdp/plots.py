"""Figures of the privacy of compositions, with the band between its lower and upper bounds.

Needs matplotlib: ``pip install matplotlib``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _check
from .composition import Composable, Composition
from .number_texts import format_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000")
"""Colours that colour-blind readers can tell apart, too (Okabe and Ito 2008;
tests/accounting/questions/test_plots.py)."""
_GUESSING_COLOUR = "#9a9a9a"
_THIN_WIDTH = 0.01
"""Width below which a band is as thin as its line: relative for a profile, absolute for a trade-off curve."""
_PIECES = 10
"""Number of chunks in which a profile is computed, so that progress can be shown."""
_MOST_POINTS = 10_000
"""Largest number of points of a curve, each of which is a question. A figure as wide as a page has fewer pixels."""


def privacy(
    run: Composable | Mapping[str, Composable],
    *,
    least_delta: float = 1e-12,
    points: int = 161,
    title: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Figure:
    """Draws the privacy profile beside the trade-off curve, of one run or of several by name.

    ``progress``, if given, is called with the number of finished pieces of the curves, and the number of all.
    ``options`` are those of ``Composition.epsilon``.
    """
    figure = _make_figure()
    left, right = figure.subplots(1, 2)
    runs = _name_runs(run)
    done, total = 0, len(runs) * (_PIECES + 1)

    def report_progress() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    _draw_profiles(runs, left, least_delta, points, report_progress, options)
    _draw_tradeoffs(runs, right, points, report_progress, options)
    if title is None:
        title = write_caption(next(iter(runs.values()))) if len(runs) == 1 else ""
    figure.suptitle(title, fontsize=10)
    return figure


def profile(
    run: Composable | Mapping[str, Composable],
    axes: Axes,
    *,
    least_delta: float = 1e-12,
    points: int = 161,
    **options: Any,
) -> None:
    """Draws delta as a function of epsilon, from 0 to the epsilon where all runs' delta is below ``least_delta``."""
    _draw_profiles(_name_runs(run), axes, least_delta, points, lambda: None, options)


def tradeoff(run: Composable | Mapping[str, Composable], axes: Axes, *, points: int = 161, **options: Any) -> None:
    """Draws the least type II error of a test for the record, as a function of its type I error."""
    _draw_tradeoffs(_name_runs(run), axes, points, lambda: None, options)


def _make_figure() -> Figure:
    """Makes a figure for two panels. matplotlib is imported here alone."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("tightdp.plots needs matplotlib: pip install matplotlib") from None
    return Figure(figsize=(10.0, 4.4), dpi=160, layout="constrained")


def _name_runs(run: Composable | Mapping[str, Composable]) -> dict[str, Composition]:
    """Returns compositions by their names. A single run has an empty name."""
    if isinstance(run, Mapping) and not run:
        raise ValueError("run must name at least one composition, got none")
    runs = run if isinstance(run, Mapping) else {"": run}
    return {name: one._to_composition() for name, one in runs.items()}


def _draw_profiles(
    runs: dict[str, Composition], axes: Axes, least: float, points: int, advance: Callable[[], None], options: Any
) -> None:
    """Draws each run's privacy profile from epsilon 0 to where delta falls below ``least``."""
    least = _check.open_unit("least_delta", least)
    points = _check.count("points", points, least=2, most=_MOST_POINTS)
    ends = [run.epsilon(least, **options) for run in runs.values()]
    last = max(b.upper if np.isfinite(b.upper) else max(2 * _replace_infinity_by_zero(b.lower), 10.0) for b in ends)
    epsilons = np.linspace(0.0, max(last, 1e-9), points)
    floor = 0.1 * least  # a bound of 0 has no logarithm
    width = 0.0
    for (name, run), colour in zip(runs.items(), itertools.cycle(_COLOURS), strict=False):
        pieces = []
        for part in np.array_split(epsilons, _PIECES):
            pieces.append(run.profile(part, **options))
            advance()
        # An upper bound holds further right as well, and a lower bound further left.
        upper = np.minimum.accumulate(np.concatenate([piece.upper for piece in pieces]))
        lower = np.maximum.accumulate(np.concatenate([piece.lower for piece in pieces])[::-1])[::-1]
        here = _relative_width(lower, upper, least)
        width = max(width, here)
        _draw_band(
            axes,
            epsilons,
            np.maximum(lower, floor),
            np.maximum(upper, floor),
            thin=here < _THIN_WIDTH,
            name=name,
            guarantee="upper",
            colour=colour,
        )
    axes.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta(\varepsilon)$", yscale="log", title="Privacy profile")
    axes.set_xlim(0.0, epsilons[-1])
    axes.set_ylim(least, 1.0)
    _finish_axes(axes, f"relative width of the band at most {format_up(width, '.1g')}")


def _draw_tradeoffs(
    runs: dict[str, Composition], axes: Axes, points: int, advance: Callable[[], None], options: Any
) -> None:
    """Draws each run's trade-off curve, and the curve of guessing."""
    points = _check.count("points", points, least=2, most=_MOST_POINTS)
    alphas = np.linspace(0.0, 1.0, points)
    axes.plot([0, 1], [1, 0], color=_GUESSING_COLOUR, lw=1.0, ls=":", label="guessing")
    width = 0.0
    for (name, run), colour in zip(runs.items(), itertools.cycle(_COLOURS), strict=False):
        curve = run.tradeoff(alphas, **options)
        advance()
        here = float(np.max(curve.width, initial=0.0))
        width = max(width, here)
        _draw_band(
            axes,
            alphas,
            curve.lower,
            curve.upper,
            thin=here < _THIN_WIDTH,
            name=name,
            guarantee="lower",
            colour=colour,
        )
    axes.set(xlabel=r"type I error $\alpha$", ylabel=r"type II error $\beta(\alpha)$", title="Trade-off curve")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_aspect("equal")
    _finish_axes(axes, f"width of the band at most {format_up(width, '.1g')}")


def list_suffixes() -> tuple[str, ...]:
    """Lists the kinds of files that figures can be written to."""
    return tuple(_make_figure().canvas.get_supported_filetypes())


def _replace_infinity_by_zero(x: float) -> float:
    return x if np.isfinite(x) else 0.0


def _relative_width(lower: Array, upper: Array, least: float) -> float:
    """Returns the largest relative width of the bounds where the profile is drawn."""
    drawn = upper >= least
    return float(np.max((upper[drawn] - lower[drawn]) / upper[drawn], initial=0.0))


def _draw_band(
    axes: Axes, x: Array, lower: Array, upper: Array, *, thin: bool, name: str, guarantee: str, colour: str
) -> None:
    """Fills the band between both bounds, or draws one line if the eye cannot tell them apart.

    ``guarantee`` names the end that protects: the upper one of a profile, the lower one of a trade-off curve.
    """
    of = f"{name}: " if name else ""
    if thin:
        axes.plot(x, upper, color=colour, lw=1.8, label=f"{of}exact (the bounds coincide)")
        return
    axes.fill_between(x, lower, upper, color=colour, alpha=0.2, lw=0)
    for end, curve in (("upper", upper), ("lower", lower)):
        safe = end == guarantee
        label = f"{of}{end} bound, the guarantee" if safe else f"{of}{end} bound"
        axes.plot(x, curve, color=colour, lw=1.8 if safe else 1.2, ls="-" if safe else (0, (4, 3)), label=label)


def _finish_axes(axes: Axes, note: str) -> None:
    """Adds a note, a grid and the legend."""
    axes.text(0.03, 0.04, note, transform=axes.transAxes, fontsize=8, color="#444444")
    axes.grid(True, which="major", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def write_caption(run: Composable) -> str:
    """Returns a run's mechanisms as one line of text for a figure."""
    text = repr(run._to_composition())
    for long, short in (("noise_multiplier=", ""), ("mechanism=", ""), ("sampling_probability=", "")):
        text = text.replace(long, short)
    return text if len(text) <= 110 else text[:107] + "..."
