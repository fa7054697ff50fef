"""Every combination of algorithm, arithmetic, places and bounds: it is refused before a record is read, or its sums are
those by hand and its noise is what is charged."""

import itertools

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import clipped_by_hand, cross_entropy, private, still
from torch import nn
from torch.utils.data import Dataset

from tightdp.torch import DPAdam
from tightdp.train import DPIS

RECORDS, BOUND = 40, 1e-3
ALGORITHMS = {
    "dp-sgd": "dp-sgd",
    "dp-adam": "dp-adam",
    "adaclip": "adaclip",
    "dpis": DPIS(norm_share=1.0, reach=1.0),
    "dpis, adapted": DPIS(norm_share=1.0, norm_noise=10.0, reach=1.0, adapt=1.0),
    "dpis, released": DPIS(norm_share=None, norm_noise=10.0, reach=1.0),
}
"""Of DPIS with probability 1 for a gradient that is clipped: all gradients here are, by far."""
ALL = list(itertools.product(ALGORITHMS, ("exact", "float", "products"), (False, True), (False, True)))


def is_served(name, arithmetic, padded, apart):
    if name == "adaclip":
        return arithmetic == "exact" and not apart
    if name.startswith("dpis"):
        return arithmetic != "products" and not apart and not (padded and arithmetic == "float")
    return not (arithmetic == "products" and apart) and not (padded and arithmetic == "float")


class Counted(Dataset):
    """Counts how often a record is read."""

    def __init__(self):
        self.tensors, self.reads = (torch.randn(RECORDS, 30), torch.randint(0, 40, (RECORDS,))), 0

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        self.reads += 1
        return tuple(tensor[index] for tensor in self.tensors)


def made(name, arithmetic, padded, apart, noise_multiplier, **settings):
    model = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 40))
    optimizer = (DPAdam if name == "dp-adam" else torch.optim.SGD)(model.parameters(), lr=0.0)
    noise = {"epsilon": 1e6} if name == "dpis, released" else {"noise_multiplier": noise_multiplier}
    return private(
        model, Counted(), optimizer, algorithm=ALGORITHMS[name], arithmetic=arithmetic, padded=padded, epochs=2,
        max_norm=[BOUND, 2 * BOUND, 2 * BOUND, 4 * BOUND] if apart else BOUND, **noise,
        batch_size=RECORDS - 1 if name == "adaclip" else RECORDS, physical_size=7, **settings,
    )  # fmt: skip


def released(run, loss_fn):
    """The sum that a step released, its records, and the deviation of its noise."""
    batch = next(iter(run.loader))
    run.step(loss_fn, batch)
    now = run._account.current_plan
    noise = now.noise_multiplier * (BOUND if now.sensitivity == 1.0 else now.sensitivity)  # AdaCliP starts as DP-SGD
    return torch.cat([p.grad.double().reshape(-1) for p in run.model.parameters()]) * now.divisor, batch.rows, noise


@pytest.mark.parametrize("name, arithmetic, padded, apart", ALL)
def test_it_is_refused_or_right(name, arithmetic, padded, apart):
    chosen = name, arithmetic, padded, apart
    if not is_served(*chosen):
        data = Counted()
        with pytest.raises(ValueError, match=r"^(arithmetic|padded|max_norm) must be "):
            made(*chosen, 1.0)
        assert data.reads == 0
        return
    run = made(*chosen, 1e-6)
    found, rows, deviation = released(run, cross_entropy)
    assert len(rows) >= RECORDS / 2
    batch = [tensor[rows] for tensor in run.loader.dataset.tensors]
    bounds = run.plan.max_norm if apart else BOUND
    expected = by_hand(run.model, batch, bounds)
    error = 2e-4 * expected.abs().max() + 6 * deviation
    if arithmetic == "products":  # docs/theory/exact-products.md, section 7
        error += 2**-15 * (80**0.5 * expected.abs().max() + 2 * len(rows) * BOUND)
    assert (found - expected).abs().max() < error
    assert expected.norm() > BOUND
    run = made(*chosen, 1.7)
    noise, _, deviation = released(run, still)
    n = noise.numel()
    assert abs(noise.mean()) < 5 * deviation / n**0.5 and abs(noise.var() / deviation**2 - 1) < 5 * (2 / n) ** 0.5


def by_hand(model, batch, bounds):
    if isinstance(bounds, float):
        sums = clipped_by_hand(model, cross_entropy, batch, bounds)
        return torch.cat([each.reshape(-1) for each in sums.values()])
    total = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    for i in range(len(batch[0])):
        loss = cross_entropy(model, [tensor[i : i + 1] for tensor in batch]).sum()
        for each, g, bound in zip(total, torch.autograd.grad(loss, list(model.parameters())), bounds, strict=True):
            each += g.double() * min(1.0, bound / float(g.double().norm()))
    return torch.cat([each.reshape(-1) for each in total])
