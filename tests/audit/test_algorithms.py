"""Every algorithm under attack: what it provably leaks is never more than what it is charged."""

from __future__ import annotations

import numpy as np
import pytest
from harness import CONFIDENCE, DELTA, constant, data, evidence, mixture, runner

import tightdp as dp
from tightdp import audit
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    SGD,
    AdaCliP,
    Gate,
    NoisyGD,
    Oracle,
    OutputPerturbation,
    Public,
    Query,
    Records,
    Target,
)
from tightdp.train.linear import LinearModel, Logistic


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


def test_dpsgd_with_sampling():
    algorithm = DPSGD(batch_size=2.0, epochs=1.0, noise_multiplier=0.4, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.4, 0.5), seed=2)
    assert claim == dp.PoissonSampled(dp.Gaussian(0.4), 0.5) * 2
    found = evidence(run, 4000)
    held_to_claim(found, claim, 0.7)
    assert found.excludes(dp.PoissonSampled(dp.Gaussian(0.8), 0.5) * 2)


def test_dpsgd_by_its_parameters_alone():
    """A black box: the attacker sees the last parameters, which sum the releases."""
    algorithm = DPSGD(batch_size=4.0, epochs=2.0, noise_multiplier=1.0, average=0.0, optimizer=SGD(1.0))
    run, claim = runner(algorithm, lambda seen, w: -float(w[0]), seed=3)
    held_to_claim(evidence(run, 4000), claim, 1.0)


def test_noisy_gradient_descent():
    run, claim = runner(NoisyGD(steps=4, noise_multiplier=2.0), mixture(1.0, 2.0, 1.0), seed=4)
    held_to_claim(evidence(run, 4000), claim, 0.5)


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_dpagd(noise):
    """Its gradients, whose canary pulls one way; the account also pays for selections."""
    algorithm = DPAGD(
        selections=2, share=0.3, max_norm=1.0, max_loss=1.0, candidates=2, noise=noise, noise_multiplier=1.2
    )

    def score(seen, w):
        return float(sum(v[0] / m.noise_multiplier**2 for v, m in seen if isinstance(m, dp.Gaussian)))

    run, claim = runner(algorithm, score, seed=5)
    held_to_claim(evidence(run, 3000), claim, 0.5)


class Free:
    def spend(self, mechanism):
        pass


def selection(mechanism, others, seed=6, choose=None):
    """run -> 1 where candidate 0 wins. The canary adds ``others`` to every other candidate's score."""
    gate = Gate(Free(), dp.Philox(seed))
    choose = choose or (
        lambda scores: gate.least(Query(scores.shape, 1.0, 1.0, lambda s: scores, True), mechanism).value
    )
    plain = np.zeros(len(others) + 1)
    moved = np.concatenate([[0.0], others])
    return lambda inside: float(choose(moved if inside else plain) == 0)


@pytest.mark.parametrize("mechanism", [dp.BoundedRange(2.0), dp.PureDP(1.5)])
def test_selection(mechanism):
    found = evidence(selection(mechanism, np.ones(4)), 12_000, thresholds=[0.5])
    held_to_claim(found, mechanism, 0.5)
    assert found.epsilon(0.0) > 0.5


def test_output_perturbation():
    algorithm = OutputPerturbation(noise_multiplier=0.7)
    X, y = np.array([[1.0], [-1.0], [1.0]]), np.array([1, 0, 0])
    model = LinearModel(1, Logistic(), intercept=False)
    public = Public(3, 1, 3.0, model)
    run, claim = runner(algorithm, lambda seen, w: -float(w[0]), model=model, records=(X, y), public=public, seed=7)
    held_to_claim(evidence(run, 2500), claim, 0.1)


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


def test_adaclip():
    """A canary at three deviations of what the scale expects, so that it is clipped to norm 1."""
    algorithm = AdaCliP(batch_size=2.0, epochs=1.0, h1=0.01, h2=1.0, noise_multiplier=0.4, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.4, 0.5), records=data(canary=3.0), seed=10)
    assert claim == dp.PoissonSampled(dp.Gaussian(0.4), 0.5) * 2
    held_to_claim(evidence(run, 3000), claim, 0.7)


@pytest.mark.parametrize("norm", [1.0, 5.0])
def test_dpis(norm):
    algorithm = DPIS(batch_size=2.0, epochs=1, norm_share=1.0, noise_multiplier=0.4, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.4, 0.5), records=data(canary=norm), seed=11)
    held_to_claim(evidence(run, 3000), claim, 0.7)
