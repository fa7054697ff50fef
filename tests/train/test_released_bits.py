"""The low bits of a release (Mironov, CCS 2012): which floats a noisy value can take must not depend on the data.

The attack: one record of zeros, or a canary beside it. With floating-point noise the place of the last binary digit of
the released coefficient tells which: an adversary who looks at nothing else proves more than was charged.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from budgets import Unlimited

import tightdp as dp
from tightdp import audit
from tightdp.estimators.second_moment import build_second_moment_query
from tightdp.models.linear import Logistic
from tightdp.models.mlp import Perceptron
from tightdp.train import (
    DPAGD,
    DPIS,
    DPPCA,
    DPSGD,
    SGD,
    AdaCliP,
    Gate,
    LinearModel,
    MLPClassifier,
    NoisyGD,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Records,
    Target,
)

PLAIN = NoisyGD(steps=1, center=0, momentum=0, learning_rate=1.0, average=0, noise_multiplier=3.73)
ALGORITHMS = {
    "OutputPerturbation": OutputPerturbation(noise_multiplier=3.73),
    "NoisyGD": PLAIN,
    "NoisyGD, defaults": NoisyGD(steps=2, noise_multiplier=5.0),
    "DPSGD": DPSGD(0.9, 1.0, optimizer=SGD(1.0), average=0, noise_multiplier=3.73),
    "AdaCliP": AdaCliP(0.5, 1.0, optimizer=SGD(1.0), average=0, noise_multiplier=3.73),
    "DPAGD": DPAGD(selections=2, candidates=2, noise_multiplier=5.0),
    "DPIS": DPIS(0.9, 1, optimizer=SGD(1.0), average=0, noise_multiplier=3.73),
    "ObjectivePerturbation": ObjectivePerturbation(),
}
SLOW = "NoisyGD, defaults", "AdaCliP", "DPAGD", "DPIS", "OutputPerturbation", "ObjectivePerturbation"
RUNS = 4000


LINEAR = LinearModel(1, Logistic(), intercept=False)
PUBLIC = Public(1, 1, 1.0, LINEAR)


@functools.cache
def planned(algorithm):
    return algorithm.plan(PUBLIC, Target(None if getattr(algorithm, "noise_multiplier", None) else 1.0, 1e-5))


def neighbours(inside):
    X = np.array([[0.0], [1.0]])[: 1 + inside]
    return Records(X, np.zeros(len(X), np.intp))


def coefficient(algorithm, inside, seed, gate=Gate):
    """The model of one parameter that is released, by a gate and a source of this run's own."""
    if isinstance(algorithm, DPAGD):  # which ends when its budget does
        plan = planned.__wrapped__(algorithm)
        asked = gate(plan.budget, dp.Philox(seed))
    else:
        plan, asked = planned(algorithm), gate(Unlimited(), dp.Philox(seed))
    return plan.run(Oracle(LINEAR, neighbours(inside), PUBLIC), asked, np.zeros(1))[0]


def second_moment_of(inside, seed, gate=Gate):
    """What components are computed from."""
    return (
        gate(Unlimited(), dp.Philox(seed))
        .release_gaussian(build_second_moment_query(neighbours(inside), 1.0), 3.73)
        .value[0]
    )


NETWORK = Perceptron(1, (1,), Logistic(), "relu")


def step_of_a_network(inside, seed, gate=Gate):
    """The derivative by the first weight, all weights being 1/2."""
    oracle = Oracle(NETWORK, neighbours(inside), Public(1, NETWORK.size))
    query = oracle.gradient_sum_query(np.full(NETWORK.size, 0.5), 1.0)
    return gate(Unlimited(), dp.Philox(seed)).release_gaussian(query, 3.73).value[0]


def digits(values):
    """The place of the last binary digit that is not 0."""
    found = []
    for value in values:
        numerator, denominator = float(value).as_integer_ratio()
        found.append((numerator & -numerator).bit_length() - denominator.bit_length() if numerator else 0)
    return np.array(found)


def shown(draw, runs=RUNS):
    """The largest epsilon, at delta = 1e-5, that a threshold on the place of the last digit proves."""
    with_, without = (digits([draw(inside, 2 * seed + inside) for seed in range(runs)]) for inside in (True, False))
    best = 0.0
    for place in np.unique(np.concatenate([with_, without])):
        found = audit.paired(with_ <= place, without <= place, thresholds=[0.5], confidence=1 - 1e-5)
        best = max(best, found.epsilon(1e-5))
    return best


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in ALGORITHMS])
def test_the_last_digits_of_a_model_show_nothing_beyond_the_claim(name):
    assert shown(lambda inside, seed: coefficient(ALGORITHMS[name], inside, seed)) <= 0.3


class Floats(Gate):
    """Noise as it was: a float times a float, added to a float."""

    def release_gaussian(self, query, noise_multiplier):
        value = query.evaluate(self._source) * query.grid
        noise = noise_multiplier * query.sensitivity * self._source.normal(value.size)
        return self._finish_gate_release(
            value + noise, self._spend_at_gate(dp.Gaussian(noise_multiplier), query.sampling_probability)
        )


ATTACKED = {
    "NoisyGD": functools.partial(coefficient, PLAIN),
    "OutputPerturbation": functools.partial(coefficient, ALGORITHMS["OutputPerturbation"]),
    "network": step_of_a_network,
    "second moment": second_moment_of,
}


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("NoisyGD", 1.0),
        pytest.param("OutputPerturbation", 1.0, marks=pytest.mark.slow),
        pytest.param("second moment", 1.0, marks=pytest.mark.slow),
        ("network", 0.6),
    ],
)
def test_the_same_attack_finds_floating_point_noise(name, least):
    """Some percent of the runs with the canary end in digits that no run without it ends in."""
    assert shown(functools.partial(ATTACKED[name], gate=Floats)) > least


@pytest.mark.parametrize("name", ["network", pytest.param("second moment", marks=pytest.mark.slow)])
def test_the_last_digits_of_a_network_and_of_second_moments_show_nothing_beyond_the_claim(name):
    assert shown(ATTACKED[name]) <= 0.3


def multiple_of(values, grid):
    return all(math.remainder(float(v), grid) == 0 for v in np.ravel(values))


def test_every_release_is_a_multiple_of_its_grid(monkeypatch):
    """Networks and components too: the gate releases integers times a power of two."""
    released = []
    keep = Gate._finish_gate_release

    def watched(self, value, mechanism):
        released.append(value)
        return keep(self, value, mechanism)

    monkeypatch.setattr(Gate, "_finish_gate_release", watched)
    g = np.random.default_rng(0)
    X, y = g.normal(size=(60, 3)), g.integers(0, 2, 60)
    DPPCA(1, 1.0, 1e-5).fit(X)
    MLPClassifier(DPSGD(epochs=0.1), 1.0, 1e-5, hidden_layer_sizes=(2,)).fit(X, y)
    assert len(released) > 5
    for value in released:
        exponents = digits(np.ravel(value))
        assert np.ptp(exponents) < 63 and multiple_of(value, 2.0 ** (min(exponents) - 1))
