"""Models, data and losses that the tests of private training in PyTorch share."""

import sys

import torch
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.torch import AfterFailure, Batches, make_private

OF_DATA_LOADER = ("num_workers", "pin_memory", "shuffle", "batch_sampler", "in_order")


def copied(model):
    """The parameters as they are now, by name."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def table(records=60, features=5, classes=3):
    return TensorDataset(torch.randn(records, features), torch.randint(0, classes, (records,)))


def mlp(features=5, hidden=7, classes=3):
    return torch.nn.Sequential(
        torch.nn.Linear(features, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, classes)
    )  # fmt: skip


class Unused(torch.nn.Module):
    """A layer takes no part in what it computes."""

    def __init__(self):
        super().__init__()
        self.inner, self.spare = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.inner(x)


def cross_entropy(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y, reduction="none")


def notes():
    """A list that a run does not find: losses note their calls there, while other lists that grow are refused."""
    return vars(sys).setdefault("_notes_of_losses", [])


def still(model, batch):
    """A loss whose gradient is zero: what a step releases is noise alone."""
    return 0.0 * cross_entropy(model, batch)


def private(model=None, dataset=None, optimizer=None, **settings):
    """A run of ten steps on small data, unless ``settings`` say otherwise; those of batches by their own names."""
    model = mlp() if model is None else model
    dataset = table() if dataset is None else dataset
    made = (
        torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5) if optimizer is None else optimizer
    )
    chosen = {"batch_size": 6, "epochs": 1, "max_norm": 1.0, "public_size": len(dataset), "delta": 1e-5, **settings}
    if "noise_multiplier" not in chosen:
        chosen.setdefault("epsilon", 3.0)
    if chosen.pop("after_failure", False):
        chosen["checkpoint"] = AfterFailure(chosen["checkpoint"])
    own = {name: chosen.pop(name) for name in ("physical_size", "padded", "collate_fn") if name in chosen}
    options = {name: chosen.pop(name) for name in OF_DATA_LOADER if name in chosen}
    return make_private(model, made, dataset, batches=Batches(**own, options=options), **chosen)


def clipped_by_hand(model, loss_fn, batch, max_norm):
    """The clipped sum of gradients, each record taken alone by ordinary back-propagation."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
    for i in range(len(batch[0])):
        loss = loss_fn(model, [tensor[i : i + 1] for tensor in batch])
        found = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
        found = [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]
        norm = torch.sqrt(sum((g.double() ** 2).sum() for g in found))
        if torch.isfinite(norm):
            for each, g in zip(total, found, strict=True):
                each += g.double() * min(1.0, max_norm / max(float(norm), 1e-300))
    return dict(zip(names, total, strict=True))


def step_of(noise_multiplier, sampling_probability):
    return dp.PoissonSampled(dp.Gaussian(noise_multiplier), sampling_probability)
