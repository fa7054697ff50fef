"""Draws the figures of the pages that explain privacy and plots, for light and for dark pages.

    python tools/figures.py [FOLDER]

Writes docs/figures/NAME.png and NAME-dark.png, or writes these files into FOLDER. Figures of measurements are not
among them, because each program in bench/ draws what it measures.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import tightdp as dp
from tightdp import plots

ROOT = Path(__file__).resolve().parents[1]
Runs = Mapping[str, Any]

PROMISES = {f"epsilon {epsilon:g}": dp.PureDP(epsilon) for epsilon in (0.5, 1, 2, 4)}
REPETITIONS = {f"{count:,} releases": dp.Gaussian(10.0) * count for count in (1, 10, 100, 1000)}
NOISES = {
    f"noise multiplier {noise:g}": dp.PoissonSampled(dp.Gaussian(noise), 0.01) * 1000
    for noise in (0.7, 0.8, 1.0, 1.3, 1.7, 2.2, 3.0, 4.0)
}
KNOWLEDGE = {"any mechanism of rho 0.2 (zCDP)": dp.ZCDP(0.2), "Gaussian noise of that rho": dp.Gaussian(2.5**0.5)}
ONE = {"1,000 steps of DP-SGD": dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000}
FIGURES: Mapping[str, tuple[Callable[..., None], Runs]] = {
    "promise": (plots.tradeoff, PROMISES),
    "repetition": (plots.profile, REPETITIONS),
    "one-profile": (plots.profile, ONE),
    "one-tradeoff": (plots.tradeoff, ONE),
    "eight-profile": (plots.profile, NOISES),
    "eight-tradeoff": (plots.tradeoff, NOISES),
    "band-profile": (plots.profile, KNOWLEDGE),
    "band-tradeoff": (plots.tradeoff, KNOWLEDGE),
}
"""The function that draws each figure, and the runs that the function draws."""


def draw_figure(name: str, dark: bool) -> Figure:
    """Draws one of ``FIGURES`` in a square of its own."""
    draw, runs = FIGURES[name]
    figure = Figure(figsize=(5.2, 5.4), dpi=120, layout="constrained", facecolor="none")
    draw(runs, figure.subplots(), dark=dark)
    return figure


def save_figures(folder: Path) -> None:
    """Writes all figures into ``folder``."""
    for name in FIGURES:
        for dark in (False, True):
            draw_figure(name, dark).savefig(folder / f"{name}{'-dark' if dark else ''}.png")


if __name__ == "__main__":
    save_figures(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "figures")
