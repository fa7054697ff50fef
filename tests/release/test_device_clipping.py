"""What the threads of a device do to clip, run by the host, against the kernels of the CPU and the plain reference."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pretender import Pretender

import tightdp as dp
from tightdp import _core, cuda

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

DTYPES = ["float16", "float32", "float64"]


def run(
    kernel,
    rows,
    *,
    max_norm=1.0,
    normalize=False,
    weights=None,
    center=None,
    inverse=None,
    deviation=0.0,
    seed=None,
    out=None,
):
    rows = rows if isinstance(rows, list) else [rows]
    kind = np.float64 if rows[0].dtype == np.float64 else np.float32
    # Poisoned outputs: what is not written shows.
    outs = [np.full(x.shape[1:], np.nan, kind) for x in rows] if out is None else out
    norms = np.full(rows[0].shape[0], -1.0)
    stream = None if seed is None else _core.philox_stream(seed, 3)
    kernel(rows, outs, max_norm, normalize, 0.01, weights, center, inverse, deviation, stream, out is not None, norms)
    return np.concatenate([x.reshape(-1) for x in outs]), norms


def both(rows, **options):
    return run(_testing.emulate_clipped_sum, rows, **options), run(_core.clipped_sum, rows, **options)


def agree(device, cpu, rows, largest):
    (sums, norms), (expected, expected_norms) = device, cpu
    np.testing.assert_allclose(norms, expected_norms, rtol=1e-13)
    # Each addend is at most the bound and rounds twice in the row's precision; so does the sum at the end. In double
    # the factor stays under the bound by the longest chain of additions, here 4096 columns of a lane and a few more.
    unit = 4120 * 2**-53 if sums.dtype == np.float64 else 2**-23
    assert np.isfinite(sums).all()
    np.testing.assert_allclose(sums, expected, rtol=2 * unit, atol=4 * unit * largest * max(1, rows) + 1e-300)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 130), (9, 5000)])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_same_sum_as_on_the_cpu(dtype, shape, normalize):
    r = np.random.default_rng()
    rows = (r.standard_normal(shape) * 10 ** r.uniform(-2, 2, (shape[0], 1))).astype(dtype)
    weights = r.uniform(0, 2, shape[0])
    agree(*both(rows, normalize=normalize, weights=weights, max_norm=0.7), shape[0], 1.4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_centres_and_scales(dtype):
    r = np.random.default_rng()
    rows = [r.standard_normal((6, *s)).astype(dtype) for s in [(3, 4), (1,), (257,)]]
    center, inverse = r.standard_normal(270), r.uniform(0.5, 2, 270)
    agree(*both(rows, center=center, inverse=inverse), 6, 1.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_examples_that_are_not_finite_add_nothing(dtype):
    rows = np.ones((5, 300), dtype)
    rows[0, 7], rows[1, 299], rows[2, 0] = np.nan, np.inf, -np.inf
    rows[3] = np.finfo(dtype).max
    (sums, norms), cpu = both(rows)
    assert (norms[:3] == np.inf).all()
    agree((sums, norms), cpu, 5, 1.0)
    alone, _ = run(_testing.emulate_clipped_sum, rows[:3])
    assert not alone.any()


@settings(max_examples=60, deadline=None)
@given(
    exponent=st.floats(-120, 120),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["float32", "float64"]),
    columns=st.integers(1, 400),
    max_norm=st.floats(1e-3, 1e3),
)
def test_a_clipped_row_never_passes_the_bound(exponent, seed, dtype, columns, max_norm):
    row = np.random.default_rng(seed).standard_normal((1, columns)) * 2.0**exponent
    sums, norms = run(_testing.emulate_clipped_sum, row.astype(dtype), max_norm=max_norm)
    assert math.sqrt(math.fsum(float(x) ** 2 for x in sums)) <= max_norm * (1 + 2**-50)
    np.testing.assert_allclose(norms[0], math.sqrt(math.fsum(float(x) ** 2 for x in row.astype(dtype)[0])), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 15, 16, 127, 128, 129, 1000])
def test_noise_has_the_same_bits_as_on_the_cpu(dtype, columns):
    # No rows and deviation 1: the normals themselves.
    (device, _), (cpu, _) = both(np.empty((0, columns), dtype), deviation=1.0, seed=5)
    np.testing.assert_array_equal(device, cpu)


def test_chacha_noise_has_the_same_bits_as_on_the_cpu():
    outs = [np.full(777, np.nan), np.full(777, np.nan)]
    for kernel, out in zip((_testing.emulate_clipped_sum, _core.clipped_sum), outs, strict=True):
        stream = _core.chacha_stream(bytes(range(32)), 2**40 + 1)
        kernel([np.empty((0, 777))], [out], 1.0, False, 0.01, None, None, None, 1.0, stream, False, None)
    np.testing.assert_array_equal(*outs)


def test_sums_accumulate():
    rows = np.ones((2, 3))
    out = [np.full(3, 10.0)]
    sums, _ = run(_testing.emulate_clipped_sum, rows, max_norm=100.0, out=out)
    np.testing.assert_allclose(sums, 12.0)


def test_a_weight_that_is_none_adds_nothing():
    # Weights in device memory are not looked at by the host.
    sums, _ = run(
        _testing.emulate_clipped_sum, np.ones((4, 2)), weights=np.array([np.nan, -1.0, np.inf, 1.0]), max_norm=9.0
    )
    np.testing.assert_allclose(sums, 1.0)


def test_without_a_device_the_package_says_so():
    if cuda.devices():
        pytest.skip("a CUDA device is at hand: tests/cuda covers it")
    assert cuda.status() in ("not built (docs/cuda.md)", "built, no device found")
    with pytest.raises(RuntimeError, match="CUDA"):
        dp.epsilon_batch(1.0, 0.01, 100, 1e-5, device="cuda")
    with pytest.raises(ValueError, match="device"):
        dp.epsilon_batch(1.0, 0.01, 100, 1e-5, device="tpu")
    assert not cuda.on_device(np.ones(3)) and not cuda.on_device([]) and not cuda.on_device("text")


def test_arrays_on_a_device_are_seen_through_the_array_interface():
    x = Pretender((5, 2, 3))
    assert cuda.on_device(x) and cuda.on_device([x])
    seen = cuda.view("x", x)
    assert seen == cuda.DeviceArray(4096, (5, 2, 3), "float32", (24, 12, 4), 0)
    assert seen.rows_contiguous and seen.row_size == 6
    assert cuda.view("x", Pretender((5, 2, 3), strides=(1000, 12, 4))).rows_contiguous
    assert not cuda.view("x", Pretender((5, 2, 3), strides=(24, 4, 8))).rows_contiguous
    with pytest.raises(TypeError, match="dtype"):
        cuda.view("x", Pretender((5, 2), "<i4"))
    with pytest.raises(TypeError, match="memory of the device"):
        cuda.view("x", np.ones(3))
    with pytest.raises(ValueError, match="batch axis"):
        dp.clipped_sum(Pretender((5,)), 1.0)
    with pytest.raises(ValueError, match="first axis"):
        dp.clipped_sum([x, Pretender((4, 2))], 1.0)
    with pytest.raises(TypeError, match="dtype"):
        dp.clip_and_noise([x, Pretender((5, 2), "<f8")], 1.0, 1.0)
