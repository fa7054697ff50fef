"""The oracle's sums, the gate's order of things, and the budget that is asked first."""

from __future__ import annotations

import contextlib
import math
import time

import numpy as np
import pytest
from budgets import Unlimited
from exactly import within
from together import together

import tightdp as dp
from tightdp.clipping_and_noise.sampling import draw_poisson_sample
from tightdp.models.dense import choose_dense_gradient_grid
from tightdp.models.linear import Logistic
from tightdp.train import (
    DPAGD,
    DPIS,
    DPSGD,
    AdaCliP,
    CallableModel,
    Caps,
    FixedPlan,
    Gate,
    LinearModel,
    NoisyGD,
    ObjectivePerturbation,
    Oracle,
    OutputPerturbation,
    Public,
    Query,
    Records,
)


def oracle(X, y, records=None):
    model = LinearModel(X.shape[1], Logistic(), intercept=False)
    return Oracle(model, Records(X, y), Public(records or len(y), model.size))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_a_record_that_is_not_finite_contributes_nothing(bad, still):
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = np.arange(20) % 2
    w = np.array([0.1, -0.2, 0.3])
    gate = Gate(Unlimited(), still)
    spoilt = np.vstack([X, [bad, bad, 0.0]])
    for ask in (
        lambda o: gate.release_gaussian(o.gradient_sum_query(w, 0.5), 1.0).value,
        lambda o: gate.release_gaussian(o.gradient_sum_query(w, 0.5, center=w, scale=1 + w**2), 1.0).value,
    ):
        clean, with_bad = ask(oracle(X, y)), ask(oracle(spoilt, np.append(y, 1)))
        np.testing.assert_allclose(with_bad, clean, rtol=1e-12)
    norms = gate.release_gaussian(oracle(spoilt, np.append(y, 1)).norm_sum_query(w, 0.5), 1.0).value
    rest = gate.release_gaussian(oracle(X, y).norm_sum_query(w, 0.5), 1.0).value
    assert 0 <= norms[0] - rest[0] <= 0.5


def test_one_record_moves_a_sum_by_at_most_its_sensitivity(still):
    g = np.random.default_rng(1)
    X, y, w = 5 * g.normal(size=(30, 3)), g.integers(0, 2, 30), g.normal(size=3)
    for options in ({}, {"center": g.normal(size=3), "scale": g.uniform(0.1, 2, 3)}):
        query, larger = (oracle(X[:n], y[:n]).gradient_sum_query(w, 0.7, **options) for n in (29, 30))
        assert within(larger.evaluate(still) - query.evaluate(still), query, query.scale)
    steps = np.linspace(0, 3, 7)
    queries = [oracle(X[:n], y[:n]).line_loss_query(w, -w, steps, 0.9) for n in (29, 30)]
    moved = np.subtract(*(q.evaluate(still) for q in queries[::-1]))
    assert (moved >= 0).all() and (moved * queries[0].grid <= 0.9).all()


def test_the_sum_is_clipped_example_by_example(still):
    g = np.random.default_rng(2)
    X, y, w = g.normal(size=(9, 3)), g.integers(0, 2, 9), g.normal(size=3)
    center, scale = g.normal(size=3), g.uniform(0.5, 2, 3)
    rows = (1 / (1 + np.exp(-X @ w)) - y)[:, None] * X - center
    norms = np.linalg.norm(rows / scale, axis=1)
    expected = (rows * np.minimum(1, 0.6 / norms)[:, None]).sum(axis=0)
    query = oracle(X, y).gradient_sum_query(w, 0.6, center=center, scale=scale)
    found = query.evaluate(still) * query.grid
    np.testing.assert_allclose(found, expected, atol=9 * 2.0**-16)  # docs/theory/exact-products.md, section 3


def test_the_budget_is_asked_before_anything_is_looked_at(still):
    looked = []
    query = Query((1,), 1.0, 1.0, 2.0**-20, lambda source: looked.append(1) or np.zeros(1, np.int64))
    gate = Gate(FixedPlan(dp.Gaussian(2.0) * 2), still)
    gate.release_gaussian(query, 2.0)
    with pytest.raises(dp.BudgetExceeded):
        gate.release_gaussian(query, 1.9)
    gate.release_gaussian(query, 2.0)
    with pytest.raises(dp.BudgetExceeded):
        gate.release_gaussian(query, 2.0)
    assert len(looked) == 2 and gate.history == (dp.Gaussian(2.0),) * 2


