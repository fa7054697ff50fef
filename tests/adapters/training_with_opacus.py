"""A small network in Opacus' hands, for the tests of the adapter."""

import functools

import torch
from torch.utils.data import DataLoader, TensorDataset

C = 0.5
"""max_grad_norm."""


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


@functools.cache  # an engine expects one data set
def data(n=48):
    torch.manual_seed(2)
    return TensorDataset(torch.randn(n, 6), torch.randint(0, 3, (n,)))


def private(engine, noise_multiplier, *, batch_size=16, poisson=False, n=48, **options):
    model = network()
    options = {"max_grad_norm": C, **options}
    return engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(n), batch_size=batch_size),
        noise_multiplier=noise_multiplier,
        poisson_sampling=poisson,
        **options,
    )


def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])
