"""Ranges hold what exact arithmetic gives, and the C library is as accurate as they assume."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tightdp.accounting.numerics import outward
from tightdp.accounting.numerics.outward import INF, Range

many = settings(max_examples=300, deadline=None)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.floats(-10, 10),
    st.sampled_from([0.0, 5e-324, -5e-324, 1.0, -1.0, 1.7976931348623157e308]),
)


@st.composite
def ranges(draw, elements=numbers):
    a, b = sorted((draw(elements), draw(elements)))
    share = draw(st.fractions(0, 1))
    return Range(a, b), Fraction(a) + share * (Fraction(b) - Fraction(a))


def holds(found, truth):
    assert not math.isnan(found.lo) and not math.isnan(found.hi)
    assert (found.lo == -INF or Fraction(found.lo) <= truth) and (found.hi == INF or truth <= Fraction(found.hi))


@many
@given(ranges(), ranges())
def test_operations_hold_the_exact_result(one, two):
    (a, x), (b, y) = one, two
    holds(a + b, x + y)
    holds(a - b, x - y)
    holds(a * b, x * y)
    holds(-a, -x)
    if b.lo > 0:
        holds(a / b, x / y)


@many
@given(numbers, numbers)
def test_exact_sums_stay_exact(x, y):
    total = Range(x) + y
    assume(math.isfinite(x + y))
    exact = Fraction(x) + Fraction(y)
    assert (total.lo == total.hi) == (Fraction(x + y) == exact)


@many
@given(st.sampled_from(["exp", "expm1", "log", "log1p", "sqrt"]), st.floats(-745, 709), st.floats(1e-300, 1e300))
def test_functions_hold_the_exact_value_within_four_ulps(name, any_sign, positive):
    x = any_sign if name in ("exp", "expm1") else positive
    if name == "log1p" and any_sign < 0:
        x = -min(math.exp(any_sign), math.nextafter(1.0, 0.0))
    found = getattr(outward, name)(x)
    with mp.workdps(60):
        truth = getattr(mp, name)(mp.mpf(x))
        assert found.lo <= truth <= found.hi
        nearest = float(truth)
        if abs(nearest) > 1e-290:  # the assumption of closed-forms.md, with room to spare
            assert abs(getattr(math, name)(x) - truth) <= 2 * math.ulp(nearest)


@pytest.mark.parametrize("name", ["exp", "expm1"])
@pytest.mark.parametrize("x", [709.78, 709.781, 709.7827, 709.782712893384, 709.7827128933841, 709.79])
def test_exponentials_next_to_overflow_hold_the_exact_value(name, x):
    found = getattr(outward, name)(x)
    with mp.workdps(60):
        truth = getattr(mp, name)(mp.mpf(x))
        assert found.lo <= truth <= found.hi


@pytest.mark.parametrize(
    ("name", "x", "value"),
    [("exp", 0.0, 1.0), ("expm1", 0.0, 0.0), ("log", 1.0, 0.0), ("log1p", 0.0, 0.0), ("sqrt", 0.0, 0.0)],
)
def test_exact_points(name, x, value):
    found = getattr(outward, name)(x)
    assert found.lo <= value <= found.hi and (name == "log" or found.lo == found.hi == value)


def test_infinities_and_domains():
    assert outward.exp(1e4).hi == INF and math.isfinite(outward.exp(1e4).lo)
    assert outward.log(0.0).lo == -INF and outward.log1p(-2.0).lo == -INF
    assert (Range(0.0) * INF).hi == 0 and Range(1.0, INF).limit_range_to(0.0, 2.0).hi == 2.0
    assert (1 / Range(5e-324)).hi == INF and (Range(1e-300) * 1e-300).hi > 0


def test_quotients_of_ranges_hold_the_quotients_of_their_ends():
    """Ends that are not whole numbers of units, among them those whose reciprocals round down."""
    draw = np.random.default_rng(11)
    for _ in range(20_000):
        a, b = draw.uniform(1, 2, 2)
        one, other = Range(a, math.nextafter(a, math.inf)), Range(b, math.nextafter(b, math.inf))
        found = one / other
        assert Fraction(found.lo) <= Fraction(one.lo) / Fraction(other.hi)
        assert Fraction(one.hi) / Fraction(other.lo) <= Fraction(found.hi)
