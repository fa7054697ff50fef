"""Evidence of an experiment: some test has at least this power at no more than this level.

Statements and proofs: docs/theory/audit.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import _check
from .._core import log_ndtri
from ..accounting.engines.engine_interface import Direction
from ..composition import Composition
from ..mechanisms import Mechanism

SLOPES = 24
"""Values of epsilon at which a claimed curve is compared with the evidence. All are valid; more of them find smaller
violations."""


@dataclass(frozen=True)
class Evidence:
    """A test that accepts a run with the canary with probability >= ``power``, and one without it with probability <=
    ``level``. Both hold with probability at least ``confidence``.

    All answers follow from this one event, so you may ask one ``Evidence`` any number of questions.
    """

    power: float
    """Lower limit of the true positive rate: 1 - false negative rate."""
    level: float
    """Upper limit of the false positive rate."""
    confidence: float
    threshold: float
    """Scores at or above it (below it, if ``above`` is False) are taken for runs with the canary."""
    above: bool = True
    runs: int = 0
    """Scores that the limits rest on, of both kinds; those that chose the threshold are not among them."""

    def epsilon(self, delta: float) -> float:
        """A lower bound on epsilon at ``delta``, in nats: no (epsilon, delta) below it holds, add/remove one record.

        The larger of both directions: ln((power - delta)/level) and ln((1 - level - delta)/(1 - power)).
        """
        d = _check.closed_unit("delta", delta)
        found = max(_compute_log_ratio(p - d, q) for p, q, _ in self._list_directions())
        return max(0.0, _round_down(found))

    def mu(self) -> float:
        """A lower bound on the mu of Gaussian differential privacy: no mu-GDP below it holds (Dong et al. 2022).

        It bounds mu, not the epsilon of a mechanism that is not Gaussian: see ``excludes`` for a claim of any shape.
        """
        if not self.level < self.power:
            return 0.0
        z = log_ndtri(np.log(np.array([self.power, self.level])))
        return max(0.0, float(z[0] - z[1]) * (1 - 1e-9))

    def excludes(self, claim: Mechanism | Composition) -> bool:
        """Tells whether a claimed account cannot be true: True is a proof of a leak, up to ``1 - confidence``.

        It compares with the upper bound of the claim's whole privacy profile, in each direction: at every epsilon,
        power <= e^epsilon level + delta(epsilon) must hold. So it finds violations at large deltas, which an experiment
        of affordable size cannot see at a small delta.
        """
        for p, q, direction in self._list_directions():
            most = _compute_log_ratio(p, q)
            if most <= 0:
                continue
            for slope in np.linspace(0.0, min(most, 50.0), SLOPES, endpoint=False):
                if claim.delta(float(slope), neighbors=direction).upper < p - math.exp(slope) * q * (1 + 1e-12):
                    return True
        return False

    def _list_directions(self) -> list[tuple[float, float, Direction]]:
        """(power, level) of the test for the canary's presence, and of its complement for its absence."""
        return [(self.power, self.level, "remove"), (1 - self.level, 1 - self.power, "add")]


def _compute_log_ratio(p: float, q: float) -> float:
    if p <= 0 or q >= 1:
        return -math.inf
    return math.log(p) - math.log(q) if q > 0 else math.inf


def _round_down(x: float) -> float:
    return x if math.isinf(x) else x - 1e-12 * (1 + abs(x))
