"""The error budget explains the width: its terms add up to it."""

import math

import pytest

import tightdp as dp
from tightdp.accounting.questions.question import split_width_of_question

STEP = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)
CONTOUR = {"aliasing", "truncation", "quadrature", "rounding"}
GRID = {"lattice", "rounding", "wrapping", "truncation"}
RUNS = [
    (dp.Gaussian(1.0) * 5, "remove", {"rounding"}),
    (STEP * 1000, "add_or_remove", CONTOUR),
    (STEP * 3, "add_or_remove", CONTOUR),
    (dp.PoissonSampled(dp.Laplace(1.0), 0.1) * 3, "add_or_remove", GRID),
    (dp.PureDP(0.3) + dp.PureDP(0.5) * 10, "add_or_remove", {"rounding"}),
    (dp.RandomAllocation(dp.Gaussian(1.0), 50), "add_or_remove", {"discretisation"}),
    (STEP * 10 + dp.ZCDP(0.01), "add_or_remove", {"conversion"}),
    (dp.BoundedRange(0.3) * 4 + dp.Gaussian(2.0), "add_or_remove", {"class"}),
    (dp.FixedSizeSampled(dp.Gaussian(1.0), 10, 100) * 5, "replace", {"adversary"}),
    (dp.PoissonSampled(dp.Laplace(1.0), 0.1) * 50, "replace", GRID | {"pair"}),
    (dp.PoissonSampled(dp.PureDP(1.0), 0.1) * 50, "replace", GRID),
]


@pytest.mark.parametrize(("run", "neighbors", "names"), RUNS, ids=lambda x: "" if isinstance(x, set) else repr(x)[:60])
def test_terms_add_up_to_the_width(run, neighbors, names):
    b = run.epsilon(1e-6, neighbors=neighbors)
    assert set(b.error_budget) == names
    assert math.fsum(b.error_budget.values()) == pytest.approx(b.width, rel=1e-12, abs=1e-300)
    assert all(0 <= term <= b.width * (1 + 1e-12) for term in b.error_budget.values())


def test_terms_are_scaled_named_or_left():
    assert split_width_of_question(1.0, {"a": 3.0, "b": math.inf}, "rest") == {"a": 0.5, "b": 0.5}
    assert split_width_of_question(1.0, {"a": 0.25}, "rest") == {"a": 0.25, "rest": 0.75}
    assert split_width_of_question(1.0, {}, "rest") == {"rest": 1.0}
    assert split_width_of_question(0.0, {"a": 0.0}, "rest") == {"a": 0.0}
    assert split_width_of_question(math.inf, {"a": 2.0}, "rest") == {"a": 2.0}
