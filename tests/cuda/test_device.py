"""On a CUDA device: against the CPU, on fresh inputs, with poisoned outputs. Skipped where there is none."""

import json
from pathlib import Path

import numpy as np
import pytest

import tightdp as dp
from tightdp import _core, cuda
from tightdp.models import dense

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")
torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.devices() or not torch.cuda.is_available(), reason=f"CUDA: {cuda.status()}"),
]

# Short rows, which a block holds; longer ones, which a team of blocks holds; and few or very long ones, read twice. Odd
# lengths start rows at any place within 16 bytes.
SHAPES = [
    (1, 1),
    (7, 33),
    (64, 130),
    (5000, 100),
    (100_001, 3),
    (20_000, 1001),
    (600, 4096),
    (700, 16_385),
    (300, 100_003),
    (3, 70_001),
    (9, 1 << 20),
    (40, 1_000_003),
    (5, 5_000_001),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_sum_as_on_the_cpu(dtype, shape):
    r = torch.Generator().manual_seed(int(np.random.SeedSequence().entropy % 2**63))
    host = (torch.randn(shape, generator=r) * 2).to(getattr(torch, dtype))
    weights = torch.rand(shape[0], generator=r, dtype=torch.float64)
    kind = torch.float64 if dtype == "float64" else torch.float32
    out = torch.full((shape[1],), torch.nan, dtype=kind, device="cuda")
    total, norms = dp.clipped_sum(host.cuda(), 0.9, weights=weights.cuda(), out=out)
    expected, expected_norms = dp.clipped_sum(host, 0.9, weights=weights.numpy())
    assert total is out
    np.testing.assert_allclose(norms.cpu(), expected_norms, rtol=1e-12)
    # In double the factor stays under the bound by the longest chain of additions: 128 a lane, then the pieces.
    unit = 400 * 2**-53 if dtype == "float64" else 2**-23
    np.testing.assert_allclose(total.cpu(), expected, rtol=4 * unit, atol=4 * unit * shape[0])


def test_lists_groups_centres_and_scales():
    host = [torch.randn(50, 3, 4), torch.randn(50, 700)]
    center, scale = np.random.default_rng().standard_normal(712), np.random.default_rng().uniform(0.5, 2, 712)
    for bound in (1.0, [0.5, 2.0]):
        total, norms = dp.clipped_sum([x.cuda() for x in host], bound, center=center, scale=scale)
        expected, expected_norms = dp.clipped_sum(host, bound, center=center, scale=scale)
        np.testing.assert_allclose(norms.cpu(), expected_norms, rtol=1e-12)
        for a, b in zip(total, expected, strict=True):
            np.testing.assert_allclose(a.cpu(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_exact_releases_have_the_bits_of_the_cpu(dtype, shape):
    host = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 2).to(getattr(torch, dtype))
    weights = torch.rand(shape[0], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    total, norms = dp.clipped_sum(host.cuda(), 0.9, weights=weights.cuda(), arithmetic="exact")
    expected, expected_norms = dp.clipped_sum(host, 0.9, weights=weights.numpy(), arithmetic="exact")
    assert total.dtype == torch.int64
    np.testing.assert_array_equal(norms.cpu(), expected_norms)
    np.testing.assert_array_equal(total.cpu(), expected)
    for multiplier in (1.0, 2.0**13):
        release = [dp.clip_and_noise(x, 0.9, multiplier, rng=dp.Philox(3)) for x in (host.cuda(), host)]
        np.testing.assert_array_equal(release[0].cpu(), release[1])


def test_examples_that_are_not_finite_add_nothing():
    host = torch.ones(6, 5000)
    host[0, 3], host[1, 4999], host[2, 0] = torch.nan, torch.inf, -torch.inf
    total, norms = dp.clipped_sum(host.cuda(), 1.0)
    expected, expected_norms = dp.clipped_sum(host, 1.0)
    np.testing.assert_array_equal(norms.cpu(), expected_norms)
    np.testing.assert_allclose(total.cpu(), expected, rtol=1e-6)


def test_arrays_of_many_lengths():
    lengths = [10, 4096 * 33, 1, 77_001, 300, 64, 7] * 12  # more than one launch carries the table of
    host = [torch.randn(37, n) for n in lengths]
    total, norms = dp.clipped_sum([x.cuda() for x in host], 2.0)
    expected, expected_norms = dp.clipped_sum(host, 2.0)
    np.testing.assert_allclose(norms.cpu(), expected_norms, rtol=1e-12)
    for a, b in zip(total, expected, strict=True):
        np.testing.assert_allclose(a.cpu(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(5000, 100), (300, 100_003), (5, 5_000_001)])
def test_the_same_bits_every_time_and_rows_with_gaps(shape):
    memory = torch.randn(shape[0], shape[1] + 5, device="cuda")
    rows = memory[:, 3:-2]
    first, _ = dp.clipped_sum(rows, 1.0)
    for _ in range(20):
        assert torch.equal(dp.clipped_sum(rows, 1.0)[0], first)
    expected, _ = dp.clipped_sum(rows.cpu().contiguous(), 1.0)
    np.testing.assert_allclose(first.cpu(), expected, rtol=1e-6, atol=1e-6 * shape[0])


@pytest.mark.parametrize("shape", [(5000, 100), (300, 100_003), (5, 5_000_001)])
def test_the_host_does_not_wait(shape):
    """A call that waited, or copied from memory that could make it wait, could not be captured."""
    rows, out = torch.randn(shape, device="cuda"), torch.full((shape[1],), torch.nan, device="cuda")
    dp.clipped_sum(rows, 1.0, out=out)  # loads the kernels
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dp.clipped_sum(rows, 1.0, out=out)
    rows.normal_()
    graph.replay()
    expected, _ = dp.clipped_sum(rows.cpu(), 1.0)
    np.testing.assert_allclose(out.cpu(), expected, rtol=1e-6, atol=1e-6 * shape[0])


def test_noise_is_not_captured():
    rows, out = torch.randn(100, 64, device="cuda"), torch.zeros(64, device="cuda")
    dp.clip_and_noise(rows, 1.0, 1.0, out=out, arithmetic="float")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(RuntimeError, match="same at every replay"):
        dp.clip_and_noise(rows, 1.0, 1.0, out=out, arithmetic="float")


def test_arrays_of_other_libraries():
    cupy = pytest.importorskip("cupy")
    host = np.random.default_rng().standard_normal((50, 301)).astype(np.float32)
    expected, _ = dp.clipped_sum(host, 1.0)
    rows = cupy.asarray(host)

    class CapsuleOnly:
        def __dlpack_device__(self):
            return rows.__dlpack_device__()

        def __dlpack__(self, **options):
            return rows.__dlpack__(stream=options["stream"])

    for x in (rows, CapsuleOnly()):
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            with stream:
                total, _ = dp.clipped_sum(x, 1.0)
                assert isinstance(total, cupy.ndarray)
                np.testing.assert_allclose(cupy.asnumpy(total), expected, rtol=1e-6, atol=1e-5)


PRODUCTS = [
    (1, 1, 1),
    (65, 5, 33),
    (256, 784, 1024),
    (1000, 130, 257),
    (3000, 1, 1000),
    (2**16 - 64, 70, 130),
    (2**16, 64, 128),
    (3 * 2**16 + 5, 33, 40),
]
"""Rows, outputs and columns: one tile and many, few and many records, and more of them than sums of 32 bits hold."""


def draw_digits(seed, shape, most):
    """Integers on the device whose digits of eight bits are at their ends, or next to where one carries."""
    choices = torch.tensor([-128, -127, -1, 0, 1, 126, 127], device="cuda")
    r = torch.Generator("cuda").manual_seed(seed)
    digits = choices[torch.randint(len(choices), (3, *shape), device="cuda", generator=r)]
    return (digits[0] + 256 * digits[1] + 65536 * digits[2]).clamp(-most, most)


@pytest.mark.parametrize("rows, outputs, columns", PRODUCTS)
def test_integer_products_are_those_of_the_cpu(rows, outputs, columns):
    w, q = draw_digits(1, (rows, outputs), 8_355_711).int(), draw_digits(2, (rows, columns), 32_639).short()
    w[:, 0], q[:, 0] = -128 - 128 * 256 - 126 * 65536, -128 - 126 * 256  # sums that grow without end
    found = torch.full((outputs, columns), 3, device="cuda")
    dense.add_integer_dense_product(w, q, found, largest_product=2.0**32)
    # In doubles every partial sum is an integer below 2^53, and so exact.
    expected = 3 + sum((w[i : i + 8192].double().T @ q[i : i + 8192].double()).long() for i in range(0, rows, 8192))
    assert torch.equal(found, expected)
    w.clamp_(-131_071, 131_071)  # the CPU takes products up to 2^32
    sums = np.full((outputs, columns), 3)
    found.fill_(3)
    for x, y, total in ((w, q, found), (w.cpu().numpy(), q.cpu().numpy(), sums)):
        dense.add_integer_dense_product(x, y, total, largest_product=2.0**32)
    np.testing.assert_array_equal(found.cpu(), sums)


def test_integer_products_beyond_the_limits_are_confined():
    w = torch.tensor([[2**31 - 1, -(2**31)]], dtype=torch.int32, device="cuda")
    q = torch.tensor([[2**15 - 1, -(2**15)]], dtype=torch.int16, device="cuda")
    sums = torch.zeros(2, 2, dtype=torch.int64, device="cuda")
    dense.add_integer_dense_product(w, q, sums, largest_product=2.0**32)
    most = 8_355_711 * 32_639
    assert sums.tolist() == [[most, -most], [-most, most]]


def test_integer_products_of_columns_of_other_arrays_and_of_nothing():
    w, q = draw_digits(3, (90, 80), 8_355_711).int()[:, 5:45], draw_digits(4, (50, 90), 32_639).short().T
    found, expected = torch.zeros(2, 40, 50, dtype=torch.int64, device="cuda")
    dense.add_integer_dense_product(w, q, found, largest_product=2.0**32)
    expected += (w.double().T @ q.double()).long()
    assert torch.equal(found, expected)
    dense.add_integer_dense_product(w[:0], q[:0], found, largest_product=2.0**32)
    assert torch.equal(found, expected)
    with pytest.raises(ValueError, match="sums must be"):
        dense.add_integer_dense_product(w, q, found.T, largest_product=2.0**32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 300, 20_000])
def test_clipped_outer_products_have_the_bits_of_the_cpu(rows, dtype):
    r = torch.Generator().manual_seed(rows)
    layers, totals = [], []
    for columns, outputs in ((70, 30), (1000, 1), (33, 2), (5, 129)):
        pair = [torch.randn(rows, n, generator=r) * 10 ** torch.randn(rows, 1, generator=r) for n in (columns, outputs)]
        layers.append([x.to(getattr(torch, dtype)) for x in pair])
        totals.append(np.full((outputs, columns), 5))
    layers[0][0][-1, 3] = torch.nan
    grid, on_device = dense.choose_dense_product_grid(0.7), [torch.from_numpy(total).cuda() for total in totals]
    taken, bounds = np.random.default_rng(1).random(rows) < 0.8, np.random.default_rng(2).uniform(0, 0.7, rows)
    there = [[x.cuda() for x in layer] for layer in layers]
    here = [[x.numpy() for x in layer] for layer in layers]
    for options in ({}, {"taken": taken}, {"max_norms": bounds}):
        dense.add_dense_model_products(there, 0.7, on_device, grid=grid, **options)
        dense.add_dense_model_products(here, 0.7, totals, grid=grid, **options)
        for found, total in zip(on_device, totals, strict=True):
            np.testing.assert_array_equal(found.cpu(), total)


LAWS = [("gaussian", 0.7, 1.0), ("laplace", 0.7, 1.0), ("pure", 0.4, 1.0), ("sampled_remove", 0.8, 0.01)]


@pytest.mark.parametrize("law", [*LAWS, ("sampled_add", 0.8, 0.01), ("sampled_remove", 20.0, 1e-9)], ids=str)
def test_cells_of_privacy_losses(law):
    run = (*law, 1, 0.0)
    low, high, *_ = _testing.prv_support(run, 1e-13)
    h = (high - low) / 100_000
    first, count = round(low / h) - 5, 100_010
    out = torch.full((count,), torch.nan, dtype=torch.float64, device="cuda")
    cuda.require_module().prv_cells(run, h, first, count, out.data_ptr(), 0, torch.cuda.current_stream().cuda_stream)
    # The device's functions may differ from the host's by 2 u each, on tails that are subtracted.
    expected = _testing.emulate_prv_cells(run, h, first, count)
    np.testing.assert_allclose(out.cpu(), expected, rtol=1e-9, atol=1e-15)


def test_composition_agrees_with_the_cpu():
    pytest.importorskip("cupy")
    sampled = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    for run in (sampled, dp.Gaussian(3.0) * 5 + dp.Laplace(2.0) * 20 + sampled, dp.ApproximateDP(0.1, 1e-7) * 50):
        for delta in (1e-3, 1e-5, 1e-7):
            found, here = cuda.epsilon(run, delta), run.epsilon(delta, engine="prv")
            assert max(found.lower, here.lower) <= min(found.upper, here.upper)
            # The error assumed of the device's transforms is 3.3 times the CPU's (docs/theory/fft.md, 3 and 4), and its
            # sums count some more additions.
            for source, most in (("mesh", 1.01), ("tails", 1.01), ("rounding", 4.0)):
                assert found.error_budget[source] <= most * here.error_budget[source], source
        found, here = cuda.delta(run, 1.0), run.delta(1.0, engine="prv")
        assert max(found.lower, here.lower) <= min(found.upper, here.upper)


VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "accounting.json").read_text())["epsilon_of_delta"]