def test_noise_has_the_deviation_that_is_charged():
    empty = Query((20_000,), 3.0, 0.5, 2.0**-20, lambda source: np.zeros(20_000, np.int64))
    release = Gate(Unlimited(), dp.Philox(1)).release_gaussian(empty, 2.0)
    assert release.mechanism == dp.PoissonSampled(dp.Gaussian(2.0), 0.5)
    assert abs(release.value.std() - 6.0) < 5 * 6 / math.sqrt(2 * 20_000)


def test_selection_follows_the_exponential_mechanism():
    scores = np.array([0, 2, 6])
    query = Query((3,), 2.0, 1.0, 0.5, lambda source: scores, scores=True)
    gate = Gate(Unlimited(), dp.Philox(5))
    eta, n = 1.5, 20_000
    chosen = np.bincount([gate.release_least_index(query, dp.BoundedRange(eta)).value for _ in range(n)], minlength=3)
    p = np.exp(-eta * 0.5 * scores / 2.0)
    p /= p.sum()
    assert (abs(chosen - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()
    assert gate.history[0] == dp.BoundedRange(eta)
    assert gate.release_least_index(query, dp.PureDP(0.3)).mechanism == dp.PureDP(0.3)


def test_only_scores_can_be_chosen_from(still):
    gate = Gate(Unlimited(), still)
    with pytest.raises(ValueError, match="scores"):
        gate.release_least_index(Query((3,), 1.0, 1.0, 1.0, lambda s: np.zeros(3, np.int64)), dp.BoundedRange(1.0))
    scores = Query((3,), 1.0, 1.0, 1.0, lambda s: np.zeros(3, np.int64), scores=True)
    for mechanism, name in ((dp.BoundedRange(0.0), "eta"), (dp.PureDP(0.0), "epsilon")):
        with pytest.raises(ValueError, match=f"{name} must be"):
            gate.release_least_index(scores, mechanism)


def test_caps_admit_adaptive_choices_up_to_the_cap_and_charge_the_cap():
    caps = Caps(1.0, [(dp.BoundedRange(0.1), 2)])
    for _ in range(4):
        caps.spend(dp.Gaussian(2.0))
    with pytest.raises(dp.BudgetExceeded):
        caps.spend(dp.Gaussian(1e4))
    for _ in range(2):
        caps.spend(dp.BoundedRange(0.1))
    for refused in (dp.BoundedRange(0.1), dp.BoundedRange(0.05), dp.PureDP(0.1)):
        with pytest.raises(dp.BudgetExceeded):
            caps.spend(refused)
    (gaussian, once), (range_, twice) = sorted(caps.charge().parts, key=lambda part: part[1])
    assert 1 - 1e-12 < gaussian.noise_multiplier < 1 and once == 1  # rounded outward
    assert (range_, twice) == (dp.BoundedRange(0.1), 2)


@pytest.mark.parametrize("q", [0.003, 0.2, 0.97])
def test_poisson_batches_hold_each_record_with_probability_q(q):
    source, n, runs = dp.Philox(9), 400, 4000
    counts, sizes = np.zeros(n), []
    for _ in range(runs):
        rows = draw_poisson_sample(source, n, q)
        assert (np.diff(rows) > 0).all()
        counts[rows] += 1
        sizes.append(len(rows))
    deviation = math.sqrt(runs * q * (1 - q))
    assert (abs(counts - runs * q) < 5.5 * deviation).all()
    assert abs(np.var(sizes) / (n * q * (1 - q)) - 1) < 0.15  # independent: a binomial number of them
    pairs = np.corrcoef(sizes[:-1], sizes[1:])[0, 1]
    assert abs(pairs) < 5 / math.sqrt(runs)


def test_sampling_everything_takes_no_coins():
    assert draw_poisson_sample(None, 10, 1.0) is None


def test_a_callable_model_is_held_to_its_shapes():
    X, y = np.ones((3, 2)), np.zeros(3, int)
    records = Records(X, y)
    model = CallableModel(2, lambda w, X, y: X * w, initial=[1.0, 2.0])
    found = model.compute_gradients(np.ones(2), records).sum_clipped_model_gradients(2.0)
    np.testing.assert_allclose(found * choose_dense_gradient_grid(2.0), [3, 3], rtol=1e-12)
    with pytest.raises(ValueError, match="losses must be given"):
        model.compute_losses(np.ones(2), records)
    with pytest.raises(ValueError, match=r"gradients must return shape \(3, 2\)"):
        CallableModel(2, lambda w, X, y: X[:2]).compute_gradients(np.ones(2), records)
    with pytest.raises(ValueError, match=r"losses must return shape \(3,\)"):
        CallableModel(2, lambda w, X, y: X, lambda w, X, y: X).compute_losses(np.ones(2), records)
    with pytest.raises(ValueError, match=r"initial must have shape \(2,\)"):
        CallableModel(2, lambda w, X, y: X, initial=[1.0])


def test_no_more_than_a_chunk_of_gradients_is_held_at_once(still):
    """Every sum over all records, in parts: the same value as with them all in memory."""
    from tightdp.release_gate.oracle import CHUNK

    X = np.random.default_rng(5).normal(size=(2 * CHUNK + 5, 2))
    seen = []

    def gradients(w, x, y):
        seen.append(len(x))
        return x * (1 + w)

    model = CallableModel(2, gradients, lambda w, x, y: np.abs(x @ w))
    asked, w = Oracle(model, Records(X, np.zeros(len(X))), Public(len(X), 2)), np.array([0.5, 1.0])
    norms = np.linalg.norm(X * (1 + w), axis=1)
    clipped = X * (1 + w) * np.minimum(1, 0.7 / norms)[:, None]

    def value(query):
        # and what rounding may take off, in the sum of gradients up to 2^-17 of the bound each
        return query.evaluate(still) * query.grid, len(X) * max(query.grid, 0.7 * 2.0**-17)

    found, error = value(asked.gradient_sum_query(w, 0.7))
    np.testing.assert_allclose(found, clipped.sum(axis=0), rtol=0, atol=error)
    found, error = value(asked.norm_sum_query(w, 0.7))
    np.testing.assert_allclose(found, np.minimum(norms, 0.7).sum(), rtol=0, atol=error)
    steps = np.array([0.0, 2.0])
    losses = [np.minimum(np.abs(X @ (w - s * w)), 0.9).sum() for s in steps]
    found, error = value(asked.line_loss_query(w, w, steps, 0.9))
    np.testing.assert_allclose(found, losses, rtol=0, atol=error)
    assert max(seen) == CHUNK


@pytest.mark.parametrize("shared", ["gate", "budget"])
@pytest.mark.parametrize("kind", ["plan", "caps"])
def test_threads_release_no_more_than_the_budget_and_lose_nothing(kind, shared):
    most = 1500
    budget = FixedPlan(dp.Gaussian(2.0) * most) if kind == "plan" else Caps(most / 4.0)
    gate, done = Gate(budget, dp.Philox(1)), []
    query = Query((1,), 1.0, 1.0, 1.0, lambda source: np.zeros(1, np.int64))

    def work(_):
        for _ in range(200):
            with contextlib.suppress(dp.BudgetExceeded):
                if shared == "gate":
                    gate.release_gaussian(query, 2.0)
                else:
                    budget.spend(dp.Gaussian(2.0))
                done.append(1)

    together(work)
    assert len(done) == most
    assert len(gate.history) == (most if shared == "gate" else 0)


class Overtaken:
    """A budget of one release without a lock of its own: another thread may ask while it thinks."""

    left = 1

    def spend(self, mechanism):
        if not self.left:
            raise dp.BudgetExceeded("nothing is left")
        time.sleep(0.01)
        self.left -= 1


def test_a_gate_asks_its_budget_for_one_thread_at_a_time():
    gate, done = Gate(Overtaken(), dp.Philox(1)), []
    query = Query((1,), 1.0, 1.0, 1.0, lambda source: np.zeros(1, np.int64))

    def work(_):
        with contextlib.suppress(dp.BudgetExceeded):
            done.append(gate.release_gaussian(query, 2.0))

    together(work)
    assert len(done) == len(gate.history) == 1


@pytest.mark.parametrize("bound", [1e-31, 1e31, 0.0, math.nan])
@pytest.mark.parametrize("algorithm", [NoisyGD, DPSGD, AdaCliP, DPIS, DPAGD, OutputPerturbation, ObjectivePerturbation])
def test_norm_bounds_are_in_the_range_of_the_grids(algorithm, bound):
    with pytest.raises(ValueError, match="max_norm must be"):
        algorithm(max_norm=bound)
    assert algorithm(max_norm=1e-30).max_norm == 1e-30


def test_scores_of_a_selection_move_by_the_offset_in_steps_of_the_grid():
    query = Query((2,), 1.0, 1.0, 0.25, lambda source: np.zeros(2, np.int64), scores=True)
    gate = Gate(Unlimited(), dp.Philox(7))

    def count_second(offset):
        chosen = (gate.release_least_index(query, dp.BoundedRange(2.0), offset=[0.0, offset]) for _ in range(3000))
        return sum(release.value for release in chosen)

    seen = {offset: count_second(offset) for offset in (0.1, 0.25, math.inf)}
    for offset, odds in ((0.1, 1.0), (0.25, math.exp(-0.5)), (math.inf, 0.0)):
        p = odds / (1 + odds)
        assert abs(seen[offset] - 3000 * p) <= 5 * math.sqrt(3000 * p * (1 - p))
