"""The evidence of an audit: limits of the true and false positive rates of a test, and bounds that follow from them.

A canary is a record that the auditor made up. The test sees what a run released, and guesses whether the data of the
run held the canary.

Statements and proofs are in docs/theory/audit.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._core import log_ndtri
from .._support import _check
from ..accounting.engines.engine_interface import Direction
from ..composition import Composition
from ..mechanisms import Mechanism

SLOPES = 24
"""Number of values of epsilon at which a claimed privacy profile is compared with the evidence. More values find
smaller violations. The result is valid for any number of values."""


@dataclass(frozen=True)
class Evidence:
    """Limits of the error rates of a test that tells runs with the canary from runs without it.

    The test accepts a run with the canary with probability at least ``power``, and a run without the canary with
    probability at most ``level``. With probability at least ``confidence``, both limits hold. All methods use only
    these limits, so you may call the methods any number of times.

    Parameters
    ----------
    power : the lower limit of the true positive rate, in [0, 1].
    level : the upper limit of the false positive rate, in [0, 1].
    confidence : the probability that both limits hold, in (0, 1).
    threshold : the threshold of the scores.
    above : whether scores at or above the threshold are accepted.
    runs : the number of runs from which the limits were computed.

    The function ``tightdp.audit.paired`` computes an ``Evidence`` from the scores of runs, and raises ValueError for a
    wrong argument. ``Evidence`` itself checks no argument.

    >>> from tightdp.audit import Evidence
    >>> found = Evidence(power=0.6, level=0.1, confidence=0.95, threshold=0.0)
    >>> round(found.epsilon(1e-5), 3), round(found.mu(), 3)
    (1.792, 1.535)
    >>> found.excludes(dp.Gaussian(1.0)), found.excludes(dp.Gaussian(0.5))
    (True, False)
    """

    power: float
    """Lower limit of the true positive rate, which is 1 - false negative rate."""
    level: float
    """Upper limit of the false positive rate."""
    confidence: float
    threshold: float
    """Threshold of the scores, to which the test compares the score of a run."""
    above: bool = True
    """If True, the test accepts runs with scores at or above the threshold. If False, it accepts the other runs."""
    runs: int = 0
    """Number of runs, with and without the canary, from which the limits were computed. Runs from which the threshold
    was chosen are not counted."""

    def epsilon(self, delta: float) -> float:
        """Returns a lower bound on epsilon at ``delta``, in nats, under adding or removing one record.

        The bound is the larger of two numbers. One is ln((power - delta)/level), for removing a record. The other is
        ln((1 - level - delta)/(1 - power)), for adding a record.

        ``delta`` is in [0, 1]. Raises ValueError for another number.
        """
        d = _check.closed_unit("delta", delta)
        found = max(_compute_attack_log_rate_ratio(p - d, q) for p, q, _ in self._list_test_directions())
        # Logarithms and quotients are rounded by a few parts in 10^16.
        return max(0.0, found if math.isinf(found) else found - 1e-12 * (1 + abs(found)))

    def mu(self) -> float:
        """Returns a lower bound on the mu of Gaussian differential privacy (Dong et al. 2022).

        The bound says nothing about the epsilon of a mechanism that is not Gaussian. Use ``excludes`` for any claim.
        """
        if not self.level < self.power:
            return 0.0
        z = log_ndtri(np.log(np.array([self.power, self.level])))
        return max(0.0, float(z[0] - z[1]) * (1 - 1e-9))

    def excludes(self, claim: Mechanism | Composition) -> bool:
        """Returns whether the evidence contradicts a claimed account. If the claim is true, the answer is True with
        probability at most ``1 - confidence``.

        ``claim`` is a mechanism or a composition. If the claim is true, two inequalities hold at every epsilon:
        power <= e^epsilon level + delta(epsilon), and 1 - level <= e^epsilon (1 - power) + delta(epsilon). The first
        uses delta for removing a record, and the second for adding one. Both are checked at ``SLOPES`` epsilons, with
        upper bounds on delta. Small epsilons are among them, because a violation shows there after few runs. Raises
        ValueError if "add" or "remove" is not proved for a mechanism of the claim.
        """
        for p, q, direction in self._list_test_directions():
            most = _compute_attack_log_rate_ratio(p, q)
            if most <= 0:
                continue
            for slope in np.linspace(0.0, min(most, 50.0), SLOPES, endpoint=False):
                if claim.delta(float(slope), neighbors=direction).upper < p - math.exp(slope) * q * (1 + 1e-12):
                    return True
        return False

    def _list_test_directions(self) -> list[tuple[float, float, Direction]]:
        """Returns (power, level, direction) of two tests. The first test is for the canary's presence. The second test
        is for the canary's absence: it accepts all runs that the first test rejects."""
        return [(self.power, self.level, "remove"), (1 - self.level, 1 - self.power, "add")]


def _compute_attack_log_rate_ratio(p: float, q: float) -> float:
    if p <= 0 or q >= 1:
        return -math.inf
    return math.log(p) - math.log(q) if q > 0 else math.inf
