"""Mironov's attack on parameters that Opacus' optimisers release, with our noise and with theirs; and what stays."""

import copy

import pytest
from low_bits import BOUND, CANARY, EMPTY, MULTIPLIER, betrayed, releases

import tightdp as dp

pytest.importorskip("torch", reason="needs torch and Opacus")
pytest.importorskip("opacus", reason="needs Opacus", exc_type=ImportError)

import opacus
import torch

from tightdp.adapters import opacus as ours


def step_of(cls, bound, reduction, seeded):
    """A release: the parameter after one step from 0 on given gradients."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    made = cls(
        torch.optim.SGD([parameter], lr=1.0), noise_multiplier=MULTIPLIER, max_grad_norm=bound, expected_batch_size=2,
        loss_reduction=reduction, generator=torch.Generator().manual_seed(seeded) if seeded else None,
    )  # fmt: skip

    def release(rows, rng):
        parameter.data.zero_()
        parameter.grad_sample = torch.tensor(rows, dtype=torch.float32)
        made.step()
        made.zero_grad()
        return parameter.item()

    return release


@pytest.mark.parametrize(
    "cls, bound, reduction, expected",
    [
        (opacus.optimizers.DPOptimizer, BOUND, "sum", True),
        (ours.DPOptimizer, BOUND, "mean", False),
        (ours.DPPerLayerOptimizer, [BOUND], "sum", False),
    ],
)
def test_low_bits_betray_an_example_to_the_noise_of_opacus_and_not_to_ours(cls, bound, reduction, expected):
    release = step_of(cls, bound, reduction, 1 if expected else 0)
    assert betrayed(releases(release, EMPTY), releases(release, CANARY), dp.Gaussian(MULTIPLIER)) is expected


@pytest.mark.parametrize("multiplier", [0.0, 1.0])
def test_no_sum_without_noise_outlives_its_release(multiplier):
    """Neither in the optimizer nor at the parameters; where nothing is protected, sums stay as Opacus keeps them."""
    given = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2, 2))]
    made = ours.DPOptimizer(
        torch.optim.SGD(given, lr=1.0), noise_multiplier=multiplier, max_grad_norm=1e3, expected_batch_size=1
    )
    for p in given:
        p.grad_sample = torch.full((1, *p.shape), 0.125)
    made.clip_and_accumulate()
    sums = [p.summed_grad for p in given]
    assert all((s == 0.125).all() for s in sums)
    for p in given:
        p.grad_sample, p.summed_grad = torch.full((1, *p.shape), 0.125), None
    made.step()
    for p in given:
        for left in (p.grad, p.summed_grad, p.data):
            assert bool((left.abs() == 0.125).all()) is (multiplier == 0)
    made.zero_grad()
    for p in given:
        p.grad_sample = torch.full((1, *p.shape), 0.125)
    made.clip_and_accumulate()
    assert made.__getstate__()["_sums"] is None is copy.deepcopy(made)._sums
