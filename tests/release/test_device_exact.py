"""The exact form on a device, thread by thread on the host: the integers of the CPU's kernels, bit for bit."""

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp import _core
from tightdp.models import dense

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="kernels are emulated with the GNU C library")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def both(rows, *, max_norm=1.0, normalize=False, weights=None, center=None, inverse=None, sigma=0.0, stream=None,
         grid=2.0**-23, out=torch.int64, start=None, indices=None, blocks=3):  # fmt: skip
    """(sums, norms) of the device's kernels and of the CPU's."""
    rows = rows if isinstance(rows, list) else [rows]
    starts = np.cumsum([0, *(x.shape[1:].numel() for x in rows)]).tolist()
    found = []
    for device in (True, False):
        outs = [torch.full(x.shape[1:], -7 if start is None else start, dtype=out) for x in rows]
        norms = np.full(rows[0].shape[0], np.nan)
        placed = starts[:-1] if indices is None else indices
        options = (max_norm, normalize, 0.01, weights, center, inverse, sigma, stream, start is not None, norms)
        common = (rows, outs, *options, grid, out == torch.int64, placed)
        if device:
            _testing.emulate_exact_kernels(*common, blocks)
        else:
            _core.clipped_sum(*common)
        found.append((torch.cat([x.reshape(-1) for x in outs]).numpy(), norms))
    return found


def agree(found):
    for device, cpu in zip(*found, strict=True):
        np.testing.assert_array_equal(device, cpu)
    return found[0]


def normals(*shape, dtype=torch.float32):
    spread = 10 ** np.random.default_rng(shape[0]).uniform(-2, 2, (shape[0],) + (1,) * (len(shape) - 1))
    source = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(*shape, dtype=torch.float64, generator=source) * torch.from_numpy(spread)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (70, 3), (37, 100), (33, 257), (9, 1025), (5, 9000)])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_same_integers_as_on_the_cpu(dtype, shape, normalize):
    rows = normals(*shape, dtype=dtype)
    weights = np.random.default_rng(1).uniform(0, 2, shape[0])
    sums, norms = agree(both(rows, weights=weights, max_norm=0.7, normalize=normalize))
    assert np.abs(sums).max() > 1000 and np.isfinite(norms).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_centres_and_scales(dtype):
    rows = [normals(40, *s, dtype=dtype) for s in [(3, 5), (1,), (1300,), (7,)]]
    r = np.random.default_rng(2)
    agree(both(rows, center=r.standard_normal(1323), inverse=r.uniform(0.5, 2, 1323)))
    agree(both(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_heavy_examples_and_weights_out_of_range(dtype):
    rows = normals(24, 40, dtype=dtype)
    weights = np.random.default_rng(3).choice([0.0, 1.0, 31.0, 33.0, 1e6, 2.0**32], 24)
    agree(both(rows, weights=weights))
    wrong = np.array([np.nan, -1.0, np.inf, 2.0**33] * 6)
    (sums, _), _ = both(rows, weights=wrong)
    assert not sums.any()  # weights in device memory were not looked at by the host


@pytest.mark.parametrize("dtype", DTYPES)
def test_examples_of_extreme_size(dtype):
    rows = torch.ones(7, 300, dtype=dtype)
    rows[0, 7], rows[1, 299], rows[2, 0] = torch.nan, torch.inf, -torch.inf
    rows[3], rows[4] = torch.finfo(dtype).max, torch.finfo(dtype).tiny
    rows[5, :200] = torch.finfo(dtype).max
    sums, norms = agree(both(rows))
    assert (norms[:3] == np.inf).all() and sums.any()
    assert not both(rows[:3])[0][0].any()


@pytest.mark.parametrize("stream", [_core.philox_stream(5, 3), _core.chacha_stream(bytes(range(32)), 2**40 + 1)])
@pytest.mark.parametrize("sigma", [0.4, 2.0**20, 2.0**36])
@pytest.mark.parametrize("out", [torch.int64, torch.float32, torch.float64])
def test_noise_has_the_same_bits_as_on_the_cpu(stream, sigma, out):
    rows = [normals(5, n) for n in (15, 1, 300)]
    sums, _ = agree(both(rows, sigma=sigma, stream=stream, out=out))
    silent, _ = agree(both(rows, out=out))
    assert (sums != silent).mean() > 0.1
    agree(both(rows, sigma=sigma, stream=stream, out=out, indices=[1000, 17, 2**40]))


STREAMS = [
    _core.philox_stream(5, 3), _core.chacha_stream(bytes(range(32)), 2**63 + 1), _core.aes_stream(bytes(range(32)), 7),
]  # fmt: skip


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_integers_are_released_with_the_bits_of_the_cpu(stream, dtype):
    """Sums of every size are released by a scale that is no power of two, and by one that is."""
    r = np.random.default_rng(7)
    for size, sigma, scale in ((1, 0.4, 1 / 3), (700, 2.0**20, 2.0**-30 / 63), (257, 2.0**36, 0.25)):
        sums = r.integers(-(2**62), 2**62, size) >> r.integers(0, 62, size)
        device, cpu = np.full((2, size), np.nan, dtype)
        _testing.emulate_release(sums, device, scale, sigma, stream)
        none = [(np.empty((0, size), np.float32), np.empty((0, 1), np.float32))]
        dense.write_noisy_dense_model_products(
            none, 1.0, [sums.copy()], [cpu], grid=1.0, deviation=sigma, stream=stream, first=[0], divisor=1 / scale
        )
        assert 1.0 / (1 / scale) == scale
        np.testing.assert_array_equal(device, cpu)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_floats_are_released_with_the_bits_of_the_cpu(dtype):
    """Such sums are one row, whose bound is so large that noise would be lost in larger values."""
    rows = [normals(1, n, dtype=dtype) for n in (15, 1, 3000)]
    rows[0][0, :4] = torch.tensor([2.0**30, -0.0, 1e-30, 2.0**-24])
    grid = 2.0**-23
    for spoiled in (False, True):
        rows[2][0, 9] = torch.nan if spoiled else 1.0
        sums, _ = agree(both(rows, max_norm=2.0**60 * grid, grid=grid, sigma=2.0**20, stream=STREAMS[0], out=dtype))
        assert np.isfinite(sums).all()


def test_integers_accumulate_and_wrap():
    rows = normals(50, 20)
    plain, _ = agree(both(rows))
    more, _ = agree(both(rows, start=2**63 - 5))
    np.testing.assert_array_equal(more.view(np.uint64), plain.view(np.uint64) + np.uint64(2**63 - 5))


@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(0, 90), columns=st.integers(1, 1100), blocks=st.integers(1, 6),
    data=st.data(),
)  # fmt: skip
def test_how_the_work_is_shared_changes_nothing(rows, columns, blocks, data):
    """Nor do the other rows: an example adds what it adds alone."""
    values = normals(max(rows, 1), columns)[:rows]
    sums, _ = agree(both(values, blocks=blocks))
    if rows:
        left = data.draw(st.integers(0, rows - 1))
        others, _ = agree(both(torch.cat([values[:left], values[left + 1 :]]), blocks=blocks))
        alone, _ = agree(both(values[left : left + 1]))
        np.testing.assert_array_equal(sums, others + alone)
