"""Figures of the privacy of compositions, with the band between the lower and the upper bounds.

This module needs matplotlib: ``pip install matplotlib``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._support import _check
from ._support.number_texts import format_up
from .composition import Composable, Composition
from .mechanisms import Mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
WIDTH = 1e-3
"""Default of ``width``, the relative width of bounds in a figure. The eye can see ten times this width
(``_THIN_WIDTH``)."""
POINTS = 81
"""Default number of points of a curve."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers of the runs, in order. Readers can tell runs apart by markers, without colour."""
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
"""Dashes of the runs, in order. Eight runs have eight different pairs of dash and marker."""
_THIN_WIDTH = 0.01
"""Width below which a band is as thin as its line. This width is relative for a profile and absolute for a trade-off
curve."""
_PIECES = 10
"""Number of pieces in which a profile is computed, so that progress can be shown."""
_MOST_POINTS = 10_000
"""Largest number of points of a curve, since each point needs a computation. A figure as wide as a page has fewer
pixels."""
_LEAST_ALPHA = 1e-9
"""Type I error that is used in place of 0, because the bound at 0 takes seconds to compute. The difference is not
visible, because the curve is continuous at 0."""
_LONGEST_LABEL = 44
"""Largest number of characters of a legend's entry."""


@dataclass(frozen=True)
class _PlotScheme:
    """Colours of a figure. The background of the figure is transparent, so the colours must suit the page."""

    runs: tuple[str, ...]
    text: str
    note: str
    grid: str
    guessing: str


_LIGHT = _PlotScheme(
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000", "#56b4e9", "#8c1d40"),
    text="#000000",
    note="#444444",
    grid="#dddddd",
    guessing="#8a8a8a",
)
"""Colours on a light page: the colours of Okabe and Ito (2008), with a dark red in place of yellow."""
_DARK = _PlotScheme(
    ("#4aa3df", "#ff8a4c", "#2fd6a0", "#f0a8d0", "#ffd166", "#ffffff", "#9ad7ff", "#b07cff"),
    text="#e6e6e6",
    note="#bbbbbb",
    grid="#3a3d42",
    guessing="#909090",
)
"""Colours on a dark page, which are lighter shades of the colours on a light page. Tests check that colour-blind
readers can tell the colours of a page apart (tests/accounting/questions/test_plots.py)."""


def privacy(
    run: Composable | Mapping[str, Composable],
    *,
    least_delta: float = 1e-12,
    points: int = POINTS,
    title: str | None = None,
    dark: bool = False,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Figure:
    """Draws the privacy profile beside the trade-off curve, of one run or of several.

    Parameters
    ----------
    run : mechanism or composition, or a mapping from names to several of them. Up to eight runs can be told apart in
        grey.
    least_delta : the smallest delta that the profile shows, in (0, 1).
    points : number of points of each curve, an integer in [2, 10000].
    title : text above the figure; by default the mechanisms of a single run.
    dark : whether the figure is for a dark page. The background is transparent in either case.
    progress : a function that is called with the number of finished pieces of the curves, and the number of all pieces.
    options : those of ``Composition.epsilon``; ``width`` is 1e-3 here unless given.

    Returns
    -------
    A matplotlib ``Figure``: ``figure.savefig("privacy.svg")`` writes it.

    Raises
    ------
    ImportError if matplotlib is not installed, ValueError for an option out of its range.

    >>> figure = privacy(dp.Gaussian(2.0) * 3, points=9)
    >>> [axes.get_title() for axes in figure.axes]
    ['Privacy profile', 'Trade-off curve']
    """
    scheme = _DARK if _check.check_flag_argument("dark", dark) else _LIGHT
    _check.check_function_argument("progress", progress, "done, total", optional=True)
    figure = _make_figure_for_plots()
    (left, right), runs = figure.subplots(1, 2), _name_runs_of_plots(run)
    done, total = 0, len(runs) * (_PIECES + 1)

    def report_plot_progress() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    options = {"width": WIDTH, **options}
    _plot_profiles(runs, left, least_delta, points, report_plot_progress, options, scheme)
    _plot_tradeoffs(runs, right, points, report_plot_progress, options, scheme)
    # One legend serves both panels, since a run has the same line in each.
    handles, labels = right.get_legend_handles_labels()
    for axes in (left, right):
        axes.get_legend().remove()
    columns = 1 if max(map(len, labels)) > 60 else min(len(labels), 3)
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, **_LEGEND)
    _set_plot_text_colour(legend.get_texts(), scheme)
    if title is None:
        title = write_caption(next(iter(runs.values()))) if len(runs) == 1 else ""
    figure.suptitle(title, fontsize=10, color=scheme.text)
    return figure


