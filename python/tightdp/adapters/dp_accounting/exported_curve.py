"""Builds the loss distribution whose privacy profile is the lower convex hull of points above a given profile.

The proof is in docs/theory/conversions.md section 13. Here profiles are functions of x = e^epsilon.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_SLACK = 2.0**-48
"""Bound on the rounding error of a mass, relative to the sum of its terms. At most 32 roundings contribute, each by at
most 2^-53."""


class ExportedPLDMasses(NamedTuple):
    """The masses of a pair's first distribution P at the losses ``k * interval``, rounded up, and at an infinite
    loss."""

    at: dict[int, float]
    infinity: float


def build_exported_pld_hull(above: dict[int, float], below: dict[int, float], interval: float) -> ExportedPLDMasses:
    """Returns the loss distribution of a pair. No privacy profile that meets the bounds exceeds the profile of the
    pair.

    ``above`` maps k >= 0 to an upper bound of delta(k * interval), and ``below`` is the same mapping for the reversed
    pair. Both mappings have an entry for k = 0. If ``above`` and ``below`` are exchanged, the result is the loss
    distribution of the reversed pair.
    """
    points = _ExportedPLDCurve(above, below, interval)
    nodes: list[int] = []
    for k in points.all:
        # A node of negative mass is above the chord between its neighbours, and is removed. None stands for x = 0.
        while nodes and points.compute_dp_accounting_mass(nodes[-2] if len(nodes) > 1 else None, nodes[-1], k)[0] < 0:
            nodes.pop()
        nodes.append(k)
    at = {}
    for low, k, high in zip([None, *nodes], nodes, [*nodes[1:], None], strict=False):
        mass, terms = points.compute_dp_accounting_mass(low, k, high)
        at[k] = max(mass, 0.0) + _SLACK * terms
    return ExportedPLDMasses(at, points.delta(nodes[-1]))


class _ExportedPLDCurve:
    """Points (x, H) above a profile, where x is e^epsilon and H an upper bound of delta. For x < 1, H - (1 - x) is
    stored instead of H, to avoid cancellation."""

    def __init__(self, above: dict[int, float], below: dict[int, float], interval: float) -> None:
        start = min(above[0], below[0])
        self._delta = _make_exported_pld_bounds_nonincreasing(above, start)
        self._excess = {
            -k: math.exp(-k * interval) * value
            for k, value in _make_exported_pld_bounds_nonincreasing(below, start).items()
        }
        self._interval = interval
        self.all = sorted({*self._delta, *self._excess})

    def delta(self, k: int) -> float:
        return self._delta[k] if k >= 0 else self._excess[k] - math.expm1(k * self._interval)

    def compute_dp_accounting_mass(self, low: int | None, k: int, high: int | None) -> tuple[float, float]:
        """Returns P's mass at k if the profile is linear from ``low`` to k and from k to ``high``.

        The mass is x (s - t), where x = e^(k interval), -s is the slope before x, and -t is the slope after x. The
        second result is the sum of the absolute values of the mass's terms, to which the rounding error is
        proportional. None stands for x = 0 as ``low``, and for infinity as ``high``.
        """
        left, left_terms = self._compute_dp_accounting_slope_before(low, k)
        right, right_terms = self._compute_dp_accounting_slope_behind(k, high)
        crossing = math.exp(k * self._interval) if k <= 0 and (high is None or high > 0) else 0.0
        return left - right + crossing, left_terms + right_terms + crossing

    def _compute_dp_accounting_slope_before(self, low: int | None, k: int) -> tuple[float, float]:
        """Returns x s (see ``compute_dp_accounting_mass``), or x s - x if k <= 0, and the sum of the absolute values of
        the terms."""
        width = 1.0 if low is None else -math.expm1(low * self._interval - k * self._interval)
        if k <= 0:
            before, here = 0.0 if low is None else self._excess[low], self._excess[k]
            return (before - here) / width, (before + here) / width
        before, here = 1.0 if low is None else self.delta(low), self._delta[k]
        return (before - here) / width, (before + here if low is not None and low < 0 else before - here) / width

    def _compute_dp_accounting_slope_behind(self, k: int, high: int | None) -> tuple[float, float]:
        """Returns x t (see ``compute_dp_accounting_mass``), or x t - x if ``high`` <= 0, and the sum of the absolute
        values of the terms."""
        if high is None:
            return 0.0, 0.0
        gap = high * self._interval - k * self._interval
        width = math.expm1(gap) if gap < 709 else math.inf
        if high <= 0:
            here, behind = self._excess[k], self._excess[high]
            return (here - behind) / width, (here + behind) / width
        here, behind = self.delta(k), self._delta[high]
        return (here - behind) / width, (here + behind if k < 0 else here - behind) / width


def _make_exported_pld_bounds_nonincreasing(values: dict[int, float], start: float) -> dict[int, float]:
    """Returns the bounds in the order of k. Each is lowered to ``start`` or to the bound before it, if either is
    smaller."""
    found, least = {}, start
    for k in sorted(values):
        least = found[k] = min(least, values[k])
    return found
