"""Exact steps whose products a CUDA device adds: its kernels run on the host, and release the bits of the CPU."""

import platform

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table
from torch import nn

from tightdp.models import dense
from tightdp.torch.onepass import products

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

    def add_outer_products_on_device(layers, totals, bound, inverse_grid, *, taken, bounds, fresh):
        calls.append(len(layers[0][0]))
        given = [(x.numpy(), r.numpy(), total.numpy()) for (x, r), total in zip(layers, totals, strict=True)]
        flags = None if taken is None else taken.astype(np.uint8)
        _testing.emulate_product_sum(given, bound, inverse_grid, flags, fresh, bounds, 2, 64)

    monkeypatch.setattr(products, "can_add_on_device", lambda parameters: True)
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
    assert bool(calls) == (case != "words")


def test_sums_are_forgotten_with_those_of_the_host(served):
    run = private(mlp(), arithmetic="products")
    parameters, batch = dict(run.model.named_parameters()), list(table(12).tensors)
    sums = products.ProductSums(run.plan, parameters)
    sums.add(run.model, cross_entropy, batch, 12)
    first = sums.integers()[0].clone()
    sums.add(run.model, cross_entropy, batch, 12)
    sums.clear_totals()
    sums.add(run.model, cross_entropy, batch, 12)
    assert first.any() and torch.equal(sums.integers()[0], first) and served == [12, 12, 12]