def profile(
    run: Composable | Mapping[str, Composable],
    axes: Axes,
    *,
    least_delta: float = 1e-12,
    points: int = POINTS,
    dark: bool = False,
    **options: Any,
) -> None:
    """Draws delta as a function of epsilon, from 0 to the epsilon at which delta of all runs is below ``least_delta``.

    Parameters
    ----------
    run : as for ``privacy``.
    axes : the matplotlib ``Axes`` to draw in. The legend goes below the axes.
    least_delta, points, dark, options : as for ``privacy``.

    Raises ValueError for an option out of its range.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> profile({"one": dp.Gaussian(2.0), "three": dp.Gaussian(2.0) * 3}, axes, points=9)
    >>> axes.get_xlabel()
    'epsilon (nats)'
    """
    scheme, named = _DARK if _check.check_flag_argument("dark", dark) else _LIGHT, _name_runs_of_plots(run)
    _plot_profiles(named, axes, least_delta, points, lambda: None, {"width": WIDTH, **options}, scheme)


def tradeoff(
    run: Composable | Mapping[str, Composable], axes: Axes, *, points: int = POINTS, dark: bool = False, **options: Any
) -> None:
    """Draws the least type II error of a test for the record, as a function of its type I error.

    Parameters
    ----------
    run : as for ``privacy``.
    axes : the matplotlib ``Axes`` to draw in. The legend goes below the axes.
    points, dark, options : as for ``privacy``; ``width`` is absolute here.

    Raises ValueError for an option out of its range.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> tradeoff(dp.Gaussian(2.0), axes, points=9)
    >>> axes.get_ylabel()
    'type II error (probability)'
    """
    scheme = _DARK if _check.check_flag_argument("dark", dark) else _LIGHT
    _plot_tradeoffs(_name_runs_of_plots(run), axes, points, lambda: None, {"width": WIDTH, **options}, scheme)


_LEGEND: Mapping[str, Any] = {"frameon": False, "fontsize": 8, "handlelength": 3.6}
"""Settings of a legend. The handles are long, so that they show a whole dash."""


def _make_figure_for_plots() -> Figure:
    """Returns a figure for two panels. Only this function imports matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("tightdp.plots needs matplotlib: pip install matplotlib") from None
    return Figure(figsize=(10.0, 4.8), dpi=160, layout="constrained", facecolor="none")


def _name_runs_of_plots(run: Composable | Mapping[str, Composable]) -> dict[str, Composition]:
    """Returns compositions by their names. A single run has an empty name."""
    if isinstance(run, Mapping) and not run:
        raise ValueError("run must name at least one composition, got none")
    runs = run if isinstance(run, Mapping) else {"": run}
    return {name: one._to_composition() for name, one in runs.items()}


def _plot_profiles(
    runs: dict[str, Composition],
    axes: Axes,
    least: float,
    points: int,
    advance: Callable[[], None],
    options: Any,
    scheme: _PlotScheme,
) -> None:
    """Draws each run's privacy profile from epsilon 0 to where delta falls below ``least``."""
    least = _check.open_unit("least_delta", least)
    points = _check.check_count_argument("points", points, least=2, most=_MOST_POINTS)
    ends = [run.epsilon(least, **options) for run in runs.values()]
    finite = [
        b.upper if np.isfinite(b.upper) else max(2 * b.lower if np.isfinite(b.lower) else 0.0, 10.0) for b in ends
    ]
    last = max(*finite, 1e-9)
    floor = 0.1 * least  # a bound of 0 has no logarithm
    width = 0.0
    for number, ((name, run), end) in enumerate(zip(runs.items(), ends, strict=True)):
        # A run's points end where its curve leaves the figure.
        epsilons = np.linspace(0.0, min(max(end.upper, 1e-9), last), points)
        pieces = []
        for part in np.array_split(epsilons, _PIECES):
            pieces.append(run.profile(part, **options))
            advance()
        # Delta decreases in epsilon. So upper bounds also hold for larger epsilon, and lower bounds for smaller
        # epsilon.
        upper = np.minimum.accumulate(np.concatenate([piece.upper for piece in pieces]))
        lower = np.maximum.accumulate(np.concatenate([piece.lower for piece in pieces])[::-1])[::-1]
        here = _relative_plot_width(lower, upper, least)
        width = max(width, here)
        upper, lower = np.maximum(upper, floor), np.maximum(lower, floor)
        _plot_band(axes, epsilons, upper, lower, thin=here < _THIN_WIDTH, name=name, number=number, scheme=scheme)
    axes.set(xlabel="epsilon (nats)", ylabel="delta (probability)", yscale="log", title="Privacy profile")
    axes.set_xlim(0.0, last)
    axes.set_ylim(least, 1.0)
    _finish_plot_axes(axes, f"both bounds at most {_format_plot_percent(width)} apart", scheme)


