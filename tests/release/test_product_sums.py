"""Sums of integer outer products in 32 bits: bit for bit the plain reference, within the bound in rational arithmetic
for any operands, at the ends of the ranges, in every way and on every instruction set (docs/theory/exact-products.md,
sections 7 and 8)."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import dense as reference
from together import every_instruction_set

from tightdp import _core
from tightdp.models import dense

DTYPES = [np.float32, np.float64]


def added(layers, max_norm, grid=None, taken=None, totals=None):
    """The sums, a vector for all layers."""
    if totals is None:
        totals = [np.zeros((r.shape[1], x.shape[1]), np.int64) for x, r in layers]
    dense.add_dense_model_products(
        layers, max_norm, totals, grid=grid or dense.choose_dense_product_grid(max_norm), taken=taken
    )
    return np.concatenate([total.reshape(-1) for total in totals])


def by_reference(layers, max_norm, grid=None):
    grid = grid or dense.choose_dense_product_grid(max_norm)
    rows = [
        reference.short_contribution([(x[k], r[k]) for x, r in layers], max_norm / grid, 1 / grid)
        for k in range(len(layers[0][0]))
    ]
    return [sum(column) for column in zip(*rows, strict=True)]


def random_layers(g, n, dtype, shapes):
    return [(g.normal(size=(n, d)).astype(dtype), g.normal(size=(n, o)).astype(dtype)) for d, o in shapes]


def within(m, grid, max_norm):
    assert sum(int(v) ** 2 for v in m) * Fraction(grid) ** 2 <= Fraction(max_norm) ** 2


# Tiles have 4 outputs and 32 columns or 16 of each, rows alone 1,024 columns.
SHAPES = [[(5, 1)], [(32, 4)], [(33, 5), (1, 1)], [(17, 3), (129, 2), (40, 1)], [(1100, 1), (3, 7)], [(2, 517)]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_sums_are_those_of_the_reference_bit_for_bit(shapes, dtype):
    layers = random_layers(np.random.default_rng(1), 67, dtype, shapes)
    for max_norm, coarser in ((1e-20, 1), (0.3, 1), (4.0, 1 << 9), (1e20, 1)):
        grid = coarser * dense.choose_dense_product_grid(max_norm)
        assert added(layers, max_norm, grid).tolist() == by_reference(layers, max_norm, grid)


@pytest.mark.parametrize("records", [1, 2, 63, 64, 65, 255, 256, 257, 600])
def test_any_number_of_records(records):
    layers = random_layers(np.random.default_rng(records), records, np.float32, [(3, 2), (2, 1)])
    assert added(layers, 0.5).tolist() == by_reference(layers, 0.5)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([32, 64]), st.floats(1e-30, 1e30))
def test_one_record_stays_within_the_bound_in_rational_arithmetic(data, width, max_norm):
    """Any bit patterns: entries that overflow, underflow, cancel or are not finite."""
    dtype, layers = (np.float32 if width == 32 else np.float64), []
    for _ in range(data.draw(st.integers(1, 2))):
        drawn = [
            data.draw(st.lists(st.floats(width=width, allow_nan=True, allow_infinity=True), min_size=n, max_size=n))
            for n in (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5)))
        ]
        layers.append(tuple(np.array([values], dtype) for values in drawn))
    m = added(layers, max_norm)
    within(m, dense.choose_dense_product_grid(max_norm), max_norm)
    if not all(np.isfinite(operand).all() for layer in layers for operand in layer):
        assert not m.any()
    assert m.tolist() == by_reference(layers, max_norm)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.floats(1e-3, 1e3))
def test_clipped_records_reach_the_bound_but_for_the_margin(seed, d, o, max_norm):
    """The bound is used up, so that one that is broken by a little would be broken."""
    g = np.random.default_rng(seed)
    layers = [(g.normal(size=(1, d)), 1e9 * max_norm * g.normal(size=(1, o)))]
    m, grid = added(layers, max_norm), dense.choose_dense_product_grid(max_norm)
    within(m, grid, max_norm)
    # Twice the margin sqrt(o Q)/2 in 2^29 steps at least, |q| < 2^15, or what truncation takes of 40 entries.
    assert np.linalg.norm(m.astype(float)) * grid >= max_norm * (1 - (o**0.5 * 2.0**-14 if o > 1 else 2.0**-24))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_ends_of_32_bits(outputs, sign):
    """Records that all have the bound in one entry, and weights whose lower part is the lowest there is."""
    n, max_norm = 1024, 1 - 2.0**-53  # almost 2^30 steps
    for x in (1.0, 1 - 2.0**-24, -1.0, -1 + 2.0**-24):
        for r in (1e9, (1 << 14) + 128 * 2.0**-15, 3.0**-9):
            errors = np.zeros((1, outputs))
            errors[0, -1] = sign * r
            one = [(np.array([[x, 0.0, 1e-9]]), errors)]
            many = [(np.repeat(a, n, axis=0), np.repeat(b, n, axis=0)) for a, b in one]
            single = added(one, max_norm)
            within(single, dense.choose_dense_product_grid(max_norm), max_norm)
            assert single.any() and added(many, max_norm).tolist() == [n * int(v) for v in single]


def test_entries_and_weights_at_every_place_of_their_range():
    """Operands that are integers on their own, so that every value of both parts of a weight is met."""
    n = 4096
    g = np.random.default_rng(0)
    w, q = g.integers(-(1 << 15), 1 << 15, (n, 4)), g.integers(-100, 101, (n, 5))
    x = np.column_stack([q, np.full(n, 1 << 14)]).astype(np.float64)  # steps are 1
    errors = np.ldexp(w.astype(np.float64), -29)
    assert (dense.round_dense_inputs_to_units(x, False, digits=15).steps == 1).all()
    found = added([(x, errors)], 4.0, grid=2.0**-28).reshape(4, 6)
    np.testing.assert_array_equal(found, np.rint(w / 2).astype(np.int64).T @ x.astype(np.int64))


def test_what_a_record_adds_does_not_depend_on_the_others_or_on_threads():
    layers = random_layers(np.random.default_rng(3), 300, np.float32, [(150, 9), (70, 1)])
    layers[0][0][7, 3], layers[1][1][40, 0] = np.nan, np.inf
    whole, threads = added(layers, 0.7), _core.max_threads()
    alone = [added([(x[k : k + 1], r[k : k + 1]) for x, r in layers], 0.7) for k in range(300)]
    np.testing.assert_array_equal(whole, sum(alone))
    assert not alone[7].any() and not alone[40].any()
    try:
        for count in (1, 2, 7):
            _core.set_max_threads(count)
            np.testing.assert_array_equal(added(layers, 0.7), whole)
    finally:
        _core.set_max_threads(threads)


def test_records_that_are_not_taken_add_nothing_and_totals_are_added_to():
    g = np.random.default_rng(4)
    layers, taken = random_layers(g, 90, np.float64, [(6, 3), (8, 1)]), g.random(90) < 0.4
    part = [(x[taken], r[taken]) for x, r in layers]
    totals = [np.full((3, 6), 5), np.full((1, 8), 2**63 - 1)]
    found = added(layers, 2.0, taken=taken, totals=totals)
    start = np.concatenate([np.full(18, 5), np.full(8, 2**63 - 1)])
    np.testing.assert_array_equal(found, start + added(part, 2.0))  # modulo 2^64
    assert not added(layers, 2.0, taken=np.zeros(90, bool)).any()


@pytest.mark.parametrize("shapes", [[(0, 3), (4, 1)], [(3, 0)], [(2, 2)]])
def test_nothing_to_add(shapes):
    records = 0 if shapes == [(2, 2)] else 3
    layers = [(np.ones((records, d)), np.ones((records, o))) for d, o in shapes]
    assert added(layers, 1.0).tolist() == by_reference(layers, 1.0) + [0] * 4 * (records == 0)


def test_sums_are_near_those_of_real_numbers():
    layers = random_layers(np.random.default_rng(5), 400, np.float32, [(30, 3), (50, 1), (12, 4)])
    rows = np.concatenate(
        [(r[:, :, None] * x[:, None, :]).reshape(400, -1) for x, r in layers], axis=1, dtype=np.float64
    )
    for max_norm in (3.0, 15.0, 1e3):
        expected = (rows * np.minimum(1, max_norm / np.linalg.norm(rows, axis=1))[:, None]).sum(axis=0)
        found = added(layers, max_norm) * dense.choose_dense_product_grid(max_norm)
        # Section 7: an entry is off by 2^-14 C, and clipped records are short by twice the margin of 7 outputs.
        np.testing.assert_allclose(found, expected, rtol=0, atol=400 * max_norm * (2.0**-14 + 7**0.5 * 2.0**-14))


def test_what_does_not_fit_is_refused():
    x, r, total = np.ones((2, 3)), np.ones((2, 4)), np.zeros((4, 3), np.int64)
    with pytest.raises(ValueError, match="must fit"):
        dense.add_dense_model_products([(x, r)], 1.0, [total], grid=2.0**-31)  # finer than 32 bits allow
    for layers, totals in ((([x[:1], r],), [total]), (([x, r],), [total[:3]]), (([x, r],), [])):
        with pytest.raises(ValueError):
            dense.add_dense_model_products(layers, 1.0, totals, grid=2.0**-29)


def ends_of_digits(g, shape, most):
    """Integers whose digits of eight bits are at their ends, or next to where one carries."""
    digits = g.choice([-128, -127, -1, 0, 1, 126, 127], (3, *shape))
    return np.clip(digits[0] + 256 * digits[1] + 65536 * digits[2], -most, most)


@pytest.fixture(params=_core.dense.product_ways())
def way(request):
    """Each way that this machine has serves in turn."""
    _core.dense.choose_way(_core.dense.product_ways().index(request.param))
    yield request.param
    _core.dense.choose_way(-1)


@pytest.mark.parametrize("rows", [1, 64, 447, 448, 449, 1345])
@pytest.mark.parametrize("outputs, columns", [(1, 1), (5, 33), (18, 15), (40, 70)])
def test_every_way_adds_the_integers_of_the_reference(way, rows, outputs, columns):
    g = np.random.default_rng(rows)
    q = ends_of_digits(g, (rows, columns), reference.LARGEST_ENTRY).astype(np.int16)
    for largest in (2**30, 2**32):  # of a product
        most = min(reference.LARGEST_WEIGHT, largest // reference.LARGEST_ENTRY)
        w = ends_of_digits(g, (rows, outputs), most).astype(np.int32)
        w[:, :1] = most * (1 if rows % 2 else -1)  # one column of sums grows without end
        sums = np.full((outputs, columns), 3)
        dense.add_integer_dense_product(w, q, sums, largest_product=largest)
        np.testing.assert_array_equal(sums, 3 + reference.integer_product(w, q))


def test_every_way_adds_the_same_products(way):
    g = np.random.default_rng(2)
    layers = random_layers(g, 130, np.float32, [(17, 3), (67, 2), (40, 1)])
    assert added(layers, 0.7).tolist() == by_reference(layers, 0.7)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [*SHAPES, [(5000, 3), (9, 40)]])
def test_a_release_in_the_same_pass_has_the_bits_of_two_passes(shapes, dtype, held):
    g = np.random.default_rng(7)
    layers, grid = random_layers(g, 70, np.float32, shapes), dense.choose_dense_product_grid(0.5)
    start = [g.integers(-(2**40), 2**40, (o, d)) for d, o in shapes] if held else []
    totals = [total.copy() for total in start] or [np.zeros((o, d), np.int64) for d, o in shapes]
    dense.add_dense_model_products(layers, 0.5, totals, grid=grid)
    first = [int(x) for x in np.cumsum([5, *(o * d for d, o in shapes)])[:-1]]
    for total, index in zip(totals, first, strict=True):
        _core.add_rounded_normals(_core.philox_stream(3, 8), np.array(2.5e9), total.reshape(-1), index)
    out = [np.empty((o, d), dtype) for d, o in shapes]
    kept = [total.copy() for total in start]
    dense.write_noisy_dense_model_products(
        layers, 0.5, kept, out, grid=grid, deviation=2.5e9, stream=_core.philox_stream(3, 8), first=first, divisor=37.0
    )
    for found, total in zip(out, totals, strict=True):
        np.testing.assert_array_equal(found, (total.astype(np.float64) * (grid / 37.0)).astype(dtype))
    assert not any(total.any() for total in kept)


def test_sums_that_were_released_are_released_once():
    layers, grid = (
        random_layers(np.random.default_rng(9), 20_000, np.float32, [(3, 2)]),
        dense.choose_dense_product_grid(1.0),
    )
    expected, totals = added(layers, 1.0) * grid, [np.zeros((2, 3), np.int64)]
    for times in (1, 0):  # of the records: more than are packed at once, and none
        out = [np.empty((2, 3))]
        some = layers if times else [(x[:0], r[:0]) for x, r in layers]
        dense.write_noisy_dense_model_products(some, 1.0, totals, out, grid=grid, deviation=0.0, stream=None, first=[0])
        np.testing.assert_array_equal(out[0].reshape(-1), times * expected)


def test_a_release_without_noise_is_the_sum():
    layers, grid = (
        random_layers(np.random.default_rng(8), 33, np.float32, [(12, 4)]),
        dense.choose_dense_product_grid(2.0),
    )
    out = [np.empty((4, 12))]
    dense.write_noisy_dense_model_products(layers, 2.0, [], out, grid=grid, deviation=0.0, stream=None, first=[0])
    np.testing.assert_array_equal(out[0].reshape(-1), added(layers, 2.0) * grid)


CHILD = """
import os, numpy as np
from tightdp import _core
from tightdp.models import dense
g = np.random.default_rng(0)
layers = [(g.normal(size=(300, 90)), g.normal(size=(300, 40)))]
def digest():
    total = np.zeros((40, 90), np.int64)
    dense.add_dense_model_products(layers, 1.0, [total], grid=2.0**-29)
    return hash(total.tobytes())
