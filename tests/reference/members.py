"""Suprema over the members of a class, by linear programmes on small discrete spaces.

A member is described by the masses that one law gives to each possible value of the likelihood ratios of the others to
it. What defines a class is linear in these masses, and so are the hockey-stick divergences of interest.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog


@dataclass
class Class:
    """What a law may be, relative to another: ratios on one of ``supports``; mean 1 with the mass ``lost`` that the
    other has none of (if ``loses``); and for each of ``rows`` (g, weight of what is lost, most): E g + weight * lost
    <= most."""

    supports: list[np.ndarray]
    rows: list = field(default_factory=list)
    loses: bool = False


def pure(e):
    return Class([np.exp(e * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]))])


def approximate(e, d):
    grown = math.exp(e)
    ratios = np.array([0.0, 0.5 / grown, 1 / grown, 1.0, grown, 2 * grown])
    return Class(
        [np.unique(ratios)],
        [(lambda v: np.maximum(v - grown, 0.0), 1.0, d), (lambda v: np.maximum(1 - grown * v, 0.0), 0.0, d)],
        loses=True,
    )


def bounded_range(eta, shifts):
    return Class([np.exp([t - eta, t - eta / 2, t]) for t in shifts])


def concentrated(rho, values):
    """Some orders stand for all: a supremum that is a little too large, on values that are too few."""

    def row(order):
        unit = math.exp(-order * (order - 1) * rho)
        return [(lambda v: unit * v**order, 0.0, 1.0), (lambda v: unit * v ** (1 - order), 0.0, 1.0)]

    orders = [1.05, 1.2, 1.5, *np.arange(2.0, 12.0, 0.5)]
    return Class([np.exp(values)], [each for order in orders for each in row(order)])


def _solve(gain, equal, most):
    """Largest gain . v, v >= 0, under rows (coefficients, right-hand side)."""

    def system(rows):
        return (np.array([row for row, _ in rows]), np.array([value for _, value in rows])) if rows else (None, None)

    left, right = system(most)
    same, value = system(equal)
    for method in ("highs-ds", "highs-ipm"):  # SciPy 1.15's simplex method gives up on one of the programs
        found = linprog(
            -np.asarray(gain), left, right, same, value, method=method,
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        if found.status == 0:
            return -found.fun
    raise AssertionError(found.message)


def pair(kind, x, direction, q=1.0):
    """sup H_x of a record removed (added), the law without it being the reference; on a Poisson sample."""
    best = 0.0
    for ratios in kind.supports:
        mixed = 1 - q + q * ratios
        gain = np.maximum(mixed - x if direction == "remove" else 1 - x * mixed, 0.0)
        more = q if direction == "remove" else 0.0
        rows = [(np.append(g(ratios), weight), most) for g, weight, most in kind.rows]
        equal = [(np.append(np.ones(len(ratios)), 0.0), 1.0), (np.append(ratios, 1.0), 1.0)]
        if not kind.loses:
            equal.append((np.append(np.zeros(len(ratios)), 1.0), 0.0))
        best = max(best, _solve(np.append(gain, more), equal, rows))
    return best


def replaced(kind, x, q=1.0, fixed=False):
    """sup H_x of a record replaced by another: both laws are of the class relative to that of neither.

    On a Poisson sample, or on one of fixed size, where in the other case a third record is drawn.
    """
    best = 0.0
    sides = 3 if fixed else 2
    for supports in itertools.product(kind.supports, repeat=sides):
        grids = [axis.ravel() for axis in np.meshgrid(*supports, indexing="ij")]
        first, second = grids[:2]
        rest = grids[2] if fixed else np.ones(len(first))
        gain = np.maximum(q * (first - x * second) + (1 - q) * (1 - x) * rest, 0.0)
        # After the masses: what each law has beyond the middle one's; the first one's is gained whole.
        tail = np.array([q, 0.0, 0.0])[:sides]
        equal, rows = [(np.append(np.ones(len(first)), np.zeros(sides)), 1.0)], []
        for side, ratios in enumerate(grids):
            unit = np.eye(sides)[side]
            equal.append((np.append(ratios, unit), 1.0))
            if not kind.loses:
                equal.append((np.append(np.zeros(len(first)), unit), 0.0))
            rows += [(np.append(g(ratios), weight * unit), most) for g, weight, most in kind.rows]
        best = max(best, _solve(np.append(gain, tail), equal, rows))
    return best


def allocated(kind, x, direction):
    """sup H_x of one of two steps drawn at random, the second step's member chosen in the light of the first output."""
    best = 0.0
    for firsts in kind.supports:
        one, two, history = [], [], []  # ratios of both steps, and what the second one's member may depend on
        for i, first in enumerate(firsts):
            for label, seconds in enumerate(kind.supports):
                for second in seconds:
                    one.append(first)
                    two.append(second)
                    history.append((i, label))
        one, two = np.array(one), np.array(two)
        pasts = sorted(set(history))
        n, m = len(one), 1 + len(pasts)  # lost by the first step, and by the second in each past
        mean = (one + two) / 2
        gain = np.maximum(mean - x if direction == "remove" else 1 - x * mean, 0.0)
        lost = np.full(m, 0.5 if direction == "remove" else 0.0)
        none = np.zeros(m)
        equal = [(np.append(np.ones(n), none), 1.0), (np.append(one, np.eye(m)[0]), 1.0)]
        rows = [(np.append(g(one), weight * np.eye(m)[0]), most) for g, weight, most in kind.rows]
        for k, past in enumerate(pasts, 1):
            here = np.array([h == past for h in history], dtype=float)
            equal.append((np.append(here * (two - 1), np.eye(m)[k]), 0.0))
            rows += [(np.append(here * (g(two) - most), weight * np.eye(m)[k]), 0.0) for g, weight, most in kind.rows]
        if not kind.loses:
            equal += [(np.append(np.zeros(n), np.eye(m)[k]), 0.0) for k in range(m)]
        best = max(best, _solve(np.append(gain, lost), equal, rows))
    return best