def _plot_tradeoffs(
    runs: dict[str, Composition],
    axes: Axes,
    points: int,
    advance: Callable[[], None],
    options: Any,
    scheme: _PlotScheme,
) -> None:
    """Draws each run's trade-off curve, and the curve of guessing."""
    points = _check.check_count_argument("points", points, least=2, most=_MOST_POINTS)
    alphas = np.linspace(0.0, 1.0, points)
    alphas[0] = _LEAST_ALPHA
    axes.plot([0, 1], [1, 0], color=scheme.guessing, lw=1.0, ls=":", label="guessing")
    width = 0.0
    for number, (name, run) in enumerate(runs.items()):
        curve = run.tradeoff(alphas, **options)
        advance()
        here = float(np.max(curve.width, initial=0.0))
        width = max(width, here)
        _plot_band(
            axes, alphas, curve.lower, curve.upper, thin=here < _THIN_WIDTH, name=name, number=number, scheme=scheme
        )
    axes.set(xlabel="type I error (probability)", ylabel="type II error (probability)", title="Trade-off curve")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_aspect("equal")
    _finish_plot_axes(axes, f"both bounds at most {format_up(width, '.1g')} apart", scheme)


def list_suffixes() -> tuple[str, ...]:
    """Lists the kinds of files that figures can be written to, such as "png" and "svg".

    >>> "svg" in list_suffixes()
    True
    """
    return tuple(_make_figure_for_plots().canvas.get_supported_filetypes())


def _format_plot_percent(width: float) -> str:
    """Returns a relative width as a percentage, rounded up."""
    return f"{format_up(100 * width, '.1g' if width < 0.1 else '.0f')} %"


def _relative_plot_width(lower: Array, upper: Array, least: float) -> float:
    """Returns the largest relative width of the bounds in the part of the profile that is drawn."""
    drawn = upper >= least
    return float(np.max((upper[drawn] - lower[drawn]) / upper[drawn], initial=0.0))


def _plot_band(
    axes: Axes, x: Array, safe: Array, other: Array, *, thin: bool, name: str, number: int, scheme: _PlotScheme
) -> None:
    """Draws the bound ``safe``, and fills the band up to the bound ``other`` unless the band is as thin as the line.

    The safe bound is the upper bound of a profile, and the lower bound of a trade-off curve. Colour, dash and marker
    all depend on the run, so that a reader who cannot see colours can use dashes and markers.
    """
    colour = scheme.runs[number % len(scheme.runs)]
    label = shorten_label(name) if name else "bound that protects"
    if not thin:
        axes.fill_between(x, other, safe, color=colour, alpha=0.2, lw=0)
        label += " (shaded: up to the other bound)"
    axes.plot(
        x,
        safe,
        color=colour,
        lw=1.8,
        ls=_DASHES[number % len(_DASHES)],
        marker=_MARKERS[number % len(_MARKERS)],
        ms=5,
        markevery=(0.02 + 0.035 * (number % 4), 0.14),  # markers of different runs do not coincide where curves meet
        label=label,
    )


def _finish_plot_axes(axes: Axes, note: str, scheme: _PlotScheme) -> None:
    """Adds a note, a grid and the legend, and sets the colours of everything but the curves."""
    axes.text(0.98, 0.97, note, transform=axes.transAxes, fontsize=8, color=scheme.note, ha="right", va="top")
    axes.grid(True, which="major", color=scheme.grid, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_facecolor("none")
    columns = 1 if max(len(text) for text in axes.get_legend_handles_labels()[1]) > 30 else 2
    legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, **_LEGEND)
    axes.tick_params(which="both", colors=scheme.text)
    _set_plot_text_colour([axes.title, axes.xaxis.label, axes.yaxis.label, *legend.get_texts()], scheme)
    for side, spine in axes.spines.items():
        spine.set_visible(side not in ("top", "right"))
        spine.set_color(scheme.text)


def _set_plot_text_colour(texts: list[Any], scheme: _PlotScheme) -> None:
    for text in texts:
        text.set_color(scheme.text)


def shorten_label(name: str, most: int = _LONGEST_LABEL) -> str:
    """Returns ``name``, shortened for a legend.

    The names of frequent arguments are left out. If the text is then longer than ``most`` characters, an integer >= 5,
    its middle is left out too.

    Raises TypeError if ``name`` is not a text. A text that cannot be shortened further stays as it is.

    >>> shorten_label("PoissonSampled(mechanism=Gaussian(noise_multiplier=1.0), sampling_probability=0.01) * 1000", 30)
    'PoissonSampled…, 0.01) * 1000'
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, got {name!r}")
    short = name
    for argument in ("noise_multiplier=", "mechanism=", "sampling_probability="):
        short = short.replace(argument, "")
    if len(short) <= most:
        return short
    half = (most - 1) // 2
    return f"{short[:half].rstrip()}…{short[len(short) - half :]}"


def write_caption(run: Composable) -> str:
    """Returns the mechanisms of ``run``, a mechanism or a composition, as one line of text for a figure.

    Raises TypeError if ``run`` is neither.

    >>> write_caption(dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000)
    'PoissonSampled(Gaussian(1.0), 0.01) * 1000'
    """
    if not isinstance(run, (Mechanism, Composition)):
        raise TypeError(f"run must be a mechanism or a composition, got {run!r}")
    return shorten_label(repr(run._to_composition()), 110)
