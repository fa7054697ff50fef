"""Laws of a statistic and noise, in cells: the probability of every cell at every value of the statistic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from .pairs import Pair

Law = Mapping[tuple[float, ...], Fraction]
"""The probabilities of the values of a vector."""
REACH = 9.0
"""Deviations of a normal law beyond which cells end: 1e-19 is left, and belongs to the outermost cells."""

HALVINGS = 30
"""Of a cell, until an edge is where the loss is asked for: the curve is off by the square of the distance."""
FARTHEST = 600.0
"""Losses beyond it count as infinite in upper laws, because their exponentials are no doubles."""
JOINT = 40_000
"""About so many cells of several outputs together; Laplace noise has twice as many an axis."""

MANY = 1_000_000
"""The most outcomes of a step."""


class Noise(Protocol):
    """What is released about a number."""

    def cells(self, values: np.ndarray, count: int) -> np.ndarray:
        """The masses of all cells (columns) at each of ``values`` (rows). The cells do not depend on the row."""


@dataclass(frozen=True)
class Continuous:
    """Normal or Laplace noise of scale ``scale``."""

    kind: str
    scale: float

    def density(self, z: np.ndarray) -> np.ndarray:
        z = z / self.scale
        return -z * z / 2 if self.kind == "normal" else -np.abs(z)

    def edges(self, values: np.ndarray, count: int) -> np.ndarray:
        reach = self.scale * (REACH if self.kind == "normal" else 40.0)
        edges = np.linspace(values.min() - reach, values.max() + reach, count)
        if self.kind == "normal":
            return edges
        dense = np.linspace(values.min() - 8 * self.scale, values.max() + 8 * self.scale, count)
        edges = np.unique(np.concatenate((edges, dense)))
        # Masses of narrow cells are differences of nearly equal numbers; the density has a corner at each value.
        edges = edges[np.append(True, np.diff(edges) > 1e-6 * self.scale)]
        far = np.min(np.abs(edges[:, None] - values[None, :]), axis=1) > 1e-6 * self.scale
        return np.unique(np.concatenate((edges[far], values)))

    def masses(self, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
        z = (edges[None, :] - values[:, None]) / self.scale
        if self.kind == "normal":
            left, right = ndtr(z), ndtr(-z)
        else:
            left = np.where(z < 0, np.exp(np.minimum(z, 0.0)) / 2, 1 - np.exp(-np.maximum(z, 0.0)) / 2)
            right = np.where(z > 0, np.exp(-np.maximum(z, 0.0)) / 2, 1 - np.exp(np.minimum(z, 0.0)) / 2)
        inner = np.where(z[:, :-1] >= 0, right[:, :-1] - right[:, 1:], left[:, 1:] - left[:, :-1])
        return np.hstack((left[:, :1], inner, right[:, -1:]))

    def cells(self, values: np.ndarray, count: int) -> np.ndarray:
        return self.masses(values, self.edges(values, count))


@dataclass(frozen=True)
class Integers:
    """Integer noise of probabilities proportional to exp(-n^2 / (2 scale^2)), or to exp(-|n| / scale)."""

    kind: str
    scale: float

    def cells(self, values: np.ndarray, count: int) -> np.ndarray:
        reach = math.ceil(self.scale * (REACH + 1) if self.kind == "normal" else 46 * self.scale) + 1
        far = np.arange(-2 * reach, 2 * reach + 1) / self.scale
        total = math.fsum(np.exp(-far * far / 2 if self.kind == "normal" else -np.abs(far)))
        n = np.arange(values.min() - reach, values.max() + reach + 1)[None, :] - values[:, None]
        z = n / self.scale
        return np.exp(-z * z / 2 if self.kind == "normal" else -np.abs(z)) / total


@dataclass(frozen=True)
class Table:
    """Finitely many outcomes, whose probabilities are a function of the number, which is cut to the table's range."""

    rows: Mapping[int, tuple[float, ...]]

    def cells(self, values: np.ndarray, count: int) -> np.ndarray:
        return np.array([self.rows[int(min(max(v, min(self.rows)), max(self.rows)))] for v in values])


@dataclass(frozen=True)
class Both:
    """Two releases about one number."""

    one: Noise
    other: Noise

    def cells(self, values: np.ndarray, count: int) -> np.ndarray:
        few = min(count, 60)
        left, right = self.one.cells(values, few), self.other.cells(values, few)
        return (left[:, :, None] * right[:, None, :]).reshape(len(values), -1)


