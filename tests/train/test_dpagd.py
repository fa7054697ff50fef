"""DP-AGD: what it releases, what it is charged, and each correction of the paper that can be seen from outside."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as dp
from tightdp.algorithms.dpagd import _DPAGDRun
from tightdp.release_gate.budget import Target
from tightdp.release_gate.oracle import Public
from tightdp.train import DPAGD, Gate, LogisticRegression, Query


def fit(blobs, algorithm=None, **settings):
    return LogisticRegression(
        algorithm or DPAGD(**settings), epsilon=1.0, delta=1e-5, public_size=1500, random_state=0
    ).fit(*blobs)


@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_the_account_is_that_of_the_caps(blobs, noise):
    algorithm = DPAGD(selections=12, share=0.2, noise=noise, noise_multiplier=40.0)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    select = dp.BoundedRange(2 * np.sqrt(0.25) / 40) if noise == "gumbel" else dp.PureDP(np.sqrt(0.25) / 40)
    (gaussian, one), (selection, twelve) = sorted(clf.charged_.parts, key=lambda part: part[1])
    assert (selection, twelve, one) == (select, 12, 1)
    assert gaussian.noise_multiplier == pytest.approx(40 / np.sqrt(12), rel=1e-11)
    assert clf.privacy_ == clf.charged_.epsilon(1e-5)
    gradients = [m for m in clf.history_ if isinstance(m, dp.Gaussian)]
    selections = [m for m in clf.history_ if m == select]
    assert len(gradients) + len(selections) == len(clf.history_)
    assert len(selections) <= 12
    assert sum(g.noise_multiplier**-2 for g in gradients) <= 12 / 40**2 * (1 + 1e-12)


def test_the_mean_of_the_features_is_paid_from_the_gradients_cap(blobs):
    algorithm = DPAGD(selections=50, noise_multiplier=40.0, center=0.1)
    clf = LogisticRegression(algorithm, delta=1e-5, public_size=1500, random_state=0).fit(*blobs)
    assert clf.history_[0] == dp.Gaussian(40 / np.sqrt(0.1 * 50))
    gradients = [m for m in clf.history_ if isinstance(m, dp.Gaussian)]
    assert sum(g.noise_multiplier**-2 for g in gradients) <= 50 / 40**2 * (1 + 1e-12)
    plain = DPAGD(selections=50, noise_multiplier=40.0, center=0)
    assert clf.charged_ == LogisticRegression(plain, delta=1e-5, public_size=1500).fit(*blobs).charged_


def test_shares_of_the_budget():
    """share = 1/5 means selections cost a quarter of what gradients do, in zCDP, with either noise."""
    gradients = 10 / (2 * 30.0**2)
    eta = DPAGD(selections=10, share=0.2)._calibrate_dpagd_selection(30.0).eta
    epsilon = DPAGD(selections=10, share=0.2, noise="exponential")._calibrate_dpagd_selection(30.0).nominal_epsilon
    assert 10 * eta**2 / 8 == pytest.approx(gradients / 4) == pytest.approx(10 * epsilon**2 / 2)


def test_it_learns_and_meets_the_target(blobs):
    clf = fit(blobs)
    assert clf.score(*blobs) > 0.95
    assert clf.privacy_.lower <= clf.privacy_.upper <= 1.0


def test_poisson_batches(blobs):
    clf = fit(blobs, batch_size=300, center=0)
    assert {type(m) for m in clf.history_} == {dp.PoissonSampled}
    assert {m.sampling_probability for m in clf.history_} == {0.2}
    assert clf.score(*blobs) > 0.9
    assert clf.charged_ == fit(blobs).charged_  # unamplified


class Scripted:
    """An oracle and a gate in one: a constant gradient, and choices that are dictated."""

    def __init__(self, choices, noises):
        self.choices, self.noises, self.asked, self.directions, self.offsets = list(choices), list(noises), [], [], []

    def gradient_sum_query(self, w, max_norm, *, sampling_probability):
        return Query((2,), max_norm, sampling_probability, 1.0, lambda s: None)

    def line_loss_query(self, w, direction, steps, max_loss, *, sampling_probability):
        self.directions.append(direction)
        return Query((len(steps),), max_loss, sampling_probability, 1.0, lambda s: None, scores=True)

    def release_gaussian(self, query, noise_multiplier):
        self.asked.append(noise_multiplier)
        if not self.noises:
            raise dp.BudgetExceeded("end of script")
        return _Value(np.array([3.0, 4.0]) + self.noises.pop(0))

    def release_least_index(self, query, mechanism, *, offset):
        self.offsets.append(offset)
        return _Value(self.choices.pop(0))


class _Value:
    def __init__(self, value):
        self.value = value


def run(choices, noises, regularization=0.0, **settings):
    script = Scripted(choices, noises)
    settings = DPAGD(candidates=4, max_step=2.0, momentum=0.0, **settings)
    public = Public(100, 2, regularization)
    w = _DPAGDRun(settings, public, script, script, np.zeros(2), 1.0, 10.0, dp.BoundedRange(0.1)).run()
    return script, w


def test_refinements_average_all_raw_measurements_by_their_weights():
    """Not the first one, and not the normalised one (corrections 2 and 6)."""
    noises = [np.array(v) for v in ([1.0, 0.0], [0.0, 2.0], [-1.0, 1.0])]
    script, w = run([0, 0, 4], noises, growth=0.5)
    weights = np.array([1.0, 0.5, 0.75])
    for seen, direction in enumerate(script.directions, start=1):
        mean = np.average(np.array([3.0, 4.0]) + noises[:seen], axis=0, weights=weights[:seen])
        np.testing.assert_allclose(direction, mean / np.linalg.norm(mean))
    np.testing.assert_allclose(w, -2.0 * script.directions[-1])
    prices = np.array(script.asked) ** -2.0 * 10**2
    np.testing.assert_allclose(prices, [1.0, 0.5, 0.75, 2.25])  # the last: what a whole gradient has come to cost


def test_a_refused_release_leaves_the_parameters_as_they_were():
    script, w = run([2], [np.zeros(2)])
    np.testing.assert_allclose(w, -1.0 * np.array([0.6, 0.8]))
    assert len(script.asked) == 2


def test_the_range_of_steps_follows_the_largest_taken():
    script, _ = run([4, 1, 2, 2, 3], [np.zeros(2)] * 5, every=2, stretch=0.1)
    assert script.choices == []
    seen = []
    script = Scripted([4, 1, 2, 2, 3], [np.zeros(2)] * 5)
    script.line_loss_query = lambda w, direction, steps, *a, **k: seen.append(steps[-1])
    settings = DPAGD(candidates=4, max_step=2.0, every=2, stretch=0.1, momentum=0.0)
    _DPAGDRun(settings, Public(100, 2), script, script, np.zeros(2), 1.0, 10.0, dp.BoundedRange(0.1)).run()
    np.testing.assert_allclose(seen, [2.0, 2.0, 2.2, 2.2, 1.21])


def test_the_penalty_carries_the_public_number_of_records():
    script, _ = run([4, 0], [np.zeros(2)] * 2, regularization=0.1)
    ends = np.linspace(0, 2, 5)[:, None] * np.array([0.6, 0.8])
    np.testing.assert_allclose(script.offsets[0], 0.5 * 100 * 0.1 * (ends**2).sum(axis=1))


def test_the_wrong_sign_of_the_authors_code_would_choose_the_worst(still):
    """Correction 10: their noisy max took the argmax of -score - noise."""
    gate = Gate(type("Any", (), {"spend": lambda self, m: None})(), dp.Philox(2))
    query = Query((3,), 1.0, 1.0, 1.0, lambda s: np.array([50, 0, 100]), scores=True)
    assert {gate.release_least_index(query, dp.BoundedRange(1.0)).value for _ in range(50)} == {1}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"selections": 0}, "selections"),
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"max_loss": 0.0}, "max_loss"),
        ({"max_norm": -1.0}, "max_norm"),
        ({"candidates": 0}, "candidates"),
        ({"max_step": float("inf")}, "max_step"),
        ({"growth": 0.0}, "growth"),
        ({"noise": "normal"}, "noise"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        DPAGD(**settings)


def test_a_target_needs_epsilon_or_noise():
    with pytest.raises(ValueError, match="epsilon must be given"):
        DPAGD().plan(Public(10, 2), Target(None, 1e-5))
