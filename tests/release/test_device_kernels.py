"""The clipping kernels of a device, thread by thread on the host: barriers, shuffles, copies that arrive late."""

import platform

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp import _core

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="kernels are emulated with the GNU C library")

HELD = (2, 60_000, 2)
"""Multiprocessors, shared memory of each in bytes, blocks that one takes at once."""


PLAIN = {"normalize": False, "stability": 0.01, "deviation": 0.0, "stream": None, "accumulate": False}


def both(rows, device, **options):
    """(sums, norms) of the kernel and of the CPU, and the shape that was chosen."""
    rows = rows if isinstance(rows, list) else [rows]
    options = {"max_norm": 1.0, "weights": None, "center": None, "inverse_scale": None} | options
    kind = torch.float64 if rows[0].dtype == torch.float64 else torch.float32
    found = []
    for kernel in (None, _core.clipped_sum):
        outs = [torch.full(x.shape[1:], torch.nan, dtype=kind) for x in rows]
        norms = np.full(rows[0].shape[0], np.nan)
        if kernel is None:
            chosen = _testing.emulate_clip_kernels(rows, outs, **options, **PLAIN, norms=norms, device=device)
        else:
            order = ("weights", "center", "inverse_scale")
            kernel(rows, outs, options["max_norm"], False, 0.01, *(options[o] for o in order), 0.0, None, False, norms)
        found.append((torch.cat([x.reshape(-1) for x in outs]).double().numpy(), norms))
    return *found, chosen


def agree(device, cpu, rows, most=1.0):
    np.testing.assert_allclose(device[1], cpu[1], rtol=1e-13)
    count = rows[0].shape[0] if isinstance(rows, list) else rows.shape[0]
    first = rows[0] if isinstance(rows, list) else rows
    unit = 4200 * 2**-53 if first.dtype == torch.float64 else 2**-23
    assert np.isfinite(device[0]).all()
    np.testing.assert_allclose(device[0], cpu[0], rtol=2 * unit, atol=4 * unit * most * count)


def normals(*shape, dtype=torch.float32):
    spread = 10 ** np.random.default_rng().uniform(-2, 2, (shape[0],) + (1,) * (len(shape) - 1))
    return (torch.randn(*shape, dtype=torch.float64) * torch.from_numpy(spread)).to(dtype)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40, 1), (70, 3), (37, 100), (33, 255), (41, 256)])
def test_rows_that_a_block_holds(dtype, shape):
    rows = normals(*shape, dtype=dtype)
    weights = np.random.default_rng().uniform(0, 2, shape[0])
    device, cpu, chosen = both(rows, HELD, weights=weights, max_norm=0.7)
    assert chosen.startswith("held") and chosen.endswith("dense")
    agree(device, cpu, rows, 1.4)


def test_rows_with_gaps_between_them_and_an_odd_start():
    for offset, stride in [(0, 40), (1, 41), (3, 39), (2, 50)]:
        memory = normals(45, stride)
        rows = memory[:, offset : offset + 33]
        device, cpu, chosen = both(rows, HELD)
        assert "dense" not in chosen
        agree(device, cpu, rows)
    memory = normals(45, 41, dtype=torch.bfloat16)
    agree(*both(memory[:, 1:34], HELD)[:2], memory)


def test_an_odd_start_of_a_dense_array():
    for dtype in DTYPES:
        for offset in (1, 2, 3, 5):
            rows = normals(40 * 33 + 8, 1, dtype=dtype).reshape(-1)[offset : offset + 40 * 33].reshape(40, 33)
            device, cpu, chosen = both(rows, HELD)
            assert chosen.endswith("dense")
            agree(device, cpu, rows)


def test_several_arrays_held_together():
    rows = [normals(40, *s) for s in [(3, 5), (1,), (64,), (7,)]]
    center, inverse = np.random.default_rng().standard_normal(87), np.random.default_rng().uniform(0.5, 2, 87)
    device, cpu, chosen = both(rows, HELD, center=center, inverse_scale=inverse)
    assert chosen.startswith("held")
    agree(device, cpu, rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2000), (2, 1999), (5, 700), (14, 1001), (33, 257), (3, 12_300)])
def test_rows_that_are_read_twice(dtype, shape):
    rows = normals(*shape, dtype=dtype)
    weights = np.random.default_rng().uniform(0, 2, shape[0])
    device, cpu, chosen = both(rows, HELD, weights=weights)
    assert chosen.startswith("twice") and f"{-(-shape[1] // 4096)} pieces" in chosen
    agree(device, cpu, rows, 2.0)


@pytest.mark.parametrize(
    ("processors", "rows", "columns", "chunks"),
    [(1, 100, 257, 8), (1, 100, 5000, 1), (3, 100, 300, 20), (3, 7, 300, 7), (2, 50, 1024, 8), (1, 33, 700, 6)],
)
def test_chunks_of_rows(processors, rows, columns, chunks):
    """Some 16 blocks a multiprocessor share the rows and the columns, and no chunk is empty."""
    x = normals(rows, columns)
    device, cpu, chosen = both(x, (processors, 60_000, 2))
    assert f" {chunks} chunks" in chosen, chosen
    agree(device, cpu, x)


def test_few_short_rows_are_read_twice():
    rows = normals(40, 30)
    device, cpu, chosen = both(rows, (9, 60_000, 2))
    assert chosen.startswith("twice")
    agree(device, cpu, rows)


def test_several_arrays_that_are_read_twice():
    rows = [normals(9, *s) for s in [(3, 50), (1,), (640,), (7,), (333,)]]
    center, inverse = np.random.default_rng().standard_normal(1131), np.random.default_rng().uniform(0.5, 2, 1131)
    for options in ({}, {"center": center, "inverse_scale": inverse}):
        device, cpu, chosen = both(rows, HELD, **options)
        assert chosen.startswith("twice")
        agree(device, cpu, rows)


def test_rows_with_gaps_that_are_read_twice():
    for dtype in (torch.float16, torch.float32, torch.float64):
        memory = normals(7, 1103, dtype=dtype)
        device, cpu, chosen = both(memory[:, 1:1100], HELD)
        assert chosen.startswith("twice")
        agree(device, cpu, memory)


@pytest.mark.parametrize(("machine", "columns"), [(HELD, 100), (HELD, 900)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_examples_that_are_not_finite_add_nothing(machine, columns, dtype):
    rows = torch.ones(40, columns, dtype=dtype)
    rows[0, 7], rows[1, columns - 1], rows[38, 0] = torch.nan, torch.inf, -torch.inf
    rows[3] = torch.finfo(dtype).max
    device, cpu, _ = both(rows, machine)
    assert (device[1][[0, 1, 38]] == np.inf).all()
    agree(device, cpu, rows)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 900), st.integers(1, 6), st.integers(12_000, 90_000), st.data())
def test_any_shape_on_any_device(rows, columns, processors, shared, data):
    dtype = data.draw(st.sampled_from(DTYPES))
    memory = normals(rows, columns + 3, dtype=dtype)
    x = memory[:, 2 : columns + 2]
    x = x.contiguous() if data.draw(st.booleans()) else x
    device, cpu, _ = both(x, (processors, shared, data.draw(st.integers(1, 3))))
    agree(device, cpu, x)
