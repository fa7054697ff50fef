"""Every algorithm with the records and the score that show most of what it leaks: for the ordinary tests a few thousand
runs each, for ``bench/audit.py`` as many as there is time for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from budgets import Unlimited
from harness import data, mixture, runner

import tightdp as dp
from tightdp.models.linear import Logistic
from tightdp.train import (
    DPAGD,
    DPIS,
    DPPCA,
    DPSGD,
    SGD,
    AdaCliP,
    Gate,
    LinearModel,
    NoisyGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Perceptron,
    Public,
    Query,
    Records,
    Target,
)


@dataclass(frozen=True)
class Case:
    """``build(seed)`` gives run(with the canary) -> score, and the account that is claimed."""

    build: Callable
    least_mu: float
    """What ``trials`` runs are known to show: an audit that sees nothing tests nothing."""
    trials: int
    thresholds: tuple[float, ...] | None = None
    slow: bool = False
    """Whether the runs take seconds, while the tests of the gate hold the noise that its releases have."""


def first_weight(seen, w):
    return -float(w[0])


def dpsgd(seed):
    algorithm = DPSGD(batch_size=2.0, epochs=1.0, noise_multiplier=0.4, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.4, 0.5), seed=seed)
    assert claim == dp.PoissonSampled(dp.Gaussian(0.4), 0.5) * 2
    return run, claim


def dpsgd_by_its_parameters(seed):
    """A black box: the attacker sees the last parameters, which sum the releases."""
    algorithm = DPSGD(batch_size=4.0, epochs=2.0, noise_multiplier=1.0, average=0.0, optimizer=SGD(1.0))
    return runner(algorithm, first_weight, seed=seed)


def noisy_gd(seed):
    return runner(NoisyGD(steps=4, noise_multiplier=2.0), mixture(1.0, 2.0, 1.0), seed=seed)


def centre(seed):
    """Nine tenths of the budget in the mean of the features, whose release is the score."""
    X, y = data()
    model = LinearModel(1, Logistic())
    algorithm = NoisyGD(steps=1, center=0.9, noise_multiplier=2.0)
    public = Public(4, model.size, 0.0, model)
    return runner(
        algorithm, lambda seen, w: float(seen[0][0][0]), model=model, records=(X, y), public=public, seed=seed
    )


def dpagd(noise):
    """Its gradients, whose canary pulls one way; the account also pays for selections."""

    def build(seed):
        algorithm = DPAGD(
            selections=2, share=0.3, max_norm=1.0, max_loss=1.0, candidates=2, noise=noise, noise_multiplier=1.2
        )

        def score(seen, w):
            return float(sum(v[0] / m.noise_multiplier**2 for v, m in seen if isinstance(m, dp.Gaussian)))

        return runner(algorithm, score, seed=seed)

    return build


def selection(mechanism):
    """Whether candidate 0 wins. The canary adds 1 to the score of every other."""

    def build(seed):
        gate, plain, moved = Gate(Unlimited(), dp.Philox(seed)), np.zeros(5, np.int64), np.array([0, 1, 1, 1, 1])

        def run(inside):
            scores = moved if inside else plain
            query = Query(scores.shape, 1.0, 1.0, 1.0, lambda s: scores, scores=True)
            return float(gate.release_least_index(query, mechanism).value == 0)

        return run, mechanism

    return build


def adaclip(seed):
    """A canary at three deviations of what the scale expects, so that it is clipped to norm 1."""
    algorithm = AdaCliP(batch_size=2.0, epochs=1.0, h1=0.01, h2=1.0, noise_multiplier=0.4, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.4, 0.5), records=data(canary=3.0), seed=seed)
    assert claim == dp.PoissonSampled(dp.Gaussian(0.4), 0.5) * 2
    return run, claim


def dpis(norm):
    def build(seed):
        algorithm = DPIS(batch_size=2.0, epochs=1, norm_share=1.0, noise_multiplier=0.4, average=0.0)
        return runner(algorithm, mixture(1.0, 0.4, 0.5), records=data(canary=norm), seed=seed)

    return build


def dpis_with_released_norms(seed):
    """The canary is the only norm; it shows in the released sums and, by the q and noise that follow, in each step."""
    algorithm = DPIS(batch_size=1.0, epochs=1, norm_share=None, norm_noise=2.0, reach=1.0, reserve=0.0, average=0.0)

    def score(seen, w):
        total = 0.0
        for value, mechanism in seen:
            q = getattr(mechanism, "sampling_probability", 1.0)
            noise = getattr(mechanism, "mechanism", mechanism).noise_multiplier
            total += mixture(1.0, noise, q)([(value, mechanism)], w)
        return total

    return runner(algorithm, score, records=data(others=3), target=Target(3.0, 1e-2), seed=seed)


def logistic(algorithm, regularization, target=None):
    """Three records of one feature, of which the last is the canary; the released parameter is the score."""

    def build(seed):
        records = np.array([[1.0], [-1.0], [1.0]]), np.array([1, 0, 0])
        model = LinearModel(1, Logistic(), intercept=False)
        public = Public(3, 1, regularization, model)
        return runner(algorithm, first_weight, model=model, records=records, public=public, target=target, seed=seed)

    return build


def perceptron(seed):
    """A network's first step, along the canary's clipped gradient at the public starting point."""
    model = Perceptron(2, (3,), Logistic(), "tanh")
    w0 = model.make_initial_parameters(np.random.default_rng(0).random)
    model.make_initial_parameters = lambda uniform: w0.copy()
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    X[-1] = 8.0, -5.0
    direction = model.compute_gradients(w0, Records(X[-1:], y[-1:])).sum_clipped_model_gradients(0.1, None, None) / 0.1
    algorithm = DPSGD(4.0, 1.0, 0.1, noise_multiplier=0.7, average=0.0, optimizer=SGD(1.0))
    return runner(algorithm, lambda seen, w: -float((w - w0) @ direction), model=model, records=(X, y), seed=seed)


def principal_components(seed):
    """The released second moment, which a canary along the first axis moves by max_norm^2."""
    source, noise = dp.Philox(seed), 0.8
    from tightdp.estimators.second_moment import build_second_moment_query

    X = np.array([[0.1, 0.2], [0.2, -0.1], [5.0, 0.0]])
    gate = Gate(Unlimited(), source)

    def run(inside):
        held = Records(X if inside else X[:-1], np.zeros(3 if inside else 2))
        return float(gate.release_gaussian(build_second_moment_query(held, 1.0), noise).value[0])

    fitted = DPPCA(1, delta=1e-5, noise_multiplier=noise, random_state=0).fit(X)
    return run, fitted.charged_


CASES = {
    "DPSGD": Case(dpsgd, 0.5, 4000),
    "DPSGD, parameters alone": Case(dpsgd_by_its_parameters, 1.0, 4000, slow=True),
    "NoisyGD": Case(noisy_gd, 0.5, 4000, slow=True),
    "NoisyGD, centre": Case(centre, 0.8, 2000, slow=True),
    "DPAGD, Gumbel": Case(dpagd("gumbel"), 0.5, 3000, slow=True),
    "DPAGD, exponential": Case(dpagd("exponential"), 0.5, 1500, slow=True),
    "selection, exponential mechanism": Case(selection(dp.BoundedRange(2.0)), 0.5, 12_000, (0.5,), slow=True),
    "selection, permute-and-flip": Case(selection(dp.PureDP(1.5)), 0.5, 12_000, (0.5,)),
    "AdaCliP": Case(adaclip, 0.5, 1500, slow=True),
    "DPIS": Case(dpis(1.0), 0.5, 3000, slow=True),
    "DPIS, long gradient": Case(dpis(5.0), 0.5, 3000, slow=True),
    "DPIS, released norms": Case(dpis_with_released_norms, 0.1, 750, slow=True),
    "OutputPerturbation": Case(logistic(OutputPerturbation(noise_multiplier=0.7), 3.0), 0.1, 2500, slow=True),
    "ObjectivePerturbation": Case(logistic(ObjectivePerturbation(), 0.5, Target(3.0, 1e-2)), 0.1, 2500, slow=True),
    "MLPClassifier": Case(perceptron, 0.8, 3000, slow=True),
    "DPPCA": Case(principal_components, 0.7, 4000),
}
