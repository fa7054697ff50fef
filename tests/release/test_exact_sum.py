"""Exact clipped sums: integer for integer those of plain Python, never longer than the bound, the same in any order."""

import functools
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import integers as reference
from together import every_instruction_set

import tightdp as dp
from tightdp import _core
from tightdp.clipping_and_noise.clipping import find_clip_and_noise_grid

DTYPES = [np.float16, np.float32, np.float64]
WIDTHS = {np.float16: 16, np.float32: 32, np.float64: 64}


def gradients(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape[0]))[:, None]
    return (rows / np.sqrt(shape[1])).astype(dtype)


def square_norm(integers):
    return sum(int(n) ** 2 for n in np.ravel(integers))


def assert_bit_for_bit(got, norms, g, max_norm, grid, **options):
    expected = reference.total(g, norms, max_norm, grid, **options)
    np.testing.assert_array_equal(got, np.array([(n + 2**63) % 2**64 - 2**63 for n in expected], np.int64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (7, 16), (9, 5), (65, 700), (600, 40), (5, 2500)])
def test_matches_the_reference(shape, dtype):
    g, grid = gradients(shape, dtype), dp.exact_grid(0.7)
    if shape[0] > 6:
        g[2, 0], g[3, -1], g[4] = np.nan, -np.inf, 0
    got, norms = dp.clipped_sum(g, 0.7, arithmetic="exact")
    assert got.dtype == np.int64
    assert_bit_for_bit(got, norms, g, 0.7, grid)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0, 3, shape[0]) * (rng.uniform(size=shape[0]) < 0.9)
    weights[0] = 2.0**31 / 3  # too heavy for 32 bits
    weights[-1] = 40.0
    got, norms = dp.clipped_sum(g, 0.7, weights=weights, normalize=True, stability=0.1, arithmetic="exact")
    assert_bit_for_bit(got, norms, g, 0.7, grid, weights=weights, normalize=True, stability=0.1)
    center, scale = rng.normal(size=shape[1]) * 0.1, np.exp(rng.normal(size=shape[1]))
    options = {"weights": weights, "center": center, "scale": scale}
    got, norms = dp.clipped_sum(g, 0.7, arithmetic="exact", **options)
    assert_bit_for_bit(got, norms, g, 0.7, grid, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_release_is_the_sum_and_the_rounded_noise(dtype):
    g = gradients((60, 1500), dtype)
    for max_norm, multiplier in ((3.0, 1.7), (3.0, 1e5)):
        grid = find_clip_and_noise_grid(max_norm, multiplier)
        total = np.zeros(1500, np.int64)
        _core.clipped_sum(
            [g], [total], max_norm, False, 0.01, None, None, None, 0.0, None, False, None, grid, True, [0]
        )
        sigma = math.nextafter(multiplier * max_norm, math.inf) / grid
        assert Fraction(sigma) >= Fraction(multiplier) * Fraction(max_norm) / Fraction(grid) and sigma <= 2.0**30
        _core.add_rounded_normals(dp.Philox(6).stream(), sigma, total)
        out_dtype = np.float64 if dtype == np.float64 else np.float32
        expected = (total.astype(float) * grid).astype(out_dtype)
        np.testing.assert_array_equal(dp.clip_and_noise(g, max_norm, multiplier, rng=dp.Philox(6)), expected)
        exact = dp.exact_release(g, max_norm, multiplier, rng=dp.Philox(6))
        np.testing.assert_array_equal(exact.value, total * grid)
        assert (exact.grid, exact.sigma, exact.mechanism) == (grid, sigma, dp.Gaussian(multiplier))


@pytest.mark.parametrize("dtype", DTYPES)
@given(st.data())
def test_an_example_is_never_longer_than_the_bound(dtype, data):
    """Any row: subnormal, huge, infinite, NaN. In rational arithmetic: no tolerance."""
    g = data.draw(hnp.arrays(dtype, (1, data.draw(st.integers(1, 40))), elements=st.floats(width=WIDTHS[dtype])))
    max_norm = data.draw(st.floats(1e-30, 1e30))
    weight = data.draw(st.sampled_from([1.0, 0.3, 0.0, 2.0**-20, 1e-30, 5e-324, 16.0, 17.0, 1e9, 2.0**32]))
    normalize = data.draw(st.booleans())
    stability = data.draw(st.sampled_from([0.01, 1e-90, 1e-100, 1e300]))
    total, _ = dp.clipped_sum(
        g, max_norm, weights=[weight], normalize=normalize, stability=stability, arithmetic="exact"
    )
    assert square_norm(total) * Fraction(dp.exact_grid(max_norm)) ** 2 <= (Fraction(max_norm) * Fraction(weight)) ** 2


@pytest.mark.parametrize("dtype", DTYPES)
@given(st.data())
def test_nor_is_a_transformed_one(dtype, data):
    columns = data.draw(st.integers(1, 8))
    g = data.draw(hnp.arrays(dtype, (1, columns), elements=st.floats(width=WIDTHS[dtype])))
    center = data.draw(hnp.arrays(np.float64, columns, elements=st.floats(-1e6, 1e6)))
    scale = data.draw(hnp.arrays(np.float64, columns, elements=st.floats(1e-6, 1e6)))
    max_norm = data.draw(st.floats(1e-30, 1e30))
    grid = Fraction(dp.exact_grid(max_norm))
    total, _ = dp.clipped_sum(g, max_norm, center=center, scale=scale, arithmetic="exact")
    assert square_norm(total) * grid**2 <= Fraction(max_norm) ** 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_rounding_to_nearest_would_lengthen(dtype):
    """Every entry just below an integer: to nearest each gains almost a half, and the norm up to 50 grid steps."""
    grid = Fraction(dp.exact_grid(1.0))
    for columns in range(9000, 9040):
        total, _ = dp.clipped_sum(np.ones((1, columns), dtype), 1.0, arithmetic="exact")
        assert square_norm(total) * grid**2 <= 1


def test_a_factor_one_unit_longer_would_show():
    """Bounds whose last grid step is the last place of the product."""
    for max_norm in (2.0 - 2.0**-22, 1.0, 1.5 - 2.0**-23):
        grid = Fraction(dp.exact_grid(max_norm))
        for entry in np.random.default_rng(0).uniform(2, 40, 1000).astype(np.float32):
            total, _ = dp.clipped_sum(np.array([[entry]]), max_norm, arithmetic="exact")
            assert abs(int(total[0])) * grid <= Fraction(max_norm)


def test_squares_that_underflow_or_overflow():
    tiny = np.array([[1e-165, 3e-170], [5e-324, 0.0]])
    assert dp.clipped_sum(tiny, 1e-30, arithmetic="exact")[0].tolist() == [0, 0]
    # One large entry, and many whose squares vanish beside it one by one, but not together.
    row = np.full((1, 20_000), 2.0**-27 * 0.99)
    row[0, 0] = 1.0
    for size in (2.0**600, 1.0):
        total, _ = dp.clipped_sum(row * size, 1.0, arithmetic="exact")
        assert square_norm(total) * Fraction(dp.exact_grid(1.0)) ** 2 <= 1
        floats, _ = dp.clipped_sum(row * size, 1.0)
        assert sum(Fraction(x) ** 2 for x in floats.tolist()) <= 1


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize("exponent", [-90, -99, -100, -101, -150, -164, -200, -250, -305])
def test_a_tiny_row_is_not_brought_over_the_bound(arithmetic, exponent):
    """Normalizing multiplies rows whose squares underflow, too: no stability is so small that it would count."""
    grid = Fraction(dp.exact_grid(1.0)) if arithmetic == "exact" else 1
    stability = float(f"1e{exponent}")
    for size in range(exponent - 20, exponent + 70, 5):
        row = np.array([[float(f"1e{size}"), float(f"7e{size - 1}"), 5e-324]])
        call = functools.partial(dp.clipped_sum, row, 1.0, normalize=True, stability=stability, arithmetic=arithmetic)
        if stability < 1e-100:
            with pytest.raises(ValueError, match=r"^stability must be a number in \[1e-100, inf\)"):
                call()
        else:
            assert square_norm(call()[0]) * grid**2 <= 1


def test_rows_of_zeros_stay_zeros_whatever_the_stability():
    for dtype in DTYPES:
        for arithmetic in ("float", "exact"):
            for stability in (1e-90, 1e-100):
                total, _ = dp.clipped_sum(
                    np.zeros((3, 5), dtype), 1e25, normalize=True, stability=stability, arithmetic=arithmetic
                )
                assert (total == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=40)
@given(st.data())
def test_order_and_micro_batches_change_no_bit(dtype, data):
    shape = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 600))
    g = gradients(shape, dtype, seed=data.draw(st.integers(0, 1000)))
    order = np.array(data.draw(st.permutations(range(len(g)))))
    cut = data.draw(st.integers(0, len(g)))
    weights = np.random.default_rng(2).uniform(0, 30, len(g))
    expected = dp.clip_and_noise(g, 0.4, 0.7, weights=weights, rng=dp.Philox(3), out=np.empty(shape[1]))
    permuted = dp.clip_and_noise(g[order], 0.4, 0.7, weights=weights[order], rng=dp.Philox(3), out=np.empty(shape[1]))
    np.testing.assert_array_equal(permuted, expected)
    total = np.full(shape[1], 77, np.int64)
    for part, accumulate in ((slice(None, cut), False), (slice(cut, None), True)):
        dp.clipped_sum(g[part], 0.4, weights=weights[part], out=total, accumulate=accumulate, arithmetic="exact")
    grid = dp.exact_grid(0.4)
    assert dp.add_noise(total, 0.4 * 0.7, grid=grid, rng=dp.Philox(3)) is total
    np.testing.assert_array_equal(total * grid, expected)


