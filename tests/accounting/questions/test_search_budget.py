"""Searches that Python does draw on the budget of their question, and say how much they know where it ends."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as dp
from tightdp import _core

SEARCHES = {
    "group of a search": lambda: dp.RepeatAndSelect(dp.ZCDP(2.0), 2.0, -0.5).group(3).epsilon(1e-5),
    "mu of it": lambda: dp.RepeatAndSelect(dp.ZCDP(2.0), 2.0, -0.5).group(3).gdp(1e-4),
    "trade-off of a large group": lambda: (dp.PoissonSampled(dp.Laplace(1.0), 0.01) * 10).group(300).tradeoff([0.5]),
}
UNITS = 5 * 10**8


@pytest.mark.parametrize("ask", SEARCHES.values(), ids=SEARCHES)
def test_a_search_ends_with_its_budget_and_says_the_same_every_time(ask):
    answers = []
    for _ in range(2):
        before = _core.work_spent()
        with _core.Budget(UNITS):
            answers.append(ask())
        spent = _core.work_spent() - before
        assert UNITS / 10 < spent < 1.2 * UNITS
    ends = [(np.asarray(found.lower), np.asarray(found.upper)) for found in answers]
    assert np.array_equal(*ends)
    assert (ends[0][0] <= ends[0][1]).all()
