"""What the gate adds to a sum, and what it selects from, against what is charged: in rational arithmetic.

Statements: docs/theory/exact.md, section 2, and docs/theory/selection.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from budgets import Unlimited
from hypothesis import assume, example, given
from hypothesis import strategies as st

import tightdp as dp
from tightdp.models.contribution_grid import FAST, MOST
from tightdp.release_gate.gate import _choose_query_shift_and_deviation, _convert_noise_to_gate_grid_units
from tightdp.train import Gate, Query

MULTIPLIERS = st.floats(1e-3, 1e6)
BOUNDS = st.floats(1e-30, 1e30)
DIGITS = st.integers(12, 60)
"""Of a bound over its grid; sums of clipped gradients have 38."""


def grid(bound, digits):
    return math.ldexp(1.0, math.frexp(bound)[1] - digits)


def query(bound, digits, scale=None, size=1):
    shape = (size if scale is None else len(scale),)
    return Query(shape, bound, 1.0, grid(bound, digits), lambda source: np.zeros(shape, np.int64), scale=scale)


def found(asked, multiplier):
    try:
        return _choose_query_shift_and_deviation(asked, multiplier)
    except ValueError:
        assume(False)


@given(MULTIPLIERS, BOUNDS, DIGITS, st.integers(1, 10**6))
@example(0.1, 0.3, 38, 1)
@example(1.1, 0.7, 38, 1)
@example(37.3, 0.7, 38, 50)
def test_one_deviation_for_all_coordinates(multiplier, bound, digits, size):
    asked = query(bound, digits, size=size)
    shift, deviation = found(asked, multiplier)
    assert deviation <= FAST
    moved = Fraction(bound) / Fraction(asked.grid) / 2**shift
    more = Fraction(deviation) / Fraction(multiplier) - moved
    assert more >= 0
    if shift:
        assert more**2 >= size
    most = moved + (math.isqrt(size) + 1 if shift else 0)
    assert Fraction(deviation) <= Fraction(multiplier) * most * (1 + Fraction(1, 10**8))


@given(MULTIPLIERS, BOUNDS, DIGITS, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6))
@example(0.1, 0.3, 38, [1.0, 0.3])
@example(37.3, 0.7, 38, [0.1, 7.7, 1.0])
def test_a_deviation_for_each_coordinate(multiplier, bound, digits, scales):
    asked = query(bound, digits, np.array(scales))
    shift, deviations = found(asked, multiplier)
    assert deviations.max() <= FAST * (1 + 1e-9)
    moved = Fraction(bound) / Fraction(asked.grid) / 2**shift
    for deviation, b in zip(deviations, scales, strict=True):
        more = Fraction(float(deviation)) / (Fraction(multiplier) * Fraction(b)) - moved
        assert more >= 0
        if shift:
            assert more**2 >= sum(1 / Fraction(b) ** 2 for b in scales)


@given(MULTIPLIERS, BOUNDS, DIGITS)
@example(0.1, 0.3, 20)
def test_noise_in_units_of_a_grid(multiplier, bound, digits):
    step = grid(bound, digits)
    charged = Fraction(multiplier) * Fraction(bound) / Fraction(step)
    if charged > MOST:
        with pytest.raises(ValueError, match=r"^epsilon must be larger"):
            _convert_noise_to_gate_grid_units(multiplier, bound, step)
    else:
        assert (
            charged
            <= Fraction(_convert_noise_to_gate_grid_units(multiplier, bound, step))
            <= charged * (1 + Fraction(1, 2**50))
        )


class Chosen:
    """What a selection is made from, in place of the selection."""

    def __call__(self, scores, a_step, coins):
        self.scores, self.a_step = scores, a_step
        return 0


OFFSETS = st.one_of(st.floats(-1e6, 1e6), st.floats(allow_nan=False, allow_infinity=False), st.just(math.inf))


@given(
    st.lists(st.tuples(st.integers(0, 2**62), OFFSETS), min_size=1, max_size=5),
    BOUNDS,
    st.integers(-30, 30),
    st.floats(1e-9, 50),
    st.booleans(),
)
def test_a_selection_is_made_from_exact_scores(pairs, bound, exponent, rate, permuted):
    """Scores are whole multiples of the grid, offsets the nearest ones, and a step weighs what is charged for it."""
    sums, offsets = (list(column) for column in zip(*pairs, strict=True))
    step = math.ldexp(1.0, exponent)
    asked = Query((len(sums),), bound, 1.0, step, lambda source: np.array(sums, np.int64), scores=True)
    chosen = Chosen()
    with pytest.MonkeyPatch.context() as patch:
        choice = "select_score_by_permute_and_flip" if permuted else "select_score_by_exponential_mechanism"
        patch.setattr(f"tightdp.release_gate.gate.{choice}", chosen)
        gate = Gate(Unlimited(), dp.Philox(1))
        gate.release_least_index(
            asked, dp.PureDP(rate) if permuted else dp.BoundedRange(rate), offset=np.array(offsets)
        )
    assert chosen.a_step == Fraction(rate) * Fraction(step) / Fraction(bound)
    for score, s, offset in zip(chosen.scores, sums, offsets, strict=True):
        assert type(score) is int
        largest = int(np.finfo(np.float64).max)
        if abs(offset) < 1e290:
            assert score == s + round(Fraction(offset) / Fraction(step))
        else:  # so far off that nothing else decides
            assert abs(score) > 2**900 and (score > 0) == (offset > 0) and abs(score - s) <= largest