@pytest.mark.parametrize("bound", [1.0, math.nextafter(2.0, 1.0), 0.7])
@pytest.mark.parametrize(("multiplier", "same"), [(64.0, True), (128.0, False), (1000.0, False)])
def test_micro_batches_have_the_bits_of_one_call_up_to_a_noise_multiplier_of_64(bound, multiplier, same):
    g, grid = gradients((12, 40), np.float64), dp.exact_grid(bound)
    total = np.zeros(40, np.int64)
    for part in np.split(g, 3):
        dp.clipped_sum(part, bound, out=total, accumulate=True, arithmetic="exact")
    released = dp.add_noise(total, multiplier * bound, grid=grid, rng=dp.Philox(5)) * grid
    once = dp.clip_and_noise(g, bound, multiplier, rng=dp.Philox(5))
    assert np.array_equal(released, once) == same
    # The coarser grid loses less than one step of it a record.
    assert np.abs(released - once).max() <= (len(g) + 1) * multiplier * bound * 2.0**-29


def test_lists_groups_and_layers():
    flat = gradients((40, 20 + 700 + 7 + 1), np.float32)
    parts = np.split(flat, [20, 720, 727], axis=1)
    arrays = [parts[0].reshape(40, 4, 5), parts[1].reshape(40, 7, 10, 10), parts[2], parts[3][:, 0]]
    far = 100.0  # no example is clipped: no norm decides a factor
    whole = dp.clip_and_noise(flat, far, 0.5, rng=dp.Philox(4))
    pieces = dp.clip_and_noise(arrays, far, 0.5, rng=dp.Philox(4))
    assert [p.shape for p in pieces] == [(4, 5), (7, 10, 10), (7,), ()]
    np.testing.assert_array_equal(np.concatenate([p.reshape(-1) for p in pieces]), whole)
    # Groups share one grid, that of what an example can move in all of them, and one stream.
    bounds, groups = [0.3, 0.4], [[2, 1], [0, 3]]
    grid = dp.exact_grid(bounds)
    totals, norms = dp.clipped_sum(arrays, bounds, groups=groups, arithmetic="exact")
    assert norms.shape == (40, 2)
    for g, (bound, group) in enumerate(zip(bounds, groups, strict=True)):
        for i in group:
            assert_bit_for_bit(totals[i].reshape(-1), norms[:, g], arrays[i].reshape(40, -1), bound, grid)
    center = np.random.default_rng(0).normal(size=728)
    centers = np.split(center, [20, 720, 727])
    shifted = [np.float64(a) - c.reshape(a.shape[1:]) for a, c in zip(arrays, centers, strict=True)]
    one = dp.clipped_sum(arrays, [50.0], groups=[[3, 1, 0, 2]], center=center, arithmetic="exact")[0]
    for total, expected in zip(one, dp.clipped_sum(shifted, 50.0, arithmetic="exact")[0], strict=True):
        np.testing.assert_array_equal(total, expected)
    noise = dp.add_noise([np.zeros_like(t) for t in totals], 0.9, grid=grid, rng=dp.Philox(4))
    released = dp.clip_and_noise(arrays, bounds, 0.9 / 0.5, groups=groups, rng=dp.Philox(4))
    for r, t, z in zip(released, totals, noise, strict=True):
        assert np.abs(r - (t + z) * grid).max() <= 4 * grid + 2.0**-23 * np.abs(r).max()


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    g = torch.from_numpy(gradients((30, 600), np.float32))
    expected = dp.clip_and_noise(g.numpy(), 0.5, 1.0, rng=dp.Philox(1))
    assert torch.equal(dp.clip_and_noise(g, 0.5, 1.0, rng=dp.Philox(1)), torch.from_numpy(expected))
    total = torch.zeros(600, dtype=torch.int64)
    assert dp.clipped_sum(g, 0.5, out=total, arithmetic="exact")[0] is total
    assert dp.add_noise(total, 0.5, grid=dp.exact_grid(0.5), rng=dp.Philox(1)) is total
    np.testing.assert_array_equal((total.numpy() * dp.exact_grid(0.5)).astype(np.float32), expected)
    narrow = g.to(torch.bfloat16)
    sums, norms = dp.clipped_sum(narrow, 0.5, arithmetic="exact")
    assert sums.dtype == torch.int64
    assert_bit_for_bit(sums.numpy(), norms, narrow.float().numpy(), 0.5, dp.exact_grid(0.5))


