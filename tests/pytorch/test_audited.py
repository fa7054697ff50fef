"""An attack that knows all but whether a record was there: it excludes no true claim, and finds too little noise."""

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private
from torch import nn
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp import audit
from tightdp.algorithms.building_blocks.importance import ImportanceSampling
from tightdp.clipping_and_noise.gradients import clipped_sum
from tightdp.torch.algorithm_sums.centered_sums import CenteredSums

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


def alone(algorithm, q, noise_multiplier, arithmetic="exact"):
    """Scores of steps on the canary alone and on no record, by an attacker who knows centre and scale."""
    model, image, label = cnn(), torch.randn(1, 1, 6, 6), torch.randint(0, 2, (1,))
    canary = torch.autograd.grad(loss(model, (image, label)).sum(), list(model.parameters()))
    g = torch.cat([each.reshape(-1) for each in canary]).double().numpy()
    size, samples = 100, []
    for n in (1, 0):
        still = torch.optim.SGD(model.parameters(), lr=0.0)
        batch = size * q * (0.5 if algorithm == "dpis" else 1)
        run = private(
            model, TensorDataset(image[:n], label[:n]), still, batch_size=batch, epochs=math.ceil(STEPS * batch / size),
            public_size=size, noise_multiplier=noise_multiplier, max_norm=0.1, algorithm=algorithm,
            arithmetic=arithmetic,
        )  # fmt: skip
        found, moments = [], run._moments
        while run.steps_ < run.plan.steps:
            for batch in run.loader:
                center, scale = (0.0, 1.0) if moments is None else (moments.center, moments.gradient_scale)
                run.step(loss, batch)
                released = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double().numpy()
                direction = (g - center) / scale
                score = (released - center) / scale * run.plan.divisor @ (direction / np.linalg.norm(direction))
                found.append(float(score))
        samples.append(found)
    claim = dp.PoissonSampled(dp.Gaussian(noise_multiplier), q)
    return audit.paired(*samples, confidence=0.99), claim


@pytest.mark.parametrize(("algorithm", "arithmetic"), [("adaclip", "exact"), ("dpis", "exact"), ("dpis", "float")])
def test_adaclip_and_dpis_keep_their_claim(algorithm, arithmetic):
    found, claim = alone(algorithm, 0.5, 0.3, arithmetic)
    assert not found.excludes(claim)
    assert found.excludes(dp.PoissonSampled(dp.Gaussian(1.0), 0.2))  # the attack is no blind one


def test_a_bound_that_is_not_kept_is_found(monkeypatch):
    def clipped(self, rows, weights=None):
        clipped_sum(
            rows, 3.0, center=self._center, scale=self._scale, out=self._totals, accumulate=True, arithmetic="exact"
        )
        for total in self._totals:  # of a coarser grid
            total *= 4

    monkeypatch.setattr(CenteredSums, "_add_clipped_to_gradient_sums", clipped)
    found, claim = alone("adaclip", 0.5, 1.0)
    assert found.excludes(claim)


def test_candidates_that_are_all_taken_are_found(monkeypatch):
    """Sampling with the bounds alone: a record is taken up to ``reach`` times too often."""
    monkeypatch.setattr(ImportanceSampling, "select_by_norms", lambda self, source, bounds, norms: norms < np.inf)
    found, claim = alone("dpis", 0.1, 0.5)
    assert found.excludes(claim)
