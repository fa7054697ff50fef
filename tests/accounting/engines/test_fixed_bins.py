"""Random allocation whose bins are kept in all epochs, against integrals over all outputs."""

import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as dp


def of_all_outputs(sigma, epsilon, selected, reach=7.0, points=57):
    """delta of removing and of adding a record, two bins, two epochs: four outputs, each on a grid of midpoints."""
    y = np.linspace(-reach, reach, points)
    weight = np.exp(-(y**2) / 2) / np.exp(-(y**2) / 2).sum()
    logs = y / sigma - 1 / (2 * sigma**2)  # of N(1, sigma^2) against N(0, sigma^2), at sigma y
    first, second = np.add.outer(logs, logs).ravel(), np.add.outer(logs, logs).ravel()  # a bin's outputs of two epochs
    mass = np.outer(weight, weight).ravel()
    one, other = np.exp(first)[:, None], np.exp(second)[None, :]
    ratio = one * other if selected == 2 else (one + other) / 2
    both = mass[:, None] * mass[None, :]
    x = math.exp(epsilon)
    return float((both * np.maximum(ratio - x, 0)).sum()), float((both * np.maximum(1 - x * ratio, 0)).sum())


@pytest.mark.parametrize("selected", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, *(pytest.param(epsilon, marks=pytest.mark.slow) for epsilon in (0.5, 1.5))])
def test_two_bins_and_two_epochs(selected, epsilon):
    for sigma in (1.0, 2.0):
        run = dp.RandomAllocation.fixed_bins(dp.Gaussian(sigma), 2, 2, selected)
        for relation, truth in zip(("remove", "add"), of_all_outputs(sigma, epsilon, selected), strict=True):
            found = run.delta(epsilon, neighbors=relation)
            assert found.lower - 2e-3 <= truth <= found.upper + 2e-3


def test_contributions_that_follow_earlier_outputs_attain_no_more():
    """The second epoch turns its contribution by the first one's output: the ratio's law stays what it was."""
    sigma, bins, epochs, draws = 1.0, 3, 2, 200_000
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(draws, epochs, bins, 2))
    exponents = np.zeros((draws, bins))
    angle = np.zeros(draws)
    for epoch in range(epochs):
        for b in range(bins):
            y = noise[:, epoch, b]
            exponents[:, b] += (np.cos(angle) * y[:, 0] + np.sin(angle) * y[:, 1]) / sigma - 1 / (2 * sigma**2)
            angle = np.where(exponents.sum(axis=1) > 0, angle + y[:, 0], -angle)
    ratio = np.exp(exponents).mean(axis=1)
    run = dp.RandomAllocation.fixed_bins(dp.Gaussian(sigma), bins, epochs)
    for epsilon in (0.0, 0.7, 1.4):
        for relation, losses in (
            ("remove", np.maximum(ratio - math.exp(epsilon), 0)),
            ("add", np.maximum(1 - math.exp(epsilon) * ratio, 0)),
        ):
            error = 5 * losses.std() / math.sqrt(draws)
            assert abs(losses.mean() - run.delta(epsilon, neighbors=relation).upper) <= error + 1e-4


def test_the_noise_is_rounded_down():
    for sigma in (0.3, 1.0, 2.0, 17.3, 1e-160, 5e-324):
        for epochs in (1, 2, 3, 10, 10**6):
            inner = dp.RandomAllocation.fixed_bins(dp.Gaussian(sigma), 7, epochs).mechanism.noise_multiplier
            assert inner <= sigma / math.sqrt(epochs) * (1 + 1e-15) or inner == math.ulp(0.0)
            if sigma > 1e-100:
                assert Fraction(inner) ** 2 * epochs <= Fraction(sigma) ** 2
                assert (
                    Fraction(math.nextafter(inner, 1e9)) ** 2 * epochs * (1 + Fraction(1, 2**50)) > Fraction(sigma) ** 2
                )


def test_fixed_bins_are_far_from_those_drawn_anew():
    fixed = dp.RandomAllocation.fixed_bins(dp.Gaussian(2.0), 100, 10).epsilon(1e-5)
    anew = (dp.RandomAllocation(dp.Gaussian(2.0), 100) * 10).epsilon(1e-5)
    assert fixed.lower > 2.95 and anew.upper < 0.61
    # Every bin in one: ten Gaussians.
    whole = dp.RandomAllocation.fixed_bins(dp.Gaussian(2.0), 1, 10).epsilon(1e-5)
    assert whole.upper == pytest.approx((dp.Gaussian(2.0) * 10).epsilon(1e-5).upper, rel=1e-12)


def test_what_is_not_proved_is_refused():
    for mechanism in (dp.Laplace(1.0), dp.PureDP(1.0), dp.DiscreteGaussian(1.0), dp.ZCDP(0.5)):
        with pytest.raises(ValueError, match=r"^mechanism must be a Gaussian where epochs"):
            dp.RandomAllocation.fixed_bins(mechanism, 5, 2)
        assert dp.RandomAllocation.fixed_bins(mechanism, 5, 1) == dp.RandomAllocation(mechanism, 5)
    with pytest.raises(ValueError, match=r"^epochs must be"):
        dp.RandomAllocation.fixed_bins(dp.Gaussian(1.0), 5, 0)
    with pytest.raises(ValueError, match=r"^steps must be"):
        dp.RandomAllocation.fixed_bins(dp.Gaussian(1.0), 0, 2)