@pytest.mark.parametrize("shape", [(300, 3000), (5, 200_000), (70, 70_000), (100_000, 7), (4097, 200)])
def test_the_number_of_threads_changes_no_bit(threads, shape):
    g = gradients(shape, np.float32)
    weights = np.ones(len(g))
    weights[::7] = 40.0
    results = set()
    for count in (1, 2, 7):
        threads(count)
        results.add(dp.clip_and_noise(g, 0.3, 1.0, weights=weights, rng=dp.Philox(1)).tobytes())
    assert len(results) == 1


DIGEST = """
import hashlib, numpy as np, tightdp as dp
from tightdp import _core
h = hashlib.sha256()
rng = np.random.default_rng(0)
for shape in ((33, 700), (5, 100_001), (500, 30)):
    for dtype in (np.float16, np.float32, np.float64):
        g = rng.standard_normal(shape).astype(dtype)
        for options in ({}, {"weights": np.arange(shape[0]) / 3}, {"scale": np.linspace(1, 2, shape[1])}):
            h.update(dp.clip_and_noise(g, 1.3, 0.7, rng=dp.Philox(2), **options).tobytes())
print(_core.isa(), h.hexdigest())
"""


@pytest.mark.slow
def test_the_instruction_set_changes_no_bit():
    assert len(every_instruction_set(DIGEST)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4_000_000, 8), (200_000, 50)])
