"""What clipping promises, on numbers that hypothesis chooses: exact rational arithmetic is the judge."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import clipping as reference

import tightdp as dp

WIDTHS = {np.float16: 16, np.float32: 32, np.float64: 64}
BOUNDS = {np.float16: (1e-25, 1e25), np.float32: (1e-25, 1e25), np.float64: (1e-100, 1e100)}


ONE = st.just(1)
COLUMNS = st.integers(1, 40)


def rows(dtype, batch=ONE, columns=COLUMNS, **kwargs):
    shapes = st.tuples(batch, columns)
    return hnp.arrays(dtype, shapes, elements=st.floats(width=WIDTHS[dtype], **kwargs))


def square_norm(v):
    return sum((Fraction(float(x)) ** 2 for x in np.ravel(v)), Fraction(0))


@pytest.mark.parametrize("dtype", list(WIDTHS))
@given(st.data())
def test_a_clipped_row_never_exceeds_the_bound(dtype, data):
    """Any row: subnormal, huge, infinite, NaN. Exactly: no tolerance."""
    g = data.draw(rows(dtype))
    max_norm = data.draw(st.floats(*BOUNDS[dtype]))
    weight = data.draw(st.sampled_from([1.0, 0.3, 0.0, 2.0**-20, 1e-21, 1e-30, 1e-308]))
    normalize = data.draw(st.booleans())
    total, norms = dp.clipped_sum(g, max_norm, weights=[weight], normalize=normalize)
    assert np.isfinite(total).all()
    assert square_norm(total) <= (Fraction(max_norm) * Fraction(weight)) ** 2
    assert norms[0] == np.inf or (norms[0] >= 0 and np.isfinite(g).all())


@pytest.mark.parametrize(
    ("entry", "max_norm", "weight", "dtype"),
    [
        (6.37822227e219, 1e-100, 0.3, np.float64),  # the factor is subnormal
        (1e222, 1e-100, 1e200, np.float64),  # the quotient is, the factor is not
        (1e99, 1e100, 3e-309, np.float64),  # the weight is
        (1e-25, 1e-25, 8e-21, np.float32),  # the product is, and would round up
    ],
)
def test_nor_where_precision_is_lost_to_underflow(entry, max_norm, weight, dtype):
    for row in (entry, 1.3 * entry):
        total, _ = dp.clipped_sum(np.array([[row]], dtype), max_norm, weights=[weight])
        assert Fraction(float(total[0])) <= Fraction(max_norm) * Fraction(weight)


@pytest.mark.parametrize("dtype", list(WIDTHS))
@given(st.data())
def test_nor_does_a_transformed_one(dtype, data):
    g = data.draw(rows(dtype, columns=st.integers(1, 8)))
    finite = st.floats(-1e6, 1e6)
    center = data.draw(hnp.arrays(np.float64, g.shape[1], elements=finite))
    scale = data.draw(hnp.arrays(np.float64, g.shape[1], elements=st.floats(1e-6, 1e6)))
    total, _ = dp.clipped_sum(g, 0.7, center=center, scale=scale, out=np.empty(g.shape[1]))
    assert square_norm(total) <= Fraction(0.7) ** 2


def ordinary(dtype, batch):
    return rows(dtype, batch, st.integers(1, 600), min_value=-1024, max_value=1024, allow_subnormal=False)


@pytest.mark.parametrize("dtype", list(WIDTHS))
@settings(max_examples=40)
@given(st.data())
def test_permuting_the_examples_changes_roundings_alone(dtype, data):
    g = data.draw(ordinary(dtype, st.integers(1, 40)))
    order = np.array(data.draw(st.permutations(range(len(g)))))
    bound = 2 * reference.error_bound(reference.clipped_sum(g, 3.0)[2], len(g), np.dtype(dtype))
    first, norms = dp.clipped_sum(g, 3.0)
    second, permuted = dp.clipped_sum(g[order], 3.0)
    np.testing.assert_array_equal(permuted, norms[order])
    assert (np.abs(first.astype(float) - second) <= bound).all()


@pytest.mark.parametrize("dtype", list(WIDTHS))
@settings(max_examples=40)
@given(st.data())
def test_one_example_moves_the_sum_by_at_most_its_share(dtype, data):
    g = data.draw(ordinary(dtype, st.integers(1, 30)))
    weights = data.draw(hnp.arrays(np.float64, len(g), elements=st.floats(0, 2)))
    out = data.draw(st.integers(0, len(g) - 1))
    rest = np.delete(np.arange(len(g)), out)
    whole = dp.clipped_sum(g, 3.0, weights=weights)[0].astype(float)
    less = dp.clipped_sum(g[rest], 3.0, weights=weights[rest])[0].astype(float)
    rounding = 2 * reference.error_bound(reference.clipped_sum(g, 3.0, weights)[2], len(g), np.dtype(dtype))
    # math.hypot: the squares of what a weight of 1e-160 leaves underflow
    assert math.hypot(*(whole - less)) <= 3.0 * weights[out] + math.hypot(*rounding)


@given(rows(np.float64, st.integers(0, 5), st.integers(1, 9)), st.floats(0.01, 100))
def test_scaling_rows_and_bound_scales_the_sum(g, max_norm):
    g = np.where(np.abs(g) < 1e150, g, 1.0)
    g = np.where(np.abs(g) > 1e-150, g, 0.0)
    total, _ = dp.clipped_sum(g, max_norm)
    scaled, _ = dp.clipped_sum(g * 4, max_norm * 4)
    np.testing.assert_array_equal(scaled, 4 * total)
