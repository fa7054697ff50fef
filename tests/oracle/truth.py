"""Compositions of enumerated steps, and what they show of every curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import tightdp as dp

from .ceilings import ceiling
from .data_sets import ROLES
from .mechanisms import EPSILONS, Candidate, candidates
from .pairs import Pair, merged, product, spread

Parts = tuple[tuple[dp.Mechanism, int], ...]
FEW = 800
"""Outcomes of a step, or of those before it, in a product."""
UNSEEN = (Candidate(Pair(np.ones(1), np.ones(1), label="unseen"), None),)
"""Of a step of which no data sets are enumerated: it may reveal nothing."""
LARGEST = 300.0
"""Curves are read no further: they fall."""
MOST = 6
"""Choices of data sets that are followed through a composition."""


def strategies(steps: Sequence[tuple[Candidate, ...]]) -> list[tuple[int, ...]]:
    """For each of some losses, the candidate of each step that does best there, or at its share of it."""
    found: dict[tuple[int, ...], None] = {}
    for share in (1.0, 1 / len(steps)):
        scores = [np.array([c.below.least(share * EPSILONS) for c in step]) for step in steps]
        for i in np.argsort(np.abs(EPSILONS)):
            found[tuple(int(np.argmax(score[:, i])) for score in scores)] = None
    return list(found)[:MOST]


@lru_cache(maxsize=512)
def composed(parts: Parts, role: str, group: int) -> tuple[Candidate, ...]:
    """Whole runs, for some choices of data sets."""
    steps = [candidates(mechanism, role, group) or UNSEEN for mechanism, count in parts for _ in range(count)]
    if len(steps) == 1:
        return steps[0]
    found = []
    for choice in strategies(steps):
        below, above = steps[0][choice[0]]
        for step, i in zip(steps[1:], choice[1:], strict=True):
            below = merged(product(merged(below, FEW), merged(step[i].below, FEW)))
            other = step[i].above
            above = None if above is None or other is None else spread(product(spread(above, FEW), spread(other, FEW)))
        found.append(Candidate(below, above))
    return tuple(found)


@dataclass(frozen=True)
class Truth:
    """What enumeration shows of ``parts`` under ``relation``, for groups of ``group`` records."""

    parts: Parts
    relation: str
    group: int

    @property
    def roles(self) -> tuple[str, ...]:
        return ROLES[self.relation]

    @property
    def enumerated(self) -> bool:
        """Whether there are data sets for every step, in one of the orders."""
        return any(all(candidates(m, role, self.group) for m, _ in self.parts) for role in self.roles)

    def runs(self) -> list[Candidate]:
        return [run for role in self.roles for run in composed(self.parts, role, self.group)]

    def least_delta(self, epsilons: np.ndarray) -> np.ndarray:
        """No valid delta is below this."""
        found = [run.below.least(epsilons) for run in self.runs()]
        return np.max([*found, *(self._adaptive(role, epsilons) for role in self.roles)], axis=0)

    def _adaptive(self, role: str, epsilons: np.ndarray) -> np.ndarray:
        """The last step's data sets are chosen in the light of what came before."""
        *first, (mechanism, count) = self.parts
        before = (*first, (mechanism, count - 1)) if count > 1 else tuple(first)
        last = candidates(mechanism, role, self.group) if before else []
        if not last:  # one step, or one whose data sets are too many to enumerate
            return np.zeros(len(epsilons))
        best = np.zeros(len(epsilons))
        for head in composed(before, role, self.group)[:2]:
            pair = merged(head.below, 300)
            left = epsilons[:, None] - pair.losses[None, :]
            left = np.clip(left, -700, 700)
            gains = np.max([c.below.least(left.ravel()).reshape(left.shape) for c in last[:40]], axis=0)
            value = (pair.p[None, :] * gains).sum(axis=1) * (1 - 1e-11)
            best = np.maximum(best, value - pair.error * (1 + np.exp(epsilons)))
        return best

    def most_delta(self, epsilons: np.ndarray, attained: bool = False) -> np.ndarray:
        """No lower end is above this; ``attained`` says that the worst data sets are among those enumerated."""
        x = np.exp(np.minimum(epsilons, LARGEST))
        found = np.max([ceiling(self.parts, role, self.group)(x) for role in self.roles], axis=0)
        runs = self.runs() if attained else []
        if not runs or any(run.above is None for run in runs):
            return found
        return np.minimum(found, np.max([run.above.most(epsilons) for run in runs if run.above is not None], axis=0))
