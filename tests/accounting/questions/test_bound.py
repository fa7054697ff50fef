"""A bound is a number where a number is wanted, and comparisons of bounds are certain or false."""

import copy
import json
import math
import operator
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as dp

some = dp.Bound(1.25, 2.0625, "contour", {"truncation": 0.8125})
INFINITE = dp.Bound(0.5, math.inf, "fallback")
TRUTHS = operator.lt, operator.le, operator.gt, operator.ge

numbers = st.integers(-8, 8).map(float) | st.just(math.inf)


@st.composite
def bounds(draw):
    return dp.Bound(*sorted((draw(numbers), draw(numbers))), "grid")


@pytest.mark.parametrize("spec", [".3f", "9.2e", "g", ">12", ",.1f", "%"])
def test_it_is_formatted_as_its_upper_end(spec):
    assert format(some, spec) == dp.format_up(2.0625, spec)
    assert format(INFINITE, spec) == format(math.inf, spec)


def test_text_and_rounding():
    assert f"{some}" == str(some) == "2.0625"
    assert round(some) == 3 and type(round(some)) is int
    assert round(some, 3) == 2.063 and round(some, -1) == 10.0 and round(INFINITE, 3) == math.inf
    assert float(some) == 2.0625 and math.ceil(some) == 3 and math.isinf(INFINITE)
    assert np.asarray([some, INFINITE], float).tolist() == [2.0625, math.inf]
    with pytest.raises(OverflowError):
        round(INFINITE)
    with pytest.raises(ValueError, match="format"):
        format(some, "d")


def test_repr_and_json_keep_everything():
    assert eval(repr(some), {"Bound": dp.Bound}) == some and "truncation" in repr(some)
    found = json.loads(json.dumps(some.to_dict()))
    assert found["lower"] == 1.25 and found["upper"] == 2.0625 and found["error_budget"] == {"truncation": 0.8125}
    assert json.loads(json.dumps(INFINITE.to_dict()))["upper"] is None


def test_examples():
    assert some <= 2.0625 and not some <= 2.0 and not some < 2.0625 and some < 3
    assert some >= 1.25 and not some >= 1.26 and not some > 1.25 and some > 1
    assert not some < 2 and not some >= 2  # 2 lies inside: nothing is certain
    assert some < dp.Bound(3.0, 4.0, "grid") and not some < dp.Bound(2.0, 4.0, "grid")
    assert some < np.float64(3) and np.float64(3) > some and Fraction(5, 4) <= some and some >= Fraction(5, 4)
    assert (some <= np.array([2.0, 2.0625])).tolist() == [False, True]
    assert (np.array([2.0, 2.0625]) >= some).tolist() == [False, True]
    assert not any(holds(some, math.nan) or holds(math.nan, some) for holds in TRUTHS)
    with pytest.raises(TypeError):
        some < "2"  # noqa: B015


@given(bounds(), bounds() | numbers)
def test_a_comparison_holds_for_every_value_in_between_or_is_false(one, other):
    """Both ends of either side are values that it may have; all four pairs decide, for the order is linear."""
    ends = (other.lower, other.upper) if isinstance(other, dp.Bound) else (other, other)
    for holds in TRUTHS:
        assert holds(one, other) == all(holds(x, y) for x in (one.lower, one.upper) for y in ends)
    mirrored = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}
    assert all(holds(one, other) == turned(other, one) for holds, turned in mirrored.items())


def test_equality_is_of_fields():
    same = dp.Bound(1.25, 2.0625, "contour")
    assert same == some and hash(same) == hash(some) and pickle.loads(pickle.dumps(some)) == some == copy.deepcopy(some)
    assert dp.Bound(1.25, 2.0625, "grid") != some
    assert some != 2.0625 and dp.Bound(2.0, 2.0, "grid") != 2.0
    assert dp.Bound(2.0, 2.0, "grid") <= 2.0 <= dp.Bound(2.0, 2.0, "grid")


def test_an_answer_decides_a_budget():
    spent = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).epsilon(1e-5)
    assert spent <= 1.83 and not spent <= 1.82 and spent >= 1.82
