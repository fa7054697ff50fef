"""Noise for sums that are on a CUDA device: the bits of the CPU, without waiting. Skipped where there is no device."""

import contextlib

import numpy as np
import pytest

from tightdp import cuda
from tightdp.clipping_and_noise import arrays, clipping
from tightdp.clipping_and_noise.clipping import convert_deviation_to_grid
from tightdp.clipping_and_noise.cuda import noisy_sums
from tightdp.clipping_and_noise.noise import Philox, SecureRandom
from tightdp.models import dense

torch = pytest.importorskip("torch")
tightdp_torch = pytest.importorskip("tightdp.torch")
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.devices() or not torch.cuda.is_available(), reason=f"CUDA: {cuda.status()}"),
]
GRID = 2.0**-23


@contextlib.contextmanager
def never_waiting():
    """PyTorch raises an error if the host would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 700, 300_001])
def test_integers_are_released_with_the_bits_of_the_cpu(size, dtype):
    sums = torch.randint(-(2**40), 2**40, (size,), generator=torch.Generator().manual_seed(size))
    expected, deviation = np.empty(size, dtype), 3.7
    none = [(np.empty((0, size), np.float32), np.empty((0, 1), np.float32))]
    dense.write_noisy_dense_model_products(
        none, 1.0, [sums.numpy().copy()], [expected], grid=GRID, deviation=convert_deviation_to_grid(GRID, deviation),
        stream=Philox(4).stream(), first=[0], divisor=63.0,
    )  # fmt: skip
    there = sums.cuda()
    with never_waiting():
        found = noisy_sums.release_integers_on_device(there, dtype, deviation, grid=GRID, divisor=63.0, rng=Philox(4))
    assert found.is_cuda and torch.equal(found.cpu(), torch.from_numpy(expected))
    assert torch.equal(there.cpu(), sums)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_released_with_the_bits_of_the_cpu(dtype):
    r = torch.Generator().manual_seed(2)
    sums = [torch.randn(1, *shape, dtype=dtype, generator=r) for shape in [(30, 50), (), (5000,)]]
    found = arrays.view_examples_to_clip("sums", sums)
    expected, largest = [np.empty(shape, found.out_dtype) for shape in found.shapes], 2.0**60 * GRID
    clipping.ClippingRun(found, expected, [([0, 1, 2], largest)]).write_noisy_sums(1.3, Philox(9), GRID)
    there = [x[0].cuda() for x in sums]
    with never_waiting():
        noisy = noisy_sums.release_floats_on_device(there, 1.3, grid=GRID, largest=largest, rng=Philox(9))
    for a, b in zip(noisy, expected, strict=True):
        assert a.is_cuda and torch.equal(a.cpu(), torch.from_numpy(b))


def test_a_secure_source_adds_fresh_noise_each_time():
    sums = torch.zeros(1 << 16, dtype=torch.int64, device="cuda")
    first, second = (
        noisy_sums.release_integers_on_device(sums, "float64", 1.0, grid=GRID, divisor=1.0, rng=SecureRandom())
        for _ in range(2)
    )
    assert not torch.equal(first, second)
    for found in (first, second):
        assert abs(found.mean().item()) < 6 / 2**8 and abs(found.square().mean().item() - 1) < 6 * 2**0.5 / 2**8


def compute_losses(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("arithmetic", ["auto", "exact", "float"])
def test_sums_and_gradients_of_a_step_stay_on_the_device(arithmetic, monkeypatch):
    """No tensor of as many entries as a parameter of the first layer is moved to the host, and none comes from it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10)).cuda()
    data = torch.utils.data.TensorDataset(torch.randn(64, 300).cuda(), torch.arange(64).cuda() % 10)
    run = tightdp_torch.make_private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), data, batch_size=32, epochs=2, max_norm=1.0,
        noise_multiplier=1.0, delta=1e-6, public_size=64, arithmetic=arithmetic, random_state=3,
    )  # fmt: skip
    batches = iter(run.loader)
    run.step(compute_losses, next(batches))  # the first step also tests the model
    moved, plain_to, plain_cpu = [], torch.Tensor.to, torch.Tensor.cpu

    def note(move):
        def noting(x, *arguments, **options):
            found = move(x, *arguments, **options)
            with torch._C.DisableTorchFunction():  # a step watches what is asked of tensors
                if found.is_cuda != x.is_cuda:
                    moved.append(x.numel())
            return found

        return noting

    monkeypatch.setattr(torch.Tensor, "to", note(plain_to))
    monkeypatch.setattr(torch.Tensor, "cpu", note(plain_cpu))
    run.step(compute_losses, next(batches))
    monkeypatch.undo()
    assert all(p.grad.is_cuda and p.grad.any() for p in model.parameters())
    assert max(moved, default=0) < 300 * 200
