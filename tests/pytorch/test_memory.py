"""What a model keeps from one record for the next is refused, and what does not come of records is not."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private, table
from torch import nn

KEPT = {}
REFUSED = r"keep nothing from one record to the next|one loss for each"
"""What a tensor of other records makes of a loss may have another shape."""


class Remembers(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer, self.how, self.state, self.more = nn.Linear(5, 3), how, None, {"list": []}

    def forward(self, x):
        y = self.layer(x)
        if self.how == "attribute":
            y, self.state = (y if self.state is None else y + self.state), y.detach()
        elif self.how == "list":
            self.more["list"].append(y.detach())
            y = y + sum(self.more["list"][:-1])
        elif self.how == "global":
            y, KEPT["y"] = y + KEPT.get("y", 0.0), y.detach().mean(0)
        elif self.how == "counter":
            self.state = 1 if self.state is None else self.state + 1
            y = y * self.state
        elif self.how == "table" and self.state is None:
            self.state = torch.arange(3.0)
        return y if self.how != "table" else y + self.state


def squares(model, batch):
    return model(batch[0]).square().sum(1)


def fitted(model, loss_fn, arithmetic, size):
    run = private(model, noise_multiplier=1.0, batch_size=30, arithmetic=arithmetic, physical_size=size)
    return run.fit(loss_fn)


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize("how", ["attribute", "list", "global", "counter"])
def test_a_model_that_remembers_is_refused(how, size, arithmetic):
    KEPT.clear()
    model = Remembers(how)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises((ValueError, RuntimeError), match=REFUSED):
        fitted(model, squares, arithmetic, size)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_loss_that_remembers_is_refused(arithmetic):
    last = torch.zeros(())

    def loss(model, batch):
        nonlocal last
        found = squares(model, batch)
        found, last = found * (1 + last), found.detach().mean()
        return found

    with pytest.raises(ValueError, match=REFUSED):
        fitted(nn.Linear(5, 3), loss, arithmetic, 2)


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_table_that_is_made_at_first_use_is_none_of_records(arithmetic):
    model = Remembers("table")
    assert fitted(model, squares, arithmetic, 2).steps_ == 2 and torch.equal(model.state, torch.arange(3.0))


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
def test_a_module_that_the_model_holds_twice_is_trained(arithmetic):
    layer = nn.Linear(5, 5)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    weight, before = layer.weight, layer.weight.detach().clone()
    fitted(model, squares, arithmetic, None)
    assert layer.weight is weight and type(weight) is nn.Parameter and not torch.equal(weight, before)
    assert model(table(2).tensors[0]).shape == (2, 5)


class Flagged(nn.Module):
    """Writes down whether a record was large, somewhere, and lets the next ones see it."""

    def __init__(self, write):
        super().__init__()
        self.layer, self.write = nn.Linear(5, 3), write
        self.register_buffer("mean", torch.zeros(5))
        self.centre = nn.Parameter(torch.zeros(5), requires_grad=False)

    def forward(self, x, past=[]):  # noqa: B006
        if float(x.detach().abs().max()) > 50:
            self.write(self, x.detach(), past)
        return self.layer(x)


def with_a_large_record(place):
    x = torch.randn(60, 5)
    x[place] = 100.0
    return torch.utils.data.TensorDataset(x, torch.zeros(60))


def refused_after_a_large_record(model, dataset, match, loss_fn=squares):
    run = private(model, dataset, noise_multiplier=1.0, batch_size=60, max_norm=1.0, arithmetic="one-by-one")
    with pytest.raises(ValueError, match=match):
        run.fit(loss_fn)
    return run


WRITES = {
    "centre": [
        lambda model, x, past: model.centre.data.copy_(x[0]),
        lambda model, x, past: setattr(model.centre, "data", x[0]),
        lambda model, x, past: model.centre.detach().numpy().__setitem__(0, 1.0),
        lambda model, x, past: setattr(model, "centre", nn.Parameter(x[0])),
    ],
    "layer.bias": [
        lambda model, x, past: model.layer.bias.data.add_(1.0),
        lambda model, x, past: model.layer.bias.untyped_storage().copy_((x[0, :3]).untyped_storage()[:12]),
    ],
    "mean": [
        lambda model, x, past: model.mean.data.mul_(0.5).add_(x[0]),
        lambda model, x, past: model.mean.numpy().__setitem__(0, 1.0),
    ],
}


@pytest.mark.parametrize("place", [0, 30])
@pytest.mark.parametrize(("name", "write"), [(name, write) for name in WRITES for write in WRITES[name]])
def test_what_one_record_writes_into_tensors(name, write, place):
    model = Flagged(write)
    match = "its buffer mean changes" if name == "mean" else f"{name} was changed, .* Do not release this model"
    refused_after_a_large_record(model, with_a_large_record(place), match)
    assert torch.equal(model.mean, torch.zeros(5))


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
def test_a_parameter_that_counts_physical_batches(arithmetic):
    def loss(model, batch):
        model.bias.data.add_(1.0)
        return squares(model, batch)

    model = nn.Linear(5, 3)
    with pytest.raises(ValueError, match="bias was changed"):
        private(model, noise_multiplier=1.0, arithmetic=arithmetic).fit(loss)


def test_statistics_of_the_first_batch_are_none_of_records():
    """A layer that sets itself up by its first batch does so with zeros, which shows, and no record is looked at."""

    class Set(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.bias, self.ready = nn.Linear(5, 3), nn.Parameter(torch.ones(5)), False

        def forward(self, x):
            if not self.ready:
                self.bias.data.copy_(-x.detach().mean(0))
                self.ready = True
            return self.layer(x + self.bias)

    model = Set()
    with pytest.raises(ValueError, match="bias was changed"):
        private(model, noise_multiplier=1.0).fit(squares)
    assert torch.equal(model.bias, torch.zeros(5))


def test_a_record_alone_has_no_others_behind_it():
    def loss(model, batch):
        x = batch[0]
        assert float(x.detach().abs().max()) < 50, "in turn"
        return squares(model, batch) * (x.untyped_storage().nbytes() == 4 * x.numel()) * (x._base is None)

    model = nn.Linear(5, 3)
    run = private(model, noise_multiplier=1e-9, batch_size=60, max_norm=1e-3, arithmetic="one-by-one")
    run.step(loss, next(iter(run.loader)))
    assert float(model.weight.grad.abs().max()) > 1e-6


def test_arrays_that_cannot_be_written():
    weights = torch.arange(3.0).numpy()
    weights.flags.writeable = False

    def loss(model, batch):
        return (model(batch[0]) * torch.tensor(weights)).square().sum(1)

    assert fitted(nn.Linear(5, 3), loss, "exact", None).steps_ == 2
