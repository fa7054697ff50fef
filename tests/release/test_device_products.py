"""Integer products by the kernels of a device, thread by thread on the host: the integers of the plain reference."""

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense as reference

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="kernels are emulated with the GNU C library")

STAGE = 64
"""Number of records that are copied to shared memory at a time, and to whose multiples records are filled up."""
DIGITS = (-128, -127, -1, 0, 1, 126, 127)
"""Digits at their ends, or next to where one carries."""


def draw_integers(g, shape, most):
    digits = g.choice(DIGITS, (3, *shape))
    return np.clip(digits[0] + 256 * digits[1] + 65536 * digits[2], -most, most)


def draw_operands(g, rows, outputs, columns):
    w = draw_integers(g, (rows, outputs), reference.LARGEST_WEIGHT).astype(np.int32)
    return w, draw_integers(g, (rows, columns), reference.LARGEST_ENTRY).astype(np.int16)


def emulate(w, q, processors=3, packed_bytes=1 << 30, three=True):
    """The sums, which start at 3, and what each chunk of records was shared into."""
    sums = np.full((w.shape[1], q.shape[1]), 3)
    chunks = _testing.emulate_integer_product(w, q, sums, processors, packed_bytes, three)
    return sums - 3, chunks


@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("rows", [1, 64, 65, 200])
@pytest.mark.parametrize("outputs, columns", [(1, 1), (5, 33), (65, 15), (31, 129)])
def test_sums_are_those_of_the_reference(rows, outputs, columns, three):
    w, q = draw_operands(np.random.default_rng(rows), rows, outputs, columns)
    found, _ = emulate(w, q, three=three)
    np.testing.assert_array_equal(found, reference.integer_product(w, q))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 140), st.integers(1, 70), st.integers(1, 140), st.integers(1, 9))
def test_any_shape_and_any_number_of_processors(seed, rows, outputs, columns, processors):
    w, q = draw_operands(np.random.default_rng(seed), rows, outputs, columns)
    np.testing.assert_array_equal(emulate(w, q, processors)[0], reference.integer_product(w, q))


def test_every_place_of_a_tile_has_its_own_integers():
    """With unit matrices each sum is one product, so that no two places can be exchanged."""
    w, q = np.eye(64, dtype=np.int32), np.arange(64 * 128, dtype=np.int16).reshape(64, 128)
    np.testing.assert_array_equal(emulate(w, q)[0], q)
    w, q = np.arange(64 * 64, dtype=np.int32).reshape(64, 64) * 1021, np.eye(64, dtype=np.int16)
    np.testing.assert_array_equal(emulate(w, q)[0], w.T)


def test_blocks_that_share_the_records_add_to_the_same_sums():
    w, q = draw_operands(np.random.default_rng(1), 9 * STAGE + 1, 3, 5)
    for processors, blocks in ((1, 1), (2, 2), (100, 2)):
        found, chunks = emulate(w, q, processors)
        assert chunks == [(blocks, 10, 10 // blocks)]
        np.testing.assert_array_equal(found, reference.integer_product(w, q))


def test_operands_that_are_packed_in_chunks():
    rows = 2 * STAGE + 7
    w, q = draw_operands(np.random.default_rng(2), rows, 40, 50)
    record_bytes = 3 * 64 + 2 * 128
    for packed_bytes, stages in ((0, [1, 1, 1]), (2 * STAGE * record_bytes, [2, 1]), (3 * STAGE * record_bytes, [3])):
        found, chunks = emulate(w, q, packed_bytes=packed_bytes)
        assert [chunk[1] for chunk in chunks] == stages
        np.testing.assert_array_equal(found, reference.integer_product(w, q))


def test_integers_beyond_their_limits_are_confined():
    w = np.array([[2**31 - 1, -(2**31), 8_355_711, -8_355_712]], np.int32)
    q = np.array([[2**15 - 1, -(2**15), 32_639, -32_640]], np.int16)
    most, largest = np.array([1, -1, 1, -1]) * reference.LARGEST_WEIGHT, np.array([1, -1, 1, -1])
    expected = most[:, None] * (largest * reference.LARGEST_ENTRY)[None]
    np.testing.assert_array_equal(emulate(w, q)[0], expected)


def test_totals_wrap_and_nothing_is_added_to_empty_ones():
    sums = np.full((1, 1), 2**63 - 1)
    one = np.ones((1, 1))
    _testing.emulate_integer_product(one.astype(np.int32), one.astype(np.int16), sums, 1, 1 << 20, True)
    assert sums[0, 0] == -(2**63)
    for rows, outputs, columns in ((0, 3, 4), (5, 0, 4), (5, 3, 0)):
        found, _ = emulate(np.ones((rows, outputs), np.int32), np.ones((rows, columns), np.int16))
        assert found.shape == (outputs, columns) and not found.any()


@pytest.mark.parametrize("processors", [1, 16, 132])
@pytest.mark.parametrize("outputs, columns", [(1, 1), (10, 1000), (784, 1024), (4096, 4096), (1 << 17, 1 << 12)])
def test_no_block_adds_more_records_than_32_bits_hold(outputs, columns, processors):
    """Twice the largest product of digits, 2^14, for each record."""
    for rows in (1, 1000, 2**16 - 64, 2**16 - 1, 2**16, 2**20, 2**30):
        blocks, stages, share = _testing.share_integer_product(rows, outputs, columns, processors)
        assert 2 * 2**14 * share * STAGE < 2**31 and 1 <= share <= stages
        tiles = -(-outputs // 64) * -(-columns // 128)
        assert blocks == tiles * -(-stages // share)


@pytest.mark.slow
def test_the_most_records_of_a_block_at_the_ends_of_their_digits():
    """The emulated matrix unit fails where a sum does not fit in 32 bits."""
    rows = 1023 * STAGE
    w, q = np.full((rows, 1), -128 - 128 * 256 - 126 * 65536, np.int32), np.full((rows, 1), -128 - 126 * 256, np.int16)
    found, chunks = emulate(w, q, processors=1)
    assert chunks == [(1, 1023, 1023)]
    assert found.tolist() == [[rows * int(w[0, 0]) * int(q[0, 0])]]
