"""Members of a class of mechanisms that tell two neighbours apart best, by linear programmes.

A member assigns to every batch (how many of the others, of those that leave and of those that come) the probabilities
of a few outcomes. That batches which differ by one record are as close as the class asks is linear in them, and so is
the sum of hockey-stick divergences that is made as large as possible. Batches that differ by the names of the others
alone may be given one law: averaging over the names changes neither constraints nor the aim.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from .pairs import Pair

FEASIBLE = 1e-9
"""How far the solver may leave the class."""
State = tuple[int, ...]


@dataclass(frozen=True)
class Class:
    """What holds between two batches, the second with one record more (or, for ``exchanged``, another in its place):
    all events' probabilities are f' <= e^e f + d for (e, d) in ``more``, and f <= e^e f' + d for those in ``fewer``."""

    more: tuple[tuple[float, float], ...]
    fewer: tuple[tuple[float, float], ...]
    exchanged: bool = False


def pure(epsilon: float) -> Class:
    return approximate(epsilon, 0.0)


def approximate(epsilon: float, delta: float) -> Class:
    return Class(((epsilon, delta),), ((epsilon, delta),))


def bounded_range(eta: float, top: float) -> Class:
    """All losses of one record more lie in [top - eta, top]."""
    return Class(((top, 0.0),), ((eta - top, 0.0),))


def dominated(pair: Pair, exchanged: bool) -> Class:
    """One record more, or another, is no easier to see than in ``pair``."""
    kinks = tuple((float(e), float(pair.least(np.array([e]))[0])) for e in np.unique(pair.losses) if math.isfinite(e))
    hidden = ((700.0, float(pair.q[pair.p == 0].sum())),)
    return Class(kinks, kinks if exchanged else hidden, exchanged)


def counted(parts: Iterator[tuple[tuple[int, ...], Fraction]], labels: Sequence[int | None]) -> Mapping[State, float]:
    """The law of how many records with each of three ``labels`` a batch holds; those without a label contribute
    nothing."""
    law: dict[State, Fraction] = defaultdict(Fraction)
    for batch, probability in parts:
        state = [0, 0, 0]
        for label in (labels[record] for record in batch):
            if label is not None:
                state[label] += 1
        law[tuple(state)] += probability
    return {state: float(probability) for state, probability in law.items()}


def member(kind: Class, p: Mapping[State, float], q: Mapping[State, float], log_x: Sequence[float]) -> Pair:
    """The laws of the outcome of a member for which the divergences at all of ``log_x`` together are largest."""
    at = sorted(log_x, reverse=True)
    outcomes = len(at) + 1
    most = [max(state[i] for law in (p, q) for state in law) for i in range(3)]
    states = list(product(*(range(m + 1) for m in most)))
    if kind.exchanged:
        sizes = {sum(state) for law in (p, q) for state in law}
        states = [state for state in states if sum(state) in sizes]
    index = {state: i * outcomes for i, state in enumerate(states)}
    rows: list[tuple[int, int, float]] = []
    limits: list[float] = []
    variables = len(states) * outcomes

    for one, other in _edges(states, kind.exchanged):
        bounds = [(index[other], index[one], *line) for line in kind.more]
        bounds += [(index[one], index[other], *line) for line in kind.fewer]
        for large, small, e, d in bounds:
            factor = math.exp(min(e, 690.0))
            if e >= 690.0 and d >= 1:
                continue
            scale = max(1.0, factor)
            if d == 0:
                for j in range(outcomes):
                    rows += [(len(limits), large + j, 1 / scale), (len(limits), small + j, -factor / scale)]
                    limits.append(0.0)
                continue
            for j in range(outcomes):  # the excess of each outcome; together at most d
                rows += [(len(limits), large + j, 1 / scale), (len(limits), small + j, -factor / scale)]
                rows.append((len(limits), variables + j, -1 / scale))
                limits.append(0.0)
            rows += [(len(limits), variables + j, 1.0) for j in range(outcomes)]
            limits.append(d)
            variables += outcomes
    aim = np.zeros(variables)
    for law, sign in ((p, -1.0), (q, 1.0)):
        for state, probability in law.items():
            for j in range(outcomes):
                for t, loss in enumerate(at):
                    if j <= t:  # the event of losses above `loss` holds the outcomes up to t
                        weight = 1 / (1 + math.exp(loss))
                        aim[index[state] + j] += sign * weight * probability * (1 if sign < 0 else math.exp(loss))
    r, c, v = zip(*rows, strict=True)
    sums = [(i, i * outcomes + j, 1.0) for i in range(len(states)) for j in range(outcomes)]
    sr, sc, sv = zip(*sums, strict=True)
    solved = linprog(
        aim,
        A_ub=coo_matrix((v, (r, c)), shape=(len(limits), variables)).tocsr(),
        b_ub=np.array(limits),
        A_eq=coo_matrix((sv, (sr, sc)), shape=(len(states), variables)).tocsr(),
        b_eq=np.ones(len(states)),
        bounds=(0, 1),
        method="highs",
        options={"primal_feasibility_tolerance": FEASIBLE, "dual_feasibility_tolerance": FEASIBLE},
    )
    if solved.x is None:
        raise RuntimeError(f"no member found: {solved.message}")
    f = np.clip(solved.x, 0.0, 1.0)
    found = []
    for law in (p, q):
        mass = sum(w * f[index[state] : index[state] + outcomes] for state, w in law.items())
        found.append(mass / mass.sum())
    steps = sum(most)
    worst = max((e for lines in (kind.more, kind.fewer) for e, d in lines if d < 1), default=0.0)
    error = 4 * FEASIBLE * outcomes * sum(math.exp(min(worst, 8.0)) ** i for i in range(steps + 1))
    return Pair(found[0], found[1], error, "member")


def _edges(states: Sequence[State], exchanged: bool) -> Iterator[tuple[State, State]]:
    known = set(states)
    for state in states:
        for i in range(3):
            more = tuple(n + (j == i) for j, n in enumerate(state))
            if not exchanged:
                if more in known:
                    yield state, more
                continue
            for k in range(3):
                moved = tuple(n - (j == k) for j, n in enumerate(more))
                if k > i and moved in known:
                    yield state, moved