def test_dropping_any_row_moves_the_integers_by_at_most_the_bound(shape, dtype):
    """Read off released integers under one seed: noise cancels, and what is left is the row's own contribution."""
    g = np.random.default_rng(0).random(shape, dtype)
    grid = Fraction(dp.exact_grid(1.0))

    def released(rows):
        values = dp.exact_release(rows, 1.0, 1.0, rng=dp.Philox(5)).value
        return [int(n) for n in (values / float(grid)).tolist()]  # exact: below 2^53

    whole = released(g)
    for k in (0, shape[0] // 3):
        row = g[k].copy()
        g[k] = g[-1]  # another order of the rest
        moved = [a - b for a, b in zip(whole, released(g[:-1]), strict=True)]
        g[k] = row
        assert Fraction(1, 2) < square_norm(moved) * grid**2 <= 1
    assert released(g[::-1]) == whole


def test_float_sums_move_by_more():
    """The control: one row of entry 1 moves a sum of 2^24 in float32 by 2, where the bound is 1.5."""
    g, weights = np.ones((4, 1), np.float32), [1.0, 1.0, 1.0, 2.0**24]
    batches = [(g, weights), (g[1:], weights[1:])]
    whole, less = (dp.clip_and_noise(rows, 1.5, 0.0, weights=w, arithmetic="float") for rows, w in batches)
    assert whole - less == 2
    whole, less = (dp.clipped_sum(rows, 1.5, weights=w, arithmetic="exact")[0] for rows, w in batches)
    assert (whole - less) * dp.exact_grid(1.5) == 1


def test_sums_wrap_and_refuse_nothing():
    total = np.full(3, 2**63 - 1, np.int64)
    dp.clipped_sum(np.ones((2, 3)), 1.0, out=total, accumulate=True, arithmetic="exact")
    assert (total < 0).all()
    dp.clipped_sum(-np.ones((2, 3)), 1.0, out=total, accumulate=True, arithmetic="exact")
    assert (total == 2**63 - 1).all()


def test_the_grid_depends_on_public_numbers_alone():
    for max_norm in (1e-30, 0.3, 1.0, math.nextafter(2, 0), 1e30):
        grid = dp.exact_grid(max_norm)
        assert math.frexp(grid)[0] == 0.5 and 2**23 <= max_norm / grid < 2**24
        for multiplier in (0.0, 1e-300, 1.0, 63.0):
            assert find_clip_and_noise_grid(max_norm, multiplier) == grid
        for multiplier in (128.0, 2.0**16, 1e12):
            assert 2.0**29 <= multiplier * max_norm / find_clip_and_noise_grid(max_norm, multiplier) < 2.0**30
    assert dp.exact_grid([3.0, 4.0]) == dp.exact_grid(5.0)


G = np.ones((4, 3), np.float32)
INTEGERS = np.zeros(3, np.int64)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: dp.clip_and_noise(G, 1.0, 1.0, arithmetic="fast"), ValueError, '^arithmetic must be "exact" or "flo'),
        (lambda: dp.clipped_sum(G, 1.0, arithmetic=None), ValueError, "^arithmetic"),
        (lambda: dp.clip_and_noise(G, 9e-31, 1.0), ValueError, r"^max_norm must be a number in \[1e-30, 1e30\]"),
        (lambda: dp.clip_and_noise(G.astype(float), 1.1e30, 1.0), ValueError, "^max_norm"),
        (lambda: dp.clip_and_noise(G, 1.0, 1.0, weights=[1, 1, 1, 5e9]), ValueError, r"^weights .* \[0, 2\^32\]$"),
        (lambda: dp.clip_and_noise(G, 1.0, 1.0, stability=9e-101), ValueError, r"^stability .* \[1e-100, inf\)"),
        (lambda: dp.clip_and_noise(G, 1.0, 1.0, stability=math.inf), ValueError, r"^stability .* \[1e-100, inf\)"),
        (lambda: dp.clipped_sum(G, 1.0, out=np.zeros(3), arithmetic="exact"), ValueError, "^out .* int64"),
        (lambda: dp.clipped_sum(G, 1.0, out=INTEGERS), ValueError, "^out .* float32 or float64"),
        (lambda: dp.clip_and_noise(G, 1.0, 1.0, out=INTEGERS), ValueError, "^out .* float32 or float64"),
        (lambda: dp.add_noise(INTEGERS, 1.0), ValueError, "^grid must be given for int64"),
        (lambda: dp.add_noise(np.zeros(3), 1.0, grid=1.0), ValueError, "^grid must be given for int64"),
        (lambda: dp.add_noise(INTEGERS, 1.0, grid=0.3), ValueError, "^grid must be a power of two"),
        (lambda: dp.add_noise(INTEGERS, 2.0**40, grid=1.0), ValueError, "^deviation"),
        (lambda: dp.add_noise(np.zeros(3, np.int32), 1.0, grid=1.0), TypeError, "^total"),
        (lambda: dp.add_noise([INTEGERS, np.zeros(3)], 1.0, grid=1.0), TypeError, "^total .* one dtype"),
        (lambda: dp.exact_grid(0.0), ValueError, "^max_norm"),
        (lambda: dp.exact_grid([1.0, 1e31]), ValueError, "^max_norm"),
        (lambda: dp.exact_grid([]), ValueError, "^max_norm"),
    ],
)  # fmt: skip
def test_bad_arguments(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_an_unknown_instruction_set_is_refused():
    for name, code in (("nonsense", 1), ("baseline", 0), ("", 0)):
        run = subprocess.run([sys.executable, "-c", "import tightdp._core"], env={**os.environ, "TIGHTDP_ISA": name},
                             capture_output=True, text=True, check=False)  # fmt: skip
        assert run.returncode == code
        assert code == 0 or "ImportError: TIGHTDP_ISA must be baseline, avx2 or avx512" in run.stderr
