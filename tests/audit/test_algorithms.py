"""Every algorithm under attack: what it provably leaks is never more than what it is charged."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES
from harness import CONFIDENCE, DELTA, constant, data, evidence, runner

import tightdp as dp
from tightdp import audit
from tightdp.train import DPSGD, Gate, Oracle, Public, Records, Target


def held_to_claim(found, claim, least_mu=0.0):
    """The audit finds something (it has teeth), and nothing beyond the claim."""
    assert found.mu() > least_mu, "an audit that sees nothing tests nothing"
    assert not found.excludes(claim)
    assert found.epsilon(DELTA) <= claim.epsilon(DELTA).upper


@pytest.mark.parametrize("noise_multiplier", [0.4, 0.8])
def test_clip_and_noise(noise_multiplier):
    """The kernel by itself, and its noise to within a tenth: a claim of 1.1 times the noise is refuted."""
    rng, grads = dp.Philox(1), np.array([[3.0, 4.0], [0.1, 0.0]])

    def run(inside):
        total = dp.clip_and_noise(grads if inside else grads[1:], 2.0, noise_multiplier, rng=rng)
        return float(total @ [0.6, 0.8])

    found = evidence(run, 12_000)
    held_to_claim(found, dp.Gaussian(noise_multiplier), 0.8 / noise_multiplier)
    assert found.excludes(dp.Gaussian(1.2 * noise_multiplier))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * case.slow) for name, case in CASES.items()]
)
def test_lower_stays_below_upper(name):
    case = CASES[name]
    run, claim = case.build(sum(map(ord, name)))
    held_to_claim(evidence(run, case.trials, thresholds=case.thresholds), claim, case.least_mu)


@pytest.mark.slow
def test_twice_the_noise_is_refuted():
    run, claim = CASES["DPSGD"].build(2)
    assert claim == dp.PoissonSampled(dp.Gaussian(0.4), 0.5) * 2
    assert evidence(run, 4000).excludes(dp.PoissonSampled(dp.Gaussian(0.8), 0.5) * 2)


@pytest.mark.slow
def test_pure_epsilon_of_a_selection_is_seen():
    run, claim = CASES["selection, permute-and-flip"].build(6)
    assert 0.5 < evidence(run, 12_000, thresholds=[0.5]).epsilon(0.0) <= claim.nominal_epsilon


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308])
def test_a_gradient_that_is_not_finite_leaves_no_trace(bad):
    """0 for the sum, so that no account is needed at all."""
    algorithm = DPSGD(batch_size=4.0, epochs=1.0, noise_multiplier=0.5, average=0.0)
    model = constant()
    model._gradients = lambda w, X, y: np.where(X > 0, bad * X, 0.0) * 10
    run, claim = runner(algorithm, lambda seen, w: -float(w[0]), model=model, records=data(), seed=8)
    with np.errstate(over="ignore", invalid="ignore"):
        found = evidence(run, 1500)
    assert not found.excludes(claim) and not found.excludes(dp.PureDP(0.1))


def test_public_batch_size_is_the_divisor():
    """The canary's gradient is zero while others pull: it could only show through the size of the batch."""
    X = np.full((4, 1), 1.0)
    X[-1] = 0.0
    algorithm = DPSGD(batch_size=4.0, epochs=1.0, noise_multiplier=0.3, average=0.0)
    run, _ = runner(algorithm, lambda seen, w: -float(w[0]), records=(X, np.zeros(4, dtype=np.intp)), seed=9)
    assert not evidence(run, 2000).excludes(dp.PureDP(0.01))


def test_many_canaries_in_one_run_of_dpsgd():
    m, steps, noise = 2000, 4, 0.6
    inside = dp.Philox(20).bernoulli(0.5, m)
    X = np.eye(m)[inside]
    algorithm = DPSGD(batch_size=m, epochs=steps, noise_multiplier=noise, average=0.0)
    plan = algorithm.plan(Public(m, m), Target(None, 1e-5))
    w = plan.run(
        Oracle(constant(m), Records(X, np.zeros(len(X), dtype=np.intp)), Public(m, m)),
        Gate(plan.budget, dp.Philox(21)),
        np.zeros(m),
    )
    found = audit.one_run(-w, inside, delta=1e-12, confidence=CONFIDENCE)
    claim = plan.budget.charge()
    assert 0 < found.epsilon <= claim.epsilon(1e-12).upper
