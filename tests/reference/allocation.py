"""The mean of t likelihood ratios: exactly where the ratio takes two values, and by doubling on a plain list."""

from __future__ import annotations

import math

import mpmath as mp


def two_valued(epsilon: float, steps: int, at: float, add: bool) -> mp.mpf:
    """delta(at) of steps of binary randomised response: the mean is one of steps + 1 values."""
    epsilon, at = mp.mpf(epsilon), mp.mpf(at)
    e = mp.exp(epsilon)
    # 1 - e^at ratio, or ratio - e^at, of a ratio e^epsilon and of e^-epsilon: without cancellation, for at = epsilon
    # makes one of them 0 and with it the whole.
    if add:
        above, below = -mp.expm1(at + epsilon), -mp.expm1(at - epsilon)
    else:
        above, below = mp.exp(at) * mp.expm1(epsilon - at), mp.exp(at) * mp.expm1(-epsilon - at)
    total = mp.mpf(0)
    for j in range(steps + 1):
        excess = (j * above + (steps - j) * below) / steps
        if excess > 0:
            total += mp.binomial(steps, j) * (1 / (1 + e)) ** j * (e / (1 + e)) ** (steps - j) * excess
    return total


def two_gaussian_steps(sigma: float, at: float, add: bool) -> mp.mpf:
    """delta(at) of two Gaussian steps: over one variable by formula, over the other by quadrature."""
    s, x = mp.mpf(sigma), mp.exp(mp.mpf(at))

    def ratio(z: mp.mpf) -> mp.mpf:
        return mp.exp(z / s - 1 / (2 * s * s))

    def given(z: mp.mpf) -> mp.mpf:
        rest = (2 / x if add else 2 * x) - ratio(z)  # what the other ratio is compared with
        if rest <= 0:
            return mp.mpf(0) if add else 1 - rest
        edge = s * mp.log(rest) + 1 / (2 * s)
        if add:
            return x * (rest * mp.ncdf(edge) - mp.ncdf(edge - 1 / s))
        return mp.ncdf(1 / s - edge) - rest * mp.ncdf(-edge)

    kink = s * mp.log(2 / x if add else 2 * x) + 1 / (2 * s)
    low, high = mp.mpf(-30), kink if add else 1 / s + 30
    edges = sorted([low + (high - low) * i / 40 for i in range(41)] + ([kink] if low < kink < high else []))
    return mp.quad(lambda z: mp.npdf(z) * given(z), edges) / 2


Law = list[tuple[float, float]]
"""Values and masses, ascending."""


def spread(points: Law, h: float, floor: float = 1e-30) -> Law:
    """Each point split between the points of the lattice e^{ih} on its two sides, its mean kept."""
    found: dict[int, float] = {}
    for value, mass in points:
        if mass < floor:
            continue
        i = math.floor(math.log(value) / h)
        left, right = math.exp(i * h), math.exp((i + 1) * h)
        share = min(max((value - left) / (right - left), 0.0), 1.0)
        found[i] = found.get(i, 0.0) + mass * (1 - share)
        found[i + 1] = found.get(i + 1, 0.0) + mass * share
    return [(math.exp(i * h), found[i]) for i in sorted(found)]


def gathered(points: Law, h: float, floor: float = 1e-30) -> Law:
    """The points of each cell of the lattice replaced by their mean."""
    found: dict[int, list[float]] = {}
    for value, mass in points:
        if mass < floor:
            continue
        cell = found.setdefault(math.floor(math.log(value) / h), [0.0, 0.0])
        cell[0] += mass
        cell[1] += mass * value
    return [(moment / mass, mass) for mass, moment in (found[i] for i in sorted(found))]


def doubled(points: Law, times: int, h: float, upper: bool) -> Law:
    """The law of the mean of 2^times independent copies."""
    step = spread if upper else gathered
    law = step(points, h)
    for _ in range(times):
        law = step([(0.5 * (x + y), v * w) for x, v in law for y, w in law], h)
    return law


def delta(points: Law, at: float, add: bool) -> float:
    x = math.exp(at)
    return math.fsum(w * max(1 - x * v if add else v - x, 0.0) for v, w in points)
