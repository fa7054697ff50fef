"""On a CUDA device: against the CPU, on fresh inputs, with poisoned outputs. Skipped where there is none."""

from pathlib import Path

import numpy as np
import pytest

import tightdp as dp
from tightdp import _core, cuda

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.devices() or not torch.cuda.is_available(), reason=f"CUDA: {cuda.status()}"),
]

SHAPES = [(1, 1), (7, 33), (64, 130), (5000, 100), (3, 70001), (600, 4096), (9, 1 << 20)]


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


def test_examples_that_are_not_finite_add_nothing():
    host = torch.ones(6, 5000)
    host[0, 3], host[1, 4999], host[2, 0] = torch.nan, torch.inf, -torch.inf
    total, norms = dp.clipped_sum(host.cuda(), 1.0)
    expected, expected_norms = dp.clipped_sum(host, 1.0)
    np.testing.assert_array_equal(norms.cpu(), expected_norms)
    np.testing.assert_allclose(total.cpu(), expected, rtol=1e-6)


def known_answers(name):
    path = Path(__file__).parents[1] / "vectors" / "random.kat"
    return [line.split()[1:] for line in path.read_text().splitlines() if line.startswith(name)]


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), known_answers("chacha20"))
def test_chacha20_known_answers(key, counter, nonce, expected):
    words = [int(x) for x in np.frombuffer(bytes.fromhex(nonce), "<u4")]
    block, stream = int(counter, 16) | words[0] << 32, words[1] | words[2] << 32
    tile = cuda.required().random_words(_core.chacha_stream(bytes.fromhex(key), stream), block // 16, 1, 0)
    np.testing.assert_array_equal(tile.reshape(16, 16)[:, block % 16], np.frombuffer(bytes.fromhex(expected), "<u4"))


def test_words_and_normals_have_the_bits_of_the_cpu():
    for stream in (_core.philox_stream(9, 4), _core.chacha_stream(bytes(range(32)), 7)):
        np.testing.assert_array_equal(
            cuda.required().random_words(stream, 5, 40, 0), _core.random_words(stream, 5 * 256, 40 * 256)
        )
    for kind in (torch.float32, torch.float64):
        empty = torch.empty((0, 100003), dtype=kind)
        noise = [dp.clip_and_noise(x, 1.0, 1.0, rng=dp.Philox(3)) for x in (empty.cuda(), empty)]
        np.testing.assert_array_equal(noise[0].cpu(), noise[1])


def test_epsilon_batch_agrees_with_the_cpu():
    r = np.random.default_rng()
    n = 2000
    settings = (r.uniform(0.5, 8, n), 10 ** r.uniform(-3.5, -0.5, n), np.floor(10 ** r.uniform(2, 5, n)), 1e-6)
    low, up = dp.epsilon_batch(*settings)
    lower, upper = dp.epsilon_batch(*settings, device="cuda")
    assert (np.maximum(low, lower) <= np.minimum(up, upper)).all()
    assert np.median((upper - lower) / upper) < 1e-8
