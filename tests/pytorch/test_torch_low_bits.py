"""Mironov's attack on what a private run in PyTorch releases, and on the same sums with noise of PyTorch's own."""

import math

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from low_bits import BOUND, MULTIPLIER, TRIALS, betrayed
from small import private
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.train import DPIS

CLAIM = dp.Gaussian(MULTIPLIER)
"""Of one coordinate: a record moves it by BOUND, and it has noise of MULTIPLIER times that."""
LONG = math.sqrt(TRIALS)


def loss(model, batch):
    return BOUND * model(batch[0]).sum(1)


def released(records, **settings):
    """Gradient and parameter after one step from 0 on that many records, each coordinate a sample."""
    model = torch.nn.Linear(TRIALS, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    made = {"batch_size": 1, "public_size": 1, "max_norm": BOUND * LONG, "noise_multiplier": MULTIPLIER / LONG}
    run = private(model, TensorDataset(torch.ones(records, TRIALS)), torch.optim.SGD(model.parameters(), lr=1.0),
                  **{**made, **settings})  # fmt: skip
    run.step(loss, next(iter(run.loader)))
    return [x.detach().double().numpy().ravel() for x in (model.weight.grad, model.weight)], run


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"arithmetic": "exact"},
        {"arithmetic": "float"},
        {"batch_size": 0.999999, "algorithm": "adaclip"},
        {"algorithm": DPIS(norm_share=1.0, reach=1.0)},
        {"max_norm": [BOUND * LONG]},
    ],
)
def test_low_bits_tell_nothing_of_a_record(settings):
    (gradients, parameters), _ = released(1, **settings)
    (others, other), _ = released(0, **settings)
    assert abs((gradients - others).mean() - BOUND) < 8 * BOUND * MULTIPLIER * 1.5 / LONG
    assert not betrayed(others, gradients, CLAIM)
    assert not betrayed(other, parameters, CLAIM)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_and_betray_it_to_noise_of_floats(dtype):
    """The same sums, and noise of the same deviation from ``torch.normal``."""
    found = []
    for records in (0, 1):
        _, run = released(0)
        sums = run._begin_step_sums_of_private_run(dict(run.model.named_parameters()))
        if records:
            sums.add(run.model, loss, [torch.ones(1, TRIALS)], 1)
        (exact,) = sums.convert_to_floats()
        noise = torch.normal(0.0, run.plan.noise_deviation, exact.shape, dtype=dtype)
        found.append((exact.to(dtype) + noise).double().numpy().ravel())
    assert betrayed(*found, CLAIM)
