"""Clipped sums of outer products by the kernels of a device, thread by thread on the host: the bits of the CPU."""

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp.models import dense

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="kernels are emulated with the GNU C library")

DTYPES = [np.float32, np.float64]
SHAPES = [[(5, 1)], [(33, 5), (1, 1)], [(17, 3), (129, 2), (300, 1)], [(2, 130)]]
"""Columns and outputs of layers. With one output a gradient is formed."""


def draw_layers(g, rows, dtype, shapes):
    """Inputs and errors of very different sizes, some of them zeros."""
    layers = []
    for columns, outputs in shapes:
        pair = [g.normal(size=(rows, n)) * 10.0 ** g.uniform(-6, 6, (rows, 1)) for n in (columns, outputs)]
        for x in pair:
            x[g.random(x.shape) < 0.1] = 0
            x[g.random(rows) < 0.05] = 0
        layers.append(tuple(x.astype(dtype) for x in pair))
    return layers


def both(layers, max_norm, *, grid=None, taken=None, max_norms=None, processors=3, chunk=1 << 20):
    """Sums of the device's kernels and of the CPU's, which start at 5."""
    grid = grid or dense.choose_dense_product_grid(max_norm)
    totals = [[np.full((r.shape[1], x.shape[1]), 5) for x, r in layers] for _ in range(2)]
    _testing.emulate_product_sum(
        [(x, r, total) for (x, r), total in zip(layers, totals[0], strict=True)], max_norm / grid, 1 / grid,
        None if taken is None else taken.astype(np.uint8), None if max_norms is None else max_norms / grid,
        processors, chunk,
    )  # fmt: skip
    dense.add_dense_model_products(layers, max_norm, totals[1], grid=grid, taken=taken, max_norms=max_norms)
    return totals


def agree(totals):
    for device, cpu in zip(*totals, strict=True):
        np.testing.assert_array_equal(device, cpu)
    return totals[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_sums_are_those_of_the_cpu(shapes, dtype):
    layers = draw_layers(np.random.default_rng(1), 67, dtype, shapes)
    for max_norm, coarser in ((1e-20, 1), (4.0, 1 << 9)):
        grid = coarser * dense.choose_dense_product_grid(max_norm)
        assert any((total != 5).any() for total in agree(both(layers, max_norm, grid=grid)))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([32, 64]), st.floats(1e-30, 1e30))
def test_any_bits_of_records(data, width, max_norm):
    """Entries that overflow, underflow, cancel or are not finite."""
    dtype, layers, rows = (np.float32 if width == 32 else np.float64), [], 3
    for _ in range(data.draw(st.integers(1, 2))):
        number = st.floats(width=width, allow_nan=True, allow_infinity=True)
        widths = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
        drawn = [data.draw(st.lists(number, min_size=rows * n, max_size=rows * n)) for n in widths]
        layers.append(tuple(np.array(x, dtype).reshape(rows, -1) for x in drawn))
    agree(both(layers, max_norm))


def test_records_that_are_not_taken_and_own_bounds():
    g = np.random.default_rng(2)
    layers = draw_layers(g, 90, np.float64, [(6, 3), (8, 1)])
    agree(both(layers, 2.0, taken=g.random(90) < 0.4))
    agree(both(layers, 2.0, max_norms=g.uniform(0, 2, 90) * (g.random(90) < 0.8)))


def test_chunks_of_records_and_any_number_of_processors():
    layers = draw_layers(np.random.default_rng(3), 150, np.float32, [(20, 4), (270, 1)])
    expected = agree(both(layers, 0.5))
    for processors, chunk in ((1, 64), (7, 70), (100, 150)):
        for found, total in zip(agree(both(layers, 0.5, processors=processors, chunk=chunk)), expected, strict=True):
            np.testing.assert_array_equal(found, total)


@pytest.mark.parametrize("shapes", [[(0, 3), (4, 1)], [(3, 0), (2, 2)]])
@pytest.mark.parametrize("rows", [0, 2])
def test_nothing_to_add(shapes, rows):
    agree(both([(np.ones((rows, d)), np.ones((rows, o))) for d, o in shapes], 1.0))


def test_bounds_beyond_the_common_one_are_confined():
    """The host checks its own bounds. Those in device memory are not checked, and break no guarantee."""
    layers = draw_layers(np.random.default_rng(4), 4, np.float64, [(6, 3)])
    grid = dense.choose_dense_product_grid(1.0)
    found = []
    for bounds in (np.array([2.0, np.nan, -1.0, np.inf]), np.array([1.0, 0.0, 0.0, 1.0])):
        total = np.zeros((3, 6), np.int64)
        given = [(*layers[0], total)]
        _testing.emulate_product_sum(given, 1 / grid, 1 / grid, None, bounds / grid, 2, 64)
        found.append(total)
    np.testing.assert_array_equal(*found)