def laws(noise: Noise, p: Law, q: Law, at: np.ndarray, count: int = 400) -> tuple[Pair, Pair | None]:
    """The pair of laws of the statistic's law ``p`` against ``q``, once with all curves at most the true ones (and at
    the losses ``at`` the true ones), once with all at least them (None where that is not known)."""
    dimensions = len(next(iter(p)))
    if dimensions == 1 and isinstance(noise, Continuous):
        return _on_a_line(noise, p, q, at, count)
    values = sorted({value for law in (p, q) for vector in law for value in vector})
    per_axis = int(JOINT ** (1 / dimensions)) // 2 if dimensions > 1 else count
    cells = noise.cells(np.array(values, dtype=float), per_axis)
    exact = not isinstance(noise, (Continuous, Both))
    if cells.shape[1] ** dimensions > MANY:  # neighbouring cells put together: post-processing
        exact, wide = False, -(-cells.shape[1] // int(MANY ** (1 / dimensions)))
        cells = np.add.reduceat(cells, np.arange(0, cells.shape[1], wide), axis=1)
    rows = dict(zip(values, cells, strict=True))
    found = Pair(_mixed(p, rows), _mixed(q, rows))
    return found, found if exact else None


def _mixed(law: Law, rows: Mapping[float, np.ndarray]) -> np.ndarray:
    total: np.ndarray | float = 0.0
    for vector, probability in law.items():
        joint = rows[vector[0]]
        for value in vector[1:]:
            joint = np.multiply.outer(joint, rows[value]).ravel()
        total = total + float(probability) * joint
    return np.asarray(total)


def _on_a_line(noise: Continuous, p: Law, q: Law, at: np.ndarray, count: int) -> tuple[Pair, Pair | None]:
    """One cell more at each output where the loss is one of ``at``."""

    weights = [(np.log([float(w) for w in law.values()]), np.array([v[0] for v in law])) for law in (p, q)]

    def loss(z: np.ndarray) -> np.ndarray:
        sides = []
        for logs, places in weights:
            terms = logs[:, None] + noise.density(z[None, :] - places[:, None])
            top = terms.max(axis=0)
            sides.append(top + np.log(np.exp(terms - top).sum(axis=0)))
        return sides[0] - sides[1]

    values = np.array(sorted({vector[0] for law in (p, q) for vector in law}))
    edges = noise.edges(values, count)
    over = loss(edges)[None, :] > at[:, None]
    which, where = np.nonzero(over[:, 1:] != over[:, :-1])
    low, high, rising = edges[where], edges[where + 1], over[which, where + 1]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = (loss(middle) > at[which]) == rising
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    edges = _with(edges, high, set(values.tolist()) if noise.kind != "normal" else set())
    masses = dict(zip(values.tolist(), noise.masses(values, edges), strict=True))
    below = Pair(*(sum(float(w) * masses[v[0]] for v, w in law.items()) for law in (p, q)))
    y = loss(edges)
    return below, _ends(below, y) if (np.diff(y) >= -1e-9).all() else None


def _with(edges: np.ndarray, roots: np.ndarray, kept: set[float]) -> np.ndarray:
    """``edges`` and ``roots``; an edge nearer than half a cell to a root makes room, as masses of narrow cells are
    differences of nearly equal numbers."""
    if not len(roots):
        return edges
    roots = np.unique(roots)
    roots = roots[np.append(True, np.diff(roots) > 1e-3 * np.median(np.diff(edges)))]
    near = np.min(np.abs(edges[:, None] - roots[None, :]), axis=1) < np.median(np.diff(edges)) / 4
    stay = ~near | np.isin(edges, list(kept))
    return np.unique(np.concatenate((edges[stay], roots)))


def _ends(pair: Pair, y: np.ndarray) -> Pair:
    """Each cell's masses moved to the losses at its two edges ``y``; the outermost cells also to infinity."""
    y = np.clip(np.maximum.accumulate(y), -FARTHEST, FARTHEST)
    tiny = 1e-13 * (1 + np.abs(y))  # of the losses' rounding, outwards
    low, high = y[:-1] - tiny[:-1], y[1:] + tiny[1:]
    p, q = pair.p[1:-1], pair.q[1:-1]
    right = np.clip((p - q * np.exp(low)) / -np.expm1(low - high), 0.0, p)
    left = p - right
    beyond = np.array([float(p[high >= FARTHEST].sum()), 0.0]), np.array([0.0, float(q[low <= -FARTHEST].sum())])
    first, last = y[0] + tiny[0], y[-1] - tiny[-1]
    at_first, at_last = pair.p[0], min(pair.p[-1], pair.q[-1] * math.exp(last))
    return Pair(
        np.concatenate((left, right, [at_first, 0.0, at_last, pair.p[-1] - at_last], beyond[0])),
        np.concatenate(
            (
                left * np.exp(-low),
                right * np.exp(-high),
                [at_first * math.exp(-first), max(pair.q[0] - at_first * math.exp(-first), 0.0)],
                [at_last * math.exp(-last), 0.0],
                beyond[1],
            )
        ),
    )
