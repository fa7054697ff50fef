"""Gaussians with adaptive selections: against plain convolution, against an adversary played out, and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.closed_form import engine as closed_form
from tightdp.accounting.engines.closed_form.bounded_range import RepeatedBoundedRangeCurve
from tightdp.accounting.engines.closed_form.gaussian_selections import (
    _CELLS,
    GaussianSelections,
    build_gaussian_selection_masses,
    can_serve_gaussian_selections,
)
from tightdp.accounting.numerics.outward import Range


def gaussian(mu, eps):
    return norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize(("mu", "eta", "count"), [(0.5, 0.3, 4), (0.05, 0.02, 30), (2.0, 1.0, 3), (0.01, 0.5, 2)])
def test_it_is_the_selections_curve_smoothed_by_the_gaussian(mu, eta, count):
    """Quadrature over the Gaussian loss of the curve of value iteration, interpolated in e^eps."""
    law = GaussianSelections(Range(mu * mu), eta, count)
    nodes = eta / _CELLS * np.arange(-count * _CELLS, count * _CELLS + 1)
    curve = _core.worst_selections(eta, count, _CELLS)
    z = np.linspace(-9, 9, 200_001)
    weight = norm.pdf(z) * (z[1] - z[0])
    for eps in np.array([-0.5, 0.0, 0.3, 1.0]) * (mu + eta * math.sqrt(count)):
        u = eps - (mu * mu / 2 + mu * z)
        inside = np.interp(np.exp(u), np.exp(nodes), curve, right=0.0)
        value = (weight * np.where(u < nodes[0], -np.expm1(u), inside)).sum()
        assert law.evaluate_closed_form_delta(float(eps)).hi == pytest.approx(value, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 2), st.floats(0.05, 1.5), st.lists(st.floats(0, 1), min_size=9, max_size=9), st.floats(0, 3))
def test_no_adaptive_run_exceeds_it(mu, eta, places, eps):
    """Select, release half of the Gaussian cap, select again; t of each step from what was lost before, as a table."""
    law = GaussianSelections(Range(mu * mu), eta, 2)

    def p(t):
        return math.expm1(t - eta) / math.expm1(-eta)

    half = mu / math.sqrt(2)
    z = np.linspace(-8, 8, 801)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    total = 0.0
    t = places[0] * eta
    for y1, m1 in ((t, p(t)), (t - eta, 1 - p(t))):
        y = y1 + half * half / 2 + half * z
        later = np.array(places[1:])[np.clip(((y + 4) * 1.0).astype(int), 0, 7)] * eta  # depends on the loss so far
        chance = np.expm1(later - eta) / math.expm1(-eta)
        rest = chance * gaussian(half, eps - y - later) + (1 - chance) * gaussian(half, eps - y - later + eta)
        total += m1 * float((weight * rest).sum())
    assert total <= law.evaluate_closed_form_delta(eps).hi * (1 + 1e-6) + 1e-9


def test_it_is_below_zcdp_and_above_its_members():
    for eta, count, sigma in ((0.02, 100, 30.0), (0.1, 40, 8.0), (0.5, 10, 2.0)):
        run = dp.Gaussian(sigma) + dp.BoundedRange(eta) * count
        zcdp = dp.ZCDP(1 / (2 * sigma**2) + count * eta**2 / 8).epsilon(1e-8)
        found = run.epsilon(1e-8)
        assert found.engine == "closed_form"
        assert (
            max(dp.Gaussian(sigma).epsilon(1e-8).lower, (dp.BoundedRange(eta) * count).epsilon(1e-8).lower)
            < found.upper
        )
        assert found.upper < 0.97 * zcdp.upper
        member = sum(  # randomised response at eta/2 in every step, beside the Gaussian
            math.comb(count, i) * math.exp((2 * i - count) * eta / 4) / (2 * math.cosh(eta / 4)) ** count
            * gaussian(1 / sigma, found.upper - (2 * i - count) * eta / 2)
            for i in range(count + 1)
        )  # fmt: skip
        assert member <= 1e-8 * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1.0), st.integers(1, 40), st.integers(0, 39), st.floats(0, 1))
def test_without_gaussians_it_is_the_curve_of_the_selections(eta, count, node, share):
    """A Gaussian of mean 1e-8 changes next to nothing; what is left is a chord of the value iteration."""
    node = count * _CELLS + node % (count * _CELLS)
    left, right = (j * eta / _CELLS for j in (node - count * _CELLS, node + 1 - count * _CELLS))
    eps = left + share * (right - left)
    curve = _core.worst_selections(eta, count, _CELLS)[node : node + 2]
    chord = np.interp(math.exp(eps), np.exp([left, right]), curve)
    found = GaussianSelections(Range(1e-16), eta, count).delta(eps).hi
    assert chord * (1 - 1e-6) <= found <= chord * (1 + 1e-6) + 1e-7
    assert found >= RepeatedBoundedRangeCurve(eta, count).delta(eps).lo * (1 - 1e-6)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-4, 2.0), st.integers(1, 60))
def test_masses_are_a_law_and_the_factor_is_rounding(eta, count):
    losses, weights, factor, floor = build_gaussian_selection_masses(eta, count)
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1, abs=1e-3)
    assert 1 <= factor < 1 + 1e-8 and floor < 1e-280
    if eta * count < 5:  # beyond, e^-L magnifies the rounding of masses that carry nothing
        assert (weights * np.exp(-losses)).sum() == pytest.approx(1, abs=1e-3)  # Q is a law as well


def test_inversion_is_certified():
    law = GaussianSelections(Range(0.01), 0.05, 30)
    for delta in (1e-3, 1e-8, 1e-100):
        eps = law.epsilon(delta).hi
        assert law.delta(eps).hi <= delta < law.delta(eps * (1 - 1e-9)).hi
    assert law.epsilon(0.9).hi == 0.0


def test_a_curve_that_underflows_is_no_number_nowhere():
    """Far out 224 selections reveal less than a double holds: a constant stands for it, and the inversion ends."""
    law = GaussianSelections(Range(32.4**-2), 0.413, 224)
    for delta in (1e-3, 8.6e-213, 1e-280):
        eps = law.epsilon(delta).hi
        assert law.delta(eps).hi <= delta < law.delta(eps * (1 - 1e-9)).hi
    assert law.epsilon(1e-300).hi == math.inf
    assert (dp.Gaussian(32.4) + dp.BoundedRange(0.413) * 224).epsilon(8.6e-213).upper < 100


@settings(max_examples=20, deadline=None)
@given(st.floats(2, 60), st.floats(0.005, 0.3), st.integers(1, 50), st.floats(1.01, 2))
def test_more_of_anything_never_costs_less(sigma, eta, count, more):
    base = GaussianSelections(Range(sigma**-2), eta, count).epsilon(1e-7).hi
    assert GaussianSelections(Range(more * sigma**-2), eta, count).epsilon(1e-7).hi >= base
    assert GaussianSelections(Range(sigma**-2), eta * more, count).epsilon(1e-7).hi >= base
    assert GaussianSelections(Range(sigma**-2), eta, count + 1).epsilon(1e-7).hi >= base


def test_what_it_does_not_serve_goes_to_others():
    assert not can_serve_gaussian_selections(Range(0.01), 0.1, 10_000)
    assert not can_serve_gaussian_selections(Range(0.01), 10.0, 100)
    long = dp.Gaussian(10.0) + dp.BoundedRange(0.001) * 10_000
    assert long.epsilon(1e-6).engine == "grid"
    mixed = (dp.BoundedRange(0.1), 1), (dp.BoundedRange(0.2), 1), (dp.Gaussian(2.0), 1)
    assert closed_form.find_closed_form(mixed, "remove") is None
