"""An algorithm's own run on a small data set with and without a canary, and the score that tells most.

The attacker of the account sees every release, so the harness looks over the gate's shoulder: a score is a function of
all that was released, not of the last parameters alone.
"""

from __future__ import annotations

import numpy as np

import tightdp as dp
from tightdp import audit
from tightdp.train import CallableModel, Gate, Oracle, Public, Records, Target

CONFIDENCE = 1 - 1e-8
"""Of each audit: with fewer than 100 in the suite a false alarm has a chance below 1e-6 over all seeds."""
DELTA = 1e-2
"""Where an epsilon is compared. Experiments of thousands of runs see little below it."""


class Watched(Gate):
    """A gate whose releases are kept: (value, mechanism)."""

    def __init__(self, budget, source):
        super().__init__(budget, source)
        self.seen = []

    def _finish_gate_release(self, value, mechanism):
        self.seen.append((np.copy(value), mechanism))
        return super()._finish_gate_release(value, mechanism)


def constant(size=1):
    """A model whose gradient at a record is its features: the canary is the record that is not zero."""
    return CallableModel(size, lambda w, X, y: X.copy(), lambda w, X, y: np.abs(X[:, 0]))


def data(others=3, size=1, canary=1.0):
    """Zero records, and a last one whose gradient is ``canary`` in every coordinate."""
    X = np.zeros((others + 1, size))
    X[-1] = canary
    return X, np.zeros(others + 1, dtype=np.intp)


def runner(algorithm, score, *, model=None, records=None, seed=0, gate=Watched, public=None, target=None):
    """``run(with_canary) -> score(releases, final parameters)`` for ``audit.run_pairs``, and the claimed account."""
    X, y = data() if records is None else records
    model = constant(X.shape[1]) if model is None else model
    facts = Public(len(X), model.size) if public is None else public
    goal = Target(None, 1e-5) if target is None else target
    source = dp.Philox(seed)
    plans = algorithm.plan(facts, goal)

    def run(inside):
        held = Records(X, y) if inside else Records(X[:-1], y[:-1])
        plan = algorithm.plan(facts, goal)
        watched = gate(plan.budget, source)
        w = plan.run(Oracle(model, held, facts), watched, model.make_initial_parameters(source.uniform))
        return score(watched.seen, w)

    return run, plans.budget.charge()


def evidence(run, trials, **options):
    return audit.paired(*audit.run_pairs(run, trials), confidence=CONFIDENCE, **options)


def mixture(shift, deviation, q):
    """Score: log likelihood ratio of sampled Gaussian sums that a canary shifts by ``shift`` with probability q."""

    def score(seen, w):
        values = np.array([np.sum(v) / np.sqrt(np.size(v)) for v, m in seen if is_gaussian(m)])
        ratio = (values * shift - shift**2 / 2) / deviation**2
        return float(np.logaddexp(np.log1p(-q), np.log(q) + ratio).sum()) if q < 1 else float(ratio.sum())

    return score


def is_gaussian(mechanism):
    return isinstance(getattr(mechanism, "mechanism", mechanism), dp.Gaussian)
