"""Planted bugs, each of which is printed in a paper or found in released code: the audit must catch all of them.

Every test has the sound variant beside it, audited in the same way: it must pass where the bug is caught.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from harness import Watched, data, evidence, mixture, runner

import tightdp as dp
from tightdp.train import DPSGD, CallableModel


def caught(run, claim, trials, **options):
    return evidence(run, trials, **options).excludes(claim)


class Quiet(Watched):
    """Adds less noise than it charges for."""

    share = 0.5

    def _add_noise(self, deviation, value):
        super()._add_noise(self.share * deviation, value)


class Silent(Quiet):
    share = 0.0


@pytest.mark.parametrize(("gate", "leaks"), [(Watched, False), (Quiet, True), (Silent, True)])
def test_noise_halved_or_left_out(gate, leaks):
    algorithm = DPSGD(batch_size=4.0, epochs=1.0, noise_multiplier=0.8, average=0.0)
    run, claim = runner(algorithm, mixture(1.0, 0.8, 1.0), gate=gate, seed=30)
    assert caught(run, claim, 3000) == leaks


class Unclipped(Quiet):
    """Noise for a norm of 1 on sums clipped at 10."""

    share = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("leaks", [False, True])
def test_noise_for_another_norm_than_the_sum_has(leaks):
    algorithm = DPSGD(batch_size=4.0, epochs=1.0, max_norm=10.0, noise_multiplier=2.0, average=0.0)
    gate = Unclipped if leaks else Watched
    score = mixture(10.0, 20.0, 1.0)
    run, claim = runner(algorithm, score, records=data(canary=30.0), gate=gate, seed=31)
    assert caught(run, claim, 1500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_realised_batch_size_as_divisor(leaks):
    """Others pull with gradient 1 and the canary with 0: with the realised divisor its coin moves the mean."""
    n, q, noise = 4, 0.5, 0.02
    source = dp.Philox(32)

    def run(inside):
        taken = source.bernoulli(q, n)
        total = float(taken[:3].sum()) + noise * 4 * float(source.normal(1)[0])
        size = int(taken.sum()) if inside else int(taken[:3].sum())
        return -total / max(size, 1) if leaks else -total / (q * n)

    # a zero gradient adds nothing to the sum: the sound variant would satisfy any claim, the bug none like this one
    assert caught(run, dp.PureDP(0.3), 2500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_non_finite_gradient_passed_on(leaks):
    """A gradient of infinite norm times a factor of 0 is NaN, and so is the sum."""

    class Naive:
        def __init__(self, matrix):
            self._matrix = matrix

        def sum_clipped_model_gradients(self, max_norm, center, scale, *, grid):
            with np.errstate(invalid="ignore"):
                norms = np.linalg.norm(self._matrix, axis=1, keepdims=True)
                total = (self._matrix * np.minimum(1, max_norm / np.maximum(norms, 1e-300))).sum(axis=0)
                return (total / grid).astype(np.int64)  # of NaN the least integer there is

    def gradients(w, X, y):
        return np.where(X > 0, np.inf, 0.0)

    model = CallableModel(1, gradients)
    if leaks:
        model.compute_gradients = lambda w, records: Naive(gradients(w, records.features, records.targets))
    algorithm = DPSGD(batch_size=4.0, epochs=1.0, noise_multiplier=1.0, average=0.0)
    run, claim = runner(algorithm, lambda seen, w: float(seen[0][0][0]), model=model, seed=33)
    assert caught(run, claim, 1500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_noise_per_example_on_poisson_batches(leaks):
    """AdaCliP as printed: each record of a batch carries its share of the noise, an empty batch none. The canary is
    alone, so that without it every batch is empty."""
    noise, q = 1.0, 0.25
    source = dp.Philox(34)

    def run(inside):
        size = int(source.bernoulli(q, 1)[0] and inside)
        shares = size / q if leaks else 1.0
        total = size + noise * math.sqrt(shares) * float(source.normal(1)[0])
        return abs(total) if leaks else total

    assert caught(run, dp.PoissonSampled(dp.Gaussian(noise), q), 3000) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_sum_of_norms_of_a_sample_with_the_printed_noise(leaks):
    """DPIS, K' = (1/p) sum over a sample + noise: the sensitivity is C/p, so noise sigma C is multiplier sigma p."""
    sigma, p = 1.0, 0.1
    source = dp.Philox(35)

    def run(inside):
        norms = float(source.bernoulli(p, 1)[0] and inside) / p
        return norms + sigma * (1.0 if leaks else 1 / p) * float(source.normal(1)[0])

    assert caught(run, dp.PoissonSampled(dp.Gaussian(sigma), p), 2500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_weight_of_the_realised_probability(leaks):
    """DPIS with 1/probability for a weight: where min(., 1) caps the draw, it adds k times what is charged."""
    k, sigma, q = 5.0, 0.6, 0.5
    source = dp.Philox(36)

    def run(inside):
        taken = float(source.bernoulli(q, 1)[0] and inside)
        return taken * (k if leaks else 1.0) + sigma * float(source.normal(1)[0])

    assert caught(run, dp.PoissonSampled(dp.Gaussian(sigma), q), 2500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_noisy_max_with_the_wrong_sign(leaks):
    """DP-AGD's released code took argmax(-f - Exp), which loses (k-1) epsilon; with the right sign it loses epsilon.

    The canary raises one candidate's score alone."""
    epsilon, candidates = 1.0, 8
    g = np.random.default_rng(37)
    plain, moved = np.zeros(candidates), np.eye(candidates)[0]

    def run(inside):
        noise = g.exponential(1 / epsilon, candidates) * (-1.0 if leaks else 1.0)
        return float(np.argmax(noise - (moved if inside else plain)) == 0)

    assert caught(run, dp.PureDP(epsilon), 12_000, thresholds=[0.5]) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_fixed_size_batches_charged_as_poisson_ones(leaks):
    """All other gradients are -1 and the canary's is 1: in a batch of fixed size it takes another's place, and moves
    the sum by 2. (A truncated batch, or one of "B random users", does the same.)"""
    n, batch, sigma = 4, 2, 0.5
    source, g = dp.Philox(38), np.random.default_rng(38)

    def run(inside):
        rows = np.array([-1.0] * (n - 1) + [1.0] * inside)
        taken = g.choice(rows, batch, replace=False) if leaks else rows[source.bernoulli(batch / n, len(rows))]
        # Most is seen where the canary's batch, a sum of 0, stands beside the sure -2 of batches without it.
        return float(taken.sum()) + sigma * float(source.normal(1)[0])

    assert caught(run, dp.PoissonSampled(dp.Gaussian(sigma), batch / n), 4000) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_a_regularizer_times_the_exact_number_of_records(leaks):
    """DP-AGD's objective as printed: n lambda/2 |w|^2 has a gradient that each record moves by lambda w."""
    w, strength, sigma, n = 10.0, 0.3, 1.0, 20
    source = dp.Philox(39)

    def run(inside):
        size = n + inside if leaks else n
        return inside + size * strength * w + sigma * float(source.normal(1)[0])

    assert caught(run, dp.Gaussian(sigma), 1500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_a_clipping_bound_that_came_out_negative(leaks):
    """DPIS: C = lambda K*/N of a noisy K*. min(1, C/|g|) with C < 0 turns a gradient around at its full length, and
    clipping routines that skip C <= 0 leave it as it is."""
    sigma, released = 1.0, -0.2
    source = dp.Philox(40)

    def run(inside):
        bound = released if leaks else max(released, 0.01)
        gradient = 10.0 * inside
        clipped = gradient if bound <= 0 else gradient * min(1.0, bound / max(gradient, 1e-300))
        return (clipped + sigma * abs(bound) * float(source.normal(1)[0])) / abs(bound)

    assert caught(run, dp.Gaussian(sigma), 1500) == leaks


@pytest.mark.parametrize("leaks", [False, True])
def test_exact_losses_beside_the_model(leaks):
    """The released code of DP-AGD prints the loss of each iteration: with a canary it is another number."""
    source = dp.Philox(41)

    def run(inside):
        loss = 3 * math.log(2) + inside
        return loss + (0.0 if leaks else float(source.normal(1)[0]))

    assert caught(run, dp.Gaussian(1.0), 1500) == leaks
