"""The search for quantiles: what one record adds, where it ends without noise, and what it is charged."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as dp
from tightdp.preprocessing import quantiles
from tightdp.train import FixedPlan, Gate

CELLS = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e308]))


def gate(domain=None, noise=1.0):
    return Gate(FixedPlan(quantiles.compute_quantile_charge(domain, noise)), dp.Philox(1))


def length(moved, query):
    """The squared norm of what was added, as a fraction."""
    return sum((int(m) * Fraction(query.grid)) ** 2 for m in moved)


@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5),
    st.tuples(CELLS, CELLS),
    st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=2),
    st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
)
def test_one_record_adds_no_more_than_the_sensitivity(rows, record, levels, thresholds):
    levels = sorted(quantiles.round_quantile_level("q", q) for q in levels)
    at = np.array(thresholds).reshape(2, 2)[: len(levels)]
    queries = [quantiles.build_quantile_query(np.array(some), at, levels) for some in (rows, [*rows, record])]
    moved = queries[1].evaluate(None) - queries[0].evaluate(None)
    assert length(moved, queries[0]) <= Fraction(queries[0].sensitivity) ** 2


@pytest.mark.parametrize("levels", [(0.5,), (0.01, 0.99), (0.3, 0.4), (0.9, 0.95)])
def test_the_sensitivity_is_attained(levels):
    levels = [quantiles.round_quantile_level("q", q) for q in levels]
    at = np.arange(float(len(levels)))[:, None] * np.ones(3)
    most = 0
    for value in (-1.0, 0.5, 9.0):
        query = quantiles.build_quantile_query(np.full((1, 3), value), at, levels)
        most = max(most, length(query.evaluate(None), query))
    assert float(most) == pytest.approx(query.sensitivity**2, rel=1e-12)


@pytest.mark.parametrize("domain", [None, (0.0, 1e6), ([0.0, -50.0], [100.0, 1e6])])
@pytest.mark.parametrize("levels", [(0.5,), (0.01, 0.99), (0.25, 0.75)])
def test_without_noise_it_is_the_least_point_with_so_many_below(people, still, domain, levels):
    grid = quantiles.build_quantile_grid(domain, 2)
    found = quantiles.search_quantiles(gate(domain, 1e-9), people, levels, domain, 1e-9)
    for place, q in zip(found, levels, strict=True):
        for j in (0, 1):
            there = people[:, j][~np.isnan(people[:, j])]
            below = (there[:, None] <= grid[:, j]).sum(axis=0)
            enough = below * 2**20 >= round(q * 2**20) * len(there)
            assert place[j] == min(int(np.argmax(enough)) if enough.any() else len(grid), len(grid) - 1)


def test_with_noise_the_share_below_is_off_by_no_more_than_is_said(people):
    """docs/theory/quantiles.md, section 1: but for a chance of b, over 60 searches."""
    z, b, off = 20.0, 0.01, []
    grid, query = (
        quantiles.build_quantile_grid(None, 2),
        quantiles.build_quantile_query(people, np.zeros((2, 2)), (0.05, 0.95)),
    )
    asked = quantiles.count_quantile_rounds(None)
    deviation = z * np.sqrt(asked) * query.sensitivity
    allowed = deviation * np.sqrt(2 * np.log(2 * asked * 4 / b)) + 1
    source = dp.Philox(3)
    for _ in range(60):
        found = quantiles.search_quantiles(
            Gate(FixedPlan(quantiles.compute_quantile_charge(None, z)), source), people, (0.05, 0.95), None, z
        )
        for place, q in zip(found, (0.05, 0.95), strict=True):
            here, before = (people <= grid[p, [0, 1]] for p in (place, np.maximum(place - 1, 0)))
            n = (~np.isnan(people)).sum(axis=0)
            wanted = q * n + (3 if q < 0.5 else -3) * deviation
            low, high = here.sum(axis=0) - wanted < -allowed, before.sum(axis=0) - wanted > allowed
            off.append(bool((low | high).any()))
    assert np.mean(off) <= 2 * b


@pytest.mark.parametrize("domain", [None, (0, 1)])
def test_it_is_charged_as_one_gaussian(people, domain):
    one = gate(domain, 7.0)
    quantiles.search_quantiles(one, people, (0.5,), domain, 7.0)
    assert dp.Composition((m, 1) for m in one.history) == quantiles.compute_quantile_charge(domain, 7.0)
    assert len(one.history) == quantiles.count_quantile_rounds(domain)
    charged, wanted = (
        quantiles.compute_quantile_charge(domain, 7.0).epsilon(1e-6).upper,
        dp.Gaussian(7.0).epsilon(1e-6).upper,
    )
    assert wanted * (1 - 1e-9) <= charged <= wanted * (1 + 1e-12)


def test_what_is_no_number_leaves_no_trace(people):
    more = np.vstack([people, np.full((50, 2), np.nan)])
    a, b = (quantiles.search_quantiles(gate(), rows, (0.1, 0.9), None, 1.0) for rows in (people, more[::-1]))
    np.testing.assert_array_equal(a, b)


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_it_ends_on_the_grid_whatever_the_answers(columns, seed):
    """Noise alone, of a deviation far beyond the counts."""
    found = quantiles.search_quantiles(
        Gate(FixedPlan(quantiles.compute_quantile_charge(None, 1e6)), dp.Philox(seed)),
        np.zeros((1, columns)),
        (0.2, 0.8),
        None,
        1e6,
    )
    assert (
        found.shape == (2, columns)
        and (found >= 0).all()
        and (found < len(quantiles.build_quantile_grid(None, 1))).all()
    )


@pytest.mark.parametrize("domain", [3, (1, 0), (0, 0), (0, np.inf), (np.nan, 1), (1, 1 + 1e-14), ([0] * 3, 1), "ab"])
def test_bad_domains(domain):
    with pytest.raises(ValueError, match=r"^domain must"):
        quantiles.build_quantile_grid(domain, 2)
