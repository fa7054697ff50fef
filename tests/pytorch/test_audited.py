"""An attack that knows all but whether a record was there: it excludes no true claim, and finds too little noise."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private
from torch import nn
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp import audit

STEPS, CLAIM = 400, 1.0


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2)
    )  # fmt: skip


def scores(model, dataset, direction, arithmetic, noise_multiplier):
    """What each of many steps releases, along the canary's gradient; the model stands still."""
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    run = private(
        model, dataset, still, batch_size=4, epochs=STEPS, public_size=4, noise_multiplier=noise_multiplier,
        arithmetic=arithmetic, max_norm=0.1,
    )  # fmt: skip
    found = []
    while run.steps_ < STEPS:
        for batch in run.loader:
            run.step(loss, batch)
            released = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
            found.append(float(released @ direction))
    return found


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize(("noise_multiplier", "excluded"), [(1.0, False), (0.5, True)])
def test_a_canary(arithmetic, noise_multiplier, excluded):
    """With the noise that is claimed, and with less: the attack finds the latter."""
    model = cnn()
    images, labels = torch.randn(4, 1, 6, 6), torch.randint(0, 2, (4,))
    canary = torch.autograd.grad(loss(model, (images[3:], labels[3:])).sum(), list(model.parameters()))
    direction = torch.cat([g.reshape(-1) for g in canary])
    samples = [
        scores(model, TensorDataset(images[:n], labels[:n]), direction / direction.norm(), arithmetic, noise_multiplier)
        for n in (4, 3)
    ]
    found = audit.paired(*samples, confidence=0.99)
    assert found.excludes(dp.Gaussian(CLAIM)) == excluded