before = digest()  # the trial is over, and threads have started
child = os.fork()
if child == 0:
    os._exit(0 if digest() == before else 1)
assert os.waitpid(child, 0)[1] == 0 and digest() == before
print("same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_adds_the_same():
    run = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "same"


DIGEST = """
import hashlib, numpy as np
from tightdp import _core
from tightdp.models import dense
h, g = hashlib.sha256(), np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    layers = [((g.normal(size=(301, d)) * 10.0 ** g.uniform(-9, 9, (301, 1))).astype(dtype),
               g.normal(size=(301, o)).astype(dtype)) for d, o in ((50, 7), (2000, 1), (3, 5), (33, 1), (131, 4))]
    for max_norm in (1e-6, .7, 1e9):
        totals = [np.zeros((r.shape[1], x.shape[1]), np.int64) for x, r in layers]
        dense.add_dense_model_products(layers, max_norm, totals, grid=dense.choose_dense_product_grid(max_norm))
        for total in totals: h.update(total.tobytes())
    rows, integers = layers[4][0], np.zeros(layers[4][0].shape, np.int32)
    dense.round_scaled_dense_model_rows(rows, 10.0 ** g.uniform(0, 9, 301), 2**17 - 1, integers)
    h.update(integers.tobytes())
    short = np.zeros(rows.shape, np.int16)
    h.update(dense.round_dense_model_rows_to_integers(rows, 14, 2**15 - 129, short).tobytes())
    h.update(short.tobytes())
    h.update(dense.compute_dense_model_inner_products(integers.reshape(7, 43, -1)).tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_the_instruction_set_changes_no_bit():
    assert len(every_instruction_set(DIGEST)) == 1


@pytest.mark.parametrize("kind, largest", [(np.int16, 2), (np.int16, 2**15 - 129), (np.int32, 2**15 - 1),
                                           (np.int32, 2**15), (np.int32, 2**17 - 1)])  # fmt: skip
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 5, 33), (3, 64, 70), (1, 9, 700), (2, 8, 96)])
def test_inner_products_of_positions_are_exact(shape, kind, largest):
    """Some records have lengths below 2^15.5, and are multiplied in 32 bits. The others are multiplied in doubles."""
    g = np.random.default_rng(5)
    x = g.integers(-largest, largest + 1, shape).astype(kind)
    x[-1, 0] = largest
    x[0] //= 1 + int(np.sqrt(shape[2]))
    wide = x.astype(np.int64)
    assert (dense.compute_dense_model_inner_products(x) == wide @ wide.transpose(0, 2, 1)).all()


def test_inner_products_of_the_least_integers_of_16_bits_are_exact():
    x = np.full((1, 4, 32), -(2**15), np.int16)
    assert (dense.compute_dense_model_inner_products(x) == 32.0 * 2**30).all()


@pytest.mark.parametrize("shape", [(1, 2, 40), (1, 4, 64)])  # rows that are copied, and rows that are not
def test_inner_products_next_to_the_largest_of_32_bits_are_exact(shape):
    """Squared lengths one below 2^31, and 2^31 itself."""
    for kind in (np.int16, np.int32):
        for rest in (0, 1):
            x = np.zeros(shape, kind)
            x[0, 0, [0, 1, 33, 34, 35]] = 32767, 32767, 362, 5, rest
            x[0, 1] = -x[0, 0]
            wide = x.astype(np.int64)
            assert wide[0, 0] @ wide[0, 0] == 2**31 - 1 + rest
            assert (dense.compute_dense_model_inner_products(x) == wide @ wide.transpose(0, 2, 1)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("digits", [8, 12, 15])
def test_rows_are_rounded_to_the_nearest_integers_of_a_length(dtype, digits):
    """The rows have norms from the least normal float to near the largest, and some are zeros or not finite."""
    g = np.random.default_rng(7)
    rows = (g.normal(size=(40, 37)) * 10.0 ** np.linspace(-44, 36, 40)[:, None]).astype(dtype)
    rows[3], rows[5, 1], rows[7, 2] = 0, np.nan, np.inf
    rows[20, :5], rows[20, 5:] = (0.5, 1.5, -0.5, -2.5, 2.0 ** (digits - 1)), 0
    found = np.full(rows.shape, 9, np.int16)
    steps = dense.round_dense_model_rows_to_integers(rows, digits, 2**15 - 129, found)
    assert (steps == dense.round_dense_inputs_to_units(rows, False, digits=digits).steps).all()
    assert (np.flatnonzero(steps == 0) == [5, 7]).all()
    assert steps[20] == 1
    rows[[5, 7]] = 0
    assert (found == np.clip(np.rint(rows.astype(float) * steps[:, None]), -(2**15) + 129, 2**15 - 129)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind, most", [(np.int16, 2**15 - 129), (np.int32, 2**17 - 1)])
def test_scaled_rows_are_the_nearest_integers(dtype, kind, most):
    g = np.random.default_rng(6)
    rows, factors = (g.normal(size=(7, 37)) * 100).astype(dtype), 2.0 ** np.arange(-6, 15, 3)
    rows[1, :4] = 0.5, 1.5, -0.5, -2.5
    factors[1], factors[3], rows[3, 2] = 1.0, 0.0, np.nan
    found = np.full(rows.shape, 9, kind)
    dense.round_scaled_dense_model_rows(rows, factors, most, found)
    expected = np.clip(np.rint(rows.astype(float) * factors[:, None]), -most, most)
    expected[3] = 0
    assert (found == expected).all()
