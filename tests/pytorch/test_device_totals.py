"""Exact steps whose products a CUDA device adds: its kernels run on the host, and release the bits of the CPU."""

import platform

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table
from torch import nn

from tightdp.clipping_and_noise.clipping import convert_deviation_to_grid
from tightdp.models import dense
from tightdp.torch.ghost_clipping import clipping, products
from tightdp.torch.gradient_sums import exact_sums, sum_noise

_testing = pytest.importorskip("tightdp._testing", reason="built without TIGHTDP_BUILD_TESTS")
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="kernels are emulated with the GNU C library")


class Words(nn.Module):
    """The host adds the gradients of an embedding whose words have a multiple of 16 numbers."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.words(x.abs().long() % 9).mean(1))


@pytest.fixture
def served(monkeypatch):
    """Counts the calls of a device, which has the memory of the host."""
    calls = []

    def add_outer_products_on_device(layers, totals, bound, inverse_grid, *, taken, bounds):
        calls.append(len(layers[0][0]))
        given = [(x.numpy(), r.numpy(), total.numpy()) for (x, r), total in zip(layers, totals, strict=True)]
        flags = None if taken is None else taken.astype(np.uint8)
        _testing.emulate_product_sum(given, bound, inverse_grid, flags, bounds, 2, 64)

    def release_integers_on_device(sums, dtype, deviation, *, grid, divisor, rng):
        out = np.empty(sums.shape, dtype)
        deviation = convert_deviation_to_grid(grid, deviation)
        _testing.emulate_release(sums.numpy(), out, grid / divisor, deviation, rng.stream_for_device())
        calls.append("release")
        return torch.from_numpy(out)

    def release_floats_on_device(sums, deviation, *, grid, largest, rng):
        outs = [torch.empty(x.numel(), dtype=x.dtype) for x in sums]
        starts = np.cumsum([0, *(x.numel() for x in sums)])[:-1].tolist()
        noise = convert_deviation_to_grid(grid, deviation), rng.stream_for_device()
        _testing.emulate_exact_kernels(
            [x.reshape(1, -1) for x in sums], outs, largest, False, 0.01, None, None, None, *noise, False, np.empty(1),
            grid, False, starts, 3,
        )  # fmt: skip
        calls.append("release")
        return [out.view(x.shape) for out, x in zip(outs, sums, strict=True)]

    for module in (products, exact_sums, clipping):
        monkeypatch.setattr(module, "find_device_of_gradient_sums", lambda parameters: torch.device("cpu"))
    monkeypatch.setattr(clipping, "release_floats_on_device", release_floats_on_device)
    monkeypatch.setattr(sum_noise.noisy_sums, "release_integers_on_device", release_integers_on_device)
    monkeypatch.setattr(dense, "on_device", lambda x: isinstance(x, list) and isinstance(x[0], torch.Tensor))
    monkeypatch.setattr(dense, "add_outer_products_on_device", add_outer_products_on_device)
    return calls


def train(build, **settings):
    torch.manual_seed(1)
    model = build()
    dtype = next(model.parameters()).dtype
    x, y = table(60).tensors
    run = private(
        model, torch.utils.data.TensorDataset(x.to(dtype), y), batch_size=12, noise_multiplier=0.3, random_state=5,
        **settings,
    )  # fmt: skip
    for batch in run.loader:
        run.step(lambda model, batch: cross_entropy(model, batch).float(), batch)
    return [p.detach() for p in run.model.parameters()]


MODELS = {"mlp": mlp, "double": lambda: mlp().double(), "half": lambda: mlp().to(torch.bfloat16), "words": Words}
CUTS = {"whole": {}, "cut": {"physical_size": 4}, "padded": {"physical_size": 8, "padded": True}}


@pytest.mark.parametrize("case, cut", [*((case, "whole") for case in MODELS), ("mlp", "cut"), ("mlp", "padded")])
def test_the_bits_are_those_of_the_cpu(case, cut, request):
    expected = train(MODELS[case], **CUTS[cut])
    calls = request.getfixturevalue("served")
    found = train(MODELS[case], **CUTS[cut])
    assert all(map(torch.equal, found, expected))
    assert calls.count("release") == 5 and (len(calls) > 5) == (case != "words")


@pytest.mark.parametrize("arithmetic", ["float", "exact", "one-by-one"])
@pytest.mark.parametrize("case", ["mlp", "half"])
def test_other_sums_are_released_with_the_bits_of_the_cpu(arithmetic, case, request):
    expected = train(MODELS[case], arithmetic=arithmetic)
    calls = request.getfixturevalue("served")
    found = train(MODELS[case], arithmetic=arithmetic)
    assert all(map(torch.equal, found, expected)) and calls == 5 * ["release"]


def test_sums_are_forgotten_with_those_of_the_host(served):
    run = private(mlp(), arithmetic="products")
    parameters, batch = dict(run.model.named_parameters()), list(table(12).tensors)
    sums = products.ProductSums(run.plan, parameters)
    sums.add(run.model, cross_entropy, batch, 12)
    first = sums.integers()[0].clone()
    sums.add(run.model, cross_entropy, batch, 12)
    sums.clear_gradient_sums()
    sums.add(run.model, cross_entropy, batch, 12)
    assert first.any() and torch.equal(sums.integers()[0], first) and served == [12, 12, 12]
