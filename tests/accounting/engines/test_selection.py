"""Adaptive bounded-range steps: the compiled value iteration against a brute-force one, and against its members."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.closed_form.bounded_range import RepeatedBoundedRangeCurve


def brute_force(eta, count, cells, places=400):
    """The same recursion on the same nodes with t from a fine mesh: plain NumPy, no closed form of the best t."""
    nodes = eta / cells * np.arange(-count * cells, count * cells + 1)
    curve = np.maximum(-np.expm1(nodes), 0.0)

    def at(eps, support):
        inside = np.interp(np.exp(eps), np.exp(nodes), curve)
        return np.where(eps <= -support, -np.expm1(eps), np.where(eps >= support, 0.0, inside))

    for r in range(count):
        best = np.zeros(len(nodes))
        for t in np.linspace(0.0, eta, places * cells + 1):
            p = -math.expm1(t - eta) / -math.expm1(-eta)
            np.maximum(best, p * at(nodes - t, r * eta) + (1 - p) * at(nodes - t + eta, r * eta), out=best)
        curve = best
    return curve


@pytest.mark.parametrize(("eta", "count", "cells"), [(0.3, 1, 4), (0.3, 5, 4), (2.0, 3, 6), (0.01, 7, 3)])
def test_the_best_loss_of_a_cell_has_a_closed_form(eta, count, cells):
    found, searched = _core.worst_selections(eta, count, cells), brute_force(eta, count, cells)
    assert np.all(found >= searched * (1 - 1e-12) - 1e-16)
    assert np.all(found <= searched * (1 + 1e-4) + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(1e-6, 3.0), st.integers(2, 12), st.integers(1, 20), st.lists(st.floats(0, 1), min_size=12, max_size=12)
)
def test_no_plan_exceeds_the_worst_adversary(eta, count, cells, places):
    """Losses t and t - eta in each step, t fixed in advance."""
    nodes = eta / cells * np.arange(-count * cells, count * cells + 1)
    curve = _core.worst_selections(eta, count, cells)
    law = {0.0: 1.0}
    for place in places[:count]:
        t = place * eta
        p = -math.expm1(t - eta) / -math.expm1(-eta)
        law = {
            y: sum(
                m for z, m in ((x + s, w * q) for x, w in law.items() for s, q in ((t, p), (t - eta, 1 - p))) if z == y
            )
            for y in {x + s for x in law for s in (t, t - eta)}
        }
    delta = sum(m * np.maximum(-np.expm1(nodes - y), 0.0) for y, m in law.items())
    assert np.all(curve >= delta * (1 - 1e-11) - 1e-15)


def test_a_step_is_the_envelope_and_more_steps_are_below_its_composition():
    curve = _core.worst_selections(0.7, 1, 9)
    nodes = 0.7 / 9 * np.arange(-9, 10)
    assert curve == pytest.approx((1 - np.exp((nodes - 0.7) / 2)) ** 2 / -math.expm1(-0.7), rel=1e-12, abs=1e-15)
    fold = RepeatedBoundedRangeCurve(0.2, 40)
    assert fold.epsilon(1e-6).hi < (dp.BoundedRange(0.2) * 40).epsilon(1e-6, engine="renyi").upper


def test_finer_cells_are_tighter():
    at = {
        cells: np.interp(
            0.5, 0.1 / cells * np.arange(-20 * cells, 20 * cells + 1), _core.worst_selections(0.1, 20, cells)
        )
        for cells in (4, 8, 16)
    }
    assert at[4] > at[8] > at[16] and (at[8] - at[16]) < 0.4 * (at[4] - at[8])


@pytest.mark.parametrize("delta", [0.03, 1e-6, 1e-60])
def test_epsilon_and_delta_of_the_curve_agree(delta):
    run = dp.BoundedRange(0.1) * 25
    b = run.epsilon(delta)
    assert b.engine == "closed_form" and set(b.error_budget) == {"class"} and b.lower <= b.upper <= 2.5
    assert run.delta(b.upper).upper <= delta * (1 + 1e-9) and run.delta(b.upper * (1 - 1e-6)).upper > delta
    assert run.delta(3.0).upper == 0 and run.delta(-3.0).lower <= -math.expm1(-3.0) <= run.delta(-3.0).upper
