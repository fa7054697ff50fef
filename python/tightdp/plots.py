"""Figures of a composition's privacy, with the band between its lower and upper bounds.

Needs matplotlib: ``pip install tightdp[plot]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _check
from .bound import Curve
from .composition import Composable

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:  # pragma: no cover - the test suite has it
    raise ImportError("tightdp.plots needs matplotlib: pip install tightdp[plot]") from None

Array = NDArray[np.float64]
_COLOUR, _RANDOM = "#1f5a9e", "#9a9a9a"
_THIN = 0.01
"""A band of this width is as thin as its line."""
_MOST_POINTS = 10_000
"""Several times the pixels of a figure as wide as a page; each is a query."""


def privacy(
    run: Composable, *, least_delta: float = 1e-12, points: int = 161, title: str | None = None, **options: Any
) -> Figure:
    """The privacy profile beside the trade-off curve. ``options`` are those of ``Composition.epsilon``."""
    figure = Figure(figsize=(10.0, 4.4), dpi=160, layout="constrained")
    left, right = figure.subplots(1, 2)
    profile(run, left, least_delta=least_delta, points=points, **options)
    tradeoff(run, right, points=points, **options)
    figure.suptitle(_caption(run) if title is None else title, fontsize=10)
    return figure


def profile(run: Composable, axes: Axes, *, least_delta: float = 1e-12, points: int = 161, **options: Any) -> None:
    """delta as a function of epsilon, from 0 to where it falls below ``least_delta``."""
    least = _check.open_unit("least_delta", least_delta)
    points = _check.count("points", points, least=2, most=_MOST_POINTS)
    end = run._composition().epsilon(least, **options)
    last = end.upper if np.isfinite(end.upper) else max(2 * end.lower if np.isfinite(end.lower) else 0.0, 10.0)
    epsilons = np.linspace(0.0, max(last, 1e-9), points)
    curve = run._composition().profile(epsilons, **options)
    floor = 0.1 * least  # a bound of 0 has no logarithm
    _band(axes, epsilons, np.maximum(curve.lower, floor), np.maximum(curve.upper, floor), _widths(curve, least) < _THIN)
    axes.set(xlabel=r"$\varepsilon$", ylabel=r"$\delta(\varepsilon)$", yscale="log", title="Privacy profile")
    axes.set_xlim(0.0, epsilons[-1])
    axes.set_ylim(least, 1.0)
    _finish(axes, f"relative width of the band at most {_widths(curve, least):.1g}")


def tradeoff(run: Composable, axes: Axes, *, points: int = 161, **options: Any) -> None:
    """The least type II error of a test for the record, as a function of its type I error."""
    points = _check.count("points", points, least=2, most=_MOST_POINTS)
    alphas = np.linspace(0.0, 1.0, points)
    curve = run._composition().tradeoff(alphas, **options)
    axes.plot([0, 1], [1, 0], color=_RANDOM, lw=1.0, ls=":", label="guessing")
    width = float(np.max(curve.width, initial=0.0))
    _band(axes, alphas, curve.lower, curve.upper, width < _THIN)
    axes.set(xlabel=r"type I error $\alpha$", ylabel=r"type II error $\beta(\alpha)$", title="Trade-off curve")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_aspect("equal")
    _finish(axes, f"width of the band at most {width:.1g}")


def suffixes() -> tuple[str, ...]:
    """The kinds of files that figures can be written to."""
    return tuple(Figure().canvas.get_supported_filetypes())


def _widths(curve: Curve, least: float) -> float:
    """The largest relative width where the profile is drawn."""
    drawn = curve.upper >= least
    return float(np.max(curve.width[drawn] / curve.upper[drawn], initial=0.0))


def _band(axes: Axes, x: Array, lower: Array, upper: Array, thin: bool) -> None:
    """What lies between both bounds; one line where the eye cannot tell them apart."""
    if thin:
        axes.plot(x, upper, color=_COLOUR, lw=1.8, label="lower and upper bound")
        return
    axes.fill_between(x, lower, upper, color=_COLOUR, alpha=0.25, lw=0, label="where the truth lies")
    axes.plot(x, upper, color=_COLOUR, lw=1.6, label="upper bound")
    axes.plot(x, lower, color=_COLOUR, lw=1.6, ls=(0, (4, 3)), label="lower bound")


def _finish(axes: Axes, note: str) -> None:
    axes.text(0.03, 0.04, note, transform=axes.transAxes, fontsize=8, color="#444444")
    axes.grid(True, which="major", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _caption(run: Composable) -> str:
    text = repr(run._composition())
    for long, short in (("noise_multiplier=", ""), ("mechanism=", ""), ("sampling_probability=", "")):
        text = text.replace(long, short)
    return text if len(text) <= 110 else text[:107] + "..."
