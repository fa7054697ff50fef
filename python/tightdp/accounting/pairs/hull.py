"""Convex curves through points, and pairs that have these curves (docs/theory/derived.md section 3).

A pair (P, Q) consists of two distributions of the output on neighbouring data sets. Its curve is delta as a function of
x = e^epsilon. The masses of P and Q are computed from differences between slopes of the curve. Slopes are exact
fractions, so the masses are accurate even if two points are very close.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from ...mechanisms import PrivacyLoss
from ...options import Direction
from ..numerics.outward import widen_down, widen_up

_FAINTEST = Fraction(1, 10**290)
"""Smallest mass of an atom. A smaller mass is moved to an infinite loss, because its logarithm would be inaccurate."""
_ULP = 2.0**-53


class Point(NamedTuple):
    """A point of a curve. Delta is ``value`` at ``x``, and ``epsilon`` is the rounded logarithm of ``x``."""

    epsilon: float
    x: Fraction
    value: Fraction


def build_lower_hull_of_curve(points: Iterable[Point]) -> list[Point]:
    """Returns the corners of the lower convex hull of points with ascending x.

    The hull never rises: a point that is higher than the last corner is lowered to the height of this corner.
    """
    hull: list[Point] = []
    for point in points:
        if hull and point.value > hull[-1].value:
            point = point._replace(value=hull[-1].value)
        while len(hull) > 1 and compute_slope_between_pair_points(
            hull[-2], hull[-1]
        ) >= compute_slope_between_pair_points(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def compute_slope_between_pair_points(one: Point, other: Point) -> Fraction:
    """Returns the exact slope of the line through two points."""
    return (other.value - one.value) / (other.x - one.x)


def build_dominating_pair(points: Iterable[tuple[float, float]], largest: float, direction: Direction) -> PrivacyLoss:
    """Returns a ``PrivacyLoss`` whose pair, in ``direction``, dominates every pair with a curve at or below ``points``.

    Each point is (x, value) with x > 0, where ``value`` is an upper bound on delta(log x). ``largest`` is an upper
    bound on the absolute values of the losses.
    """
    at = [Point(-math.inf, Fraction(0), Fraction(1))]
    if largest < _FARTHEST:  # the curve is 1 - x for x <= e^-largest, and 0 for x >= e^largest
        at.append(_make_hull_point_of_pair(widen_down(math.exp(-largest), 2 * _ULP), 0.0))
        at.append(_make_hull_point_of_pair(widen_up(math.exp(largest), 2 * _ULP), 0.0))
    at += [_make_hull_point_of_pair(x, value) for x, value in points]
    hull = build_lower_hull_of_curve(sorted(at, key=lambda point: (point.x, point.value)))
    slopes = [compute_slope_between_pair_points(*pair) for pair in pairwise(hull)] + [Fraction(0)]
    infinity, hidden = hull[-1].value, 1 + slopes[0]
    atoms: list[tuple[float, Fraction, Fraction]] = []
    for point, (before, behind) in zip(hull[1:], pairwise(slopes), strict=True):
        q = behind - before
        p = point.x * q
        if min(p, q) < _FAINTEST:
            infinity, hidden = infinity + p, hidden + q
        else:
            atoms.append((point.epsilon, p, q))
    if direction == "add":  # a PrivacyLoss is stated in the direction "remove", so the pair is reversed
        infinity, hidden = hidden, infinity
        atoms = [(-epsilon, q, p) for epsilon, p, q in reversed(atoms)]
    losses = [epsilon for epsilon, _, _ in atoms]
    error = 8 * _ULP * (1 + max(map(abs, losses), default=0.0))
    return PrivacyLoss(
        tuple(losses),
        tuple(float(p) for _, p, _ in atoms),
        min(_round_hull_mass_of_pair_up(infinity), 1.0),
        min(_round_hull_mass_of_pair_up(hidden), 1.0),
        "any",
        loss_error=error,
    )


_FARTHEST = 300.0
"""Largest loss that the hull takes into account. Both e^300 and its square are finite doubles."""


def _make_hull_point_of_pair(x: float, value: float) -> Point:
    """Returns the point (x, value), raised to 1 - x if ``value`` is smaller. No pair has a curve below 1 - x."""
    return Point(math.log(x), Fraction(x), max(Fraction(value), 1 - Fraction(x)))


def _round_hull_mass_of_pair_up(exact: Fraction) -> float:
    """Returns the smallest double that is at least ``exact``."""
    found = float(exact)
    return math.nextafter(found, math.inf) if Fraction(found) < exact else found