@pytest.mark.parametrize("v", [v for v in VECTORS if v["mechanism"] == "PoissonSampled(Gaussian)"], ids=str)
def test_reference_values_are_inside(v):
    pytest.importorskip("cupy")
    run = dp.PoissonSampled(dp.Gaussian(v["noise_multiplier"]), v["sampling_probability"]) * v["steps"]
    found = cuda.epsilon(run, float(v["delta"]), neighbors=v["direction"], eps_error=0.1)
    assert found.lower <= float(v["epsilon"]) <= found.upper


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "stream", [_core.philox_stream(9, 4), _core.chacha_stream(bytes(range(32)), 7)], ids=["philox", "chacha20"]
)
def test_normals_have_the_bits_of_the_cpu(monkeypatch, kind, stream):
    """So have their words, and known answers hold the CPU's."""
    monkeypatch.setattr(dp.SecureRandom, "stream", lambda _: stream)
    monkeypatch.setattr(dp.SecureRandom, "stream_for_device", lambda _: stream)
    empty = torch.empty((0, 100003), dtype=kind)
    noise = [dp.clip_and_noise(x, 1.0, 1.0, rng=dp.SecureRandom(), arithmetic="float") for x in (empty.cuda(), empty)]
    np.testing.assert_array_equal(noise[0].cpu(), noise[1])


def test_epsilon_batch_agrees_with_the_cpu():
    r = np.random.default_rng()
    n = 2000
    settings = (r.uniform(0.5, 8, n), 10 ** r.uniform(-3.5, -0.5, n), np.floor(10 ** r.uniform(2, 5, n)), 1e-6)
    low, up = dp.epsilon_batch(*settings)
    lower, upper = dp.epsilon_batch(*settings, device="cuda")
    assert (np.maximum(low, lower) <= np.minimum(up, upper)).all()
    assert np.median((upper - lower) / upper) < 1e-8
