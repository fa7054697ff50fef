"""Mechanisms by the scale of their noise and a sensitivity, in the units of the data."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as dp

POSITIVE = st.floats(1e-100, 1e100)


@given(POSITIVE, POSITIVE)
def test_no_bound_gains_by_the_quotient(scale, sensitivity):
    """It is the largest double that is at most the exact quotient, but for the one below it."""
    exact = Fraction(scale) / Fraction(sensitivity)
    for mechanism in (dp.Gaussian, dp.Laplace):
        found = mechanism.from_scale(scale, sensitivity).noise_multiplier
        above = math.nextafter(math.nextafter(found, math.inf), math.inf)
        assert Fraction(found) <= exact < Fraction(above)


def test_quotients_beyond_all_doubles_are_rounded_down_too():
    assert dp.Laplace.from_scale(1e308, 1e-10) == dp.Laplace(sys.float_info.max)
    assert dp.Gaussian.from_scale(1e-300, 1e300).epsilon(1e-5).upper == math.inf


def test_integer_noise_keeps_both():
    assert dp.DiscreteGaussian.from_scale(20.0, 3) == dp.DiscreteGaussian(20.0, 3)
    assert dp.DiscreteLaplace.from_scale(20.0, 3) == dp.DiscreteLaplace(20.0, 3)


@pytest.mark.parametrize("mechanism", [dp.Gaussian, dp.Laplace, dp.DiscreteGaussian, dp.DiscreteLaplace])
@pytest.mark.parametrize(("scale", "sensitivity", "name"), [(0.0, 1, "s"), (1.0, 0, "sensitivity"), (-1.0, 1, "s")])
def test_bad_numbers_are_named(mechanism, scale, sensitivity, name):
    with pytest.raises(ValueError, match=rf"^{name}\w* must be"):
        mechanism.from_scale(scale, sensitivity)
