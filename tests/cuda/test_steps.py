"""Private steps of PyTorch whose model is on a CUDA device. Skipped where there is none.

Inputs, weights and gradients are small integers, which a device and the CPU multiply and add without rounding. So each
record has the same bits on both, and then so has what is released."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from tightdp import cuda
from tightdp.torch import make_private

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.devices() or not torch.cuda.is_available(), reason=f"CUDA: {cuda.status()}"),
]


class Flat(torch.nn.Module):
    """Two layers that each record goes through once."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(40, 30), torch.nn.Linear(30, 5)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


class Sequence(Flat):
    """The same at several positions, after an embedding."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(19, 40)

    def forward(self, x):
        return super().forward(self.words(x[:, :8].abs().long() % 19)).sum(1)


def find_squared_errors(model, batch):
    x, y = batch
    return (model(x) - y).square().sum(1)


def release(build, device, arithmetic):
    """The gradients that one step releases."""
    r = torch.Generator().manual_seed(1)
    model = build()
    for p in model.parameters():
        p.data = torch.randint(-2, 3, p.shape, generator=r).float()
    data = torch.utils.data.TensorDataset(
        torch.randint(-2, 3, (60, 40), generator=r).float(), torch.randint(-9, 10, (60, 5), generator=r).float()
    )
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    run = make_private(
        model, optimizer, data, batch_size=30, epochs=1, max_norm=100.0, noise_multiplier=1.0, public_size=60,
        delta=1e-5, random_state=5, arithmetic=arithmetic,
    )  # fmt: skip
    for batch in run.loader:
        run.step(find_squared_errors, batch)
        break
    return [p.grad.cpu() for p in model.parameters()]


@pytest.mark.parametrize("arithmetic", ["auto", "products", "exact", "one-by-one"])
@pytest.mark.parametrize("build", [Flat, Sequence])
def test_a_step_releases_the_bits_of_the_cpu(build, arithmetic):
    for found, expected in zip(release(build, "cuda", arithmetic), release(build, "cpu", arithmetic), strict=True):
        assert expected.any() and torch.equal(found, expected)
