"""A run as a group of records sees it, from the curves of one record (docs/theory/derived.md section 2).

Each of the records changes a probability p into at most e^e p + delta(e), whatever e is; delta is that of the link of
the chain, which has its own number of records. A chain of such lines is a line X p + D again, and bounds delta of the
group at log X by D. The search looks for a good chain, but the bound holds for any.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...numerics.work import affords
from .base import Run

_Array = NDArray[np.float64]
_FIRST = 9
_ROUNDS = 8
_MOST_NODES = 400
_TRIED = 96
"""Type I errors at which chains are followed together."""
_NARROWINGS = 5
_MARGIN = 1e-11
"""More than a chain of 1000 products and sums of positive numbers errs by, relative to its result."""
_MOST = 700.0
_FAINT = 1e-4
_UNITS = 10**5
"""Of work, for one link in one round: its narrowings, as measured."""


class _Lines(NamedTuple):
    """Upper bounds exp(log_x) p + d of the probability of an event under the next of the neighbours."""

    log_x: _Array
    x: _Array
    d: _Array


class Chain(NamedTuple):
    log_slope: float
    slope: float
    height: float
    used: frozenset[tuple[int, int]]
    """Tables, and the lines of them."""


def delta(links: Sequence[Run], epsilon: float) -> float:
    """An upper bound of delta(epsilon) of the chain of ``links``, in the order in which a probability passes them."""
    if _largest_loss(links) <= epsilon < math.inf:
        return 0.0
    at = min(epsilon, _MOST)  # delta never increases
    reach = abs(at) + 1.0
    tables = _Tables(links, [at / len(links), *np.linspace(-reach, reach, _FIRST)])
    best = 1.0
    for _ in range(_ROUNDS):
        if not affords(_UNITS * len(links)):
            break
        lines = tables.lines()
        ends = _best(lines, lambda log_slope, _: log_slope <= at - 4 * _MARGIN)
        best = min(best, _between(ends, at))
        if not tables.refine(lines, ends):
            break
    return best


def epsilon(links: Sequence[Run], delta: float) -> float:
    """An upper bound of epsilon(delta) of the chain of ``links``; infinite where none is known."""
    best = _largest_loss(links)
    least = delta * _FAINT / len(links)
    reach = links[0].epsilon(least).upper if least > 0 else math.inf
    if not reach < _MOST:
        return best
    tables = _Tables(links, [*np.linspace(-reach, reach, _FIRST), *np.linspace(0.0, reach, _FIRST)])
    for _ in range(_ROUNDS):
        if not affords(_UNITS * len(links)):
            break
        lines = tables.lines()
        chains = _best(lines, lambda _, height: height > delta)
        found = _slope_at(chains, delta)
        if found == 0:
            return 0.0
        best = min(best, found)
        if not (tables.refine(lines, chains) if found < math.inf else tables.extend(lines)):
            break
    return best


def _largest_loss(links: Sequence[Run]) -> float:
    """Of the chain whose steps all have delta 0."""
    return math.nextafter(math.fsum(run.largest for run in links), math.inf)


@dataclass(frozen=True, slots=True)
class _Links:
    """The lines of each table, and which table each link has."""

    tables: list[_Lines]
    which: list[int]

    def __getitem__(self, k: int) -> _Lines:
        return self.tables[self.which[k]]

    def __len__(self) -> int:
        return len(self.which)


class _Tables:
    """One for each distinct link."""

    def __init__(self, links: Sequence[Run], nodes: list[float]) -> None:
        distinct = list({id(run): run for run in links}.values())
        self._tables = [_Table(run, nodes) for run in distinct]
        places = {id(run): i for i, run in enumerate(distinct)}
        self._which = [places[id(run)] for run in links]

    def lines(self) -> _Links:
        return _Links([table.lines() for table in self._tables], self._which)

    def refine(self, lines: _Links, chains: tuple[Chain, Chain]) -> bool:
        """More nodes beside those that the best chains use."""
        used = {pair for chain in chains for pair in chain.used}
        found = [
            table.refine(lines.tables[k], {i for where, i in used if where == k})
            for k, table in enumerate(self._tables)
        ]
        return any(found)

    def extend(self, lines: _Links) -> bool:
        """A node beyond the largest."""
        return sum(table.extend(one) for table, one in zip(self._tables, lines.tables, strict=True)) > 0


class _Table:
    """Epsilons and upper bounds of delta there."""

    def __init__(self, run: Run, nodes: list[float]) -> None:
        self._run = run
        self._nodes: list[tuple[float, float]] = []
        self._add(nodes)

    def _add(self, nodes: list[float]) -> bool:
        known = {e for e, _ in self._nodes}
        new = [float(e) for e in nodes if float(e) not in known]
        for e in new[: max(_MOST_NODES - len(known), 0)]:
            insort(self._nodes, (e, self._run.delta(e).upper))
        return bool(new) and len(known) < _MOST_NODES

    def lines(self) -> _Lines:
        """Ordered by slope, steepest first; those that are nowhere the lowest left out."""
        kept: list[tuple[float, float, float]] = []
        for e, d in reversed([(-math.inf, 1.0), *self._nodes]):
            line = e, math.exp(min(e, _MOST)) * (1 + 1e-15), d
            if kept and not line[1] < kept[-1][1] * (1 - 1e-12):
                continue  # no other slope
            while kept and kept[-1][2] >= d:
                kept.pop()
            while len(kept) > 1 and _crossing(kept[-1], line) <= _crossing(kept[-2], kept[-1]):
                kept.pop()
            kept.append(line)
        return _Lines(*(np.array(column) for column in zip(*kept, strict=True)))

    def refine(self, lines: _Lines, used: set[int]) -> bool:
        wanted = set()
        if 0 in used:
            self.extend(lines)
        for i in used:
            for j in (i - 1, i + 1):
                if 0 <= j < len(lines.x) and np.isfinite(lines.log_x[j]) and np.isfinite(lines.log_x[i]):
                    middle = 0.5 * (lines.log_x[i] + lines.log_x[j])
                    if abs(lines.log_x[i] - lines.log_x[j]) > 1e-6 * (1 + abs(middle)):
                        wanted.add(float(middle))
        return self._add(sorted(wanted))

    def extend(self, lines: _Lines) -> bool:
        return self._add([min(1.5 * float(lines.log_x[0]) + 1e-3, _MOST)])


def _crossing(steep: tuple[float, float, float], flat: tuple[float, float, float]) -> float:
    return (flat[2] - steep[2]) / (steep[1] - flat[1])


def _best(links: _Links, flat: Callable[[_Array, _Array], NDArray[np.bool_]]) -> tuple[Chain, Chain]:
    """The chains on either side of the type I error from which on they are ``flat``, of their log slopes and heights.

    A chain is a tangent of a concave curve: the further to the right, the flatter and the higher.
    """
    size = len(links)
    all_turns = [(lines.d[1:] - lines.d[:-1]) / (lines.x[:-1] - lines.x[1:]) for lines in links.tables]
    low, high = -745.0, 0.0
    chains = _chain(links, [0] * size), _chain(links, [len(links[k].x) - 1 for k in range(size)])
    for _ in range(_NARROWINGS):
        log_p = np.linspace(low, high, _TRIED)
        p, log_slope, height = np.exp(log_p), np.zeros(_TRIED), np.zeros(_TRIED)
        path = np.empty((size, _TRIED), dtype=np.intp)
        for k in range(size):
            path[k] = np.searchsorted(all_turns[links.which[k]], p, side="right")
            x, d = links[k].x[path[k]], links[k].d[path[k]]
            log_slope += links[k].log_x[path[k]]
            p = np.minimum(x * p + d, 1.0)
            height = x * height + d
        enough = flat(log_slope, height)
        first = int(np.argmax(enough)) if enough.any() else -1
        if first < 0:
            return _chain(links, list(path[:, -1])), chains[1]
        second = _chain(links, list(path[:, first]))
        if first == 0:
            return chains[0], second
        chains = _chain(links, list(path[:, first - 1])), second
        low, high = float(log_p[first - 1]), float(log_p[first])
    return chains


def _chain(links: _Links, path: list[int]) -> Chain:
    log_slope, slope, height = 0.0, 1.0, 0.0
    for k, i in enumerate(path):
        lines = links[k]
        log_slope += float(lines.log_x[i])
        slope *= float(lines.x[i])
        height = float(lines.x[i]) * height + float(lines.d[i])
    return Chain(log_slope, slope, height, frozenset((links.which[k], int(i)) for k, i in enumerate(path)))


def _between(chains: tuple[Chain, Chain], epsilon: float) -> float:
    """The height of the mean of two chains whose slope is e^epsilon; if one of them alone is flat enough, of that."""
    steep, flat = chains
    target = math.exp(epsilon) * (1 - _MARGIN)
    if not flat.slope <= target:
        return 1.0
    best = flat.height
    if target < steep.slope < math.inf:
        share = (target - flat.slope) / (steep.slope - flat.slope)
        best = min(best, share * steep.height + (1 - share) * flat.height)
    elif steep.slope <= target:
        best = min(best, steep.height)
    return min(best * (1 + _MARGIN), 1.0)


def _slope_at(chains: tuple[Chain, Chain], delta: float) -> float:
    """An epsilon at which the mean of two chains is no higher than ``delta``; infinite where there is none."""
    steep, flat = chains
    log_slope = steep.log_slope
    if steep.height < delta < flat.height and steep.slope < math.inf:
        share = (flat.height - delta) / (flat.height - steep.height)
        log_slope = math.log(share * steep.slope + (1 - share) * flat.slope)
    elif flat.height <= delta:
        log_slope = flat.log_slope
    for wider in (1e-10, 1e-8, 1e-6):  # outward, until the bound holds that rounding is part of
        epsilon = max(log_slope, 0.0) + wider * (1 + abs(log_slope))
        if epsilon <= _MOST and _between(chains, epsilon) <= delta:
            return 0.0 if _between(chains, 0.0) <= delta else epsilon
    return math.inf
