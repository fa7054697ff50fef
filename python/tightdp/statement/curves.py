"""Draws the curves of a statement's page as inline SVG: the privacy profile and the trade-off curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..bound import Curve
from .wording import format_stated_above

Vector = NDArray[np.float64]
WIDTH, HEIGHT = 420, 300
"""Size of a figure in units of its SVG."""
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 44
"""Margins of a figure in units of its SVG."""
POINTS = 41
"""Number of points of a curve."""
LEAST_DELTA = 1e-12
"""Smallest delta on the axis of delta."""


def draw_statement_profile(x: Vector, curve: Curve, epsilon: float, delta: float) -> str:
    """Draws delta as a function of epsilon, on a logarithmic axis, and marks the (epsilon, delta) of the statement."""
    low, most = math.log10(LEAST_DELTA), float(x[-1])

    # The first point below the axis is drawn as well, so that the curve reaches the axis.
    seen = int((curve.upper > LEAST_DELTA).sum())
    x, lower, higher = x[: seen + 1], curve.lower[: seen + 1], curve.upper[: seen + 1]

    def scale_to_profile_axis(values: Vector) -> Vector:
        return np.log10(np.maximum(values, LEAST_DELTA)) - low

    ticks = [(k - low, f"10<tspan dy='-4' font-size='8'>{k}</tspan>" if k else "1") for k in range(int(low), 1, 2)]
    frame = _StatementFigure(most, -low)
    mark = (epsilon, math.log10(max(delta, LEAST_DELTA)) - low) if epsilon <= most else None
    lower, higher, title = scale_to_profile_axis(lower), scale_to_profile_axis(higher), "delta (curve) at each epsilon"
    return frame.draw_statement_figure(title, "epsilon", "delta", x, lower, higher,
                             x_ticks=_place_statement_curve_ticks(most), y_ticks=ticks, mark=mark)  # fmt: skip


def draw_statement_tradeoff(x: Vector, curve: Curve) -> str:
    """Draws the trade-off curve: the least rate of missed records at each rate of false accusations."""
    ticks = _place_statement_curve_ticks(1.0)
    guessing = (0.0, 1.0), (1.0, 0.0)
    frame = _StatementFigure(1.0, 1.0)
    return frame.draw_statement_figure("least errors of any test", "false accusations", "missed", x, curve.lower, curve.upper,
                             x_ticks=ticks, y_ticks=ticks, reference=guessing)  # fmt: skip


def _place_statement_curve_ticks(most: float) -> list[tuple[float, str]]:
    """Returns round numbers from 0 to ``most``, with their labels."""
    step = 10.0 ** math.floor(math.log10(most))
    step *= next(f for f in (1.0, 0.5, 0.2) if most / (step * f) >= 4 or f == 0.2)
    return [(k * step, f"{k * step:g}") for k in range(int(most / step * (1 + 1e-9)) + 1)]


class _StatementFigure:
    """A figure with a horizontal axis from 0 to ``right`` and a vertical axis from 0 to ``top``."""

    def __init__(self, right: float, top: float) -> None:
        self._x: Callable[[float], float] = lambda x: LEFT + (WIDTH - LEFT - RIGHT) * x / right
        self._y: Callable[[float], float] = lambda y: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    def _write_points(self, xs: Sequence[float] | Vector, ys: Sequence[float] | Vector) -> str:
        return " ".join(f"{self._x(float(x)):.1f},{self._y(float(y)):.1f}" for x, y in zip(xs, ys, strict=True))

    def draw_statement_figure(
        self,
        title: str,
        across: str,
        along: str,
        x: Vector,
        lower: Vector,
        higher: Vector,
        *,
        x_ticks: list[tuple[float, str]],
        y_ticks: list[tuple[float, str]],
        mark: tuple[float, float] | None = None,
        reference: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ) -> str:
        """Draws the axes, the curves ``lower`` and ``higher``, and the band between them. A point is marked if ``mark``
        is given."""
        left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM
        parts = [f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
                 f"<title>{title}</title>"]  # fmt: skip
        for at, label in x_ticks:
            parts.append(f'<line class="grid" x1="{self._x(at):.1f}" x2="{self._x(at):.1f}" y1="{top}" y2="{bottom}"/>')
            parts.append(f'<text x="{self._x(at):.1f}" y="{bottom + 15}" text-anchor="middle">{label}</text>')
        for at, label in y_ticks:
            parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{self._y(at):.1f}" y2="{self._y(at):.1f}"/>')
            parts.append(f'<text x="{left - 6}" y="{self._y(at) + 4:.1f}" text-anchor="end">{label}</text>')
        if reference is not None:
            (x1, y1), (x2, y2) = reference
            parts.append(f'<polyline class="reference" points="{self._write_points((x1, x2), (y1, y2))}"/>')
        parts.append(f'<polygon class="band" points="{self._write_points([*x, *x[::-1]], [*lower, *higher[::-1]])}"/>')
        parts += [f'<polyline class="edge" points="{self._write_points(x, edge)}"/>' for edge in (lower, higher)]
        if mark is not None:
            parts.append(f'<circle class="mark" cx="{self._x(mark[0]):.1f}" cy="{self._y(mark[1]):.1f}" r="4"/>')
        middle = (left + right) / 2
        parts.append(f'<text class="axis" x="{middle:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{across}</text>')
        parts.append(f'<text class="axis" transform="translate(14 {(top + bottom) / 2:.0f}) rotate(-90)" '
                     f'text-anchor="middle">{along}</text></svg>')  # fmt: skip
        return "".join(parts)


def choose_statement_epsilons(epsilon: float) -> Vector:
    """Returns the epsilons of the profile, from 0 to about twice the ``epsilon`` of the statement.

    If ``epsilon`` is 0, or at least 500, the profile goes up to 10.
    """
    most = 2 * epsilon if 0 < epsilon < 500 else 10.0
    return np.linspace(0.0, float(format_stated_above(most, 2)), POINTS)
