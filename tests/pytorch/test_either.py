"""arithmetic="auto": products where one pass serves a record's form, rows of torch.func elsewhere."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import clipped_by_hand, cross_entropy, mlp, private, table
from torch import nn
from torch.utils.data import Dataset

from tightdp.torch.algorithm_sums.auto_sums import AutoSums
from tightdp.torch.batches.batch_places import BatchPlaces
from tightdp.train import DPIS, AdaCliP


class Squared(nn.Module):
    """One pass has no rule for what its scale goes through; torch.func takes it."""

    def __init__(self):
        super().__init__()
        self.inner, self.scale = mlp(), nn.Parameter(torch.ones(5))

    def forward(self, x):
        return self.inner(x * self.scale.square())


class ByLength(nn.Module):
    """Long records go another way, which one pass does not serve."""

    def __init__(self):
        super().__init__()
        self.inner, self.scale = nn.Linear(1, 3), nn.Parameter(torch.ones(1))

    def forward(self, x):
        scale = self.scale.square() if x.shape[1] > 3 else self.scale.expand(1)
        return self.inner((x.mean(1, keepdim=True)) * scale)


class Lengths(Dataset):
    """Records of two lengths."""

    def __init__(self, records=60):
        self.x = [torch.randn(3 if i % 2 else 6) for i in range(records)]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], torch.tensor(i % 3)


def made(model, max_norm=0.3):
    plan = private(model, max_norm=max_norm, noise_multiplier=1.0).plan
    return AutoSums(plan, dict(model.named_parameters())), plan


@pytest.mark.parametrize("build", [mlp, Squared])
def test_sums_are_those_of_records_taken_alone(build):
    model, batch = build(), list(table(20).tensors)
    sums, plan = made(model)
    sums.add(model, cross_entropy, batch, 20)
    expected = clipped_by_hand(model, cross_entropy, batch, 0.3)
    for name, total in zip(expected, sums.convert_to_floats(), strict=True):
        assert (total - expected[name]).abs().max() <= 20 * 0.3 * 2.0**-12, name
    served = build is mlp
    assert ("vectorised" in sums.gradient_ways.values()) is not served and (
        "product" in sums.gradient_ways.values()
    ) is served
    assert plan.arithmetic == "auto"


@pytest.mark.parametrize("build", [mlp, Squared])
def test_a_step_leaves_empty_places_out(build):
    model, batch = build(), list(table(3).tensors)
    sums, _ = made(model)
    sums.add(model, cross_entropy, batch, 3)
    alone = [total.clone() for total in sums.convert_to_floats()]
    sums.clear_gradient_sums()
    sums.add(model, cross_entropy, batch, 3, BatchPlaces(torch.tensor([1, 2, 5]).numpy(), 8))
    for one, other in zip(alone, sums.convert_to_floats(), strict=True):
        assert torch.allclose(one, other, atol=3 * 0.3 * 2.0**-12)


@pytest.mark.parametrize("length", [3, 6])
def test_the_way_is_a_function_of_a_record_s_form(length):
    """A record moves its own integers alone, whichever way the others go and whatever came before."""
    model = ByLength()
    one = [torch.randn(1, length), torch.tensor([1])]
    other = [torch.randn(4, 9 - length), torch.tensor([0, 1, 2, 0])]
    integers = []
    for first in (None, other):
        sums, _ = made(model)
        if first is not None:
            sums.add(model, cross_entropy, first, 4)
            sums.clear_gradient_sums()
        sums.add(model, cross_entropy, one, 1)
        integers.append(sums.integers()[0].clone())
        assert ("vectorised" in sums.gradient_ways.values()) is (length == 6)
    assert torch.equal(*integers) and integers[0].any()


def test_records_of_both_forms_train_together():
    run = private(ByLength(), Lengths(), noise_multiplier=1.0)
    assert run.fit(cross_entropy).steps_ == 10 and run.plan.arithmetic == "auto"


def test_a_trial_by_zeros_draws_no_coins_of_records():
    """With the same seed a run of products and one of auto draw the same dropout."""
    found = []
    for arithmetic in ("products", "auto"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.5), nn.Linear(16, 3))
        run = private(model, table(), random_state=3, noise_multiplier=1.0, arithmetic=arithmetic)
        found.append([p.detach().clone() for p in run.fit(cross_entropy).model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "auto"),
        ({"noise_multiplier": 1.0, "max_norm": [1.0] * 4}, "exact"),
        ({"algorithm": AdaCliP(), "noise_multiplier": 1.0}, "exact"),
        ({"algorithm": DPIS(), "noise_multiplier": 1.0}, "exact"),
        ({"noise_multiplier": 1e-4}, "exact"),
        ({"model": nn.Sequential(nn.BatchNorm1d(5).eval(), nn.Linear(5, 3))}, "exact"),
        ({"arithmetic": "float"}, "float"),
    ],
)
def test_what_auto_stands_for(settings, expected):
    run = private(**settings)
    assert run.plan.arithmetic == expected
    run.step(cross_entropy, next(iter(run.loader)))
    assert run.statement_.outside


def test_a_model_that_reads_values_is_told_the_way_out():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp()

        def forward(self, x):
            return self.inner(x) * (1.0 if x.sum() > 0 else 2.0)

    run = private(Reads())
    with pytest.raises(ValueError, match=r"inner|the model or the loss.*one-by-one"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.steps_ == 0
