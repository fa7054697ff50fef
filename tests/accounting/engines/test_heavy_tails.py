"""Deltas far beyond where a rarely sampled law has most of its mass (docs/theory/grid.md section 7, right tail)."""

from __future__ import annotations

import mpmath
import pytest

import tightdp as dp


def sampled_discrete_gaussian(sigma: int, q: float, epsilon: float) -> mpmath.mpf:
    """delta of one step under "remove", summed over all outputs that matter."""
    with mpmath.workdps(60):
        weight = {n: mpmath.exp(-(mpmath.mpf(n) ** 2) / (2 * sigma**2)) for n in range(-41, 42)}
        total = mpmath.fsum(weight.values())
        inside = mpmath.mpf(q)
        terms = ((1 - inside - mpmath.exp(epsilon)) * weight[n] + inside * weight[n - 1] for n in range(-40, 42))
        return mpmath.fsum(term for term in terms if term > 0) / total


@pytest.mark.parametrize("epsilon", [0.02, 0.05, 0.1, 0.3, 0.5, 1.0, 2.0])
def test_a_sampled_discrete_gaussian_is_known_between_and_beyond_its_atoms(epsilon: float) -> None:
    found = dp.PoissonSampled(dp.DiscreteGaussian(1.0), 1e-4).delta(epsilon, neighbors="remove")
    truth = sampled_discrete_gaussian(1, 1e-4, epsilon)
    assert found.lower <= truth <= found.upper <= 2 * truth


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    ("mechanism", "q"), [(dp.DiscreteGaussian(0.152, 8), 7e-9), (dp.Laplace(0.005), 1e-8)], ids=["gaussian", "laplace"]
)
def test_two_steps_that_reveal_a_record_if_they_hold_it(mechanism: dp.Mechanism, q: float, epsilon: float) -> None:
    """Both outputs show the record but for e^-100: delta is about the chance that a sample holds it."""
    found = (dp.PoissonSampled(mechanism, q) * 2).delta(epsilon, neighbors="remove")
    chance = 1 - (1 - q) ** 2
    assert 0.99 * chance < found.lower <= found.upper < 1.01 * chance
