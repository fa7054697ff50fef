"""What a model keeps from one record for the next is refused, and what does not come of records is not."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import private, table
from torch import nn

KEPT = {}


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
            y = y + self.more["list"][0]
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
    run = private(model, noise_multiplier=1.0, batch_size=30, arithmetic=arithmetic, physical_batch_size=size)
    return run.fit(loss_fn)


@pytest.mark.parametrize("arithmetic", ["exact", "float", "products"])
@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize(
    ("how", "where"),
    [("attribute", "model.state"), ("list", "model.more.list"), ("global", "KEPT.y"), ("counter", "model.state")],
)
def test_a_model_that_remembers_is_refused(how, where, size, arithmetic):
    KEPT.clear()
    model = Remembers(how)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=f"must keep nothing from one record to the next: .*{where}"):
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

    with pytest.raises(ValueError, match=r"must keep nothing from one record to the next: loss_fn\.last"):
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
